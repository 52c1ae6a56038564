//! Actions of a batch, one per environment. They are checked before any environment steps.

use multiversion::multiversion;

use super::{BLOCK, Float};
use crate::error::{Error, Result, check_len};
use crate::space::ActionSpace;

/// The actions of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Actions<'a> {
    /// `[n]`, each in `0..n_actions`.
    Discrete(&'a [i64]),
    /// `[n, action_dim]` in row-major order, finite, not necessarily within the bounds.
    Box(&'a [f32]),
}

impl<'a> Actions<'a> {
    /// Checks that kind, number and values of the actions fit `n` environments with this space.
    pub(super) fn check(self, space: &ActionSpace, n: usize) -> Result<()> {
        match (self, space) {
            (Self::Discrete(actions), ActionSpace::Discrete { n: choices }) => {
                check_len("actions", actions.len(), n, "one per env")?;
                check_discrete(actions, *choices)
            }
            (Self::Box(actions), ActionSpace::Box(bounds)) => {
                check_len("actions", actions.len(), n * bounds.dim(), "n_envs x action_dim")?;
                check_box(actions)
            }
            (Self::Discrete(_), ActionSpace::Box(_)) => {
                Err(Error::config("actions", "integers", "float32 numbers for a Box action space"))
            }
            (Self::Box(_), ActionSpace::Discrete { n }) => {
                Err(Error::config("actions", "floats", format!("integers in 0..{n}")))
            }
        }
    }

    /// Returns the rows `start..start + rows` of actions with `dim` numbers each.
    pub(super) fn rows(self, start: usize, rows: usize, dim: usize) -> Self {
        match self {
            Self::Discrete(all) => Self::Discrete(subslice(all, start, rows)),
            Self::Box(all) => Self::Box(subslice(all, start * dim, rows * dim)),
        }
    }

    /// Returns the integers of a discrete batch; no integers for a box batch.
    #[must_use]
    pub fn discrete(self) -> &'a [i64] {
        match self {
            Self::Discrete(actions) => actions,
            Self::Box(_) => &[],
        }
    }

    /// Returns the numbers of a box batch; no numbers for a discrete batch.
    #[must_use]
    pub fn continuous(self) -> &'a [f32] {
        match self {
            Self::Box(actions) => actions,
            Self::Discrete(_) => &[],
        }
    }
}

/// Returns `value_of` of each choice of a block. The choices themselves are 64 bits wide, so loops
/// over float32 that read them would process half as many rows at a time.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub(super) fn map_choices<F: Float>(actions: &[i64], value_of: impl Fn(i64) -> F) -> [F; BLOCK] {
    let mut column = [F::default(); BLOCK];
    for (value, &action) in column.iter_mut().zip(actions) {
        *value = value_of(action);
    }
    column
}

fn subslice<T>(all: &[T], start: usize, len: usize) -> &[T] {
    all.get(start..start + len).unwrap_or_default()
}

fn check_discrete(actions: &[i64], choices: usize) -> Result<()> {
    if all_below(actions, choices as u64) {
        return Ok(());
    }
    let valid = |action: i64| usize::try_from(action).is_ok_and(|action| action < choices);
    match actions.iter().position(|&action| !valid(action)) {
        Some(env) => Err(Error::Action {
            env,
            got: actions.get(env).map(ToString::to_string).unwrap_or_default(),
            expected: format!("an integer from 0 to {}", choices - 1),
        }),
        None => Ok(()),
    }
}

/// Returns whether all actions are in `0..choices`. A negative action, read as an unsigned number,
/// is larger than any choice.
#[multiversion(targets("x86_64+avx2"))]
fn all_below(actions: &[i64], choices: u64) -> bool {
    actions.iter().fold(true, |all, action| all & (action.cast_unsigned() < choices))
}

fn check_box(actions: &[f32]) -> Result<()> {
    if actions.iter().fold(true, |all, action| all & action.is_finite()) {
        return Ok(());
    }
    match actions.iter().enumerate().find(|(_, action)| !action.is_finite()) {
        Some((index, &value)) => {
            Err(Error::NonFinite { name: "actions".into(), index, value: f64::from(value) })
        }
        None => Ok(()),
    }
}
