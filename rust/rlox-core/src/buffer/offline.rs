//! Datasets for offline learning: loaded once, then read only.

use super::archive::Archive;
use super::draw::Draws;
use super::replay::{DrawState, Request, check_filled};
use super::returns::{Episode, ReturnStats, to_go};
use super::rows::Moment;
use super::scaling::Scaling;
use super::schema::Schema;
use super::storage::{Row, Rows, Storage, Target};
use crate::Dtype;
use crate::error::{Error, Result, check_len};

/// Rows that are normalised and stored at a time.
const BLOCK: usize = 1_024;

/// The transitions of a dataset, in the order of time, episode after episode.
///
/// A row with `terminated` or `truncated` ends an episode; rows after the last such row are one
/// more episode, which is incomplete. It is sampled from and counted like the others.
#[derive(Debug)]
pub struct OfflineDataset {
    pub(super) storage: Storage,
    pub(super) draws: DrawState,
    pub(super) episodes: Vec<Episode>,
    /// Undiscounted sum of the rewards from each row to the end of its episode, `[n]`.
    pub(super) to_go: Vec<f64>,
    pub(super) scaling: Vec<Option<Scaling>>,
    pub(super) normalized: bool,
    pub(super) archive: Archive,
}

/// A stretch of one episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its first row in the dataset.
    pub start: usize,
    /// Rows, from 1 to the length asked for.
    pub len: usize,
    /// Steps of the episode before `start`.
    pub timestep: usize,
}

/// Where windows are written, `[windows, len, ...]` in row-major bytes.
#[derive(Debug)]
pub struct WindowArrays<'a> {
    /// The observations.
    pub obs: &'a mut [u8],
    /// The actions.
    pub actions: &'a mut [u8],
    /// The rewards.
    pub rewards: &'a mut [u8],
    /// Undiscounted sum of the rewards from a row to the end of its episode, in the rewards' type.
    pub returns_to_go: &'a mut [u8],
    /// Steps of the episode before a row.
    pub timesteps: &'a mut [i64],
    /// 1 for a row, 0 for padding.
    pub mask: &'a mut [u8],
}

impl OfflineDataset {
    /// Stores `rows`; with `normalize` each float observation as (x - mean) / std of its element.
    ///
    /// An observation that is both `next_obs` of a row and `obs` of the next is stored once.
    ///
    /// # Errors
    /// [`Error::Shape`] or [`Error::Config`] for rows that do not fit the schema or no rows;
    /// [`Error::NonFinite`] for NaN or infinity in observations, actions or rewards;
    /// [`Error::Config`] for observations without a float column to normalise.
    pub fn new(schema: Schema, rows: Rows<'_>, normalize: bool, seed: u64) -> Result<Self> {
        if rows.n == 0 {
            return Err(Error::config("rewards", "empty", "at least one transition"));
        }
        check_columns(&schema, &rows)?;
        let rewards = rows.columns.get(Schema::REWARDS).copied().unwrap_or_default();
        let rewards = floats(schema_dtype(&schema, Schema::REWARDS), rewards);
        let (episodes, to_go) = to_go(&rewards, rows.terminated, rows.truncated);
        let scaling = scaling(&schema, &rows);
        if normalize && scaling.iter().all(Option::is_none) {
            let got = schema.obs().first().map_or("", |column| column.field.dtype.name());
            return Err(Error::config("normalize", got, "float32 or float64 observations"));
        }
        let mut storage = Storage::new(schema, rows.n, 1)?;
        for start in (0..rows.n).step_by(BLOCK) {
            let end = rows.n.min(start + BLOCK);
            store(&mut storage, &rows, start..end, normalize.then_some(&scaling))?;
        }
        let (draws, archive) = (DrawState::new(seed), Archive::default());
        Ok(Self { storage, draws, episodes, to_go, scaling, normalized: normalize, archive })
    }

    /// The rows, observations as they are sampled.
    #[must_use]
    pub const fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Where draws come from.
    #[must_use]
    pub const fn draws(&self) -> &DrawState {
        &self.draws
    }

    /// Whether observations are normalised.
    #[must_use]
    pub const fn normalized(&self) -> bool {
        self.normalized
    }

    /// Mean and deviation of an observation column as it was passed in; None unless it is float.
    #[must_use]
    pub fn scaling(&self, column: usize) -> Option<&Scaling> {
        self.scaling.get(column).and_then(Option::as_ref)
    }

    /// The episodes in order, the incomplete one at the end included.
    #[must_use]
    pub fn episodes(&self) -> &[Episode] {
        &self.episodes
    }

    /// Returns and lengths of the episodes.
    #[must_use]
    pub fn stats(&self) -> ReturnStats {
        ReturnStats::of(&self.episodes)
    }

    /// Draws transitions, uniformly and with replacement, batch after batch.
    ///
    /// # Errors
    /// [`Error::Config`] for a request out of range.
    pub fn sample(&self, request: Request) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(request.rows()?);
        check_filled(&self.storage)?;
        let (seed, first) = self.draws.take(request.seed, request.n_batches);
        for batch in 0..request.n_batches as u64 {
            let mut draws = Draws::new(seed, first.wrapping_add(batch));
            self.storage.draw(&mut draws, request.batch_size, &mut rows);
        }
        Ok(rows)
    }

    /// Checks the windows of a request.
    ///
    /// # Errors
    /// [`Error::Config`] for a request out of range or a `len` of 0.
    pub fn check(request: Request, len: usize) -> Result<()> {
        let total = request.rows()?.checked_mul(len);
        if len == 0 || total.is_none_or(|total| total > super::replay::MAX_BATCH) {
            return Err(Error::config("seq_len", len, "at least 1, and 2**28 rows a call at most"));
        }
        Ok(())
    }

    /// Draws windows of up to `len` rows whose first row is uniform over the dataset (an episode is
    /// met in proportion to its length, as in Chen et al. 2021, "Decision Transformer"). A window
    /// ends with its episode.
    ///
    /// # Errors
    /// [`Error::Config`] for a request out of range or a `len` of 0.
    pub fn sample_windows(&self, request: Request, len: usize) -> Result<Vec<Window>> {
        Self::check(request, len)?;
        let (seed, first) = self.draws.take(request.seed, request.n_batches);
        let mut windows = Vec::with_capacity(request.rows()?);
        for batch in 0..request.n_batches as u64 {
            let mut draws = Draws::new(seed, first.wrapping_add(batch));
            windows.extend((0..request.batch_size).map(|_| {
                let start = draws.below(self.to_go.len());
                let after = self.episodes.partition_point(|episode| episode.start <= start);
                let episode = after.checked_sub(1).and_then(|at| self.episodes.get(at));
                let (begin, end) = episode.map_or((0, start + 1), |e| (e.start, e.start + e.len));
                Window { start, len: len.min(end - start), timestep: start - begin }
            }));
        }
        Ok(windows)
    }

    /// Undiscounted sum of the rewards from a row to the end of its episode.
    #[must_use]
    pub fn return_to_go(&self, row: usize) -> f64 {
        self.to_go.get(row).copied().unwrap_or(0.0)
    }

    /// Copies windows of `len` places out; places behind a window's rows become zero.
    pub fn fill_windows(&self, windows: &[Window], len: usize, out: WindowArrays<'_>) {
        let WindowArrays { obs, actions, rewards, returns_to_go, timesteps, mask } = out;
        let n = windows.len();
        for (at, window) in windows.iter().enumerate() {
            let rows = window.start..window.start + window.len;
            let rows: Vec<Row> = rows.map(|row| self.storage.row(0, row as u64)).collect();
            let obs = filled_part(obs, (at, n), (window.len, len));
            self.storage.gather_obs(0, Moment::Now, &rows, obs);
            let actions = filled_part(actions, (at, n), (window.len, len));
            self.storage.gather_column(Schema::ACTIONS, &rows, actions);
            let rewards = filled_part(rewards, (at, n), (window.len, len));
            self.storage.gather_column(Schema::REWARDS, &rows, rewards);
            let to_go = filled_part(returns_to_go, (at, n), (window.len, len));
            self.put_returns(*window, to_go);
            filled_part(mask, (at, n), (window.len, len)).fill(1);
            let steps = filled_part(timesteps, (at, n), (window.len, len));
            for (step, t) in steps.iter_mut().zip(window.timestep..) {
                *step = i64::try_from(t).unwrap_or(i64::MAX);
            }
        }
    }

    /// Writes the returns to go of a window in the rewards' type.
    fn put_returns(&self, window: Window, out: &mut [u8]) {
        let sums = self.to_go.get(window.start..).unwrap_or_default();
        let width = out.len().checked_div(window.len).unwrap_or(0);
        for (slot, &sum) in out.chunks_exact_mut(width.max(1)).zip(sums) {
            #[expect(clippy::cast_possible_truncation, reason = "rounding to the rewards' type")]
            match slot.first_chunk_mut::<8>() {
                Some(double) => *double = sum.to_ne_bytes(),
                None => slot.copy_from_slice(&(sum as f32).to_ne_bytes()),
            }
        }
    }
}

/// The first `filled` of `len` places of window `at` of `n`; the others are zeroed.
fn filled_part<T: Copy + Default>(
    out: &mut [T],
    (at, n): (usize, usize),
    (filled, len): (usize, usize),
) -> &mut [T] {
    let each = out.len().checked_div(n).unwrap_or(0);
    let window = out.get_mut(at * each..(at + 1) * each).unwrap_or_default();
    let filled = each.checked_div(len).unwrap_or(0) * filled;
    let (rows, padding) = window.split_at_mut(filled.min(each));
    padding.fill(T::default());
    rows
}

pub(super) fn schema_dtype(schema: &Schema, column: usize) -> Dtype {
    schema.columns().get(column).map_or(Dtype::F32, |field| field.dtype)
}

/// Moments of every float observation column.
fn scaling(schema: &Schema, rows: &Rows<'_>) -> Vec<Option<Scaling>> {
    let columns = schema.obs().iter().zip(rows.obs);
    columns
        .map(|(column, bytes)| {
            let (dtype, width) = (column.field.dtype, column.field.len());
            is_float(dtype).then(|| Scaling::of(&floats(dtype, bytes), width))
        })
        .collect()
}

/// Checks sizes, and that floats are finite.
fn check_columns(schema: &Schema, rows: &Rows<'_>) -> Result<()> {
    let obs = schema.obs().iter().map(|column| &column.field);
    for (name, given) in [("obs", Some(rows.obs)), ("next_obs", rows.next_obs)] {
        let Some(given) = given else { continue };
        check_len(name, given.len(), schema.obs().len(), "observation columns of the schema")?;
        for (field, bytes) in obs.clone().zip(given) {
            check_len(name, bytes.len(), rows.n * field.row_bytes(), "bytes")?;
            finite(name, field.dtype, bytes)?;
        }
    }
    check_len("columns", rows.columns.len(), schema.columns().len(), "those of the schema")?;
    for (at, (field, bytes)) in schema.columns().iter().zip(rows.columns).enumerate() {
        let name = ["actions", "rewards"].get(at).copied().unwrap_or("an extra column");
        check_len(name, bytes.len(), rows.n * field.row_bytes(), "bytes")?;
        finite(name, field.dtype, bytes)?;
    }
    check_len("terminated", rows.terminated.len(), rows.n, "one per row")?;
    check_len("truncated", rows.truncated.len(), rows.n, "one per row")
}

fn finite(name: &'static str, dtype: Dtype, bytes: &[u8]) -> Result<()> {
    if is_float(dtype) { crate::error::check_finite(name, &floats(dtype, bytes)) } else { Ok(()) }
}

/// Pushes some of the rows, normalised if `scaling` is given.
fn store(
    storage: &mut Storage,
    rows: &Rows<'_>,
    part: std::ops::Range<usize>,
    scaling: Option<&Vec<Option<Scaling>>>,
) -> Result<()> {
    let schema = storage.schema().clone();
    let cut = |bytes: &[u8], width: usize| -> Vec<u8> {
        bytes.get(part.start * width..part.end * width).unwrap_or_default().to_vec()
    };
    let observations = |given: &[&[u8]]| -> Vec<Vec<u8>> {
        let columns = schema.obs().iter().zip(given).enumerate();
        columns
            .map(|(at, (column, bytes))| {
                let mut bytes = cut(bytes, column.field.row_bytes());
                let scaling = scaling.and_then(|all| all.get(at)).and_then(Option::as_ref);
                if let Some(scaling) = scaling {
                    scaling.apply(column.field.dtype, &mut bytes);
                }
                bytes
            })
            .collect()
    };
    let (obs, next_obs) = (observations(rows.obs), rows.next_obs.map(observations));
    let fields = schema.columns().iter().zip(rows.columns);
    let columns: Vec<Vec<u8>> =
        fields.map(|(field, bytes)| cut(bytes, field.row_bytes())).collect();
    let [obs, columns] = [&obs, &columns].map(|all| all.iter().map(Vec::as_slice).collect());
    let next_obs: Option<Vec<&[u8]>> =
        next_obs.as_ref().map(|all| all.iter().map(Vec::as_slice).collect());
    let (obs, columns): (Vec<&[u8]>, Vec<&[u8]>) = (obs, columns);
    let block = Rows {
        n: part.len(),
        obs: &obs,
        next_obs: next_obs.as_deref(),
        columns: &columns,
        terminated: rows.terminated.get(part.clone()).unwrap_or_default(),
        truncated: rows.truncated.get(part.clone()).unwrap_or_default(),
    };
    storage.push(Target::Stream(0), block, |_| {})
}

pub(super) const fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F64)
}

/// The numbers behind the bytes of a float column; nothing for another type.
pub(super) fn floats(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        Dtype::F32 => {
            bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_ne_bytes(*b))).collect()
        }
        Dtype::F64 => bytes.as_chunks().0.iter().map(|b| f64::from_ne_bytes(*b)).collect(),
        _ => Vec::new(),
    }
}
