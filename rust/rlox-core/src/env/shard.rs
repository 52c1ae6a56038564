//! A fixed number of environments of one kind, stepped together on one thread.

use super::{Actions, Env, StepOut};
use crate::seed::Stream;

/// Rows whose flags are looked at together: almost always none of them ended.
const SCAN: usize = 32;

/// The environments that one thread steps together: state, clocks, streams, and what ended in the last step.
pub(super) struct Shard {
    /// `[state_dim, rows]`.
    state: Vec<f64>,
    /// Steps taken in the running episode, `[rows]`.
    pub(super) elapsed: Vec<u32>,
    /// One stream per environment, `[rows]`.
    pub(super) streams: Vec<Stream>,
    /// The state of one environment, `[state_dim]`: scratch for episode starts.
    start: Vec<f64>,
    /// Rows whose episode ended in the last step, ascending.
    pub(super) ended: Vec<usize>,
    /// Their last observations, `[ended, obs_dim]`.
    pub(super) final_obs: Vec<f32>,
}

impl Shard {
    /// Environments with the given streams, each at the start of an episode.
    pub(super) fn new(env: &dyn Env, streams: Vec<Stream>) -> Self {
        let (rows, dim) = (streams.len(), env.spec().state_dim);
        let mut shard = Self {
            state: vec![0.0; rows * dim],
            elapsed: vec![0; rows],
            streams,
            start: vec![0.0; dim],
            ended: Vec::with_capacity(rows),
            final_obs: Vec::new(),
        };
        shard.reset(env);
        shard
    }

    /// Number of environments.
    pub(super) fn rows(&self) -> usize {
        self.streams.len()
    }

    /// Starts a new episode everywhere.
    pub(super) fn reset(&mut self, env: &dyn Env) {
        let rows = self.rows();
        self.elapsed.fill(0);
        for (row, stream) in self.streams.iter_mut().enumerate() {
            env.start(stream, &mut self.start);
            scatter(&self.start, &mut self.state, rows, row);
        }
    }

    /// Writes all observations, `[rows, obs_dim]`.
    pub(super) fn observe(&self, env: &dyn Env, obs: &mut [f32]) {
        env.observe(&self.state, self.rows(), obs);
    }

    /// One step with time limit and autoreset; every slice of `out` has this shard's rows.
    pub(super) fn step(&mut self, env: &dyn Env, actions: Actions<'_>, out: StepOut<'_>) {
        env.step(&mut self.state, actions, out.rewards, out.terminated);
        env.observe(&self.state, self.rows(), out.obs);
        let limit = env.spec().max_episode_steps;
        for (elapsed, truncated) in self.elapsed.iter_mut().zip(out.truncated.iter_mut()) {
            *elapsed += 1;
            *truncated = *elapsed >= limit;
        }
        self.restart_ended(env, out.terminated, out.truncated, out.obs);
    }

    /// Moves the observations of ended episodes to `final_obs` and puts the next episode's in place.
    fn restart_ended(&mut self, env: &dyn Env, term: &[bool], trunc: &[bool], obs: &mut [f32]) {
        self.ended.clear();
        self.final_obs.clear();
        for (block, (term, trunc)) in term.chunks(SCAN).zip(trunc.chunks(SCAN)).enumerate() {
            if term.iter().zip(trunc).fold(false, |any, (term, trunc)| any | term | trunc) {
                let ended = term.iter().zip(trunc).enumerate().filter(|(_, (a, b))| **a || **b);
                self.ended.extend(ended.map(|(row, _)| block * SCAN + row));
            }
        }
        let (rows, dim) = (self.rows(), env.spec().observation.dim());
        for &row in &self.ended {
            let places = (
                obs.get_mut(row * dim..(row + 1) * dim),
                self.streams.get_mut(row),
                self.elapsed.get_mut(row),
            );
            if let (Some(obs), Some(stream), Some(elapsed)) = places {
                self.final_obs.extend_from_slice(obs);
                env.start(stream, &mut self.start);
                env.observe(&self.start, 1, obs);
                scatter(&self.start, &mut self.state, rows, row);
                *elapsed = 0;
            }
        }
    }

    /// Writes the state as `[rows, state_dim]`.
    pub(super) fn read_state(&self, out: &mut [f64]) {
        let dim = self.start.len();
        for (row, out) in out.chunks_exact_mut(dim).enumerate() {
            for (value, column) in out.iter_mut().zip(self.state.chunks_exact(self.rows())) {
                *value = column.get(row).copied().unwrap_or_default();
            }
        }
    }

    /// Replaces the state from `[rows, state_dim]`.
    pub(super) fn write_state(&mut self, state: &[f64]) {
        let rows = self.rows();
        for (row, values) in state.chunks_exact(self.start.len()).enumerate() {
            scatter(values, &mut self.state, rows, row);
        }
    }
}

/// Writes one environment's state into its place in every column.
fn scatter(values: &[f64], state: &mut [f64], rows: usize, row: usize) {
    for (place, value) in state.iter_mut().skip(row).step_by(rows).zip(values) {
        *place = *value;
    }
}
