//! A replay buffer larger than memory: recent rows in memory, older ones on disk.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::archive::{NEWEST, check_name};
use super::cold::Cold;
use super::replay::DrawState;
use super::saved;
use super::schema::Schema;
use super::source::layout;
use super::storage::{MAX_CAPACITY, Rows, Storage, Target};
use super::stream::Stream;
use crate::error::{Error, Result};
use crate::store::{Fs, RealFs};

/// A stream's rows are sealed in about this many parts.
const SEGMENTS: usize = 256;

/// Smaller segments than this are not worth a write.
const SEGMENT_BYTES: usize = 1 << 20;

/// A row of a [`MmapReplayBuffer`], in memory or on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    pub(super) stream: usize,
    pub(super) position: u64,
}

/// How many rows, and where.
#[derive(Debug, Clone)]
pub struct Tiers<'a> {
    /// Rows held in memory at least.
    pub hot_capacity: usize,
    /// Rows held in all.
    pub total_capacity: usize,
    /// The folder of the segments.
    pub path: &'a Path,
    /// Whether rows that an earlier buffer sealed there are taken over; if not, they are refused.
    pub reopen: bool,
}

/// A ring of transitions of which the older part is on disk.
///
/// Rows are sealed in segments of 1/256 of the capacity or 1 MiB (at most a third of the hot rows);
/// the newest rows that wait for that are lost if the process dies, and `flush` seals them. The
/// oldest segment is removed when all its rows have left the ring. Every read from disk is checked.
#[derive(Debug)]
pub struct MmapReplayBuffer {
    pub(super) storage: Storage,
    pub(super) draws: DrawState,
    /// None after `close`.
    cold: Option<Cold>,
    /// Rows per stream.
    total: u64,
    /// Rows per stream that are sealed at a time.
    chunk: u64,
    /// Position of the oldest row there ever was on disk, `[streams]`.
    pub(super) floors: Vec<u64>,
    /// Positions where an episode begins though no flag may say so, because the buffer was reopened
    /// there, rising; `[streams]`.
    pub(super) cuts: Vec<VecDeque<u64>>,
    /// Position of each stream up to which a reopening finds the rows, `[streams]`.
    durable: Vec<u64>,
}

impl MmapReplayBuffer {
    /// A buffer over the folder, with the rows that are there.
    ///
    /// # Errors
    /// As [`Storage::new`]; [`Error::Config`] if the capacities are out of order;
    /// [`Error::Storage`] if the disk refuses, another buffer uses the folder, or it has rows and
    /// `reopen` is false; [`Error::Damaged`] or [`Error::Snapshot`] for rows that do not fit.
    pub fn new(schema: Schema, tiers: &Tiers<'_>, n_envs: usize, seed: u64) -> Result<Self> {
        Self::on(Arc::new(RealFs), schema, tiers, n_envs, seed)
    }

    /// [`MmapReplayBuffer::new`] on another file system.
    ///
    /// # Errors
    /// As there.
    pub fn on(
        fs: Arc<dyn Fs>,
        schema: Schema,
        tiers: &Tiers<'_>,
        n_envs: usize,
        seed: u64,
    ) -> Result<Self> {
        let Tiers { hot_capacity: hot, total_capacity: total, path, reopen } = *tiers;
        if hot == 0 || hot > total || total > MAX_CAPACITY {
            let expected =
                format!("1 to total_capacity ({total}), which is at most {MAX_CAPACITY}");
            return Err(Error::config("hot_capacity", hot, expected));
        }
        if total < n_envs {
            let expected = format!("at least n_envs ({n_envs})");
            return Err(Error::config("total_capacity", total, expected));
        }
        let each = total / n_envs.max(1);
        // No more than a third of what is to be hot anyway, to save disk operations.
        let few = (SEGMENT_BYTES / row_bytes(&schema)).min(hot / n_envs.max(1) / 3);
        let chunk = each.div_ceil(SEGMENTS).max(few).max(1);
        // Rows wait in memory until they are sealed, and one after that to keep what it shares.
        let ring = (hot / n_envs.max(1)).max(2 * chunk + 1).saturating_mul(n_envs.max(1));
        let frames = schema.obs().iter().filter_map(|column| column.stack).map(|s| s.size).max();
        if each.saturating_mul(2 * frames.unwrap_or(1) + 2) > u32::MAX as usize {
            return Err(Error::config("total_capacity", total, "fewer than 2**32 frames per env"));
        }
        let mut storage = Storage::new(schema, ring, n_envs)?;
        let mut cold = Cold::open(path, fs, &storage)?;
        let (mut floors, mut cuts) = (vec![0; n_envs], vec![VecDeque::new(); n_envs]);
        if cold.folder.has_manifest(NEWEST)? {
            if !reopen {
                let cause =
                    "an earlier buffer left rows there; pass reopen=True to go on with them";
                return Err(Error::storage("start anew in", path, cause));
            }
            let manifest = cold.resume(NEWEST, &mut storage)?;
            (floors, cuts) = resumed(saved::streams(&manifest, &storage, u64::MAX)?);
        }
        let (total, chunk) = (each as u64, chunk as u64);
        let draws = DrawState::new(seed);
        let durable = storage.streams.iter().map(whole).collect();
        Ok(Self { storage, draws, cold: Some(cold), total, chunk, floors, cuts, durable })
    }

    /// The rows in memory.
    #[must_use]
    pub const fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Where draws come from.
    #[must_use]
    pub const fn draws(&self) -> &DrawState {
        &self.draws
    }

    /// Rows held, in memory and on disk.
    #[must_use]
    pub fn len(&self) -> usize {
        let streams = self.storage.streams.iter().enumerate();
        let rows: u64 = streams.map(|(at, state)| state.pushed - self.start(at)).sum();
        usize::try_from(rows).unwrap_or(usize::MAX)
    }

    /// True without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most rows held.
    #[must_use]
    pub fn capacity(&self) -> usize {
        usize::try_from(self.total).unwrap_or(usize::MAX) * self.storage.streams.len()
    }

    /// Rows that are lost if the process dies now.
    #[must_use]
    pub fn unsealed(&self) -> u64 {
        let streams = self.storage.streams.iter().zip(&self.durable);
        streams.map(|(state, &durable)| state.pushed.saturating_sub(durable)).sum()
    }

    /// Bytes of the sealed segments.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.cold.as_ref().map_or(0, Cold::bytes)
    }

    /// Position of a stream's oldest row.
    pub(super) fn start(&self, stream: usize) -> u64 {
        self.start_of(stream, self.storage.streams.get(stream).map_or(0, |state| state.pushed))
    }

    /// Position of a stream's oldest row when `pushed` rows were pushed.
    fn start_of(&self, stream: usize, pushed: u64) -> u64 {
        let floor = self.floors.get(stream).copied().unwrap_or(0);
        floor.max(pushed.saturating_sub(self.total))
    }

    /// Position below which the rows of a stream are sealed.
    pub(super) fn sealed(&self, stream: usize) -> u64 {
        let pushed = self.storage.streams.get(stream).map_or(0, |state| state.pushed);
        let cold = self.cold.as_ref();
        cold.map_or(0, |cold| cold.archive.sealed_rows(&self.storage, stream)).min(pushed)
    }

    /// Rows of a stream that are not sealed.
    fn waiting(&self, stream: usize) -> u64 {
        let pushed = self.storage.streams.get(stream).map_or(0, |state| state.pushed);
        pushed - self.sealed(stream)
    }

    /// Stores rows; in blocks, each after what must be sealed before it.
    ///
    /// A seal that the disk refuses is tried again at the next push as long as there is memory.
    ///
    /// # Errors
    /// As [`Storage::push`], nothing is stored then. [`Error::Storage`] if memory is full and the
    /// disk refuses: the blocks before that are stored.
    pub fn push(&mut self, target: Target<'_>, rows: Rows<'_>) -> Result<()> {
        self.open()?;
        self.storage.check(target, &rows)?;
        let block = usize::try_from(self.chunk).unwrap_or(usize::MAX);
        let blocks: Vec<usize> = match target {
            Target::Each => vec![0],
            _ => (0..rows.n).step_by(block).collect(),
        };
        for start in blocks {
            let end =
                if matches!(target, Target::Each) { rows.n } else { rows.n.min(start + block) };
            self.make_room(block as u64)?;
            self.storage.push_part(target, &rows, start..end);
        }
        Ok(())
    }

    /// Seals if enough rows wait; an error only if memory has no room for `more` rows a stream.
    fn make_room(&mut self, more: u64) -> Result<()> {
        let most = (0..self.storage.streams.len()).map(|stream| self.waiting(stream)).max();
        let most = most.unwrap_or(0);
        if most < self.chunk {
            return Ok(());
        }
        match self.seal() {
            Err(error) if most + more >= self.storage.capacity as u64 => Err(error),
            _ => Ok(()),
        }
    }

    /// Seals every row and lists it in the newest manifest.
    fn seal(&mut self) -> Result<()> {
        let streams = self.storage.streams.iter().enumerate();
        let starts = streams.map(|(at, state)| self.start_of(at, whole(state)));
        let starts: Vec<u64> = starts.collect();
        for (cuts, &start) in self.cuts.iter_mut().zip(&starts) {
            while cuts.front().is_some_and(|&cut| cut <= start) {
                cuts.pop_front();
            }
        }
        let Some(cold) = &mut self.cold else { return Err(closed()) };
        cold.seal(&self.storage, &starts, self.chunk)?;
        let streams = self.storage.streams.iter().zip(&starts).zip(&self.cuts);
        let streams = streams.map(|((state, &start), cuts)| {
            let end = whole(state);
            Stream { start, episodes: before(cuts, end), ..Stream::empty_at(end) }
        });
        let streams: Vec<Stream> = streams.collect();
        let manifest = saved::manifest(&self.storage, &self.draws, &streams, layout(&self.storage));
        cold.publish(NEWEST, manifest)?;
        self.durable = self.storage.streams.iter().map(whole).collect();
        Ok(())
    }

    /// Seals the rows that are only in memory, so that they outlast the process. The newest row of
    /// an environment is left out while its next observation is not known.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses, [`Error::Config`] after `close`.
    pub fn flush(&mut self) -> Result<()> {
        self.open()?;
        let streams = self.storage.streams.iter().zip(&self.durable);
        let done = streams.into_iter().all(|(state, &durable)| whole(state) == durable);
        if done { Ok(()) } else { self.seal() }
    }

    /// Reads and checks every sealed row.
    ///
    /// # Errors
    /// As [`MmapReplayBuffer::fill`].
    pub fn verify(&self) -> Result<()> {
        self.open()?.verify()
    }

    /// Saves the state exactly as `name` beside the rows, which are sealed and kept for it.
    ///
    /// # Errors
    /// As [`MmapReplayBuffer::flush`].
    pub fn save(&mut self, name: &str) -> Result<()> {
        check_name(name)?;
        self.seal()?;
        let cold = self.open()?;
        let streams = self.storage.streams.iter().zip(&self.cuts).enumerate();
        let streams = streams.map(|(at, (state, cuts))| Stream {
            start: self.start(at),
            head: 0,
            episodes: before(cuts, state.pushed),
            ..state.clone()
        });
        let streams: Vec<Stream> = streams.collect();
        cold.publish(
            name,
            saved::manifest(&self.storage, &self.draws, &streams, layout(&self.storage)),
        )
    }

    /// Goes on from the state saved as `name`; rows sealed since are forgotten.
    ///
    /// # Errors
    /// [`Error::Damaged`] for files that are not what was written, [`Error::Snapshot`] for another
    /// layout.
    pub fn restore(&mut self, name: &str) -> Result<()> {
        let Some(cold) = &mut self.cold else { return Err(closed()) };
        let manifest = cold.resume(name, &mut self.storage)?;
        (self.floors, self.cuts) = resumed(saved::streams(&manifest, &self.storage, u64::MAX)?);
        self.draws = saved::draws(&manifest)?;
        // A reopening would find the rows sealed since until this is done, now or at the next seal.
        drop(self.seal());
        Ok(())
    }

    /// Ends the buffer: with `keep` every row is sealed and the files stay, without they go.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses; the buffer stays open then.
    pub fn close(&mut self, keep: bool) -> Result<()> {
        if self.cold.is_none() {
            return Ok(());
        }
        if keep {
            self.flush()?;
        } else if let Some(cold) = &self.cold {
            cold.folder.delete()?;
        }
        self.cold = None;
        self.storage.clear();
        Ok(())
    }

    pub(super) fn open(&self) -> Result<&Cold> {
        self.cold.as_ref().ok_or_else(closed)
    }
}

/// Bytes of a transition, about.
fn row_bytes(schema: &Schema) -> usize {
    let obs = schema.obs().iter().map(|c| c.field.row_bytes() / c.stack.map_or(1, |s| s.size));
    obs.chain(schema.columns().iter().map(crate::Field::row_bytes)).sum::<usize>().max(1)
}

/// Rows of a stream that a reopening can give back: without its next observation the newest is not
/// whole, and what is pushed after a reopening does not continue its episode.
fn whole(state: &Stream) -> u64 {
    state.pushed - u64::from(state.open)
}

/// Position of the oldest row of each stream, and where episodes begin unflagged, after a reopening.
fn resumed(streams: Vec<Stream>) -> (Vec<u64>, Vec<VecDeque<u64>>) {
    let each = streams.into_iter().map(|stream| {
        let mut cuts = stream.episodes;
        if stream.begins && stream.pushed > stream.start {
            cuts.push_back(stream.pushed);
        }
        (stream.start, cuts)
    });
    each.unzip()
}

/// Those below `end`.
fn before(cuts: &VecDeque<u64>, end: u64) -> VecDeque<u64> {
    cuts.iter().copied().filter(|&cut| cut < end).collect()
}

fn closed() -> Error {
    Error::config("buffer", "closed", "an open one; make another to go on")
}
