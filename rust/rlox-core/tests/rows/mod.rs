//! Rows for tests of buffers. Every byte follows from step and environment.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]

use rlox_core::buffer::{
    Batch, BatchKind, BatchPart, EnvIndex, FrameStack, ObsField, OwnedBatch, SampleRequest, Schema,
    StackAxis, Transitions,
};
use rlox_core::{Dtype, Field};

/// Returns a schema of a vector, a stack of three frames of bytes, and an extra column.
pub(crate) fn schema() -> Schema {
    let plain = ObsField { field: Field::new("x", Dtype::F32, [2]), stack: None };
    let stack = Some(FrameStack { size: 3, axis: StackAxis::First });
    let stacked = ObsField { field: Field::new("pixels", Dtype::U8, [3, 5]), stack };
    let extra = vec![Field::new("latent", Dtype::F32, [2])];
    Schema::new(vec![plain, stacked], (Dtype::F32, vec![1]), Dtype::F32, extra).unwrap()
}

/// Passes one row for each of `n` environments at step `t` to `store`. An episode ends every 11
/// steps. Odd steps have no `next_obs`.
pub(crate) fn push(t: u64, n: usize, mut store: impl FnMut(EnvIndex<'_>, Transitions<'_>)) {
    let x: Vec<u8> = (0..n * 2).flat_map(|i| (t as f32 + i as f32 / 100.0).to_ne_bytes()).collect();
    let frame = |t: u64, env: usize| [t as u8, (t >> 8) as u8, env as u8, 0, 1];
    let pixels = |t: u64| -> Vec<u8> {
        (0..n).flat_map(|env| [t, t + 1, t + 2].into_iter().flat_map(move |k| frame(k, env))).collect()
    };
    let (frames, next_frames, next_x) =
        (pixels(t), pixels(t + 1), x.iter().rev().copied().collect::<Vec<u8>>());
    let numbers: Vec<u8> = (0..n).flat_map(|i| (t as f32 * 3.0 + i as f32).to_ne_bytes()).collect();
    let latent = vec![0; 8 * n];
    let ends = vec![u8::from(t % 11 == 10); n];
    let next_columns: [&[u8]; 2] = [&next_x, &next_frames];
    let rows = Transitions {
        n,
        obs: &[&x, &frames],
        next_obs: t.is_multiple_of(2).then_some(&next_columns),
        columns: &[&numbers, &numbers, &latent],
        terminated: &ends,
        truncated: &vec![0; n],
    };
    store(EnvIndex::Each, rows);
}

/// The bytes of a batch of [`schema`].
#[derive(Debug, PartialEq)]
pub(crate) struct Outputs {
    /// Observations and next observations.
    pub(crate) obs: [Vec<u8>; 4],
    /// Actions, rewards, latents.
    pub(crate) columns: [Vec<u8>; 3],
    /// `terminated` and `truncated`.
    pub(crate) flags: [Vec<u8>; 2],
    /// Index of each row.
    pub(crate) indices: Vec<u64>,
    /// Empty except for n-step windows.
    pub(crate) discounts: Vec<u8>,
}

/// Returns the arrays that `fill` writes for `n` rows.
pub(crate) fn collect_outputs(
    n: usize,
    kind: BatchKind,
    fill: impl FnOnce(&mut Batch<'_, '_>) -> rlox_core::Result<()>,
) -> Outputs {
    let mut arrays = OwnedBatch::new(&schema(), kind, n);
    arrays.fill(fill).unwrap();
    let bytes = |part| arrays.bytes(part).to_vec();
    let indices = bytes(BatchPart::Indices);
    Outputs {
        obs: [BatchPart::Obs(0), BatchPart::Obs(1), BatchPart::NextObs(0), BatchPart::NextObs(1)].map(bytes),
        columns: [0, 1, 2].map(|column| bytes(BatchPart::Column(column))),
        flags: [BatchPart::Terminated, BatchPart::Truncated].map(bytes),
        indices: indices.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect(),
        discounts: bytes(BatchPart::Discounts),
    }
}

/// Returns a request for one batch.
pub(crate) fn request(batch_size: usize, seed: Option<u64>) -> SampleRequest {
    SampleRequest { batch_size, n_batches: 1, len: 1, seed }
}
