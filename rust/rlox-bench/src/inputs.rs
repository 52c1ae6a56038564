//! Numbers that are the same in every run.

use rlox_core::seed::Stream;

const SEED: u64 = 1;

/// Largest number of draws, a prime. Longer inputs repeat them, because drawing is slower than any
/// kernel.
const MAX_DRAWS: usize = 8_191;

/// Draws standard normal numbers from the stream `name`.
pub(crate) fn normal(name: &str, len: usize) -> Vec<f64> {
    draw_repeated(name, len, Stream::normal)
}

/// Draws uniform numbers in [0, 1) from the stream `name`.
pub(crate) fn uniform(name: &str, len: usize) -> Vec<f64> {
    draw_repeated(name, len, Stream::uniform)
}

fn draw_repeated(name: &str, len: usize, draw: fn(&mut Stream) -> f64) -> Vec<f64> {
    let mut stream = Stream::new(SEED, name, 0);
    let values: Vec<f64> = (0..len.min(MAX_DRAWS)).map(|_| draw(&mut stream)).collect();
    values.into_iter().cycle().take(len).collect()
}

/// Draws flags; one in a hundred is set.
pub(crate) fn rare_flags(name: &str, len: usize) -> Vec<bool> {
    uniform(name, len).into_iter().map(|u| u < 0.01).collect()
}

/// Converts to the nearest float32 numbers.
#[expect(clippy::cast_possible_truncation, reason = "the inputs of float32 kernels")]
pub(crate) fn to_f32(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|&x| x as f32).collect()
}
