//! Everything a storage needs to go on exactly where it was.

use super::chunks::ChunkQueue;
use super::obs::Observations;
use super::storage::{Storage, number_at, number_behind};
use super::stream::Stream;
use crate::error::{Error, Result, check_len};

/// A saved [`Storage`]: the rows held, oldest first, stream after stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedStorage {
    /// The columns as text; a storage of other columns refuses the state.
    pub schema: String,
    /// Rows per stream that fit.
    pub capacity: usize,
    /// The streams.
    pub streams: Vec<SavedStream>,
    /// Bytes of one record.
    pub stride: usize,
    /// The records of all rows held, `[rows, stride]`.
    pub records: Vec<u8>,
    /// The observation columns.
    pub obs: Vec<SavedColumn>,
}

/// Where one stream stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedStream {
    /// Position of the oldest row held.
    pub start: u64,
    /// Position of the next row.
    pub pushed: u64,
    /// Slot of the next row, so that rows come back to the slots they had.
    pub head: u64,
    /// Whether the newest row waits for the next `obs`.
    pub open: bool,
    /// Whether the next row begins an episode.
    pub begins: bool,
    /// Positions at which episodes begin.
    pub episodes: Vec<u64>,
}

/// One observation column of all streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedColumn {
    /// The observations, or for stacks the numbers of their frames.
    pub items: SavedQueue,
    /// The frames, only for stacks.
    pub frames: Option<SavedQueue>,
}

/// The queues of all streams, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedQueue {
    /// Bytes of one row.
    pub width: usize,
    /// Number of the first row of each stream's queue.
    pub starts: Vec<u64>,
    /// Number behind the last row of each stream's queue.
    pub ends: Vec<u64>,
    /// The rows.
    pub rows: Vec<u8>,
}

impl Storage {
    /// Saves every row held and the positions of all streams.
    #[must_use]
    pub fn save(&self) -> SavedStorage {
        let mut records = Vec::with_capacity(self.len() * self.layout.stride);
        for (stream, state) in self.streams.iter().enumerate() {
            for position in state.start..state.pushed {
                let at = self.row(stream, position).record;
                records.extend_from_slice(
                    self.records.get(at..at + self.layout.stride).unwrap_or(&[]),
                );
            }
        }
        SavedStorage {
            schema: self.schema.describe(),
            capacity: self.capacity,
            streams: self.streams.iter().map(SavedStream::of).collect(),
            stride: self.layout.stride,
            records,
            obs: self.obs.iter().map(|streams| SavedColumn::of(streams)).collect(),
        }
    }

    /// Continues from a state of the same columns, capacity and number of streams.
    ///
    /// # Errors
    /// [`Error::Snapshot`] or [`Error::Shape`] for a state that does not fit or is not one that
    /// [`Storage::save`] gives. Nothing is changed then.
    pub fn restore(&mut self, saved: &SavedStorage) -> Result<()> {
        let expected = self.schema.describe();
        if saved.schema != expected {
            return Err(Error::snapshot("schema", &saved.schema, expected));
        }
        if saved.capacity != self.capacity {
            return Err(Error::snapshot("capacity per env", saved.capacity, self.capacity));
        }
        if saved.stride != self.layout.stride {
            return Err(Error::snapshot("record width", saved.stride, self.layout.stride));
        }
        let n = self.streams.len();
        check_len("snapshot field streams", saved.streams.len(), n, "n_envs")?;
        check_len("snapshot field obs", saved.obs.len(), self.obs.len(), "observation columns")?;
        let mut streams = Vec::with_capacity(n);
        for state in &saved.streams {
            streams.push(state.restored(self.capacity)?);
        }
        let rows: usize = streams.iter().map(Stream::len).sum();
        let stride = self.layout.stride;
        check_len("snapshot field records", saved.records.len(), rows * stride, "rows held")?;
        let mut obs = Vec::with_capacity(saved.obs.len());
        for (column, (saved, field)) in saved.obs.iter().zip(self.schema.obs()).enumerate() {
            let empty = (0..n).map(|_| Observations::new(field, self.capacity)).collect();
            obs.push(saved.restored(empty, column)?);
        }
        check_numbers(&saved.records, stride, &streams, &obs)?;
        let mut records = saved.records.chunks_exact(stride);
        for (stream, state) in streams.iter().enumerate() {
            for (position, record) in (state.start..state.pushed).zip(records.by_ref()) {
                let at = (stream * self.capacity + state.slot(position, self.capacity)) * stride;
                if let Some(slot) = self.records.get_mut(at..at + stride) {
                    slot.copy_from_slice(record);
                }
            }
        }
        (self.streams, self.obs) = (streams, obs);
        self.changes.replaced += 1;
        Ok(())
    }
}

/// Checks that each record refers to observations that are there.
fn check_numbers(
    records: &[u8],
    stride: usize,
    streams: &[Stream],
    obs: &[Vec<Observations>],
) -> Result<()> {
    let mut records = records.chunks_exact(stride);
    for (stream, state) in streams.iter().enumerate() {
        for record in records.by_ref().take(state.len()) {
            for (column, observations) in obs.iter().enumerate() {
                let Some(items) = observations.get(stream).map(Observations::items) else {
                    continue;
                };
                let number = number_behind(items.end(), number_at(record, 4 * column));
                if !(items.start()..items.end()).contains(&number) {
                    let expected = format!("one of {} to {}", items.start(), items.end());
                    return Err(Error::snapshot("observation number", number, expected));
                }
            }
        }
    }
    Ok(())
}

impl SavedStream {
    fn of(state: &Stream) -> Self {
        Self {
            start: state.start,
            pushed: state.pushed,
            head: state.head as u64,
            open: state.open,
            begins: state.begins,
            episodes: state.episodes.iter().copied().collect(),
        }
    }

    fn restored(&self, capacity: usize) -> Result<Stream> {
        let len = self.pushed.checked_sub(self.start).and_then(|len| usize::try_from(len).ok());
        let Some(len) = len.filter(|&len| len <= capacity) else {
            let got = format!("{} to {}", self.start, self.pushed);
            return Err(Error::snapshot("positions", got, format!("at most {capacity} rows")));
        };
        let head = usize::try_from(self.head).ok().filter(|&head| head < capacity);
        let Some(head) = head else {
            return Err(Error::snapshot("head", self.head, format!("a slot in 0..{capacity}")));
        };
        let ordered = self.episodes.is_sorted_by(|a, b| a < b)
            && self.episodes.last().is_none_or(|&last| last < self.pushed)
            && self.episodes.first().is_none_or(|&first| first <= self.start || len == 0)
            && (len == 0 || !self.episodes.is_empty());
        if !ordered {
            let expected = "increasing positions that cover the rows held";
            return Err(Error::snapshot("episodes", format!("{:?}", self.episodes), expected));
        }
        Ok(Stream {
            start: self.start,
            pushed: self.pushed,
            head,
            open: self.open,
            episodes: self.episodes.iter().copied().collect(),
            begins: self.begins,
        })
    }
}

impl SavedColumn {
    fn of(streams: &[Observations]) -> Self {
        let mut saved = Self { items: SavedQueue::default(), frames: None };
        for observations in streams {
            let (items, frames) = observations.queues();
            saved.items.add(items);
            if let Some(frames) = frames {
                saved.frames.get_or_insert_default().add(frames);
            }
        }
        saved
    }

    fn restored(&self, mut empty: Vec<Observations>, column: usize) -> Result<Vec<Observations>> {
        let (mut items_at, mut frames_at) = (0, 0);
        for (stream, observations) in empty.iter_mut().enumerate() {
            let (items, frames) = observations.queues_mut();
            items_at = self.items.fill(items, stream, items_at)?;
            match (frames, &self.frames) {
                (Some(frames), Some(saved)) => frames_at = saved.fill(frames, stream, frames_at)?,
                (None, None) => {}
                _ => return Err(Error::snapshot("frames", "of another column", column)),
            }
            if !observations.is_whole() {
                return Err(Error::snapshot("frame number", "one that is not there", "a frame"));
            }
        }
        let frames = self.frames.as_ref().map_or(0, |frames| frames.rows.len());
        check_len("snapshot field items", self.items.rows.len(), items_at, "bytes of all rows")?;
        check_len("snapshot field frames", frames, frames_at, "bytes of all rows")?;
        Ok(empty)
    }
}

impl SavedQueue {
    fn add(&mut self, queue: &ChunkQueue) {
        self.width = queue.width();
        self.starts.push(queue.start());
        self.ends.push(queue.end());
        for number in queue.start()..queue.end() {
            self.rows.extend_from_slice(queue.get(number).unwrap_or_default());
        }
    }

    /// Fills an empty queue with the rows of `stream`, which begin at byte `at`; returns where
    /// they end.
    fn fill(&self, queue: &mut ChunkQueue, stream: usize, at: usize) -> Result<usize> {
        let range = self.starts.get(stream).zip(self.ends.get(stream));
        let count = range.and_then(|(&start, &end)| usize::try_from(end.checked_sub(start)?).ok());
        let bytes = count.and_then(|count| count.checked_mul(self.width)?.checked_add(at));
        let rows = bytes.and_then(|end| self.rows.get(at..end));
        let (Some(rows), Some((&start, _)), true) = (rows, range, self.width == queue.width())
        else {
            let got = format!("{} rows of {} bytes", count.unwrap_or(0), self.width);
            return Err(Error::snapshot("observations", got, "rows of the columns' size"));
        };
        queue.restart(start);
        rows.chunks_exact(self.width.max(1)).for_each(|row| queue.push(row));
        Ok(at + rows.len())
    }
}
