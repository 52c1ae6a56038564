//! Everything a batch needs to continue exactly where it was.

use super::{Precision, VecEnv};
use crate::error::{Error, Result, check_finite, check_len};
use crate::seed::Stream;

/// A saved [`VecEnv`]. Observations are not in it: they follow from the state.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The environment's id.
    pub env_id: String,
    /// What the environments were stepped in.
    pub precision: Precision,
    /// Seed of each environment's stream, `[n]`.
    pub seeds: Vec<u64>,
    /// Index of each environment's stream under its seed, `[n]`.
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
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut state = vec![0.0; self.n_envs() * self.spec().state_dim];
        for (shard, out) in self.shards.iter().zip(self.state_parts_mut(&mut state)) {
            shard.read_state(out);
        }
        let streams = self.shards.iter().flat_map(|shard| shard.streams());
        Snapshot {
            env_id: self.spec().id.to_owned(),
            precision: self.precision(),
            seeds: self.keys.iter().map(|key| key.0).collect(),
            indices: self.keys.iter().map(|key| key.1).collect(),
            positions: streams.map(Stream::position).collect(),
            elapsed: self.shards.iter().flat_map(|shard| shard.elapsed()).collect(),
            state,
        }
    }

    /// Continues from a snapshot of the same environment, precision and size; any seed.
    ///
    /// # Errors
    /// [`Error::Snapshot`] for another environment or precision; [`Error::Shape`], [`Error::Config`] or
    /// [`Error::NonFinite`] for fields that do not fit. Nothing is changed then.
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
        self.set_state(&snapshot.state, Some(&snapshot.elapsed))?;
        self.keys = snapshot.seeds.iter().copied().zip(snapshot.indices.iter().copied()).collect();
        let mut saved = self.keys.iter().zip(&snapshot.positions);
        for (shard, keys) in self.shards.iter_mut().zip(self.keys.chunks(self.tiling.shard)) {
            let streams = saved.by_ref().take(keys.len()).map(|(&(seed, index), &position)| {
                let mut stream = Stream::new(seed, super::vec_env::STREAM, index);
                stream.set_position(position);
                stream
            });
            shard.set_streams(streams.collect());
        }
        Ok(())
    }

    /// Writes the state of every environment into `out`, `[n, state_dim]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `out` has another length.
    pub fn get_state(&self, out: &mut [f64]) -> Result<()> {
        let expected = self.n_envs() * self.spec().state_dim;
        check_len("state", out.len(), expected, "n_envs x state_dim")?;
        for (shard, out) in self.shards.iter().zip(self.state_parts_mut(out)) {
            shard.read_state(out);
        }
        Ok(())
    }

    /// Replaces the state, `[n, state_dim]`, rounded to float32 where that is what it is kept in, and, if given, the steps taken in each episode, `[n]`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::NonFinite`], or [`Error::Config`] if a step count has reached
    /// the time limit. Nothing is changed then.
    pub fn set_state(&mut self, state: &[f64], elapsed: Option<&[u32]>) -> Result<()> {
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
        let rows = self.tiling.shard;
        for (shard, state) in self.shards.iter_mut().zip(state.chunks(rows * dim)) {
            shard.write_state(state);
        }
        for (shard, elapsed) in self.shards.iter_mut().zip(elapsed.unwrap_or_default().chunks(rows))
        {
            shard.set_elapsed(elapsed);
        }
        Ok(())
    }

    /// `[n, state_dim]` cut into one part per shard.
    fn state_parts_mut<'a>(&self, state: &'a mut [f64]) -> std::slice::ChunksMut<'a, f64> {
        state.chunks_mut(self.tiling.shard * self.spec().state_dim)
    }
}
