//! An adapter to the replay buffer's public API. The other files of this test use only the adapter.

use std::path::Path;

use proptest::prelude::*;
use rlox_core::buffer::{
    BatchKind, BatchPart, EnvIndex, FrameStack, GoalStrategy, Hindsight, InMemoryBuffer, NStep, ObsField,
    OwnedBatch, ReplayBuffer, RowRef, SampleRequest, Schema, StackAxis, Transitions, sampler_by_name,
};
use rlox_core::{Dtype, Error, Field};

/// One observation column: `len` numbers in each of `frames` frames. Without an axis it is a plain
/// column, and has one frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObsColumn {
    pub(crate) dtype: Dtype,
    pub(crate) len: usize,
    pub(crate) frames: usize,
    pub(crate) axis: Option<StackAxis>,
}

impl ObsColumn {
    /// Returns a strategy that generates any column.
    pub(crate) fn any() -> impl Strategy<Value = Self> {
        let dtype = prop_oneof![Just(Dtype::U8), Just(Dtype::F32), Just(Dtype::F64)];
        let axis = prop_oneof![Just(None), Just(Some(StackAxis::First)), Just(Some(StackAxis::Last))];
        (dtype, 1..4_usize, 2..4_usize, axis).prop_map(|(dtype, len, frames, axis)| Self {
            dtype,
            len,
            frames: if axis.is_some() { frames } else { 1 },
            axis,
        })
    }

    /// Returns the bytes of observation `k`: frame `k`, or the frames from `k` on along the axis.
    pub(crate) fn bytes(&self, k: u8) -> Vec<u8> {
        let element = |frame: usize, at: usize| {
            let number = u8::try_from((usize::from(k) + frame) % 6 * 16 + at).unwrap();
            match self.dtype {
                Dtype::F32 => f32::from(number).to_ne_bytes().to_vec(),
                Dtype::F64 => f64::from(number).to_ne_bytes().to_vec(),
                _ => vec![number],
            }
        };
        let last = self.axis == Some(StackAxis::Last);
        let (outer, inner) = if last { (self.len, self.frames) } else { (self.frames, self.len) };
        let positions = (0..outer).flat_map(|a| (0..inner).map(move |b| (a, b)));
        positions.flat_map(|(a, b)| if last { element(b, a) } else { element(a, b) }).collect()
    }

    fn field(&self, name: String) -> ObsField {
        let shape = match self.axis {
            None => vec![self.len],
            Some(StackAxis::First) => vec![self.frames, self.len],
            Some(StackAxis::Last) => vec![self.len, self.frames],
        };
        let stack = self.axis.map(|axis| FrameStack { size: self.frames, axis });
        ObsField { field: Field::new(name, self.dtype, shape), stack }
    }
}

/// A row to push. Its observations are numbers, which each column turns into bytes.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) env: usize,
    pub(crate) obs: u8,
    pub(crate) next: u8,
    pub(crate) number: i16,
    pub(crate) terminated: bool,
    pub(crate) truncated: bool,
}

/// A row of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BatchRow {
    pub(crate) index: u64,
    pub(crate) obs: Vec<Vec<u8>>,
    pub(crate) next: Vec<Vec<u8>>,
    pub(crate) action: f32,
    pub(crate) reward: f64,
    pub(crate) flags: (bool, bool),
}

/// The environments of the rows in a push.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowEnvs {
    /// Row i is of environment i.
    Each,
    /// All rows are of this environment, in time order.
    One(usize),
    /// Each row is of its own `env`.
    Mixed,
}

/// A buffer of actions (float32), rewards (float64) and any observations.
pub(crate) struct Buffer {
    columns: Vec<ObsColumn>,
    inner: ReplayBuffer,
    n_envs: usize,
}

impl Buffer {
    pub(crate) fn new(columns: &[ObsColumn], capacity: usize, n_envs: usize) -> Self {
        let names = (0..columns.len()).map(|at| format!("obs{at}"));
        let obs = columns.iter().zip(names).map(|(column, name)| column.field(name)).collect();
        let schema = Schema::new(obs, (Dtype::F32, vec![1]), Dtype::F64, Vec::new()).unwrap();
        let inner =
            ReplayBuffer::new(schema, capacity, n_envs, 3, sampler_by_name("uniform").unwrap()).unwrap();
        Self { columns: columns.to_vec(), inner, n_envs }
    }

    /// Makes an empty buffer with the same settings.
    fn empty(&self) -> Self {
        Self::new(&self.columns, self.inner.rows().rings().capacity(), self.n_envs)
    }

    pub(crate) fn push(&mut self, steps: &[Step], row_envs: RowEnvs, with_next: bool) {
        let encode = |value: &dyn Fn(&Step, &ObsColumn) -> Vec<u8>| -> Vec<Vec<u8>> {
            let rows = |column| steps.iter().flat_map(|step| value(step, column)).collect();
            self.columns.iter().map(rows).collect()
        };
        let obs_columns = encode(&|step, column| column.bytes(step.obs));
        let next_columns = encode(&|step, column| column.bytes(step.next));
        let obs_slices: Vec<&[u8]> = obs_columns.iter().map(Vec::as_slice).collect();
        let next_slices: Vec<&[u8]> = next_columns.iter().map(Vec::as_slice).collect();
        let number = |step: &Step| f32::from(step.number);
        let actions: Vec<u8> = steps.iter().flat_map(|s| number(s).to_ne_bytes()).collect();
        let rewards: Vec<u8> = steps.iter().flat_map(|s| f64::from(s.number).to_ne_bytes()).collect();
        let terminated: Vec<u8> = steps.iter().map(|s| u8::from(s.terminated)).collect();
        let truncated: Vec<u8> = steps.iter().map(|s| u8::from(s.truncated)).collect();
        let ids: Vec<usize> = steps.iter().map(|step| step.env).collect();
        let rows = Transitions {
            n: steps.len(),
            obs: &obs_slices,
            next_obs: with_next.then_some(&next_slices),
            columns: &[&actions, &rewards],
            terminated: &terminated,
            truncated: &truncated,
        };
        let to = match row_envs {
            RowEnvs::Each => EnvIndex::Each,
            RowEnvs::One(env) => EnvIndex::One(env),
            RowEnvs::Mixed => EnvIndex::Ids(&ids),
        };
        self.inner.push(to, rows, None).unwrap();
    }

    pub(crate) fn cut(&mut self, env: usize) {
        self.inner.cut_episode(env).unwrap();
    }

    pub(crate) fn clear(&mut self) {
        self.inner.clear();
    }

    /// Writes rewards. Returns how many of the rows are no longer stored, or None if one was never
    /// pushed.
    pub(crate) fn update(&mut self, indices: &[u64], rewards: &[f64]) -> Option<u64> {
        let values: Vec<u8> = rewards.iter().flat_map(|reward| reward.to_ne_bytes()).collect();
        match self.inner.update(Schema::REWARDS, indices, &values) {
            Err(Error::StaleIndex { .. }) => None,
            result => Some(result.unwrap()),
        }
    }

    /// Returns the indices of the stored rows, one environment after the other.
    pub(crate) fn held_indices(&self) -> Vec<u64> {
        let rings = self.inner.rows().rings();
        rings.rows().map(|row| rings.index(row)).collect()
    }

    /// Returns rows by their indices, or None if one is not stored.
    pub(crate) fn gather(&self, indices: &[u64]) -> Option<Vec<BatchRow>> {
        let rows = indices.iter().map(|&index| self.inner.rows().rings().find(index));
        let rows: Vec<RowRef> = rows.collect::<Result<_, _>>().ok()?;
        Some(self.batch(&rows, None).0)
    }

    /// Samples a batch. With `n_step`, its rows are n-step windows with discounts.
    pub(crate) fn sample(
        &self,
        batch_size: usize,
        seed: Option<u64>,
        n_step: Option<(usize, f64)>,
    ) -> (Vec<BatchRow>, Vec<f32>) {
        let request = SampleRequest { batch_size, n_batches: 1, len: 1, seed };
        let sampled_batch = self.inner.sample(request).unwrap();
        self.batch(&sampled_batch.rows, n_step.map(|(n, gamma)| NStep::new(n, gamma).unwrap()))
    }

    /// Samples a batch with hindsight. Returns the index of each row and, for each relabelled row,
    /// its position and the index of the row that achieved the new goal.
    pub(crate) fn sample_goals(
        &self,
        batch_size: usize,
        strategy: &str,
        ratio: f64,
    ) -> (Vec<u64>, Vec<(usize, u64)>) {
        let hindsight = Hindsight::new(GoalStrategy::parse(strategy).unwrap(), ratio).unwrap();
        let request = SampleRequest { batch_size, n_batches: 1, len: 1, seed: Some(1) };
        let sampled_batch = self.inner.sample_hindsight(request, hindsight).unwrap();
        let index = |row| self.inner.rows().rings().index(row);
        let goals = sampled_batch.relabels.iter().map(|relabel| (relabel.index, index(relabel.goal)));
        (sampled_batch.rows.iter().map(|&row| index(row)).collect(), goals.collect())
    }

    /// Saves this buffer, and returns another one that loads the save.
    pub(crate) fn save_and_load(&mut self, folder: &Path) -> Self {
        self.inner.save(folder, "last").unwrap();
        let mut other = self.empty();
        other.inner.load(folder, "last").unwrap();
        other
    }

    /// Returns another buffer, restored from the state of this one.
    pub(crate) fn restore_copy(&self) -> Self {
        let mut other = self.empty();
        other.inner.restore(&self.inner.state()).unwrap();
        other
    }

    fn batch(&self, rows: &[RowRef], n_step: Option<NStep>) -> (Vec<BatchRow>, Vec<f32>) {
        let kind = if n_step.is_some() { BatchKind::NStep } else { BatchKind::Transitions };
        let mut all = OwnedBatch::new(self.inner.rows().schema(), kind, rows.len());
        all.fill(|batch| self.inner.gather(rows, n_step, batch)).unwrap();
        let row = |at: usize, part: BatchPart| {
            let bytes = all.bytes(part);
            let width = bytes.len() / rows.len();
            bytes[at * width..(at + 1) * width].to_vec()
        };
        let columns = |at: usize, part: fn(usize) -> BatchPart| {
            (0..self.columns.len()).map(|column| row(at, part(column))).collect()
        };
        let batch_rows = (0..rows.len()).map(|at| BatchRow {
            obs: columns(at, BatchPart::Obs),
            next: columns(at, BatchPart::NextObs),
            action: f32::from_ne_bytes(row(at, BatchPart::Column(0)).try_into().unwrap()),
            reward: f64::from_ne_bytes(row(at, BatchPart::Column(1)).try_into().unwrap()),
            flags: (row(at, BatchPart::Terminated) == [1], row(at, BatchPart::Truncated) == [1]),
            index: u64::from_ne_bytes(row(at, BatchPart::Indices).try_into().unwrap()),
        });
        (batch_rows.collect(), all.f32(BatchPart::Discounts))
    }
}
