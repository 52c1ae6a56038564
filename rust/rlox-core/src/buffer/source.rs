//! A storage as numbered rows of bytes that are only ever appended: what goes into segments.

use super::chunks::ChunkQueue;
use super::obs::Observations;
use super::storage::Storage;
use super::stream::Stream;

/// The records of one stream, or a queue of its observations, stacks or frames.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// Its name in a segment, such as `records/0`.
    pub name: String,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Number of the oldest row held.
    pub start: u64,
    /// Number of the next row.
    pub end: u64,
    rows: Held<'a>,
}

#[derive(Debug)]
enum Held<'a> {
    Ring { bytes: &'a [u8], stream: &'a Stream, capacity: usize },
    Queue(&'a ChunkQueue),
}

impl<'a> Source<'a> {
    fn queue(name: String, queue: &'a ChunkQueue) -> Self {
        Self {
            name,
            row_bytes: queue.width(),
            start: queue.start(),
            end: queue.end(),
            rows: Held::Queue(queue),
        }
    }

    /// The bytes of the rows from `from` to the end, piece by piece.
    pub(super) fn parts(&self, from: u64) -> Vec<&'a [u8]> {
        match self.rows {
            Held::Queue(queue) => queue.parts(from),
            Held::Ring { bytes, stream, capacity } if from < self.end => {
                let (first, width) = (stream.slot(from, capacity), self.row_bytes);
                let count = usize::try_from(self.end - from).unwrap_or(usize::MAX);
                let behind = first.saturating_add(count);
                let wrapped = behind.saturating_sub(capacity);
                [(first, behind.min(capacity)), (0, wrapped)]
                    .into_iter()
                    .filter(|(from, to)| from < to)
                    .filter_map(|(from, to)| bytes.get(from * width..to * width))
                    .collect()
            }
            Held::Ring { .. } => Vec::new(),
        }
    }
}

/// Everything a storage holds, stream by stream, in an order that follows from its schema.
pub(super) fn sources(storage: &Storage) -> Vec<Source<'_>> {
    let stride = storage.layout.stride;
    let mut all = Vec::new();
    for (number, stream) in storage.streams.iter().enumerate() {
        let ring = number * storage.capacity * stride..(number + 1) * storage.capacity * stride;
        let bytes = storage.records.get(ring).unwrap_or_default();
        all.push(Source {
            name: format!("records/{number}"),
            row_bytes: stride,
            start: stream.start,
            end: stream.pushed,
            rows: Held::Ring { bytes, stream, capacity: storage.capacity },
        });
        for (column, streams) in storage.obs.iter().enumerate() {
            let Some((items, frames)) = streams.get(number).map(Observations::queues) else {
                continue;
            };
            let kind = if frames.is_some() { "stacks" } else { "obs" };
            all.push(Source::queue(format!("{kind}{column}/{number}"), items));
            let named = |frames| Source::queue(format!("frames{column}/{number}"), frames);
            all.extend(frames.map(named));
        }
    }
    all
}

/// The queues of a stream in the order of [`sources`], to be filled.
pub(super) fn queues_mut(storage: &mut Storage, stream: usize) -> Vec<&mut ChunkQueue> {
    let mut all = Vec::new();
    for streams in &mut storage.obs {
        if let Some(observations) = streams.get_mut(stream) {
            let (items, frames) = observations.queues_mut();
            all.push(items);
            all.extend(frames);
        }
    }
    all
}

impl Storage {
    /// An empty storage of the same columns and size.
    ///
    /// # Errors
    /// As [`Storage::new`].
    pub fn empty_copy(&self) -> crate::error::Result<Self> {
        Self::new(self.schema.clone(), self.capacity(), self.streams.len())
    }
}

/// The columns and streams of a storage in words, to recognise what was saved by another.
pub(super) fn layout(storage: &Storage) -> String {
    format!("rlox buffer 1\nenvs {}\n{}", storage.streams.len(), storage.schema.describe())
}

/// [`layout`] and the capacity.
pub(super) fn describe(storage: &Storage) -> String {
    format!("{}\ncapacity {}", layout(storage), storage.capacity())
}
