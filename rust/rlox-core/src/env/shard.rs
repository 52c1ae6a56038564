//! A fixed number of environments of one kind that one thread steps together.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use std::hint;

use multiversion::multiversion;

use super::batch::{Batch, Ended};
use super::block::BLOCK;
use super::clock::Clock;
use super::seeding::Key;
use super::undo::{Mark, Undo};
use super::{Actions, DenseFinals, Env, Float, Spec, StepOut};
use crate::seed::Stream;

/// Environments with the rules `E` and state of type `F`.
pub(super) struct Shard<F, E: 'static> {
    env: &'static E,
    /// One `[state_dim, BLOCK]` after the other; the last one has the remaining rows.
    state: Vec<F>,
    clock: Clock,
    streams: Vec<Stream>,
    /// Scratch memory for episode starts: states of environments, `[k, state_dim]`.
    starts: Vec<F>,
    ended: Ended,
    /// The saved state, while changes can be undone.
    undo: Option<Undo<F>>,
    /// Streams that must be restored before their next use. Restoring takes as long as drawing, and
    /// an interrupted caller must not wait for it.
    rewind: Vec<Mark>,
}

impl<F: Float, E: Env<F>> Shard<F, E> {
    /// Returns environments with these streams, each at the start of an episode.
    pub(super) fn new(env: &'static E, streams: Vec<Stream>) -> Self {
        let (rows, spec) = (streams.len(), env.spec());
        let mut shard = Self {
            env,
            state: vec![F::default(); rows * spec.state_dim],
            clock: Clock::new(rows, spec.max_episode_steps, BLOCK),
            streams,
            starts: Vec::new(),
            ended: Ended::default(),
            undo: None,
            rewind: Vec::new(),
        };
        shard.reset();
        shard
    }

    /// Restores the streams to their positions before the undone work.
    fn rewind_streams(&mut self) {
        for mark in std::mem::take(&mut self.rewind) {
            mark.apply(&mut self.streams);
        }
    }

    /// Moves the observations of ended episodes to `ended` and writes those of the next episodes in
    /// their place.
    fn restart_ended(&mut self, obs: &mut [f32]) {
        let Spec { state_dim, observation, .. } = *self.env.spec();
        let (dim, rows) = (observation.dim(), &self.ended.rows);
        self.starts.resize(rows.len() * state_dim, F::default());
        self.ended.obs.clear();
        // All positions are read before all draws. Each read waits for memory, and so the waits
        // overlap.
        let positions = rows.iter().filter_map(|&row| Some(self.streams.get(row)?.position()));
        hint::black_box(positions.fold(0, u64::wrapping_add));
        if let Some(undo) = &mut self.undo {
            let marks = rows.iter().filter_map(|&row| Some(Mark::of(row, self.streams.get(row)?)));
            undo.marks.extend(marks);
        }
        for (&row, start) in rows.iter().zip(self.starts.chunks_exact_mut(state_dim)) {
            if let Some(stream) = self.streams.get_mut(row) {
                self.env.start(stream, start);
            }
        }
        for (&row, start) in rows.iter().zip(self.starts.chunks_exact(state_dim)) {
            if let Some(obs) = obs.get_mut(row * dim..(row + 1) * dim) {
                self.ended.obs.extend(obs.iter());
                self.env.observe(start, 1, obs);
            }
            scatter(start, &mut self.state, row);
            self.clock.restart(row);
        }
    }
}

impl<F: Float, E: Env<F>> Batch for Shard<F, E> {
    fn step(&mut self, actions: Actions<'_>, mut out: StepOut<'_>, last: Option<DenseFinals<'_>>) {
        self.rewind_streams();
        self.ended.rows.clear();
        self.clock.tick();
        let (state, clock, ended) = (&mut self.state, &mut self.clock, &mut self.ended.rows);
        step_blocks(self.env, state, actions, &mut out, clock, ended);
        if let Some(last) = last {
            // The observations are in a cache now.
            last.obs.copy_from_slice(out.obs);
            last.mask.fill(false);
            for &row in &self.ended.rows {
                if let Some(ended) = last.mask.get_mut(row) {
                    *ended = true;
                }
            }
        }
        self.restart_ended(out.obs);
    }

    fn reset(&mut self) {
        self.rewind_streams();
        if let Some(undo) = &mut self.undo {
            undo.marks.extend((0..).zip(&self.streams).map(|(row, stream)| Mark::of(row, stream)));
        }
        self.clock.restart_all();
        self.starts.resize(self.env.spec().state_dim, F::default());
        for (row, stream) in self.streams.iter_mut().enumerate() {
            self.env.start(stream, &mut self.starts);
            scatter(&self.starts, &mut self.state, row);
        }
        self.ended.rows.clear();
        self.ended.obs.clear();
    }

    fn observe(&self, obs: &mut [f32]) {
        let spec = self.env.spec();
        let blocks = self.state.chunks(BLOCK * spec.state_dim);
        for (state, obs) in blocks.zip(obs.chunks_mut(BLOCK * spec.observation.dim())) {
            self.env.observe(state, state.len() / spec.state_dim, obs);
        }
    }

    fn ended(&self) -> &Ended {
        &self.ended
    }

    fn positions(&self) -> Vec<u64> {
        let mut positions: Vec<u64> = self.streams.iter().map(Stream::position).collect();
        for (row, position) in self.rewind.iter().map(Mark::position) {
            if let Some(place) = positions.get_mut(row) {
                *place = position;
            }
        }
        positions
    }

    fn set_streams(&mut self, streams: Vec<Stream>, keys: &[Key]) {
        self.rewind_streams();
        if let Some(undo) = &mut self.undo {
            let old = (0..).zip(self.streams.iter().zip(keys));
            undo.marks.extend(old.map(|(row, (stream, &key))| Mark::replaced(row, stream, key)));
        }
        self.streams = streams;
    }

    fn keep(&mut self) {
        self.undo =
            Some(Undo { state: self.state.clone(), clock: self.clock.clone(), marks: Vec::new() });
    }

    fn take_back(&mut self) {
        if let Some(undo) = self.undo.take() {
            self.state = undo.state;
            self.clock = undo.clock;
            // Marks from before the save were applied before the first new one.
            if !undo.marks.is_empty() {
                self.rewind = undo.marks;
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
            let (block, column, row) = place(self.state.len(), dim, row);
            let values = self.state.iter().skip(block + row).step_by(column);
            for (out, value) in out.iter_mut().zip(values) {
                *out = value.to_f64();
            }
        }
    }

    fn write_state(&mut self, state: &[f64]) {
        for (row, values) in state.chunks_exact(self.env.spec().state_dim).enumerate() {
            self.starts.clear();
            self.starts.extend(values.iter().map(|&value| F::from_f64(value)));
            scatter(&self.starts, &mut self.state, row);
        }
    }
}

/// Steps, observes and flags the blocks in order; appends the rows that ended.
// Without fused multiply-add, so that every CPU gives the same bits.
#[multiversion(targets("x86_64+avx2"))]
fn step_blocks<F: Float, E: Env<F>>(
    env: &E,
    state: &mut [F],
    actions: Actions<'_>,
    out: &mut StepOut<'_>,
    clock: &mut Clock,
    ended: &mut Vec<usize>,
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
        clock.truncated(block, truncated);
        append_ended(block * BLOCK, terminated, truncated, ended);
    }
}

/// Appends the rows with a flag; the first row is row `start`. There are almost always few.
#[inline(always)]
fn append_ended(start: usize, terminated: &[bool], truncated: &[bool], ended: &mut Vec<usize>) {
    let ((words, rest), (more_words, more)) =
        (terminated.as_chunks::<8>(), truncated.as_chunks::<8>());
    for (part, (left, right)) in words.iter().zip(more_words).enumerate() {
        let mut flags =
            u64::from_le_bytes(left.map(u8::from)) | u64::from_le_bytes(right.map(u8::from));
        while flags != 0 {
            ended.push(start + part * 8 + flags.trailing_zeros() as usize / 8);
            flags &= flags - 1;
        }
    }
    let start = start + words.len() * 8;
    for (row, (left, right)) in (start..).zip(rest.iter().zip(more)) {
        if *left || *right {
            ended.push(row);
        }
    }
}

/// Returns the position of the state of `row`: start of its block, distance between columns, index
/// in a column.
fn place(len: usize, dim: usize, row: usize) -> (usize, usize, usize) {
    let start = row / BLOCK * BLOCK;
    (start * dim, (len / dim.max(1) - start).clamp(1, BLOCK), row - start)
}

/// Writes one environment's state into its place in every column.
fn scatter<F: Float>(values: &[F], state: &mut [F], row: usize) {
    let (block, column, row) = place(state.len(), values.len(), row);
    for (value, start) in values.iter().zip((block + row..).step_by(column)) {
        if let Some(place) = state.get_mut(start) {
            *place = *value;
        }
    }
}
