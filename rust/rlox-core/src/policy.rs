//! Policies: observations and noise in, actions out. All slices belong to the caller.

use std::num::NonZeroUsize;

use crate::env::Actions;
use crate::error::Result;
use crate::seed::Stream;

/// The input of a policy for N environments. If a policy had a memory, its state would belong here
/// too, because the collector would own and save it.
#[derive(Debug, Clone, Copy)]
pub struct PolicyInput<'a> {
    /// o_t, `[n, obs_dim]`.
    pub obs: &'a [f32],
    /// Random numbers for the actions, `[n, k]`, as [`Policy::noise`] requests.
    pub noise: &'a [f32],
}

/// The output of a policy for N environments.
pub struct PolicyOutput<'a> {
    /// a_t.
    pub actions: ActionsMut<'a>,
    /// log pi(a_t | o_t), `[n]`.
    pub log_probs: &'a mut [f32],
    /// V(o_t), `[n]`.
    pub values: &'a mut [f32],
}

/// Actions to write.
pub enum ActionsMut<'a> {
    /// `[n]`.
    Discrete(&'a mut [i64]),
    /// `[n, action_dim]`.
    Box(&'a mut [f32]),
}

impl ActionsMut<'_> {
    /// Returns a view of the actions for an environment.
    #[must_use]
    pub fn view(&self) -> Actions<'_> {
        match self {
            Self::Discrete(actions) => Actions::Discrete(actions),
            Self::Box(actions) => Actions::Box(actions),
        }
    }
}

/// The random numbers that one action needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// This many uniform numbers in [0, 1).
    Uniform(usize),
    /// This many standard normal numbers.
    Normal(usize),
}

impl Noise {
    /// Returns the number of random numbers.
    #[must_use]
    pub const fn dim(self) -> usize {
        match self {
            Self::Uniform(dim) | Self::Normal(dim) => dim,
        }
    }

    /// Words by which each number advances the position of a stream.
    pub(crate) const WORDS: u64 = 2;

    /// Draws the next numbers of `stream`. Normal numbers are those of [`Stream::fill_normal`].
    pub(crate) fn draw(self, stream: &mut Stream, out: &mut [f32]) {
        match self {
            Self::Uniform(_) => out.fill_with(|| to_f32_below_one(stream.uniform())),
            Self::Normal(_) => stream.fill_normal(out),
        }
    }
}

/// Returns a number in [0, 1) as float32. Rounding alone would turn the largest numbers into 1.
#[expect(clippy::cast_possible_truncation, reason = "noise is float32")]
fn to_f32_below_one(uniform: f64) -> f32 {
    (uniform as f32).min(1.0 - f32::EPSILON / 2.0)
}

/// A stochastic policy with a value function. Each row of its output depends only on the same row
/// of its input, so rows may be divided in any way.
pub trait Policy: Sync {
    /// Returns the random numbers that an action needs.
    fn noise(&self) -> Noise;

    /// Returns the number of consecutive rollout steps with the same noise: more than one for a
    /// policy that keeps its noise for several steps, such as one with gSDE.
    fn steps_per_noise(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    /// Chooses an action for each observation.
    ///
    /// # Errors
    /// If slices do not fit, or the policy does not choose actions of this kind.
    fn act(&self, input: PolicyInput<'_>, output: PolicyOutput<'_>) -> Result<()>;

    /// Whether [`Policy::act`] accepts an empty slice for the values. A rollout then computes the values of
    /// all its steps in one call of [`Policy::values`], which has less overhead.
    fn has_separate_values(&self) -> bool {
        false
    }

    /// Computes V(o) of each observation, `[n, obs_dim]` -> `[n]`.
    ///
    /// # Errors
    /// If slices do not fit.
    fn values(&self, obs: &[f32], out: &mut [f32]) -> Result<()>;
}
