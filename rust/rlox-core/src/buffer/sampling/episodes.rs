//! Every episode with the same probability, whatever its length.

use super::rng::SampleRng;
use super::rule::{Drawn, Sampler, Want};
use crate::buffer::rows::{EnvRing, Rings};
use crate::error::Result;
use crate::interrupt;

/// Draws an episode uniformly among those that have rows here, then one of its rows uniformly: a few
/// long episodes do not crowd out the short ones, as they do in a uniform draw.
///
/// An episode that still runs counts up to the newest row, one that was partly overwritten from the
/// oldest row held.
#[derive(Debug, Clone, Copy, Default)]
pub struct EpisodeBalanced;

impl Sampler for EpisodeBalanced {
    fn draw(
        &self,
        rings: &Rings,
        want: Want,
        rng: &mut SampleRng,
        drawn: &mut Drawn,
    ) -> Result<()> {
        let mut episodes = 0;
        // Number of the episodes of all environments up to and with each.
        let ends: Vec<usize> = rings
            .rings
            .iter()
            .map(|ring| {
                episodes += held(ring);
                episodes
            })
            .collect();
        for _ in 0..want.size {
            interrupt::check()?;
            let number = rng.below(episodes);
            let env = ends.partition_point(|&end| end <= number);
            let Some(state) = rings.rings.get(env) else { break };
            let at = number + held(state) - ends.get(env).copied().unwrap_or(0);
            let begin = state.episodes.get(at).copied().unwrap_or(state.start);
            let (start, end) = state.episode(begin.max(state.start));
            #[expect(clippy::cast_possible_truncation, reason = "rows held are in memory")]
            let ahead = rng.below((end - start) as usize) as u64;
            drawn.rows.push(rings.row(env, start + ahead));
        }
        Ok(())
    }
}

/// Episodes that have rows in a ring.
fn held(ring: &EnvRing) -> usize {
    if ring.len() == 0 { 0 } else { ring.episodes.len() }
}
