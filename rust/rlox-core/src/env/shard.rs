//! A fixed number of environments of one kind that one thread steps together.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use std::hint;

use multiversion::multiversion;

use super::batch::{Batch, ShardEnds};
use super::block::BLOCK;
use super::clock::EpisodeClock;
use super::seeding::Key;
use super::undo::{SavedPosition, Undo};
use super::{Actions, DenseFinalObs, Env, Float, Spec, StepOut};
use crate::seed::Stream;

/// Environments with the rules `E` and state of type `F`.
pub(super) struct Shard<F, E: 'static> {
    env: &'static E,
    /// One block `[state_dim, BLOCK]` after the other; the last one has the remaining rows.
    state: Vec<F>,
    clock: EpisodeClock,
    streams: Vec<Stream>,
    /// Scratch memory for episode starts: states of environments, `[k, state_dim]`.
    start_states: Vec<F>,
    ends: ShardEnds,
    /// The saved state, while changes can be undone.
    undo: Option<Undo<F>>,
    /// Positions of streams that must be restored before the streams' next use. Restoring takes as
    /// long as drawing, and an interrupted caller must not wait for it.
    pending_rewinds: Vec<SavedPosition>,
}

impl<F: Float, E: Env<F>> Shard<F, E> {
    /// Returns environments with these streams, each at the start of an episode.
    pub(super) fn new(env: &'static E, streams: Vec<Stream>) -> Self {
        let (rows, spec) = (streams.len(), env.spec());
        let mut shard = Self {
            env,
            state: vec![F::default(); rows * spec.state_dim],
            clock: EpisodeClock::new(rows, spec.max_episode_steps, BLOCK),
            streams,
            start_states: Vec::new(),
            ends: ShardEnds::default(),
            undo: None,
            pending_rewinds: Vec::new(),
        };
        shard.reset();
        shard
    }

    /// Restores the streams to their positions before the undone work.
    fn rewind_streams(&mut self) {
        for saved_position in std::mem::take(&mut self.pending_rewinds) {
            saved_position.restore(&mut self.streams);
        }
    }

    /// Copies the last observations of ended episodes to `ends`, and overwrites them in `obs` with
    /// the first observations of the next episodes.
    fn restart_ended(&mut self, obs: &mut [f32]) {
        let Spec { state_dim, observation, .. } = *self.env.spec();
        let (dim, rows) = (observation.dim(), &self.ends.rows);
        self.start_states.resize(rows.len() * state_dim, F::default());
        self.ends.obs.clear();
        // All positions are read before the first draw. Each read waits for memory, and in this
        // way the waits overlap.
        let positions = rows.iter().filter_map(|&row| Some(self.streams.get(row)?.position()));
        hint::black_box(positions.fold(0, u64::wrapping_add));
        if let Some(undo) = &mut self.undo {
            let saved_positions =
                rows.iter().filter_map(|&row| Some(SavedPosition::new(row, self.streams.get(row)?)));
            undo.saved_positions.extend(saved_positions);
        }
        for (&row, start) in rows.iter().zip(self.start_states.chunks_exact_mut(state_dim)) {
            if let Some(stream) = self.streams.get_mut(row) {
                self.env.start(stream, start);
            }
        }
        for (&row, start) in rows.iter().zip(self.start_states.chunks_exact(state_dim)) {
            if let Some(obs) = obs.get_mut(row * dim..(row + 1) * dim) {
                self.ends.obs.extend(obs.iter());
                self.env.observe(start, 1, obs);
            }
            scatter(start, &mut self.state, row);
            self.clock.restart(row);
        }
    }
}

impl<F: Float, E: Env<F>> Batch for Shard<F, E> {
    fn step(&mut self, actions: Actions<'_>, mut out: StepOut<'_>, final_obs: Option<DenseFinalObs<'_>>) {
        self.rewind_streams();
        self.ends.rows.clear();
        self.clock.tick();
        let (state, clock, ended_rows) = (&mut self.state, &mut self.clock, &mut self.ends.rows);
        step_blocks(self.env, state, actions, &mut out, clock, ended_rows);
        if let Some(last) = final_obs {
            // The observations are in a cache now.
            last.obs.copy_from_slice(out.obs);
            last.mask.fill(false);
            for &row in &self.ends.rows {
                if let Some(flag) = last.mask.get_mut(row) {
                    *flag = true;
                }
            }
        }
        self.restart_ended(out.obs);
    }

    fn reset(&mut self) {
        self.rewind_streams();
        if let Some(undo) = &mut self.undo {
            undo.saved_positions
                .extend((0..).zip(&self.streams).map(|(row, stream)| SavedPosition::new(row, stream)));
        }
        self.clock.restart_all();
        self.start_states.resize(self.env.spec().state_dim, F::default());
        for (row, stream) in self.streams.iter_mut().enumerate() {
            self.env.start(stream, &mut self.start_states);
            scatter(&self.start_states, &mut self.state, row);
        }
        self.ends.rows.clear();
        self.ends.obs.clear();
    }

    fn observe(&self, obs: &mut [f32]) {
        let spec = self.env.spec();
        let blocks = self.state.chunks(BLOCK * spec.state_dim);
        for (state, obs) in blocks.zip(obs.chunks_mut(BLOCK * spec.observation.dim())) {
            self.env.observe(state, state.len() / spec.state_dim, obs);
        }
    }

    fn ends(&self) -> &ShardEnds {
        &self.ends
    }

    fn positions(&self) -> Vec<u64> {
        let mut positions: Vec<u64> = self.streams.iter().map(Stream::position).collect();
        for (row, position) in self.pending_rewinds.iter().map(SavedPosition::position) {
            if let Some(slot) = positions.get_mut(row) {
                *slot = position;
            }
        }
        positions
    }

    fn set_streams(&mut self, streams: Vec<Stream>, keys: &[Key]) {
        self.rewind_streams();
        if let Some(undo) = &mut self.undo {
            let old_streams = (0..).zip(self.streams.iter().zip(keys));
            undo.saved_positions
                .extend(old_streams.map(|(row, (stream, &key))| SavedPosition::with_key(row, stream, key)));
        }
        self.streams = streams;
    }

    fn save_for_undo(&mut self) {
        self.undo =
            Some(Undo { state: self.state.clone(), clock: self.clock.clone(), saved_positions: Vec::new() });
    }

    fn undo(&mut self) {
        if let Some(undo) = self.undo.take() {
            self.state = undo.state;
            self.clock = undo.clock;
            // Positions that an earlier undo left were restored before the first new one was saved.
            if !undo.saved_positions.is_empty() {
                self.pending_rewinds = undo.saved_positions;
            }
        }
    }

    fn accept(&mut self) {
        self.undo = None;
    }

    fn elapsed(&self) -> Vec<u32> {
        self.clock.elapsed().collect()
    }

    fn set_elapsed(&mut self, elapsed: &[u32]) {
        self.clock.set_elapsed(elapsed);
    }

    fn read_state(&self, out: &mut [f64]) {
        let dim = self.env.spec().state_dim;
        for (row, out) in out.chunks_exact_mut(dim).enumerate() {
            let (block, column, row) = locate_row(self.state.len(), dim, row);
            let values = self.state.iter().skip(block + row).step_by(column);
            for (out, value) in out.iter_mut().zip(values) {
                *out = value.to_f64();
            }
        }
    }

    fn write_state(&mut self, state: &[f64]) {
        for (row, values) in state.chunks_exact(self.env.spec().state_dim).enumerate() {
            self.start_states.clear();
            self.start_states.extend(values.iter().map(|&value| F::from_f64(value)));
            scatter(&self.start_states, &mut self.state, row);
        }
    }
}

/// Steps the blocks in order, writes their observations and flags, and appends the rows whose
/// episode ended.
// Without fused multiply-add, so that every CPU gives the same bits.
#[multiversion(targets("x86_64+avx2"))]
fn step_blocks<F: Float, E: Env<F>>(
    env: &E,
    state: &mut [F],
    actions: Actions<'_>,
    out: &mut StepOut<'_>,
    clock: &mut EpisodeClock,
    ended_rows: &mut Vec<usize>,
) {
    let spec = env.spec();
    let (obs_dim, action_dim) = (spec.observation.dim(), spec.action.dim());
    let blocks = state
        .chunks_mut(BLOCK * spec.state_dim)
        .zip(out.obs.chunks_mut(BLOCK * obs_dim).zip(out.rewards.chunks_mut(BLOCK)))
        .zip(out.terminated.chunks_mut(BLOCK).zip(out.truncated.chunks_mut(BLOCK)));
    for (block, ((state, (obs, rewards)), (terminated, truncated))) in blocks.enumerate() {
        let rows = rewards.len();
        let actions = actions.rows(block * BLOCK, rows, action_dim);
        env.step(state, actions, rewards, terminated);
        env.observe(state, rows, obs);
        clock.flag_truncated(block, truncated);
        append_ended(block * BLOCK, terminated, truncated, ended_rows);
    }
}

/// Appends the rows with a flag set; the slices begin at row `start`. Such rows are almost always few.
#[inline(always)]
fn append_ended(start: usize, terminated: &[bool], truncated: &[bool], ended_rows: &mut Vec<usize>) {
    let ((terminated_words, terminated_rest), (truncated_words, truncated_rest)) =
        (terminated.as_chunks::<8>(), truncated.as_chunks::<8>());
    for (word, (left, right)) in terminated_words.iter().zip(truncated_words).enumerate() {
        let mut flags = u64::from_le_bytes(left.map(u8::from)) | u64::from_le_bytes(right.map(u8::from));
        while flags != 0 {
            ended_rows.push(start + word * 8 + flags.trailing_zeros() as usize / 8);
            flags &= flags - 1;
        }
    }
    let start = start + terminated_words.len() * 8;
    for (row, (left, right)) in (start..).zip(terminated_rest.iter().zip(truncated_rest)) {
        if *left || *right {
            ended_rows.push(row);
        }
    }
}

/// Returns where the state of `row` is: the start of its block, the distance between columns, and
/// the index in a column.
fn locate_row(len: usize, dim: usize, row: usize) -> (usize, usize, usize) {
    let block_start = row / BLOCK * BLOCK;
    (block_start * dim, (len / dim.max(1) - block_start).clamp(1, BLOCK), row - block_start)
}

/// Writes the state of the environment `row` into the columns of its block.
fn scatter<F: Float>(values: &[F], state: &mut [F], row: usize) {
    let (block, column, row) = locate_row(state.len(), values.len(), row);
    for (value, start) in values.iter().zip((block + row..).step_by(column)) {
        if let Some(slot) = state.get_mut(start) {
            *slot = *value;
        }
    }
}
