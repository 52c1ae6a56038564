//! The rows of a rollout, and minibatches of them.

use rlox_core::error::{Error, Result, check_len};
use rlox_core::rollout::{ActionColumn, Arena};

use super::heads::ActionsTaken;

/// The columns of a rollout, `[rows, ...]`.
#[derive(Debug, Clone, Copy)]
pub struct RolloutRows<'a, F> {
    /// The observations o, `[rows, obs_dim]`; the slice may be longer.
    pub obs: &'a [F],
    /// The length of an observation.
    pub obs_dim: usize,
    /// The actions a.
    pub actions: ActionsTaken<'a, F>,
    /// The log-probabilities log pi(a | o) under the policy that acted.
    pub log_probs: &'a [F],
    /// The values V(o) at the time of the actions.
    pub values: &'a [F],
    /// The estimated advantages.
    pub advantages: &'a [F],
    /// The targets of V.
    pub returns: &'a [F],
}

impl<'a> From<&'a Arena> for RolloutRows<'a, f32> {
    fn from(arena: &'a Arena) -> Self {
        Self {
            obs: arena.obs(),
            obs_dim: arena.obs_dim(),
            actions: match arena.actions() {
                ActionColumn::Discrete(choices) => ActionsTaken::Choices(choices, None),
                ActionColumn::Box(vectors) => ActionsTaken::Vectors(vectors),
            },
            log_probs: arena.log_probs(),
            values: arena.values().get(..arena.rewards().len()).unwrap_or_default(),
            advantages: arena.advantages(),
            returns: arena.returns(),
        }
    }
}

impl<F> RolloutRows<'_, F> {
    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.log_probs.len()
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.log_probs.is_empty()
    }

    /// Returns the number of rows, which all columns share.
    ///
    /// # Errors
    /// [`Error::Shape`] for columns of different lengths, [`Error::Config`] if there are no rows.
    pub(super) fn check(&self) -> Result<usize> {
        let n = self.len();
        if n == 0 {
            return Err(Error::config("rows of a rollout", 0, "at least 1"));
        }
        check_len("obs", self.obs.len().min(n * self.obs_dim), n * self.obs_dim, "as log_probs")?;
        match self.actions {
            ActionsTaken::Choices(choices, action_mask) => {
                check_len("actions", choices.len(), n, "as log_probs")?;
                // The check compares this length with the length rounded down to whole rows.
                let mask = action_mask.map_or(0, <[bool]>::len);
                check_len("mask", mask, mask / n * n, "whole rows")?;
            }
            ActionsTaken::Vectors(vectors) => {
                check_len("actions", vectors.len(), vectors.len() / n * n, "whole rows")?;
            }
        }
        for (name, column) in
            [("values", self.values), ("advantages", self.advantages), ("returns", self.returns)]
        {
            check_len(name, column.len(), n, "as log_probs")?;
        }
        Ok(n)
    }
}

/// Copies of some rows of a rollout.
#[derive(Debug, Clone, Default)]
pub(super) struct Minibatch<F> {
    pub(super) obs: Vec<F>,
    choices: Vec<i64>,
    action_mask: Vec<bool>,
    vectors: Vec<F>,
    kind: StoredActions,
    pub(super) log_probs: Vec<F>,
    pub(super) values: Vec<F>,
    pub(super) advantages: Vec<F>,
    pub(super) returns: Vec<F>,
}

/// How the actions of the copied rows are stored.
#[derive(Debug, Clone, Copy, Default)]
enum StoredActions {
    #[default]
    Vectors,
    Choices,
    Masked,
}

impl<F: Copy> Minibatch<F> {
    /// Copies the rows at these indices, in their order. Call [`RolloutRows::check`] first.
    ///
    /// # Errors
    /// [`Error::Config`] for an index out of range.
    pub(super) fn gather(&mut self, rows: RolloutRows<'_, F>, indices: &[usize]) -> Result<()> {
        let n = rows.len();
        if let Some(index) = indices.iter().find(|&&place| place >= n) {
            return Err(Error::config("row of a minibatch", index, format!("a number below {n}")));
        }
        copy(&mut self.obs, rows.obs, indices, rows.obs_dim);
        self.kind = match rows.actions {
            ActionsTaken::Choices(choices, action_mask) => {
                copy(&mut self.choices, choices, indices, 1);
                let copied_mask = action_mask.inspect(|allowed| {
                    copy(&mut self.action_mask, allowed, indices, allowed.len() / n);
                });
                if copied_mask.is_some() { StoredActions::Masked } else { StoredActions::Choices }
            }
            ActionsTaken::Vectors(vectors) => {
                copy(&mut self.vectors, vectors, indices, vectors.len() / n);
                StoredActions::Vectors
            }
        };
        copy(&mut self.log_probs, rows.log_probs, indices, 1);
        copy(&mut self.values, rows.values, indices, 1);
        copy(&mut self.advantages, rows.advantages, indices, 1);
        copy(&mut self.returns, rows.returns, indices, 1);
        Ok(())
    }

    /// Returns the actions of the rows.
    pub(super) fn actions(&self) -> ActionsTaken<'_, F> {
        match self.kind {
            StoredActions::Vectors => ActionsTaken::Vectors(&self.vectors),
            StoredActions::Choices => ActionsTaken::Choices(&self.choices, None),
            StoredActions::Masked => ActionsTaken::Choices(&self.choices, Some(&self.action_mask)),
        }
    }
}

/// Replaces `out` by the rows at these indices, `width` elements each.
fn copy<T: Copy>(out: &mut Vec<T>, column: &[T], indices: &[usize], width: usize) {
    out.clear();
    for index in indices {
        out.extend_from_slice(column.get(index * width..(index + 1) * width).unwrap_or_default());
    }
}
