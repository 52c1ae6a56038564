//! The state of a storage besides its rows, and how both come back.

use super::replay::DrawState;
use super::source::{queues_mut, sources};
use super::storage::Storage;
use super::stream::Stream;
use crate::error::{Error, Result};
use crate::store::{Manifest, Segment};

/// Numbers per stream in the column `streams`.
const STREAM_NUMBERS: usize = 6;
/// Positions beyond this belong to no buffer that ran.
const MOST_ROWS: u64 = 1 << 62;

/// The manifest of a storage with `streams` in place of its own, without segments.
pub(super) fn manifest(
    storage: &Storage,
    draws: &DrawState,
    streams: &[Stream],
    meta: String,
) -> Manifest {
    let states = streams.iter().flat_map(|stream| {
        [
            stream.start,
            stream.pushed,
            stream.head as u64,
            u64::from(stream.open),
            u64::from(stream.begins),
            stream.episodes.len() as u64,
        ]
    });
    let episodes = streams.iter().flat_map(|stream| stream.episodes.iter().copied());
    let queues = sources(storage).into_iter().flat_map(|source| [source.start, source.end]);
    let column = |name: &str, width, numbers: &mut dyn Iterator<Item = u64>| {
        (name.to_owned(), 8 * width, numbers.flat_map(u64::to_le_bytes).collect())
    };
    Manifest {
        segments: Vec::new(),
        columns: vec![
            column("streams", STREAM_NUMBERS, &mut states.into_iter()),
            column("episodes", 1, &mut episodes.into_iter()),
            column("queues", 2, &mut queues.into_iter()),
            column("draws", 2, &mut [draws.seed(), draws.drawn()].into_iter()),
        ],
        meta: meta.into_bytes(),
    }
}

/// Checks that a manifest is of a buffer described by `expected`.
pub(super) fn check_meta(manifest: &Manifest, expected: &str) -> Result<()> {
    if manifest.meta == expected.as_bytes() {
        return Ok(());
    }
    let got = String::from_utf8_lossy(&manifest.meta).replace('\n', "; ");
    Err(Error::snapshot("layout", got, expected.replace('\n', "; ")))
}

/// The numbers of a manifest's column.
pub(super) fn numbers(manifest: &Manifest, name: &'static str) -> Result<Vec<u64>> {
    let bytes = manifest.column(name)?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
}

/// The draws of a manifest.
pub(super) fn draws(manifest: &Manifest) -> Result<DrawState> {
    match numbers(manifest, "draws")?.as_slice() {
        &[seed, drawn] => Ok(DrawState::at(seed, drawn)),
        other => Err(Error::snapshot("draws", format!("{} numbers", other.len()), "2")),
    }
}

/// Start and end of each source, `[sources]`.
pub(super) fn queue_ranges(manifest: &Manifest, sources: usize) -> Result<Vec<(u64, u64)>> {
    let queues = numbers(manifest, "queues")?;
    let pairs: Vec<(u64, u64)> = queues.as_chunks().0.iter().map(|&[a, b]| (a, b)).collect();
    let sound = pairs.len() == sources && pairs.iter().all(|(a, b)| a <= b && *b <= MOST_ROWS);
    if sound {
        return Ok(pairs);
    }
    Err(Error::snapshot("queues", format!("{queues:?}"), format!("{sources} ranges")))
}

/// The streams of a manifest; each holds at most `most` rows.
pub(super) fn streams(manifest: &Manifest, storage: &Storage, most: u64) -> Result<Vec<Stream>> {
    let states = numbers(manifest, "streams")?;
    let mut episodes = numbers(manifest, "episodes")?.into_iter();
    let states = states.as_chunks::<STREAM_NUMBERS>().0;
    if states.len() != storage.streams.len() {
        return Err(Error::snapshot("streams", states.len(), storage.streams.len()));
    }
    let mut all = Vec::with_capacity(states.len());
    for state in states {
        let &[start, pushed, head, open, begins, count] = state;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let stream = Stream {
            start,
            pushed,
            head: usize::try_from(head).unwrap_or(usize::MAX),
            open: open != 0,
            begins: begins != 0,
            episodes: episodes.by_ref().take(count).collect(),
        };
        let fits = pushed.checked_sub(start).is_some_and(|rows| rows <= most);
        let rising = stream.episodes.iter().zip(stream.episodes.iter().skip(1)).all(|(a, b)| a < b);
        let within = stream.episodes.back().is_none_or(|&last| last < pushed);
        let sound = fits && pushed <= MOST_ROWS && stream.head < storage.capacity && rising;
        if !(sound && within && stream.episodes.len() == count) {
            return Err(Error::snapshot("streams", format!("{state:?}"), "rows that fit a ring"));
        }
        all.push(stream);
    }
    Ok(all)
}

/// Fills an empty storage from a manifest and its segments.
pub(super) fn fill(
    mut storage: Storage,
    manifest: &Manifest,
    segments: &[Segment],
) -> Result<(Storage, DrawState)> {
    let draws = draws(manifest)?;
    let streams = streams(manifest, &storage, storage.capacity as u64)?;
    let count = sources(&storage).len();
    let ranges = queue_ranges(manifest, count)?;
    let each = count / storage.streams.len().max(1);
    storage.streams = streams;
    for stream in 0..storage.streams.len() {
        fill_records(&mut storage, stream, stream * each, segments)?;
        for (at, queue) in queues_mut(&mut storage, stream).into_iter().enumerate() {
            let source = stream * each + 1 + at;
            let &(start, end) = ranges.get(source).unwrap_or(&(0, 0));
            queue.restart(start);
            let mut next = start;
            for segment in segments {
                next = append(segment, source, next, end, |row| queue.push(row))?;
            }
            if next != end {
                return Err(Error::snapshot("segments", next, format!("{end} rows of a queue")));
            }
        }
    }
    Ok((storage, draws))
}

/// Passes on the rows of a segment that are numbered from `next` to `end`; returns the next number.
fn append(
    segment: &Segment,
    column: usize,
    next: u64,
    end: u64,
    mut push: impl FnMut(&[u8]),
) -> Result<u64> {
    let Some(range) = segment.columns().get(column) else { return Ok(next) };
    let until = end.min(range.first + range.rows);
    if range.first > next || until <= next {
        return Ok(next);
    }
    let rows = read(segment, column, next..until, range.row_bytes)?;
    rows.chunks_exact(range.row_bytes).for_each(&mut push);
    Ok(until)
}

/// Reads the records of a stream; where segments overlap, the later one holds.
fn fill_records(
    storage: &mut Storage,
    stream: usize,
    column: usize,
    segments: &[Segment],
) -> Result<()> {
    let (capacity, stride) = (storage.capacity, storage.layout.stride);
    let Some(state) = storage.streams.get(stream).cloned() else { return Ok(()) };
    let mut found = vec![false; state.len()];
    for segment in segments {
        let Some(range) = segment.columns().get(column) else { continue };
        let from = range.first.max(state.start);
        let until = (range.first + range.rows).min(state.pushed);
        if from >= until {
            continue;
        }
        let rows = read(segment, column, from..until, stride)?;
        for (position, row) in (from..until).zip(rows.chunks_exact(stride)) {
            let at = (stream * capacity + state.slot(position, capacity)) * stride;
            if let Some(record) = storage.records.get_mut(at..at + stride) {
                record.copy_from_slice(row);
            }
            let age = usize::try_from(position - state.start).unwrap_or(usize::MAX);
            if let Some(found) = found.get_mut(age) {
                *found = true;
            }
        }
    }
    match found.iter().position(|found| !found) {
        Some(age) => Err(Error::snapshot("segments", format!("no row {age}"), "every row held")),
        None => Ok(()),
    }
}

fn read(
    segment: &Segment,
    column: usize,
    numbers: std::ops::Range<u64>,
    row_bytes: usize,
) -> Result<Vec<u8>> {
    let count = usize::try_from(numbers.end - numbers.start).unwrap_or(usize::MAX);
    // No more than the segment's file holds: its length was checked against its columns.
    let mut rows = vec![0; count.saturating_mul(row_bytes)];
    segment.read_rows(column, numbers, &mut rows, &mut Vec::new())?;
    Ok(rows)
}
