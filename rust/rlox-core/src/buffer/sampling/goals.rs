//! Hindsight goals: which rows are relabelled, and which achieved goal each of them gets.
//!
//! Andrychowicz et al. 2017, "Hindsight Experience Replay", section 4.5.

use super::rng::SampleRng;
use super::rule::{Draws, Relabel};
use crate::buffer::rows::{Rings, RowRef};
use crate::error::{Error, Result};
use crate::interrupt::CheckPace;

/// Selects the row whose achieved goal becomes the new goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoalStrategy {
    /// A random row of the episode, from the relabelled row on.
    Future,
    /// The last row of the episode.
    Final,
    /// A random row of the episode.
    Episode,
}

impl GoalStrategy {
    /// Every strategy with its name.
    const NAMES: [(Self, &'static str); 3] =
        [(Self::Future, "future"), (Self::Final, "final"), (Self::Episode, "episode")];

    /// Returns the strategy called `name`.
    ///
    /// # Errors
    /// [`Error::UnknownName`], with the known strategies.
    pub fn parse(name: &str) -> Result<Self> {
        let entry = Self::NAMES.iter().find(|(_, candidate)| *candidate == name);
        entry.map(|(strategy, _)| *strategy).ok_or_else(|| {
            let names = Self::NAMES.map(|(_, known)| known);
            Error::unknown_name("hindsight strategy", name, &names)
        })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(strategy, _)| *strategy == self).map_or("", |(_, name)| name)
    }
}

/// How often goals are replaced, and by which strategy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hindsight {
    strategy: GoalStrategy,
    ratio: f64,
}

impl Hindsight {
    /// Makes the settings. Each drawn row is relabelled with probability `ratio`, independently.
    ///
    /// # Errors
    /// [`Error::Config`] unless `ratio` is in [0, 1].
    pub fn new(strategy: GoalStrategy, ratio: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&ratio) {
            return Err(Error::config("ratio", ratio, "a number in [0, 1]"));
        }
        Ok(Self { strategy, ratio })
    }

    /// Returns the strategy.
    #[must_use]
    pub const fn strategy(&self) -> GoalStrategy {
        self.strategy
    }

    /// Returns the probability that a row is relabelled.
    #[must_use]
    pub const fn ratio(&self) -> f64 {
        self.ratio
    }
}

impl Hindsight {
    /// Draws which rows of the last batch are relabelled, and their new goals.
    ///
    /// An episode that has not ended counts up to the newest row. A partly overwritten episode
    /// counts from the oldest row.
    pub(in crate::buffer) fn relabel(
        self,
        rings: &Rings,
        rng: &mut SampleRng,
        batch_start: usize,
        draws: &mut Draws,
    ) -> Result<()> {
        let mut pace = CheckPace::default();
        for (index, row) in draws.rows.iter().enumerate().skip(batch_start) {
            pace.spend(1)?;
            if rng.uniform() < self.ratio {
                let goal = self.draw_goal(rings, rng, *row);
                draws.relabels.push(Relabel { index, goal });
            }
        }
        Ok(())
    }

    /// Draws the row whose achieved goal becomes the goal of `row`.
    #[expect(clippy::cast_possible_truncation, reason = "rows held are in memory")]
    fn draw_goal(self, rings: &Rings, rng: &mut SampleRng, row: RowRef) -> RowRef {
        let Ok(env_ring) = rings.ring(row) else { return row };
        let (start, end) = env_ring.episode(row.position);
        let position = match self.strategy {
            GoalStrategy::Final => end - 1,
            GoalStrategy::Future => row.position + rng.below((end - row.position) as usize) as u64,
            GoalStrategy::Episode => start + rng.below((end - start) as usize) as u64,
        };
        rings.row(row.env as usize, position)
    }
}
