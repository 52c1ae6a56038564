//! Many environments stepped as one batch.

use super::batch::{Batch, step_shards};
use super::registry::Entry;
use super::seeding::{Key, STREAM, Seeding};
use super::step::{DenseFinals, Finals, StepOut, StepRows};
use super::undo::undoable;
use super::vector_env::EnvSpec;
use super::{Actions, Precision, Spec, registry};
use crate::error::{Error, Result, check_len};
use crate::seed::Stream;
use crate::{interrupt, threads};

/// From this many environments on, shards are spread over threads. Below, waking a
/// thread costs more than it saves.
pub const PARALLEL_FROM: usize = 16_384;

/// Rows of a full shard: its state stays in the first-level cache, and shards are what threads share.
pub const SHARD: usize = 1024;

/// How a batch is cut up and from which size on threads share it. Never changes a result: the
/// tests of that promise are why it can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiling {
    /// Environments stepped together on one thread, at least 1.
    pub shard: usize,
    /// From this many environments on, shards are spread over threads.
    pub parallel_from: usize,
}

impl Default for Tiling {
    fn default() -> Self {
        Self { shard: SHARD, parallel_from: PARALLEL_FROM }
    }
}

/// More environments than this are refused: about 400 bytes each.
pub const MAX_ENVS: usize = 1 << 24;

/// About how long an episode's start takes beyond what a step does.
const RESET_NANOSECONDS: usize = 100;

/// Environments in parts that threads share.
type Shards = Vec<Box<dyn Batch>>;

/// A batch of one native environment with time limits and SAME_STEP autoreset.
///
/// An environment whose episode ends starts the next one within the same step; the last
/// observation of the ended one is in [`VecEnv::finals`]. Results depend on the seeds and
/// actions only, never on the number of threads or of other environments.
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
    /// `n` environments `env_id`, each at the start of its first episode.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for an id that is not native; [`Error::Config`] unless
    /// 1 <= n <= [`MAX_ENVS`]; [`Error::Shape`] unless there is one explicit seed per environment;
    /// [`Error::Interrupted`].
    pub fn new(env_id: &str, n: usize, seeding: Seeding) -> Result<Self> {
        Self::tiled(env_id, n, seeding, Precision::F64, Tiling::default())
    }

    /// As [`VecEnv::new`], stepped in `precision` and cut up as `tiling` says.
    ///
    /// # Errors
    /// Those of [`VecEnv::new`]; [`Error::Config`] for shards of no rows, or if the environment
    /// has no kernel of that precision.
    pub fn tiled(
        env_id: &str,
        n: usize,
        seeding: Seeding,
        precision: Precision,
        tiling: Tiling,
    ) -> Result<Self> {
        let entry = registry::find(env_id)?;
        entry.check(precision)?;
        if tiling.shard == 0 {
            return Err(Error::config("shard", 0, "at least 1 environment".to_owned()));
        }
        if n == 0 || n > MAX_ENVS {
            return Err(Error::config("n", n, format!("1 to {MAX_ENVS} environments")));
        }
        // So that a shard's numbers can be counted, however large a shard was asked for.
        let tiling = Tiling { shard: tiling.shard.min(n), ..tiling };
        if let Seeding::PerEnv(seeds) = &seeding {
            check_len("seeds", seeds.len(), n, "one per env")?;
        }
        let (shards, keys) = shards(&entry, precision, &seeding, n, tiling.shard)?;
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

    /// The environment's fixed facts.
    #[must_use]
    pub fn spec(&self) -> &'static Spec {
        self.spec
    }

    /// The same facts, owned.
    pub(super) fn owned_spec(&self) -> &EnvSpec {
        &self.owned_spec
    }

    /// What the environments are stepped in.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Number of environments.
    #[must_use]
    pub fn n_envs(&self) -> usize {
        self.n
    }

    /// Numbers per observation.
    #[must_use]
    pub fn obs_dim(&self) -> usize {
        self.spec().observation.dim()
    }

    /// Starts a new episode everywhere, drawing on from each environment's stream.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; nothing is changed then.
    pub fn reset_all(&mut self) -> Result<()> {
        let parallel = self.n >= self.tiling.parallel_from;
        let nanoseconds = self.n * (RESET_NANOSECONDS + self.spec.nanoseconds);
        undoable(&mut self.shards, nanoseconds, |_, shards| {
            if parallel {
                threads::for_each_chunk(shards, 1, |_, shards| reset(shards));
            } else {
                reset(shards);
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
        let rows = obs.chunks_mut(self.tiling.shard * self.obs_dim());
        for (shard, obs) in self.shards.iter().zip(rows) {
            interrupt::check()?;
            shard.observe(obs);
        }
        Ok(())
    }

    /// Steps every environment once; afterwards [`VecEnv::finals`] lists the ended episodes.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Config`] (wrong kind of actions), [`Error::Action`],
    /// [`Error::NonFinite`] or [`Error::Interrupted`]. Nothing is stepped then.
    pub fn step_into(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()> {
        self.step(StepRows { actions, out, last: None })
    }

    /// As [`VecEnv::step_into`]; writes what every environment reached as well.
    ///
    /// # Errors
    /// Those of [`VecEnv::step_into`].
    pub fn step_dense(
        &mut self,
        actions: Actions<'_>,
        out: StepOut<'_>,
        last: DenseFinals<'_>,
    ) -> Result<()> {
        last.check(self.n, self.obs_dim())?;
        self.step(StepRows { actions, out, last: Some(last) })
    }

    fn step(&mut self, rows: StepRows<'_>) -> Result<()> {
        let Tiling { shard: size, parallel_from } = self.tiling;
        rows.actions.check(&self.spec.action, self.n)?;
        rows.out.check(self.n, self.obs_dim())?;
        let (spec, parallel) = (self.spec, self.n >= parallel_from);
        let mut left = Some(rows);
        undoable(&mut self.shards, self.n * spec.nanoseconds, |_, shards| {
            let Some((rows, rest)) =
                left.take().map(|left| left.split_at(shards.len() * size, spec))
            else {
                return;
            };
            left = Some(rest);
            step_shards(spec, shards, rows, size, parallel);
        })?;
        self.gather_finals();
        Ok(())
    }

    /// What ended in the last step.
    #[must_use]
    pub fn finals(&self) -> Finals<'_> {
        Finals { indices: &self.final_indices, obs: &self.final_obs }
    }

    fn gather_finals(&mut self) {
        self.final_indices.clear();
        self.final_obs.clear();
        for (start, shard) in (0..).step_by(self.tiling.shard).zip(&self.shards) {
            let ended = shard.ended();
            self.final_indices.extend(ended.rows.iter().map(|row| start + row));
            self.final_obs.extend_from_slice(&ended.obs);
        }
    }
}

fn reset(shards: &mut [Box<dyn Batch>]) {
    for shard in shards {
        shard.reset();
    }
}

/// `n` environments in shards of `size` rows, and the keys of their streams.
fn shards(
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
        shards.push(entry.shard(precision, streams.collect()));
        keys.extend(part);
    }
    Ok((shards, keys))
}
