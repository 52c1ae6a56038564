//! Rows that are on disk only.

use std::path::Path;
use std::sync::Arc;

use super::archive::{Archive, entries, open_all};
use super::obs::Observations;
use super::saved;
use super::schema::StackAxis;
use super::source::{Source, layout, sources};
use super::storage::{Storage, number_at, number_behind};
use crate::error::{Error, Result};
use crate::row_copy::RowCopy;
use crate::store::{Folder, Fs, Manifest, Segment, SegmentRef};

/// The sealed segments of a folder, open for reading.
#[derive(Debug)]
pub(super) struct Cold {
    pub folder: Folder,
    pub archive: Archive,
    segments: Vec<(SegmentRef, Segment)>,
    fs: Arc<dyn Fs>,
    /// Sources of one stream.
    each: usize,
}

/// Memory for one read, used again and again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub record: Vec<u8>,
    ids: Vec<u8>,
    frame: Vec<u8>,
    block: Vec<u8>,
}

impl Cold {
    /// The folder, without rows.
    pub(super) fn open(path: &Path, fs: Arc<dyn Fs>, storage: &Storage) -> Result<Self> {
        let folder = Folder::open(path, Arc::clone(&fs))?;
        let archive = Archive::on(Arc::clone(&fs));
        let each = sources(storage).len() / storage.streams.len().max(1);
        Ok(Self { folder, archive, segments: Vec::new(), fs, each })
    }

    /// Goes on from manifest `name`: `storage` becomes empty, with the numbers that come next.
    pub(super) fn resume(&mut self, name: &str, storage: &mut Storage) -> Result<Manifest> {
        let manifest = self.folder.manifest(name)?;
        saved::check_meta(&manifest, &layout(storage))?;
        let segments = open_all(&*self.fs, self.folder.path(), &manifest, storage)?;
        let streams = saved::streams(&manifest, storage, u64::MAX)?;
        let ranges = saved::queue_ranges(&manifest, self.each * streams.len())?;
        let mut fresh = storage.empty_copy()?;
        for (number, state) in streams.into_iter().enumerate() {
            let queues = super::source::queues_mut(&mut fresh, number).into_iter();
            for (queue, range) in queues.zip(ranges.iter().skip(number * self.each + 1)) {
                queue.restart(range.1);
            }
            if let Some(slot) = fresh.streams.get_mut(number) {
                let episodes = std::collections::VecDeque::new();
                *slot = super::stream::Stream { start: state.pushed, head: 0, episodes, ..state };
            }
        }
        let ends = sources(&fresh).iter().map(|source| source.end).collect();
        self.archive.resumed(entries(&manifest, &segments), ends);
        self.segments = manifest.segments.iter().copied().zip(segments).collect();
        *storage = fresh;
        Ok(manifest)
    }

    /// Seals what is not sealed and forgets the segments that hold nothing from `starts` on, the
    /// position of each stream's oldest row.
    pub(super) fn seal(&mut self, storage: &Storage, starts: &[u64], rows: u64) -> Result<()> {
        let all = sources(storage);
        self.archive.reopen_newest(&all, rows);
        let sealed = self.archive.seal(storage, &all, &mut self.folder)?;
        if let Some(reference) = sealed {
            let opened =
                self.folder.segment(reference).inspect_err(|_| self.archive.forget_newest());
            self.segments.push((reference, opened?));
        }
        let live = self.live(storage, &all, starts)?;
        self.archive.retire(live.iter().copied());
        let listed = &self.archive.entries;
        self.segments.retain(|(known, _)| listed.iter().any(|entry| entry.reference == *known));
        Ok(())
    }

    /// Number of the oldest row needed of each source.
    fn live(&self, storage: &Storage, all: &[Source<'_>], starts: &[u64]) -> Result<Vec<u64>> {
        let mut live: Vec<u64> = all.iter().map(|source| source.start).collect();
        let mut scratch = Scratch::default();
        let streams = storage.streams.iter().zip(starts).zip(live.chunks_exact_mut(self.each));
        for (stream, ((state, &start), live)) in streams.enumerate() {
            if start >= state.start {
                continue;
            }
            self.record(storage, stream, start, &mut scratch)?;
            let mut needed = vec![start];
            for (column, streams) in storage.obs.iter().enumerate() {
                let Some(observations) = streams.get(stream) else { continue };
                let lower = number_at(&scratch.record, 4 * column);
                let number = number_behind(observations.items().end(), lower);
                needed.push(number);
                if let Observations::Stacked(stacks) = observations {
                    let source = stream * self.each + needed.len() - 1;
                    scratch.ids.resize(stacks.items().width(), 0);
                    self.read(source, number, &mut scratch.ids, &mut scratch.block)?;
                    let frames = scratch.ids.as_chunks().0.iter();
                    let frames = frames.map(|&id| stacks.frame_number(u32::from_ne_bytes(id)));
                    needed.push(frames.min().unwrap_or(0));
                }
            }
            live.copy_from_slice(&needed);
        }
        Ok(live)
    }

    /// Reads row `number` of a source into `out`.
    fn read(&self, source: usize, number: u64, out: &mut [u8], block: &mut Vec<u8>) -> Result<()> {
        let has = |segment: &Segment| {
            let range = segment.columns().get(source).map(|c| c.first..c.first + c.rows);
            range.is_some_and(|range| range.contains(&number))
        };
        // A reopening takes a row back that is sealed again: then two segments have it and the
        // later one holds, and first rows do not rise from segment to segment.
        match self.segments.iter().rev().find(|(_, segment)| has(segment)) {
            Some((_, segment)) => segment.read_rows(source, number..number + 1, out, block),
            None => {
                Err(Error::damaged(self.folder.path(), 0, format!("no segment has row {number}")))
            }
        }
    }

    /// Reads the record of a row into `scratch.record`.
    pub(super) fn record(
        &self,
        storage: &Storage,
        stream: usize,
        position: u64,
        scratch: &mut Scratch,
    ) -> Result<()> {
        scratch.record.resize(storage.layout.stride, 0);
        self.read(stream * self.each, position, &mut scratch.record, &mut scratch.block)
    }

    /// Reads the observation `ahead` of the one that `scratch.record` was acted on.
    pub(super) fn obs(
        &self,
        storage: &Storage,
        (stream, column, ahead): (usize, usize, u64),
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let before = storage.obs.iter().take(column).filter_map(|streams| streams.get(stream));
        let before: usize =
            before.map(|o| 1 + usize::from(matches!(o, Observations::Stacked(_)))).sum();
        let source = stream * self.each + 1 + before;
        let Some(observations) = storage.obs.get(column).and_then(|all| all.get(stream)) else {
            return Ok(());
        };
        let end = observations.items().end();
        let lower = number_at(&scratch.record, 4 * column);
        let number = (number_behind(end, lower) + ahead).min(end.wrapping_sub(1));
        if number >= observations.items().start() {
            observations.copy(number, out, RowCopy::Cached);
            return Ok(());
        }
        let Observations::Stacked(stacks) = observations else {
            return self.read(source, number, out, &mut scratch.block);
        };
        let Scratch { ids, frame, block, .. } = scratch;
        ids.resize(stacks.items().width(), 0);
        self.read(source, number, ids, block)?;
        let frames = stacks.frames();
        let size = ids.len() / 4;
        for (place, &id) in ids.as_chunks().0.iter().enumerate() {
            let number = stacks.frame_number(u32::from_ne_bytes(id));
            match frames.get(number) {
                Some(frame) => stacks.put(frame, place, out, RowCopy::Cached),
                None if stacks.axis() == StackAxis::First => {
                    let bytes = out.len() / size.max(1);
                    let slot = out.get_mut(place * bytes..(place + 1) * bytes).unwrap_or_default();
                    self.read(source + 1, number, slot, block)?;
                }
                None => {
                    frame.resize(frames.width(), 0);
                    self.read(source + 1, number, frame, block)?;
                    stacks.put(frame, place, out, RowCopy::Cached);
                }
            }
        }
        Ok(())
    }

    /// Reads and checks every sealed byte.
    pub(super) fn verify(&self) -> Result<()> {
        self.segments.iter().try_for_each(|(_, segment)| segment.verify())
    }

    /// Bytes of the segments.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|(_, segment)| segment.bytes()).sum()
    }

    /// Publishes `manifest` with the segments as `name`, then removes what nothing needs.
    pub(super) fn publish(&self, name: &str, mut manifest: Manifest) -> Result<()> {
        manifest.segments = self.segments.iter().map(|(reference, _)| *reference).collect();
        self.folder.publish(name, &manifest)?;
        // What is left over costs space, not safety, and the next seal tries again.
        drop(self.folder.sweep());
        Ok(())
    }
}
