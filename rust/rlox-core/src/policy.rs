//! What acts: observations and noise in, actions out, everything in slices of the caller.

use std::num::NonZeroUsize;

use crate::env::Actions;
use crate::error::Result;
use crate::seed::Stream;

/// What a policy sees of N environments. A policy with a memory would find it here as well: whoever
/// collects owns and saves it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// o_t, `[n, obs_dim]`.
    pub obs: &'a [f32],
    /// Numbers to act at random with, `[n, k]`, as [`Policy::noise`] asks for.
    pub noise: &'a [f32],
}

/// Where a policy writes for N environments.
pub struct Acted<'a> {
    /// a_t.
    pub actions: ActionsMut<'a>,
    /// log pi(a_t | o_t), `[n]`.
    pub log_probs: &'a mut [f32],
    /// V(o_t), `[n]`.
    pub values: &'a mut [f32],
}

/// Actions to be written.
pub enum ActionsMut<'a> {
    /// `[n]`.
    Discrete(&'a mut [i64]),
    /// `[n, action_dim]`.
    Box(&'a mut [f32]),
}

impl ActionsMut<'_> {
    /// The same actions, for an environment.
    #[must_use]
    pub fn view(&self) -> Actions<'_> {
        match self {
            Self::Discrete(actions) => Actions::Discrete(actions),
            Self::Box(actions) => Actions::Box(actions),
        }
    }
}

/// Random numbers of one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// So many uniform numbers in [0, 1).
    Uniform(usize),
    /// So many standard normal numbers.
    Normal(usize),
}

impl Noise {
    /// How many numbers.
    #[must_use]
    pub const fn dim(self) -> usize {
        match self {
            Self::Uniform(dim) | Self::Normal(dim) => dim,
        }
    }

    /// By how many words each number moves a stream on.
    pub(crate) const WORDS: u64 = 2;

    /// The next numbers of `stream`; normal ones are those of [`Stream::fill_normal`].
    pub(crate) fn draw(self, stream: &mut Stream, out: &mut [f32]) {
        match self {
            Self::Uniform(_) => out.fill_with(|| below_one(stream.uniform())),
            Self::Normal(_) => stream.fill_normal(out),
        }
    }
}

/// A number in [0, 1) as float32, which would round the largest ones up to 1.
#[expect(clippy::cast_possible_truncation, reason = "noise is float32")]
fn below_one(uniform: f64) -> f32 {
    (uniform as f32).min(1.0 - f32::EPSILON / 2.0)
}

/// A stochastic policy with a value function. What it returns depends on what it is given only, row
/// by row, so that rows may be shared out in any way.
pub trait Policy: Sync {
    /// What it needs to act at random.
    fn noise(&self) -> Noise;

    /// For how many steps of a rollout it acts with the same noise: one, unless it explores smoothly.
    fn noise_kept(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    /// Chooses an action for each observation.
    ///
    /// # Errors
    /// For slices that do not fit, or actions of another kind than it chooses.
    fn act(&self, seen: Seen<'_>, acted: Acted<'_>) -> Result<()>;

    /// V(o) of each observation, `[n, obs_dim]` -> `[n]`.
    ///
    /// # Errors
    /// For slices that do not fit.
    fn values(&self, obs: &[f32], out: &mut [f32]) -> Result<()>;
}
