//! Draws windows of episodes, on which the Decision Transformer trains.

use super::rng::SampleRng;
use super::rule::{BatchShape, Draws, Sampler};
use super::sequences::push_window;
use super::uniform;
use crate::buffer::rows::Rings;
use crate::error::Result;
use crate::interrupt;

/// Draws windows whose first row is uniform over all rows. So an episode is drawn in proportion to
/// its length (Chen et al. 2021, "Decision Transformer"). A window ends with its episode.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trajectories;

impl Sampler for Trajectories {
    fn draw(&self, rings: &Rings, shape: BatchShape, rng: &mut SampleRng, draws: &mut Draws) -> Result<()> {
        let mut row = Vec::with_capacity(1);
        for _ in 0..shape.size {
            interrupt::check()?;
            row.clear();
            uniform::draw_rows(rings, rng, 1, &mut row);
            if let Some(&first) = row.first() {
                let end = rings.ring(first)?.episode(first.position).1;
                push_window(rings, first, end, shape.len, draws);
            }
        }
        Ok(())
    }
}
