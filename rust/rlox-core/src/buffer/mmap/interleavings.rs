//! Tests of the orders of threads: operations of other threads run between the steps of a seal, a
//! save, a restore or a close.
//!
//! Real threads reach the buffer only between two steps. So these tests need no threads: they run
//! the operations of other threads between the steps, in one thread and in random order.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::steps::{close, restore, save, seal};
use super::{MmapConfig, MmapReplayBuffer};
use crate::buffer::batch::{BatchKind, BatchPart, OwnedBatch};
use crate::buffer::rows::{EnvIndex, Rows, Transitions};
use crate::buffer::sampling::SampleRequest;
use crate::buffer::schema::{ObsField, Schema};
use crate::seed::Stream;
use crate::shared::{Access, Direct};
use crate::{Dtype, Error, Field, Result};

const ENVS: usize = 2;
const TOTAL: usize = 120;
const REWARDS: usize = Schema::REWARDS;

/// A temporary folder that is removed when this is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn scratch(name: &str) -> Scratch {
    let folder = format!("rlox-schedules-{name}-{}", std::process::id());
    Scratch(std::env::temp_dir().join(folder))
}

fn schema() -> Schema {
    let obs = ObsField { field: Field::new("", Dtype::F32, [1]), stack: None };
    Schema::new(vec![obs], (Dtype::F32, vec![1]), Dtype::F32, Vec::new()).unwrap()
}

fn open(path: &Path) -> MmapReplayBuffer {
    let tiers = MmapConfig { hot_capacity: 36, total_capacity: TOTAL, path, reopen: true };
    MmapReplayBuffer::new(schema(), &tiers, ENVS, 3).unwrap()
}

/// Does the operations of other threads, and remembers the reward of every row.
struct OtherThreads {
    rng: Stream,
    /// Reward of each row ever pushed, by index.
    rewards: HashMap<u64, f32>,
    steps: u64,
}

impl OtherThreads {
    fn new(seed: u64) -> Self {
        Self { rng: Stream::new(seed, "schedules", 0), rewards: HashMap::new(), steps: 0 }
    }

    /// Does a random number of pushes, updates and samples. None of them waits for another thread:
    /// there is only one thread, so it would wait for ever.
    fn run_operations(&mut self, buffer: &mut MmapReplayBuffer) {
        for _ in 0..self.rng.next_u64() % 4 {
            match self.rng.next_u64() % 3 {
                0 => self.push(buffer),
                1 => self.update(buffer),
                _ => self.check_rows(buffer, 16),
            }
        }
    }

    /// Pushes one row for each environment if there is room. The observation of a row is its
    /// position.
    fn push(&mut self, buffer: &mut MmapReplayBuffer) {
        let position = buffer.rows.memory.rings().n_pushed() / ENVS as u64;
        let reward = self.rng.next_u64() as u16;
        let for_each_env = |value: f32| [value; ENVS].map(f32::to_ne_bytes).concat();
        let rows = Transitions {
            n: ENVS,
            obs: &[&for_each_env(position as f32)],
            next_obs: Some(&[&for_each_env(position as f32 + 1.0)]),
            columns: &[&for_each_env(0.0), &for_each_env(f32::from(reward))],
            terminated: &[u8::from(position % 7 == 6); ENVS],
            truncated: &[0; ENVS],
        };
        let stored = buffer.try_push(EnvIndex::Each, &rows, 0..ENVS, true);
        if let Err(error) = &stored {
            assert!(buffer.is_closing && matches!(error, Error::Config { .. }), "{error}");
        }
        if stored.is_ok_and(|stored| stored) {
            let indices = position * ENVS as u64..(position + 1) * ENVS as u64;
            self.rewards.extend(indices.map(|index| (index, f32::from(reward))));
        }
    }

    /// Changes the reward of a row unless it is sealed.
    fn update(&mut self, buffer: &mut MmapReplayBuffer) {
        let pushed = buffer.rows.memory.rings().n_pushed();
        let index = pushed.saturating_sub(1 + self.rng.next_u64() % 24);
        let reward = f32::from(self.rng.next_u64() as u16);
        match buffer.update(REWARDS, &[index], &reward.to_ne_bytes()) {
            // No row was skipped, so this one was changed.
            Ok(0) => drop(self.rewards.insert(index, reward)),
            Ok(_) => {}
            Err(error) => assert!(matches!(error, Error::Config { .. }), "{error}"),
        }
    }

    /// Draws rows and compares each with the values that were pushed.
    fn check_rows(&mut self, buffer: &MmapReplayBuffer, batch_size: usize) {
        if buffer.rows().rings().is_empty() {
            return;
        }
        let seed = Some(self.rng.next_u64());
        let drawn = buffer.sample(SampleRequest { batch_size, n_batches: 1, len: 1, seed }).unwrap();
        let mut arrays = OwnedBatch::new(&schema(), BatchKind::Transitions, batch_size);
        arrays.fill(|batch| buffer.gather(&drawn.rows, None, batch)).unwrap();
        let (obs, next) = (arrays.f32(BatchPart::Obs(0)), arrays.f32(BatchPart::NextObs(0)));
        let rewards = arrays.f32(BatchPart::Column(REWARDS));
        for (i, row) in drawn.rows.iter().enumerate() {
            let index = row.position * ENVS as u64 + u64::from(row.env);
            let position = row.position as f32;
            let got = (obs[i], next[i], rewards[i]);
            assert_eq!(got, (position, position + 1.0, self.rewards[&index]), "row {index}");
        }
    }
}

/// Runs operations of other threads before each step on the buffer.
struct InterleavedAccess<'a> {
    buffer: &'a mut MmapReplayBuffer,
    others: &'a mut OtherThreads,
}

impl Access<MmapReplayBuffer> for InterleavedAccess<'_> {
    fn read<T>(&mut self, look: impl FnOnce(&MmapReplayBuffer) -> T) -> Result<T> {
        self.write(|buffer| look(buffer))
    }

    fn write<T>(&mut self, change: impl FnOnce(&mut MmapReplayBuffer) -> T) -> Result<T> {
        self.others.run_operations(self.buffer);
        // Stands for a collector that pushes all the time.
        self.others.push(self.buffer);
        self.others.steps += 1;
        assert!(self.others.steps < 10_000, "the operation never ends while other threads push");
        Ok(change(self.buffer))
    }
}

#[test]
fn rows_keep_their_values_in_every_order_of_seals_pushes_updates_and_samples() {
    let (mut steps, folder) = (0, scratch("seals"));
    for seed in 0..4 {
        let path = folder.0.join(seed.to_string());
        let (mut buffer, mut others) = (open(&path), OtherThreads::new(seed));
        for _ in 0..12 {
            (0..12).for_each(|_| others.push(&mut buffer));
            seal(&mut InterleavedAccess { buffer: &mut buffer, others: &mut others }).unwrap();
            others.check_rows(&buffer, 64);
        }
        buffer.verify().unwrap();
        let durable = buffer.durable_ends.clone();
        drop(buffer);
        // The sealed rows have the values that were read before.
        let reopened_buffer = open(&path);
        let ends: Vec<u64> = reopened_buffer.rows.rings.by_env.iter().map(|ring| ring.n_pushed).collect();
        assert_eq!(ends, durable);
        others.check_rows(&reopened_buffer, 256);
        steps += others.steps;
    }
    assert!(steps > 250, "{steps}");
}

#[test]
fn a_save_has_the_state_of_one_moment_while_others_push() {
    let folder = scratch("saves");
    for seed in 0..4 {
        let path = folder.0.join(seed.to_string());
        let (mut buffer, mut others) = (open(&path), OtherThreads::new(seed));
        (0..20).for_each(|_| others.push(&mut buffer));
        let before = buffer.rows.memory.rings().n_pushed();
        save(&mut InterleavedAccess { buffer: &mut buffer, others: &mut others }, "one").unwrap();
        let after = buffer.rows.memory.rings().n_pushed();
        (0..6).for_each(|_| others.push(&mut buffer));
        // The restore drops the rows that were pushed since the save, also those that are pushed
        // while it runs.
        restore(&mut InterleavedAccess { buffer: &mut buffer, others: &mut others }, "one").unwrap();
        others.check_rows(&buffer, 64);
        drop(buffer);
        let mut reopened_buffer = open(&path);
        restore(&mut Direct(&mut reopened_buffer), "one").unwrap();
        let restored = reopened_buffer.rows.memory.rings().n_pushed();
        assert!((before..=after).contains(&restored), "{before} {restored} {after}");
    }
}

#[test]
fn close_keeps_every_row_that_was_pushed_before() {
    let folder = scratch("closings");
    for seed in 0..12 {
        let path = folder.0.join(seed.to_string());
        let (mut buffer, mut others) = (open(&path), OtherThreads::new(seed));
        (0..10).for_each(|_| others.push(&mut buffer));
        close(&mut InterleavedAccess { buffer: &mut buffer, others: &mut others }, true).unwrap();
        drop(buffer);
        let reopened_buffer = open(&path);
        let pushed = reopened_buffer.rows.rings.by_env.iter().map(|ring| ring.n_pushed).sum::<u64>();
        assert_eq!(pushed, others.rewards.len() as u64);
        others.check_rows(&reopened_buffer, 64);
    }
}
