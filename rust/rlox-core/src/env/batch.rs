//! What every shard can do, whatever its rules and precision, and one step of many, shared by threads.

use super::seeding::Key;
use super::step::StepRows;
use super::{Actions, DenseFinals, Spec, StepOut};
use crate::seed::Stream;
use crate::threads;

/// What ended in the last step of a shard.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Rows whose episode ended, ascending.
    pub(super) rows: Vec<usize>,
    /// Their last observations, `[ended, obs_dim]`.
    pub(super) obs: Vec<f32>,
}

/// Environments that one thread steps together, whatever their rules and precision.
pub(super) trait Batch: Send + Sync {
    /// One step with time limit and autoreset; every slice of `out` and `last` has this shard's rows.
    fn step(&mut self, actions: Actions<'_>, out: StepOut<'_>, last: Option<DenseFinals<'_>>);

    /// Starts a new episode everywhere.
    fn reset(&mut self);

    /// Writes all observations, `[rows, obs_dim]`.
    fn observe(&self, obs: &mut [f32]);

    /// What ended in the last step.
    fn ended(&self) -> &Ended;

    /// Where the stream of each environment is, `[rows]`.
    fn positions(&self) -> Vec<u64>;

    /// Replaces the streams, `[rows]`, which had these keys.
    fn set_streams(&mut self, streams: Vec<Stream>, keys: &[Key]);

    /// What follows can be taken back until it is accepted.
    fn keep(&mut self);

    /// Becomes what it was when it was last kept.
    fn take_back(&mut self);

    /// What happened since it was last kept stays.
    fn accept(&mut self);

    /// Steps taken in each running episode, `[rows]`.
    fn elapsed(&self) -> Vec<u32>;

    /// Replaces the steps taken, `[rows]`, each below the time limit.
    fn set_elapsed(&mut self, elapsed: &[u32]);

    /// Writes the state as `[rows, state_dim]`.
    fn read_state(&self, out: &mut [f64]);

    /// Replaces the state from `[rows, state_dim]`, rounded to what it is kept in.
    fn write_state(&mut self, state: &[f64]);
}

/// Steps shards of `size` rows by halves, in parallel if asked.
pub(super) fn step_shards(
    spec: &Spec,
    shards: &mut [Box<dyn Batch>],
    rows: StepRows<'_>,
    size: usize,
    parallel: bool,
) {
    if let [shard] = shards {
        shard.step(rows.actions, rows.out, rows.last);
        return;
    }
    let half = shards.len() / 2;
    let (left, right) = shards.split_at_mut(half);
    let (left_rows, right_rows) = rows.split_at(half * size, spec);
    let step_left = || step_shards(spec, left, left_rows, size, parallel);
    let step_right = || step_shards(spec, right, right_rows, size, parallel);
    if parallel {
        threads::join(step_left, step_right);
    } else {
        step_left();
        step_right();
    }
}
