//! The interface that shards of all environments and precisions have, and a step of many shards on
//! several threads.

use super::seeding::Key;
use super::step::StepRows;
use super::{Actions, DenseFinalObs, Spec, StepOut};
use crate::seed::Stream;
use crate::threads;

/// The episodes that ended in the last step of a shard.
#[derive(Debug, Default)]
pub(super) struct ShardEnds {
    /// Rows whose episode ended, ascending.
    pub(super) rows: Vec<usize>,
    /// Their last observations, `[ends, obs_dim]`.
    pub(super) obs: Vec<f32>,
}

/// Environments of one kind and precision that one thread steps together.
pub(super) trait Batch: Send + Sync {
    /// Takes one step with time limit and autoreset. Every slice of `out` and `final_obs` has this
    /// shard's rows.
    fn step(&mut self, actions: Actions<'_>, out: StepOut<'_>, final_obs: Option<DenseFinalObs<'_>>);

    /// Starts a new episode in every environment.
    fn reset(&mut self);

    /// Writes all observations, `[rows, obs_dim]`.
    fn observe(&self, obs: &mut [f32]);

    /// Returns the episodes that ended in the last step.
    fn ends(&self) -> &ShardEnds;

    /// Returns the position of each environment's stream, `[rows]`.
    fn positions(&self) -> Vec<u64>;

    /// Replaces the streams, `[rows]`. `keys` are the keys of the old streams.
    fn set_streams(&mut self, streams: Vec<Stream>, keys: &[Key]);

    /// Saves the present state. Later changes can be undone until they are accepted.
    fn save_for_undo(&mut self);

    /// Restores the state of the last [`Batch::save_for_undo`].
    fn undo(&mut self);

    /// Accepts the changes since the last [`Batch::save_for_undo`].
    fn accept(&mut self);

    /// Returns the steps taken in each running episode, `[rows]`.
    fn elapsed(&self) -> Vec<u32>;

    /// Replaces the steps taken, `[rows]`, each below the time limit.
    fn set_elapsed(&mut self, elapsed: &[u32]);

    /// Writes the state as `[rows, state_dim]`.
    fn read_state(&self, out: &mut [f64]);

    /// Replaces the state by `[rows, state_dim]`, rounded to the type of the stored state.
    fn write_state(&mut self, state: &[f64]);
}

/// Steps shards of equal size; the last one may be smaller. Divides them into halves recursively, and
/// steps both halves at the same time if `parallel`.
pub(super) fn step_shards(
    spec: &Spec,
    shards: &mut [Box<dyn Batch>],
    rows: StepRows<'_>,
    shard_size: usize,
    parallel: bool,
) {
    if let [shard] = shards {
        shard.step(rows.actions, rows.out, rows.final_obs);
        return;
    }
    let half = shards.len() / 2;
    let (left, right) = shards.split_at_mut(half);
    let (left_rows, right_rows) = rows.split_at(half * shard_size, spec);
    let step_left = || step_shards(spec, left, left_rows, shard_size, parallel);
    let step_right = || step_shards(spec, right, right_rows, shard_size, parallel);
    if parallel {
        threads::join(step_left, step_right);
    } else {
        step_left();
        step_right();
    }
}
