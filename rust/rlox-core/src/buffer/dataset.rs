//! Datasets for offline learning, loaded once and then only read.

use super::batch::{Batch, write_floats};
use super::episodes::{Episode, ReturnStats, split_episodes};
use super::persist::{Archive, BufferStorage, ColumnReader, InMemoryBuffer};
use super::rows::{EnvIndex, MemoryRows, RowRef, Rows, Transitions};
use super::sampling::{Draws, SampleRequest, SamplerState, Trajectories, Uniform};
use super::schema::Schema;
use super::standardizer::Standardizer;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::interrupt;

/// Number of rows that are normalised and stored at a time.
const BLOCK: usize = 1_024;

/// Name of the saved column with the moments of every float observation column, in the schema's order.
const MOMENTS: &str = "moments";
/// Name of the saved column that says whether observations are normalised: 0 or 1.
const NORMALIZED: &str = "normalized";

/// The transitions of a dataset in time order, one episode after the other.
///
/// A row with `terminated` or `truncated` ends an episode. Rows after the last such row form one
/// more episode, which is incomplete. It is sampled and counted like the others.
#[derive(Debug)]
pub struct OfflineDataset {
    storage: BufferStorage,
    episodes: Vec<Episode>,
    /// Undiscounted sum of the rewards from each row to the end of its episode, `[n]`.
    returns_to_go: Vec<f64>,
    standardizers: Vec<Option<Standardizer>>,
    is_normalized: bool,
}

impl OfflineDataset {
    /// Makes a dataset of the transitions.
    ///
    /// With `normalize`, each element x of a float observation is stored as (x - mean) / std, with
    /// the mean and std of that element over the dataset. An observation that is both `next_obs` of a
    /// row and `obs` of the next row is stored once.
    ///
    /// # Errors
    /// - [`Error::Shape`] or [`Error::Config`] if there are no rows or they do not fit the schema.
    /// - [`Error::NonFinite`] for NaN or infinity in observations, actions or rewards, or if the
    ///   standard deviation of an observation overflows float64.
    /// - [`Error::Config`] if `normalize` is set and no observation column is float.
    /// - [`Error::Interrupted`].
    pub fn new(schema: Schema, transitions: Transitions<'_>, normalize: bool, seed: u64) -> Result<Self> {
        if transitions.n == 0 {
            return Err(Error::config("rewards", "empty", "at least one transition"));
        }
        let mut rows = MemoryRows::new(schema, transitions.n, 1)?;
        rows.check(EnvIndex::One(0), &transitions)?;
        check_finite(rows.schema(), &transitions)?;
        let columns = rows.schema().obs().iter().zip(transitions.obs);
        let moments = columns.map(|(c, bytes)| Standardizer::fit(c.field.dtype, bytes, c.field.len()));
        let standardizers: Vec<_> = moments.collect::<Result<_>>()?;
        if normalize && standardizers.iter().all(Option::is_none) {
            let got = rows.schema().obs().first().map_or("", |column| column.field.dtype.name());
            return Err(Error::config("normalize", got, "float32 or float64 observations"));
        }
        for start in (0..transitions.n).step_by(BLOCK) {
            interrupt::check()?;
            let part = start..transitions.n.min(start + BLOCK);
            push_range(&mut rows, &transitions, part, normalize.then_some(&standardizers))?;
        }
        let (episodes, to_go) = read_episodes(&rows)?;
        let storage =
            BufferStorage { rows, sampler_state: SamplerState::new(seed), archive: Archive::default() };
        Ok(Self { storage, episodes, returns_to_go: to_go, standardizers, is_normalized: normalize })
    }

    /// Returns whether observations are normalised.
    #[must_use]
    pub const fn is_normalized(&self) -> bool {
        self.is_normalized
    }

    /// Returns the mean and standard deviation of an observation column before normalisation. None
    /// unless the column is float.
    #[must_use]
    pub fn standardizer(&self, column: usize) -> Option<&Standardizer> {
        self.standardizers.get(column).and_then(Option::as_ref)
    }

    /// Returns the episodes in order, including the incomplete one at the end.
    #[must_use]
    pub fn episodes(&self) -> &[Episode] {
        &self.episodes
    }

    /// Returns statistics of the episodes' returns and lengths.
    #[must_use]
    pub fn stats(&self) -> ReturnStats {
        ReturnStats::from_episodes(&self.episodes)
    }

    /// Returns the undiscounted sum of the rewards from a row to the end of its episode.
    #[must_use]
    pub fn return_to_go(&self, row: usize) -> Option<f64> {
        self.returns_to_go.get(row).copied()
    }

    /// Draws batches of transitions, uniformly and with replacement.
    ///
    /// # Errors
    /// [`Error::Config`] if the request is out of range.
    pub fn sample(&self, request: SampleRequest) -> Result<Draws> {
        request.draw(&Uniform, self.rows().rings(), &self.storage.sampler_state, |_, _, _| Ok(()))
    }

    /// Draws windows of up to `request.len` rows; see [`Trajectories`].
    ///
    /// # Errors
    /// Same as [`OfflineDataset::sample`].
    pub fn sample_trajectories(&self, request: SampleRequest) -> Result<Draws> {
        request.draw(&Trajectories, self.rows().rings(), &self.storage.sampler_state, |_, _, _| Ok(()))
    }

    /// Copies windows of `len` rows into `out`.
    ///
    /// Each row also gets its return to go, in the type of the rewards, and the number of steps of
    /// its episode before it. Padding rows become zero.
    ///
    /// # Errors
    /// Same as [`Rows::gather`].
    pub fn gather_trajectories(&self, draws: &Draws, len: usize, out: &mut Batch<'_, '_>) -> Result<()> {
        let row_index = |row: &RowRef| usize::try_from(row.position).unwrap_or(usize::MAX);
        let sums = draws.rows.iter().map(|row| self.returns_to_go.get(row_index(row)).copied());
        let missing = || Error::internal("a row without a return");
        let sums: Vec<f64> = sums.collect::<Option<_>>().ok_or_else(missing)?;
        write_floats(out.returns_to_go, sums.into_iter());
        let timesteps = out.timesteps.as_chunks_mut().0;
        for (row, timestep) in draws.rows.iter().zip(timesteps) {
            let episode_start = self.rows().rings().ring(*row)?.episode(row.position).0;
            *timestep = (row.position - episode_start).to_ne_bytes();
        }
        self.rows().gather_windows(draws, len, out)
    }
}

impl InMemoryBuffer for OfflineDataset {
    fn storage(&self) -> &BufferStorage {
        &self.storage
    }

    fn storage_mut(&mut self) -> &mut BufferStorage {
        &mut self.storage
    }

    fn saved_columns(&self) -> Vec<(&'static str, usize, Vec<u8>)> {
        let moments = self.standardizers.iter().flatten().flat_map(Standardizer::to_row);
        let moments = moments.flat_map(f64::to_le_bytes).collect();
        vec![(MOMENTS, 8, moments), (NORMALIZED, 1, vec![u8::from(self.is_normalized)])]
    }

    /// Adopts a save. Refuses one whose normalisation or number of rows differs from this dataset's.
    fn adopt(&mut self, storage: BufferStorage, columns: &ColumnReader<'_>) -> Result<()> {
        let was_normalized = columns(NORMALIZED)? == [1];
        if was_normalized != self.is_normalized {
            return Err(Error::snapshot("normalize", was_normalized, self.is_normalized));
        }
        let rings = storage.rows.rings();
        if rings.len() != rings.capacity() || rings.n_pushed() != rings.len() as u64 {
            let got = format!("rows {} to {}", rings.n_pushed() - rings.len() as u64, rings.n_pushed());
            return Err(Error::snapshot("dataset", got, format!("{} rows", rings.capacity())));
        }
        let standardizers = parse_moments(storage.rows.schema(), &columns(MOMENTS)?)?;
        (self.episodes, self.returns_to_go) = read_episodes(&storage.rows)?;
        (self.standardizers, self.storage) = (standardizers, storage);
        Ok(())
    }
}

/// Parses the moments of each float observation column.
fn parse_moments(schema: &Schema, bytes: &[u8]) -> Result<Vec<Option<Standardizer>>> {
    let (numbers, leftover) = bytes.as_chunks();
    let numbers: Vec<f64> = numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    let mut rest = numbers.as_slice();
    let length_error = || Error::snapshot(MOMENTS, format!("{} numbers", numbers.len()), "the schema's");
    let mut standardizers = Vec::with_capacity(schema.obs().len());
    for column in schema.obs() {
        let width = column.field.len();
        standardizers.push(if column.field.dtype.is_float() {
            let (row, tail) = rest.split_at_checked(2 * width).ok_or_else(length_error)?;
            rest = tail;
            Some(Standardizer::from_row(row, width).ok_or_else(length_error)?)
        } else {
            None
        });
    }
    if rest.is_empty() && leftover.is_empty() { Ok(standardizers) } else { Err(length_error()) }
}

/// Returns the episodes and the return to go of each stored row.
fn read_episodes(rows: &MemoryRows) -> Result<(Vec<Episode>, Vec<f64>)> {
    let (mut rewards, mut ends) = (Vec::new(), Vec::new());
    if let Some(first) = rows.rings().rows().next() {
        rows.visit_rewards(first, rows.rings().n_pushed(), &mut |_, reward, flags| {
            rewards.push(reward);
            ends.push(flags != 0);
            true
        })?;
    }
    Ok(split_episodes(&rewards, &ends))
}

/// Checks that every float is finite.
fn check_finite(schema: &Schema, rows: &Transitions<'_>) -> Result<()> {
    let obs = schema.obs().iter().map(|column| &column.field);
    for (name, obs_columns) in [("obs", Some(rows.obs)), ("next_obs", rows.next_obs)] {
        for (field, bytes) in obs.clone().zip(obs_columns.unwrap_or_default()) {
            check_column_finite(name, field.dtype, bytes)?;
        }
    }
    for (index, (field, bytes)) in schema.columns().iter().zip(rows.columns).enumerate() {
        let name = ["actions", "rewards"].get(index).copied().unwrap_or("an extra column");
        check_column_finite(name, field.dtype, bytes)?;
    }
    Ok(())
}

fn check_column_finite(name: &'static str, dtype: Dtype, bytes: &[u8]) -> Result<()> {
    for (part, bytes) in bytes.chunks(BLOCK * BLOCK).enumerate() {
        interrupt::check()?;
        let first_invalid =
            super::standardizer::floats(dtype, bytes).enumerate().find(|(_, x)| !x.is_finite());
        if let Some((offset, value)) = first_invalid {
            let index = part * (BLOCK * BLOCK / dtype.size()) + offset;
            return Err(Error::NonFinite { name: name.into(), index, value });
        }
    }
    Ok(())
}

/// Pushes the transitions of the range `part`, normalised if `standardizers` is set.
fn push_range(
    rows: &mut MemoryRows,
    transitions: &Transitions<'_>,
    part: std::ops::Range<usize>,
    standardizers: Option<&Vec<Option<Standardizer>>>,
) -> Result<()> {
    let schema = rows.schema().clone();
    let normalize_columns = |obs_columns: &[&[u8]]| -> Vec<Vec<u8>> {
        let columns = schema.obs().iter().zip(obs_columns).enumerate();
        let normalized_columns = columns.map(|(index, (column, bytes))| {
            let width = column.field.row_bytes();
            let rows = bytes.get(part.start * width..part.end * width);
            let mut rows = rows.unwrap_or_default().to_vec();
            let column_standardizer = standardizers.and_then(|all| all.get(index)).and_then(Option::as_ref);
            if let Some(standardizer) = column_standardizer {
                standardizer.apply(column.field.dtype, &mut rows);
            }
            rows
        });
        normalized_columns.collect()
    };
    let (obs, next_obs) = (normalize_columns(transitions.obs), transitions.next_obs.map(normalize_columns));
    let obs: Vec<&[u8]> = obs.iter().map(Vec::as_slice).collect();
    let next_obs: Option<Vec<&[u8]>> = next_obs.as_ref().map(|all| all.iter().map(Vec::as_slice).collect());
    let columns = schema.columns().iter().zip(transitions.columns).map(|(field, bytes)| {
        let width = field.row_bytes();
        bytes.get(part.start * width..part.end * width).unwrap_or_default()
    });
    let columns: Vec<&[u8]> = columns.collect();
    let block = Transitions {
        n: part.len(),
        obs: &obs,
        next_obs: next_obs.as_deref(),
        columns: &columns,
        terminated: transitions.terminated.get(part.clone()).unwrap_or_default(),
        truncated: transitions.truncated.get(part.clone()).unwrap_or_default(),
    };
    rows.push(EnvIndex::One(0), block, |_, _| {})
}
