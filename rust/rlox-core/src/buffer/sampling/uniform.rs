//! Draws every row with the same probability.

use super::rng::SampleRng;
use super::rule::{Drawn, Sampler, Want};
use crate::buffer::rows::{EnvRing, Rings, RowRef};
use crate::error::Result;
use crate::interrupt;

/// Rows that are drawn between two checks for interruption.
const PIECE: usize = 1 << 16;

/// Draws rows uniformly and with replacement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uniform;

impl Sampler for Uniform {
    fn draw(
        &self,
        rings: &Rings,
        want: Want,
        rng: &mut SampleRng,
        drawn: &mut Drawn,
    ) -> Result<()> {
        for start in (0..want.size).step_by(PIECE) {
            interrupt::check()?;
            rows(rings, rng, PIECE.min(want.size - start), &mut drawn.rows);
        }
        Ok(())
    }
}

/// Draws `count` live rows, each uniform and independent, with replacement.
pub(super) fn rows(rings: &Rings, rng: &mut SampleRng, count: usize, rows: &mut Vec<RowRef>) {
    let all = &rings.rings;
    if let [ring] = all.as_slice() {
        return rows_of(ring, rings.capacity, rng, count, rows);
    }
    let (len, n) = (rings.len(), all.len());
    let start = |env: usize| all.get(env).map_or(0, |ring| ring.start);
    let equal = all.first().map_or(0, EnvRing::len);
    if all.iter().all(|ring| ring.len() == equal) {
        rows.extend((0..count).map(|_| {
            let draw = rng.below(len);
            let (env, ahead) = (draw % n, draw / n);
            rings.row(env, start(env) + ahead as u64)
        }));
        return;
    }
    let mut ends = Vec::with_capacity(n);
    all.iter().fold(0, |before, ring| {
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

/// Same as [`rows`], for a single environment.
fn rows_of(only: &EnvRing, end: usize, rng: &mut SampleRng, count: usize, rows: &mut Vec<RowRef>) {
    let (len, oldest) = (only.len(), only.slot(only.start, end));
    rows.extend((0..count).map(|_| {
        let ahead = rng.below(len);
        let slot = oldest + ahead;
        let slot = if slot < end { slot } else { slot - end };
        #[expect(clippy::cast_possible_truncation, reason = "capacities stay below 2^31")]
        RowRef { position: only.start + ahead as u64, slot: slot as u32, env: 0 }
    }));
}
