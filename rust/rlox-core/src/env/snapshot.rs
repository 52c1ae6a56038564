//! Saves and restores everything that a batch needs to continue exactly.

use super::seeding::{Key, STREAM};
use super::undo::run_undoable;
use super::{Precision, VecEnv};
use crate::error::{Error, Result, check_finite, check_len};
use crate::interrupt;
use crate::seed::Stream;

/// A saved [`VecEnv`]. Observations are not part of it, since they follow from the state.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The environment's id.
    pub env_id: String,
    /// Precision of the environments.
    pub precision: Precision,
    /// Seed of each environment's stream, `[n]`.
    pub seeds: Vec<u64>,
    /// Index of each environment's stream among those of its seed, `[n]`.
    pub indices: Vec<u64>,
    /// Position of each environment's stream, `[n]`.
    pub positions: Vec<u64>,
    /// Steps taken in each running episode, `[n]`.
    pub elapsed: Vec<u32>,
    /// State, `[n, state_dim]`.
    pub state: Vec<f64>,
}

impl VecEnv {
    /// Saves the batch.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut state = vec![0.0; self.n_envs() * self.spec().state_dim];
        self.get_state(&mut state)?;
        let (mut positions, mut elapsed) = (Vec::new(), Vec::new());
        for shard in &self.shards {
            interrupt::check()?;
            positions.extend(shard.positions());
            elapsed.extend(shard.elapsed());
        }
        Ok(Snapshot {
            env_id: self.spec().id.to_owned(),
            precision: self.precision(),
            seeds: self.keys.iter().map(|key| key.0).collect(),
            indices: self.keys.iter().map(|key| key.1).collect(),
            positions,
            elapsed,
            state,
        })
    }

    /// Continues from a snapshot of the same environment, precision and size. The seeds may differ.
    ///
    /// # Errors
    /// [`Error::Snapshot`] for another environment or precision; [`Error::Shape`],
    /// [`Error::Config`] or [`Error::NonFinite`] for fields that do not fit;
    /// [`Error::Interrupted`]. Nothing changes then.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.env_id != self.spec().id {
            return Err(Error::snapshot("env_id", &snapshot.env_id, self.spec().id));
        }
        if snapshot.precision != self.precision() {
            let (got, expected) = (snapshot.precision.name(), self.precision().name());
            return Err(Error::snapshot("precision", got, expected));
        }
        let n = self.n_envs();
        for (name, len) in [
            ("snapshot field seeds", snapshot.seeds.len()),
            ("snapshot field indices", snapshot.indices.len()),
            ("snapshot field positions", snapshot.positions.len()),
        ] {
            check_len(name, len, n, "n_envs")?;
        }
        let keys: Vec<Key> = snapshot.seeds.iter().copied().zip(snapshot.indices.iter().copied()).collect();
        let streams = Some((keys.as_slice(), snapshot.positions.as_slice()));
        self.replace(&snapshot.state, Some(&snapshot.elapsed), streams)?;
        self.keys = keys;
        Ok(())
    }

    /// Writes the state of every environment into `out`, `[n, state_dim]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `out` has another length; [`Error::Interrupted`].
    pub fn get_state(&self, out: &mut [f64]) -> Result<()> {
        let expected = self.n_envs() * self.spec().state_dim;
        check_len("state", out.len(), expected, "n_envs x state_dim")?;
        for (shard, out) in self.shards.iter().zip(self.state_parts_mut(out)) {
            interrupt::check()?;
            shard.read_state(out);
        }
        Ok(())
    }

    /// Replaces the state, `[n, state_dim]`, and, if present, the steps taken in each episode,
    /// `[n]`. Environments with float32 state round the numbers.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::NonFinite`], [`Error::Interrupted`], or [`Error::Config`] if a
    /// step count has reached the time limit. Nothing changes then.
    pub fn set_state(&mut self, state: &[f64], elapsed: Option<&[u32]>) -> Result<()> {
        self.replace(state, elapsed, None)
    }

    /// Checks and replaces the states. If present, step counts are replaced too, and streams, which
    /// are given by their keys and positions.
    fn replace(
        &mut self,
        state: &[f64],
        elapsed: Option<&[u32]>,
        streams: Option<(&[Key], &[u64])>,
    ) -> Result<()> {
        let (n, dim) = (self.n_envs(), self.spec().state_dim);
        check_len("state", state.len(), n * dim, "n_envs x state_dim")?;
        check_finite("state", state)?;
        if let Some(elapsed) = elapsed {
            check_len("elapsed", elapsed.len(), n, "n_envs")?;
            let limit = self.spec().max_episode_steps;
            if let Some(steps) = elapsed.iter().find(|&&steps| steps >= limit) {
                return Err(Error::config("elapsed", steps, format!("less than {limit}")));
            }
        }
        let (shard_size, old_keys) = (self.tiling.shard_size, &self.keys);
        let nanoseconds = n * if streams.is_some() { 300 } else { 10 };
        run_undoable(&mut self.shards, nanoseconds, |first, shards| {
            for (shard_index, shard) in (first..).zip(shards) {
                let env_range = shard_index * shard_size..n.min((shard_index + 1) * shard_size);
                let states = env_range.start * dim..env_range.end * dim;
                shard.write_state(state.get(states).unwrap_or_default());
                if let Some(elapsed) = elapsed {
                    shard.set_elapsed(elapsed.get(env_range.clone()).unwrap_or_default());
                }
                if let Some((keys, positions)) = streams {
                    let shard_keys = keys.get(env_range.clone()).unwrap_or_default();
                    let positions = positions.get(env_range.clone()).unwrap_or_default();
                    let streams = shard_keys.iter().zip(positions).map(|(&(seed, index), &position)| {
                        let mut stream = Stream::new(seed, STREAM, index);
                        stream.set_position(position);
                        stream
                    });
                    shard.set_streams(streams.collect(), old_keys.get(env_range).unwrap_or_default());
                }
            }
        })
    }

    /// Splits `[n, state_dim]` into one part per shard.
    fn state_parts_mut<'a>(&self, state: &'a mut [f64]) -> std::slice::ChunksMut<'a, f64> {
        state.chunks_mut(self.tiling.shard_size * self.spec().state_dim)
    }
}
