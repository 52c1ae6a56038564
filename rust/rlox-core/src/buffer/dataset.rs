//! Datasets for offline learning, loaded once and then only read.

use super::batch::{Batch, put_real};
use super::episodes::{Episode, ReturnStats, to_go};
use super::persist::{Archive, Columns, InMemory, Saveable};
use super::rows::{EnvIndex, MemoryRows, RowRef, Rows, Transitions};
use super::sampling::{Drawn, Request, SamplerState, Trajectories, Uniform};
use super::schema::Schema;
use super::standardizer::Standardizer;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::interrupt;

/// Rows that are normalised and stored at a time.
const BLOCK: usize = 1_024;

/// Saved column of the moments, one observation column after the other.
const MOMENTS: &str = "moments";
/// Saved column that says whether observations are normalised, 0 or 1.
const NORMALIZED: &str = "normalized";

/// The transitions of a dataset in time order, one episode after the other.
///
/// A row with `terminated` or `truncated` ends an episode. Rows after the last such row form one
/// more episode, which is incomplete. It is sampled and counted like the others.
#[derive(Debug)]
pub struct OfflineDataset {
    held: Saveable,
    episodes: Vec<Episode>,
    /// Undiscounted sum of the rewards from each row to the end of its episode, `[n]`.
    to_go: Vec<f64>,
    standardizers: Vec<Option<Standardizer>>,
    normalized: bool,
}

impl OfflineDataset {
    /// Stores the transitions.
    ///
    /// With `normalize`, each float observation is stored as (x - mean) / std of its element. An
    /// observation that is both `next_obs` of a row and `obs` of the next row is stored once.
    ///
    /// # Errors
    /// - [`Error::Shape`] or [`Error::Config`] if there are no rows or they do not fit the schema.
    /// - [`Error::NonFinite`] for NaN or infinity in observations, actions or rewards, or if the
    ///   standard deviation of an observation overflows float64.
    /// - [`Error::Config`] if `normalize` is set and no observation column is float.
    /// - [`Error::Interrupted`].
    pub fn new(schema: Schema, given: Transitions<'_>, normalize: bool, seed: u64) -> Result<Self> {
        if given.n == 0 {
            return Err(Error::config("rewards", "empty", "at least one transition"));
        }
        let mut rows = MemoryRows::new(schema, given.n, 1)?;
        rows.check(EnvIndex::One(0), &given)?;
        check_finite(rows.schema(), &given)?;
        let columns = rows.schema().obs().iter().zip(given.obs);
        let moments =
            columns.map(|(c, bytes)| Standardizer::of(c.field.dtype, bytes, c.field.len()));
        let standardizers: Vec<_> = moments.collect::<Result<_>>()?;
        if normalize && standardizers.iter().all(Option::is_none) {
            let got = rows.schema().obs().first().map_or("", |column| column.field.dtype.name());
            return Err(Error::config("normalize", got, "float32 or float64 observations"));
        }
        for start in (0..given.n).step_by(BLOCK) {
            interrupt::check()?;
            let part = start..given.n.min(start + BLOCK);
            store(&mut rows, &given, part, normalize.then_some(&standardizers))?;
        }
        let (episodes, to_go) = returns(&rows)?;
        let held = Saveable { rows, state: SamplerState::new(seed), archive: Archive::default() };
        Ok(Self { held, episodes, to_go, standardizers, normalized: normalize })
    }

    /// Returns whether observations are normalised.
    #[must_use]
    pub const fn normalized(&self) -> bool {
        self.normalized
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
        ReturnStats::of(&self.episodes)
    }

    /// Returns the undiscounted sum of the rewards from a row to the end of its episode.
    #[must_use]
    pub fn return_to_go(&self, row: usize) -> Option<f64> {
        self.to_go.get(row).copied()
    }

    /// Draws batches of transitions, uniformly and with replacement.
    ///
    /// # Errors
    /// [`Error::Config`] if the request is out of range.
    pub fn sample(&self, request: Request) -> Result<Drawn> {
        request.draw(&Uniform, self.rows().rings(), &self.held.state, |_, _, _| Ok(()))
    }

    /// Draws windows of up to `request.len` rows; see [`Trajectories`].
    ///
    /// # Errors
    /// Same as [`OfflineDataset::sample`].
    pub fn sample_trajectories(&self, request: Request) -> Result<Drawn> {
        request.draw(&Trajectories, self.rows().rings(), &self.held.state, |_, _, _| Ok(()))
    }

    /// Copies windows of `len` rows into `out`.
    ///
    /// Each row also gets its return to go, in the type of the rewards, and the number of steps of
    /// its episode before it. Padding rows become zero.
    ///
    /// # Errors
    /// Same as [`Rows::gather`].
    pub fn gather_trajectories(
        &self,
        drawn: &Drawn,
        len: usize,
        out: &mut Batch<'_, '_>,
    ) -> Result<()> {
        let place = |row: &RowRef| usize::try_from(row.position).unwrap_or(usize::MAX);
        let sums = drawn.rows.iter().map(|row| self.to_go.get(place(row)).copied());
        let missing = || Error::internal("a row without a return");
        let sums: Vec<f64> = sums.collect::<Option<_>>().ok_or_else(missing)?;
        put_real(out.returns_to_go, sums.into_iter());
        let timesteps = out.timesteps.as_chunks_mut().0;
        for (row, timestep) in drawn.rows.iter().zip(timesteps) {
            let begin = self.rows().rings().ring(*row)?.episode(row.position).0;
            *timestep = (row.position - begin).to_ne_bytes();
        }
        self.rows().gather_windows(drawn, len, out)
    }
}

impl InMemory for OfflineDataset {
    fn held(&self) -> &Saveable {
        &self.held
    }

    fn held_mut(&mut self) -> &mut Saveable {
        &mut self.held
    }

    fn own_columns(&self) -> Vec<(&'static str, usize, Vec<u8>)> {
        let moments = self.standardizers.iter().flatten().flat_map(Standardizer::to_row);
        let moments = moments.flat_map(f64::to_le_bytes).collect();
        vec![(MOMENTS, 8, moments), (NORMALIZED, 1, vec![u8::from(self.normalized)])]
    }

    /// Refuses a save whose normalisation or number of rows differs from this dataset's.
    fn adopt(&mut self, held: Saveable, columns: &Columns<'_>) -> Result<()> {
        let normalized = columns(NORMALIZED)? == [1];
        if normalized != self.normalized {
            return Err(Error::snapshot("normalize", normalized, self.normalized));
        }
        let rings = held.rows.rings();
        if rings.len() != rings.capacity() || rings.pushed() != rings.len() as u64 {
            let got = format!("rows {} to {}", rings.pushed() - rings.len() as u64, rings.pushed());
            return Err(Error::snapshot("dataset", got, format!("{} rows", rings.capacity())));
        }
        let standardizers = moments(held.rows.schema(), &columns(MOMENTS)?)?;
        (self.episodes, self.to_go) = returns(&held.rows)?;
        (self.standardizers, self.held) = (standardizers, held);
        Ok(())
    }
}

/// Parses the moments of each float observation column.
fn moments(schema: &Schema, bytes: &[u8]) -> Result<Vec<Option<Standardizer>>> {
    let (numbers, odd) = bytes.as_chunks();
    let numbers: Vec<f64> = numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    let mut rest = numbers.as_slice();
    let wrong = || Error::snapshot(MOMENTS, format!("{} numbers", numbers.len()), "the schema's");
    let mut all = Vec::with_capacity(schema.obs().len());
    for column in schema.obs() {
        let width = column.field.len();
        all.push(if column.field.dtype.is_float() {
            let (row, later) = rest.split_at_checked(2 * width).ok_or_else(wrong)?;
            rest = later;
            Some(Standardizer::from_row(row, width).ok_or_else(wrong)?)
        } else {
            None
        });
    }
    if rest.is_empty() && odd.is_empty() { Ok(all) } else { Err(wrong()) }
}

/// Returns the episodes and the return to go of each stored row.
fn returns(rows: &MemoryRows) -> Result<(Vec<Episode>, Vec<f64>)> {
    let (mut rewards, mut ends) = (Vec::new(), Vec::new());
    if let Some(first) = rows.rings().rows().next() {
        rows.rewards(first, rows.rings().pushed(), &mut |_, reward, flags| {
            rewards.push(reward);
            ends.push(flags != 0);
            true
        })?;
    }
    Ok(to_go(&rewards, &ends))
}

/// Checks that every float is finite.
fn check_finite(schema: &Schema, rows: &Transitions<'_>) -> Result<()> {
    let obs = schema.obs().iter().map(|column| &column.field);
    for (name, given) in [("obs", Some(rows.obs)), ("next_obs", rows.next_obs)] {
        for (field, bytes) in obs.clone().zip(given.unwrap_or_default()) {
            finite(name, field.dtype, bytes)?;
        }
    }
    for (at, (field, bytes)) in schema.columns().iter().zip(rows.columns).enumerate() {
        let name = ["actions", "rewards"].get(at).copied().unwrap_or("an extra column");
        finite(name, field.dtype, bytes)?;
    }
    Ok(())
}

fn finite(name: &'static str, dtype: Dtype, bytes: &[u8]) -> Result<()> {
    for (part, bytes) in bytes.chunks(BLOCK * BLOCK).enumerate() {
        interrupt::check()?;
        let found =
            super::standardizer::floats(dtype, bytes).enumerate().find(|(_, x)| !x.is_finite());
        if let Some((at, value)) = found {
            let index = part * (BLOCK * BLOCK / dtype.size()) + at;
            return Err(Error::NonFinite { name: name.into(), index, value });
        }
    }
    Ok(())
}

/// Pushes one range of rows and normalises them if `standardizers` is set.
fn store(
    rows: &mut MemoryRows,
    given: &Transitions<'_>,
    part: std::ops::Range<usize>,
    standardizers: Option<&Vec<Option<Standardizer>>>,
) -> Result<()> {
    let schema = rows.schema().clone();
    let normalized = |given: &[&[u8]]| -> Vec<Vec<u8>> {
        let columns = schema.obs().iter().zip(given).enumerate();
        let column = columns.map(|(at, (column, bytes))| {
            let width = column.field.row_bytes();
            let rows = bytes.get(part.start * width..part.end * width);
            let mut rows = rows.unwrap_or_default().to_vec();
            let own = standardizers.and_then(|all| all.get(at)).and_then(Option::as_ref);
            if let Some(standardizer) = own {
                standardizer.apply(column.field.dtype, &mut rows);
            }
            rows
        });
        column.collect()
    };
    let (obs, next_obs) = (normalized(given.obs), given.next_obs.map(normalized));
    let obs: Vec<&[u8]> = obs.iter().map(Vec::as_slice).collect();
    let next_obs: Option<Vec<&[u8]>> =
        next_obs.as_ref().map(|all| all.iter().map(Vec::as_slice).collect());
    let columns = schema.columns().iter().zip(given.columns).map(|(field, bytes)| {
        let width = field.row_bytes();
        bytes.get(part.start * width..part.end * width).unwrap_or_default()
    });
    let columns: Vec<&[u8]> = columns.collect();
    let block = Transitions {
        n: part.len(),
        obs: &obs,
        next_obs: next_obs.as_deref(),
        columns: &columns,
        terminated: given.terminated.get(part.clone()).unwrap_or_default(),
        truncated: given.truncated.get(part.clone()).unwrap_or_default(),
    };
    rows.push(EnvIndex::One(0), block, |_, _| {})
}
