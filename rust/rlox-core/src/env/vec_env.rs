//! Many environments that step as one batch.

use super::batch::{Batch, step_shards};
use super::registry::Entry;
use super::seeding::{Key, STREAM, Seeding};
use super::step::{DenseFinalObs, EpisodeEnds, StepOut, StepRows};
use super::undo::run_undoable;
use super::vector_env::EnvSpec;
use super::{Actions, Precision, Spec, registry};
use crate::error::{Error, Result, check_len};
use crate::seed::Stream;
use crate::{interrupt, threads};

/// Number of environments from which several threads step the shards. With fewer environments,
/// waking a thread costs more time than it saves.
pub const PARALLEL_FROM: usize = 16_384;

/// Number of environments of a full shard, whose state fits the first-level cache. Threads share the
/// work by shards.
pub const SHARD_SIZE: usize = 1024;

/// The division of a batch into shards, and the size from which threads share it. Results do not
/// depend on it; tests set it to check that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiling {
    /// Number of environments that one thread steps together, at least 1.
    pub shard_size: usize,
    /// Number of environments from which several threads step the shards.
    pub parallel_from: usize,
}

impl Default for Tiling {
    fn default() -> Self {
        Self { shard_size: SHARD_SIZE, parallel_from: PARALLEL_FROM }
    }
}

/// Maximum number of environments; each takes about 400 bytes.
pub const MAX_ENVS: usize = 1 << 24;

/// Approximate nanoseconds that the start of an episode takes in addition to a step.
const RESET_NANOSECONDS: usize = 100;

/// The shards of a batch; threads share them.
type Shards = Vec<Box<dyn Batch>>;

/// A batch of one native environment with time limits and SAME_STEP autoreset.
///
/// An environment whose episode ends starts the next one within the same step. [`VecEnv::episode_ends`]
/// has the last observation of the ended episode. Results depend only on the seeds and actions,
/// never on the number of threads or of other environments.
pub struct VecEnv {
    spec: &'static Spec,
    owned_spec: EnvSpec,
    precision: Precision,
    n: usize,
    pub(super) tiling: Tiling,
    pub(super) shards: Vec<Box<dyn Batch>>,
    /// (seed, index) of each environment's stream, `[n]`.
    pub(super) keys: Vec<Key>,
    final_indices: Vec<usize>,
    final_obs: Vec<f32>,
}

impl VecEnv {
    /// Returns `n` environments `env_id`, each at the start of its first episode.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for an id that is not native; [`Error::Config`] unless
    /// 1 <= n <= [`MAX_ENVS`]; [`Error::Shape`] unless there is one explicit seed per environment;
    /// [`Error::Interrupted`].
    pub fn new(env_id: &str, n: usize, seeding: Seeding) -> Result<Self> {
        Self::with_tiling(env_id, n, seeding, Precision::F64, Tiling::default())
    }

    /// Returns the same as [`VecEnv::new`], stepped in `precision` and divided by `tiling`.
    ///
    /// # Errors
    /// Those of [`VecEnv::new`]; [`Error::Config`] for shards of no rows, or if the environment
    /// has no kernel of that precision.
    pub fn with_tiling(
        env_id: &str,
        n: usize,
        seeding: Seeding,
        precision: Precision,
        tiling: Tiling,
    ) -> Result<Self> {
        let entry = registry::find(env_id)?;
        entry.check(precision)?;
        if tiling.shard_size == 0 {
            return Err(Error::config("shard", 0, "at least 1 environment".to_owned()));
        }
        if n == 0 || n > MAX_ENVS {
            return Err(Error::config("n", n, format!("1 to {MAX_ENVS} environments")));
        }
        // A shard has at most `n` rows, so that its sizes in numbers and bytes cannot overflow.
        let tiling = Tiling { shard_size: tiling.shard_size.min(n), ..tiling };
        if let Seeding::PerEnv(seeds) = &seeding {
            check_len("seeds", seeds.len(), n, "one per env")?;
        }
        let (shards, keys) = make_shards(&entry, precision, &seeding, n, tiling.shard_size)?;
        Ok(Self {
            spec: entry.spec(),
            owned_spec: entry.spec().into(),
            precision,
            n,
            tiling,
            shards,
            keys,
            final_indices: Vec::new(),
            final_obs: Vec::new(),
        })
    }

    /// Returns the environment's fixed properties.
    #[must_use]
    pub fn spec(&self) -> &'static Spec {
        self.spec
    }

    /// Returns the same properties, owned.
    pub(super) fn owned_spec(&self) -> &EnvSpec {
        &self.owned_spec
    }

    /// Returns the precision of the environments.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the number of environments.
    #[must_use]
    pub fn n_envs(&self) -> usize {
        self.n
    }

    /// Returns the number of elements of an observation.
    #[must_use]
    pub fn obs_dim(&self) -> usize {
        self.spec().observation.dim()
    }

    /// Starts a new episode in every environment, from the next draws of its stream.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; nothing changes then.
    pub fn reset_all(&mut self) -> Result<()> {
        let parallel = self.n >= self.tiling.parallel_from;
        let nanoseconds = self.n * (RESET_NANOSECONDS + self.spec.nanoseconds_per_step);
        run_undoable(&mut self.shards, nanoseconds, |_, shards| {
            if parallel {
                threads::for_each_chunk(shards, 1, |_, shards| reset_shards(shards));
            } else {
                reset_shards(shards);
            }
        })?;
        self.final_indices.clear();
        self.final_obs.clear();
        Ok(())
    }

    /// Writes the current observations into `obs`, `[n, obs_dim]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `obs` has another length; [`Error::Interrupted`].
    pub fn observe_into(&self, obs: &mut [f32]) -> Result<()> {
        check_len("obs", obs.len(), self.n * self.obs_dim(), "n_envs x obs_dim")?;
        let rows = obs.chunks_mut(self.tiling.shard_size * self.obs_dim());
        for (shard, obs) in self.shards.iter().zip(rows) {
            interrupt::check()?;
            shard.observe(obs);
        }
        Ok(())
    }

    /// Steps every environment once. Afterwards [`VecEnv::episode_ends`] lists the ended episodes.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Config`] (wrong kind of actions), [`Error::Action`],
    /// [`Error::NonFinite`] or [`Error::Interrupted`]. Nothing is stepped then.
    pub fn step_into(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()> {
        self.step(StepRows { actions, out, final_obs: None })
    }

    /// Does the same as [`VecEnv::step_into`], and also writes the observation that each environment
    /// reached, before any reset.
    ///
    /// # Errors
    /// Those of [`VecEnv::step_into`].
    pub fn step_dense(
        &mut self,
        actions: Actions<'_>,
        out: StepOut<'_>,
        final_obs: DenseFinalObs<'_>,
    ) -> Result<()> {
        final_obs.check(self.n, self.obs_dim())?;
        self.step(StepRows { actions, out, final_obs: Some(final_obs) })
    }

    fn step(&mut self, rows: StepRows<'_>) -> Result<()> {
        let Tiling { shard_size: size, parallel_from } = self.tiling;
        rows.actions.check(&self.spec.action, self.n)?;
        rows.out.check(self.n, self.obs_dim())?;
        let (spec, parallel) = (self.spec, self.n >= parallel_from);
        let mut remaining_rows = Some(rows);
        run_undoable(&mut self.shards, self.n * spec.nanoseconds_per_step, |_, shards| {
            let Some((rows, rest)) =
                remaining_rows.take().map(|left| left.split_at(shards.len() * size, spec))
            else {
                return;
            };
            remaining_rows = Some(rest);
            step_shards(spec, shards, rows, size, parallel);
        })?;
        self.gather_episode_ends();
        Ok(())
    }

    /// Returns the episodes that ended in the last step.
    #[must_use]
    pub fn episode_ends(&self) -> EpisodeEnds<'_> {
        EpisodeEnds { indices: &self.final_indices, obs: &self.final_obs }
    }

    fn gather_episode_ends(&mut self) {
        self.final_indices.clear();
        self.final_obs.clear();
        for (start, shard) in (0..).step_by(self.tiling.shard_size).zip(&self.shards) {
            let ended = shard.ends();
            self.final_indices.extend(ended.rows.iter().map(|row| start + row));
            self.final_obs.extend_from_slice(&ended.obs);
        }
    }
}

fn reset_shards(shards: &mut [Box<dyn Batch>]) {
    for shard in shards {
        shard.reset();
    }
}

/// Returns `n` environments in shards of `size` rows, and the keys of their streams.
fn make_shards(
    entry: &Entry,
    precision: Precision,
    seeding: &Seeding,
    n: usize,
    size: usize,
) -> Result<(Shards, Vec<Key>)> {
    let key = |index: usize| match seeding {
        Seeding::Run(seed) => (*seed, index as u64),
        Seeding::PerEnv(seeds) => (seeds.get(index).copied().unwrap_or_default(), 0),
    };
    let (mut shards, mut keys) = (Vec::new(), Vec::with_capacity(n));
    for start in (0..n).step_by(size) {
        interrupt::check()?;
        let part = (start..n.min(start + size)).map(key);
        let streams = part.clone().map(|(seed, index)| Stream::new(seed, STREAM, index));
        shards.push(entry.make_shard(precision, streams.collect()));
        keys.extend(part);
    }
    Ok((shards, keys))
}
