//! Elementary functions of slices, and normal numbers.

use rlox_core::math::{Float, in_place};
use rlox_core::seed::Stream;

use crate::inputs::normal;
use crate::{Kernel, Work};

const SIZES: [usize; 2] = [128, 8_192];
/// Rows x columns: two actions, and a vocabulary.
const ROWS: [(usize, usize); 2] = [(2_048, 2), (8, 32_000)];

type InPlace<F> = fn(&mut [F]);

pub(crate) fn kernels() -> Vec<Kernel> {
    let mut all = kernels_in::<f64>("f64");
    all.extend(kernels_in::<f32>("f32"));
    for size in SIZES {
        let name = format!("normal/one_by_one/f64/{size}");
        all.push(Kernel::new(name, size, move || Ok(normals_one_by_one(size))));
    }
    all
}

fn kernels_in<F: Float>(precision: &str) -> Vec<Kernel> {
    let functions: [(&str, InPlace<F>); 3] =
        [("exp", in_place::exp), ("tanh", in_place::tanh), ("sigmoid", in_place::sigmoid)];
    let mut all = Vec::new();
    for size in SIZES {
        for (name, function) in functions {
            let name = format!("{name}/{precision}/{size}");
            all.push(Kernel::new(name, size, move || Ok(elementwise(function, size))));
        }
        let name = format!("normal/{precision}/{size}");
        all.push(Kernel::new(name, size, move || Ok(batch_of_normals::<F>(size))));
    }
    for (rows, columns) in ROWS {
        let name = format!("log_softmax/{precision}/{rows}x{columns}");
        let len = rows * columns;
        all.push(Kernel::new(name, len, move || Ok(log_softmax::<F>(len, columns))));
    }
    all
}

fn draw<F: Float>(name: &str, len: usize) -> Vec<F> {
    normal(name, len).into_iter().map(F::from_f64).collect()
}

/// Runs `function` on a new copy of the same inputs each time.
fn elementwise<F: Float>(function: InPlace<F>, len: usize) -> Work {
    let inputs = draw::<F>("inputs", len);
    let mut values = inputs.clone();
    Box::new(move || {
        values.copy_from_slice(&inputs);
        function(&mut values);
        Ok(())
    })
}

fn log_softmax<F: Float>(len: usize, columns: usize) -> Work {
    let inputs = draw::<F>("logits", len);
    let mut values = inputs.clone();
    Box::new(move || {
        values.copy_from_slice(&inputs);
        in_place::log_softmax(&mut values, columns)
    })
}

fn batch_of_normals<F: Float>(len: usize) -> Work {
    let (mut stream, mut out) = (Stream::new(1, "normals", 0), vec![F::ZERO; len]);
    Box::new(move || {
        stream.fill_normal(&mut out);
        Ok(())
    })
}

fn normals_one_by_one(len: usize) -> Work {
    let (mut stream, mut out) = (Stream::new(1, "normals", 0), vec![0.0; len]);
    Box::new(move || {
        out.fill_with(|| stream.normal());
        Ok(())
    })
}
