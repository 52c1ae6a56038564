//! Many environments stepped as one batch.

use super::registry::Entry;
use super::shard::Batch;
use super::{Actions, Precision, Spec, registry};
use crate::error::{Error, Result, check_len};
use crate::seed::Stream;
use crate::threads;

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

/// Name of the stream that each environment draws its episode starts from.
pub(super) const STREAM: &str = "env";

/// Where each environment's stream comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seeding {
    /// Environment i draws from stream (seed, "env", i).
    Run(u64),
    /// Environment i draws from stream (seeds\[i\], "env", 0), wherever it sits in the batch.
    PerEnv(Vec<u64>),
}

/// Where a step writes its results; rows follow the environments.
pub struct StepOut<'a> {
    /// o_{t+1} per environment, `[n, obs_dim]`: the next episode's first where one ended.
    pub obs: &'a mut [f32],
    /// r_t, `[n]`.
    pub rewards: &'a mut [f64],
    /// Whether s_{t+1} is terminal, `[n]`.
    pub terminated: &'a mut [bool],
    /// Whether the time limit was reached, `[n]`; may be true together with `terminated`.
    pub truncated: &'a mut [bool],
}

impl StepOut<'_> {
    fn check(&self, n: usize, obs_dim: usize) -> Result<()> {
        check_len("obs", self.obs.len(), n * obs_dim, "n_envs x obs_dim")?;
        check_len("rewards", self.rewards.len(), n, "n_envs")?;
        check_len("terminated", self.terminated.len(), n, "n_envs")?;
        check_len("truncated", self.truncated.len(), n, "n_envs")
    }

    fn split_at(self, rows: usize, obs_dim: usize) -> (Self, Self) {
        let (obs, obs_right) = self.obs.split_at_mut(rows * obs_dim);
        let (rewards, rewards_right) = self.rewards.split_at_mut(rows);
        let (terminated, terminated_right) = self.terminated.split_at_mut(rows);
        let (truncated, truncated_right) = self.truncated.split_at_mut(rows);
        (
            Self { obs, rewards, terminated, truncated },
            Self {
                obs: obs_right,
                rewards: rewards_right,
                terminated: terminated_right,
                truncated: truncated_right,
            },
        )
    }
}

/// The episodes that ended in the last step, in the order of the environments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finals<'a> {
    /// Environment indices, `[k]`, ascending.
    pub indices: &'a [usize],
    /// The last observation of each ended episode, `[k, obs_dim]`.
    pub obs: &'a [f32],
}

/// A batch of one native environment with time limits and SAME_STEP autoreset.
///
/// An environment whose episode ends starts the next one within the same step; the last
/// observation of the ended one is in [`VecEnv::finals`]. Results depend on the seeds and
/// actions only, never on the number of threads or of other environments.
pub struct VecEnv {
    spec: &'static Spec,
    precision: Precision,
    n: usize,
    pub(super) tiling: Tiling,
    pub(super) shards: Vec<Box<dyn Batch>>,
    /// (seed, index) of each environment's stream, `[n]`.
    pub(super) keys: Vec<(u64, u64)>,
    final_indices: Vec<usize>,
    final_obs: Vec<f32>,
}

impl VecEnv {
    /// `n` environments `env_id`, each at the start of its first episode.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for an id that is not native; [`Error::Config`] unless
    /// 1 <= n <= [`MAX_ENVS`]; [`Error::Shape`] unless there is one explicit seed per environment.
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
        let keys: Vec<(u64, u64)> = match seeding {
            Seeding::Run(seed) => (0..n as u64).map(|index| (seed, index)).collect(),
            Seeding::PerEnv(seeds) => {
                check_len("seeds", seeds.len(), n, "one per env")?;
                seeds.into_iter().map(|seed| (seed, 0)).collect()
            }
        };
        let shards = shards(&entry, precision, &keys, tiling.shard);
        Ok(Self {
            spec: entry.spec(),
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
    pub fn reset_all(&mut self) {
        for shard in &mut self.shards {
            shard.reset();
        }
        self.final_indices.clear();
        self.final_obs.clear();
    }

    /// Writes the current observations into `obs`, `[n, obs_dim]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `obs` has another length.
    pub fn observe_into(&self, obs: &mut [f32]) -> Result<()> {
        check_len("obs", obs.len(), self.n * self.obs_dim(), "n_envs x obs_dim")?;
        let rows = obs.chunks_mut(self.tiling.shard * self.obs_dim());
        for (shard, obs) in self.shards.iter().zip(rows) {
            shard.observe(obs);
        }
        Ok(())
    }

    /// Steps every environment once; afterwards [`VecEnv::finals`] lists the ended episodes.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Config`] (wrong kind of actions), [`Error::Action`] or
    /// [`Error::NonFinite`]. Nothing is stepped then.
    pub fn step_into(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()> {
        actions.check(&self.spec().action, self.n)?;
        out.check(self.n, self.obs_dim())?;
        let parallel = self.n >= self.tiling.parallel_from;
        step_shards(self.spec, &mut self.shards, actions, out, self.tiling.shard, parallel);
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

/// The environments with these stream keys in shards of `size` rows.
fn shards(
    entry: &Entry,
    precision: Precision,
    keys: &[(u64, u64)],
    size: usize,
) -> Vec<Box<dyn Batch>> {
    let streams = |part: &[(u64, u64)]| {
        part.iter().map(|&(seed, index)| Stream::new(seed, STREAM, index)).collect()
    };
    keys.chunks(size).map(|part| entry.shard(precision, streams(part))).collect()
}

/// Steps shards of `size` rows by halves, in parallel if asked.
fn step_shards(
    spec: &Spec,
    shards: &mut [Box<dyn Batch>],
    actions: Actions<'_>,
    out: StepOut<'_>,
    size: usize,
    parallel: bool,
) {
    if let [shard] = shards {
        shard.step(actions, out);
        return;
    }
    let half = shards.len() / 2;
    let (rows, rest) = (half * size, out.rewards.len() - half * size);
    let (left, right) = shards.split_at_mut(half);
    let (left_out, right_out) = out.split_at(rows, spec.observation.dim());
    let left_actions = actions.rows(0, rows, spec.action.dim());
    let right_actions = actions.rows(rows, rest, spec.action.dim());
    let step_left = || step_shards(spec, left, left_actions, left_out, size, parallel);
    let step_right = || step_shards(spec, right, right_actions, right_out, size, parallel);
    if parallel {
        threads::join(step_left, step_right);
    } else {
        step_left();
        step_right();
    }
}
