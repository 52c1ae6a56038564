//! Lists the kernels, or runs one of them: `kernels [NAME TIMES]`.

use std::process::ExitCode;

use rlox_bench::kernels;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [] => {
            list();
            Ok(())
        }
        [name, times] => repeat(name, times),
        _ => Err("usage: kernels [NAME TIMES]".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("kernels: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line `name elements` for each kernel.
fn list() {
    for kernel in kernels() {
        println!("{} {}", kernel.name, kernel.elements);
    }
}

fn repeat(name: &str, times: &str) -> Result<(), String> {
    let times: u64 = times.parse().map_err(|_| format!("{times} is not a number of times"))?;
    let named_kernel = kernels().into_iter().find(|kernel| kernel.name == name);
    let kernel = named_kernel.ok_or_else(|| format!("no kernel {name}"))?;
    let mut work = kernel.prepare().map_err(|error| error.to_string())?;
    for _ in 0..times {
        work().map_err(|error| error.to_string())?;
    }
    Ok(())
}
