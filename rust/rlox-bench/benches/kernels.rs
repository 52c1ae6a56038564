//! `cargo bench -p rlox-bench`: time per element of every kernel.

use criterion::{Criterion, Throughput};
use rlox_bench::kernels;
use rlox_core::Result;

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    for kernel in kernels() {
        let mut work = kernel.prepare()?;
        let mut group = criterion.benchmark_group(kernel.name);
        group.throughput(Throughput::Elements(kernel.elements as u64));
        let mut outcome = Ok(());
        group.bench_function("run", |bencher| {
            bencher.iter(|| {
                if let Err(error) = work() {
                    outcome = Err(error);
                }
            });
        });
        group.finish();
        outcome?;
    }
    criterion.final_summary();
    Ok(())
}
