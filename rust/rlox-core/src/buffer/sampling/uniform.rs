//! Draws every row with the same probability.

use super::rng::SampleRng;
use super::rule::{BatchShape, Draws, Sampler};
use crate::buffer::rows::{EnvRing, Rings, RowRef};
use crate::error::Result;
use crate::interrupt;

/// Rows that are drawn between two checks for interruption.
const PIECE: usize = 1 << 16;

/// Draws rows uniformly and with replacement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uniform;

impl Sampler for Uniform {
    fn draw(&self, rings: &Rings, shape: BatchShape, rng: &mut SampleRng, draws: &mut Draws) -> Result<()> {
        for start in (0..shape.size).step_by(PIECE) {
            interrupt::check()?;
            draw_rows(rings, rng, PIECE.min(shape.size - start), &mut draws.rows);
        }
        Ok(())
    }
}

/// Draws `count` live rows, each uniform and independent, with replacement.
pub(super) fn draw_rows(rings: &Rings, rng: &mut SampleRng, count: usize, rows: &mut Vec<RowRef>) {
    let env_rings = &rings.by_env;
    if let [ring] = env_rings.as_slice() {
        return draw_rows_of_one(ring, rings.capacity, rng, count, rows);
    }
    let (len, n) = (rings.len(), env_rings.len());
    let start = |env: usize| env_rings.get(env).map_or(0, |ring| ring.start);
    let first_len = env_rings.first().map_or(0, EnvRing::len);
    if env_rings.iter().all(|ring| ring.len() == first_len) {
        rows.extend((0..count).map(|_| {
            let draw = rng.below(len);
            let (env, offset) = (draw % n, draw / n);
            rings.row(env, start(env) + offset as u64)
        }));
        return;
    }
    let mut ends = Vec::with_capacity(n);
    env_rings.iter().fold(0, |before, ring| {
        ends.push(before + ring.len());
        before + ring.len()
    });
    rows.extend((0..count).map(|_| {
        let draw = rng.below(len);
        let env = ends.partition_point(|&end| end <= draw);
        let before = env.checked_sub(1).and_then(|at| ends.get(at)).copied().unwrap_or(0);
        rings.row(env, start(env) + (draw - before) as u64)
    }));
}

/// Same as [`draw_rows`], for a single environment.
fn draw_rows_of_one(
    env_ring: &EnvRing,
    capacity: usize,
    rng: &mut SampleRng,
    count: usize,
    rows: &mut Vec<RowRef>,
) {
    let (len, oldest) = (env_ring.len(), env_ring.slot(env_ring.start, capacity));
    rows.extend((0..count).map(|_| {
        let offset = rng.below(len);
        let slot = oldest + offset;
        let slot = if slot < capacity { slot } else { slot - capacity };
        #[expect(clippy::cast_possible_truncation, reason = "capacities stay below 2^31")]
        RowRef { position: env_ring.start + offset as u64, slot: slot as u32, env: 0 }
    }));
}
