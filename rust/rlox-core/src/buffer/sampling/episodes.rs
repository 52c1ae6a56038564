//! Draws every episode with the same probability, whatever its length.

use super::rng::SampleRng;
use super::rule::{BatchShape, Draws, Sampler};
use crate::buffer::rows::{EnvRing, Rings};
use crate::error::Result;
use crate::interrupt;

/// Draws an episode uniformly, then one of its rows uniformly. So long episodes are not drawn more
/// often than short ones, unlike in a uniform draw of rows.
///
/// Only episodes with rows in the buffer count. An episode that has not ended counts up to the
/// newest row. A partly overwritten episode counts from the oldest row.
#[derive(Debug, Clone, Copy, Default)]
pub struct EpisodeBalanced;

impl Sampler for EpisodeBalanced {
    fn draw(&self, rings: &Rings, shape: BatchShape, rng: &mut SampleRng, draws: &mut Draws) -> Result<()> {
        let mut episodes = 0;
        // For each environment, the number of episodes of all environments up to and including it.
        let ends: Vec<usize> = rings
            .by_env
            .iter()
            .map(|ring| {
                episodes += n_episodes(ring);
                episodes
            })
            .collect();
        for _ in 0..shape.size {
            interrupt::check()?;
            let number = rng.below(episodes);
            let env = ends.partition_point(|&end| end <= number);
            let Some(state) = rings.by_env.get(env) else { break };
            let index = number + n_episodes(state) - ends.get(env).copied().unwrap_or(0);
            let episode_start = state.episode_starts.get(index).copied().unwrap_or(state.start);
            let (start, end) = state.episode(episode_start.max(state.start));
            #[expect(clippy::cast_possible_truncation, reason = "rows held are in memory")]
            let offset = rng.below((end - start) as usize) as u64;
            draws.rows.push(rings.row(env, start + offset));
        }
        Ok(())
    }
}

/// Returns the number of episodes that have rows in a ring.
fn n_episodes(ring: &EnvRing) -> usize {
    if ring.len() == 0 { 0 } else { ring.episode_starts.len() }
}
