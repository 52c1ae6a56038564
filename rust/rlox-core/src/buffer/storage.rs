//! The rows of a buffer: a ring per environment of records, and observations stored once.

use super::obs::{Observations, Pushed};
use super::record::put_number;
pub(super) use super::record::{Layout, number_at, number_behind};
use super::schema::Schema;
use super::stream::Stream;
use super::width;
use crate::error::{Error, Result, check_len};

/// The largest number of transitions of one buffer.
pub const MAX_CAPACITY: usize = 1 << 30;
/// The largest number of environments of one buffer.
pub const MAX_STREAMS: usize = 1 << 20;

/// Flag bit: the row reached a terminal state.
pub(super) const TERMINATED: u8 = 1;
/// Flag bit: the row's episode was cut short.
pub(super) const TRUNCATED: u8 = 2;

/// Rows to store, each column row-major with `n` rows, as bytes in native order.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Number of rows.
    pub n: usize,
    /// The observation columns, in the schema's order.
    pub obs: &'a [&'a [u8]],
    /// What each step led to, in the same order. Without them the next observation of the same
    /// stream is taken, and for a row that ends an episode its own.
    pub next_obs: Option<&'a [&'a [u8]]>,
    /// Actions, rewards and extras, in the schema's order.
    pub columns: &'a [&'a [u8]],
    /// Whether the state reached is terminal, `[n]`; 0 is false.
    pub terminated: &'a [u8],
    /// Whether the episode was cut short, `[n]`; 0 is false.
    pub truncated: &'a [u8],
}

/// Which environment each of some rows came from.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// All from this one, consecutive in time.
    Stream(usize),
    /// Row i from environment i.
    Each,
    /// Row i from environment `ids[i]`; rows of one environment in time order.
    Ids(&'a [usize]),
}

/// A row that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its position in its stream.
    pub(super) position: u64,
    /// The byte its record begins at.
    pub(super) record: usize,
    /// Its stream.
    pub(super) stream: u32,
}

/// Typed rows of several environments, the oldest overwritten first.
#[derive(Debug, Clone)]
pub struct Storage {
    pub(super) schema: Schema,
    pub(super) layout: Layout,
    /// Rows held at most per stream.
    pub(super) capacity: usize,
    pub(super) streams: Vec<Stream>,
    /// `[streams, capacity, stride]` bytes.
    pub(super) records: Vec<u8>,
    /// `[obs columns][streams]`.
    pub(super) obs: Vec<Vec<Observations>>,
    /// What happened to rows after they were pushed.
    pub(super) changes: Changes,
}

/// Counts what makes an older copy of rows on disk differ from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Changes {
    /// Calls that wrote to columns.
    pub updates: u64,
    /// Calls that replaced all rows.
    pub replaced: u64,
}

impl Storage {
    /// An empty storage of `capacity` rows over all of `streams`, `capacity / streams` each.
    ///
    /// Memory is taken from the system as it is first written.
    ///
    /// # Errors
    /// [`Error::Config`] for a size out of range, or if the records cannot be allocated.
    pub fn new(schema: Schema, capacity: usize, streams: usize) -> Result<Self> {
        if !(1..=MAX_STREAMS).contains(&streams) {
            return Err(Error::config("n_envs", streams, format!("1 to {MAX_STREAMS}")));
        }
        if !(streams..=MAX_CAPACITY).contains(&capacity) {
            let expected = format!("at least n_envs ({streams}) and at most {MAX_CAPACITY}");
            return Err(Error::config("capacity", capacity, expected));
        }
        let (layout, each) = (Layout::new(&schema), capacity / streams);
        let frames = schema.obs().iter().filter_map(|column| column.stack).map(|s| s.size).max();
        if each.saturating_mul(2 * frames.unwrap_or(1) + 2) > u32::MAX as usize {
            return Err(Error::config("capacity", capacity, "fewer than 2**32 frames per env"));
        }
        let bytes = (each * streams).checked_mul(layout.stride);
        let records = bytes.and_then(zeroed).ok_or_else(|| {
            let expected = format!("records of {} bytes that fit into memory", layout.stride);
            Error::config("capacity", capacity, expected)
        })?;
        let column = |field| (0..streams).map(|_| Observations::new(field, each)).collect();
        Ok(Self {
            obs: schema.obs().iter().map(column).collect(),
            schema,
            layout,
            capacity: each,
            streams: vec![Stream::empty_at(0); streams],
            records,
            changes: Changes::default(),
        })
    }

    /// The columns.
    #[must_use]
    pub const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The largest number of rows held: `capacity` rounded down to a multiple of the streams.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity * self.streams.len()
    }

    /// Number of environments.
    #[must_use]
    pub fn n_streams(&self) -> usize {
        self.streams.len()
    }

    /// Rows held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.streams.iter().map(Stream::len).sum()
    }

    /// True without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.streams.iter().all(|stream| stream.len() == 0)
    }

    /// Rows pushed so far, overwritten ones included.
    #[must_use]
    pub fn pushed(&self) -> u64 {
        self.streams.iter().map(|stream| stream.pushed).sum()
    }

    /// Bytes of memory held, records not yet written included.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.records.len() + self.obs.iter().flatten().map(Observations::nbytes).sum::<usize>()
    }

    /// Forgets every row. Indices go on counting, so that old ones stay recognisable.
    pub fn clear(&mut self) {
        for stream in &mut self.streams {
            *stream = Stream::empty_at(stream.pushed);
        }
        for observations in self.obs.iter_mut().flatten() {
            observations.release_before(u64::MAX);
        }
    }

    /// Ends the running episode of `stream` after its newest row, though no flag says so: the rows
    /// that follow are not its continuation (an environment that died and was replaced).
    ///
    /// # Errors
    /// [`Error::Config`] if there is no such stream.
    pub fn cut_episode(&mut self, stream: usize) -> Result<()> {
        let n = self.streams.len();
        let found = self.streams.get_mut(stream);
        let state = found.ok_or_else(|| no_such_stream(stream, n))?;
        state.begins = true;
        if std::mem::take(&mut state.open) {
            for observations in &mut self.obs {
                if let Some(observations) = observations.get_mut(stream) {
                    observations.repeat_newest();
                }
            }
        }
        Ok(())
    }

    /// Stores rows; `stored` is told of each, in order.
    ///
    /// # Errors
    /// [`Error::Shape`] for a column of another size, [`Error::Config`] for a stream that does
    /// not exist. Nothing is stored then.
    pub fn push(
        &mut self,
        target: Target<'_>,
        rows: Rows<'_>,
        mut stored: impl FnMut(Row),
    ) -> Result<()> {
        self.check(target, &rows)?;
        match target {
            Target::Stream(stream) => {
                for start in (0..rows.n).step_by(self.capacity.min(1_024)) {
                    let end = rows.n.min(start + self.capacity.min(1_024));
                    self.push_block(stream, &rows, start, end, &mut stored);
                }
            }
            Target::Each => {
                (0..rows.n).for_each(|i| self.push_block(i, &rows, i, i + 1, &mut stored));
            }
            Target::Ids(ids) => {
                for (i, &id) in ids.iter().enumerate() {
                    self.push_block(id, &rows, i, i + 1, &mut stored);
                }
            }
        }
        Ok(())
    }

    /// Checks that rows fit the schema and their target.
    pub(super) fn check(&self, target: Target<'_>, rows: &Rows<'_>) -> Result<()> {
        let n = self.streams.len();
        let wrong = match target {
            Target::Stream(stream) => Some(stream).filter(|&stream| stream >= n),
            Target::Each => {
                check_len("rows", rows.n, n, "one per environment")?;
                None
            }
            Target::Ids(ids) => {
                check_len("env_ids", ids.len(), rows.n, "one per row")?;
                ids.iter().copied().find(|&id| id >= n)
            }
        };
        if let Some(stream) = wrong {
            return Err(no_such_stream(stream, n));
        }
        for given in std::iter::once(rows.obs).chain(rows.next_obs) {
            check_len("observation columns", given.len(), self.obs.len(), "the schema's")?;
            for (bytes, width) in given.iter().zip(&self.layout.obs) {
                check_len("obs", bytes.len(), rows.n * width, "bytes")?;
            }
        }
        check_len("columns", rows.columns.len(), self.layout.columns.len(), "the schema's")?;
        for (bytes, &(_, width)) in rows.columns.iter().zip(&self.layout.columns) {
            check_len("column", bytes.len(), rows.n * width, "bytes")?;
        }
        check_len("terminated", rows.terminated.len(), rows.n, "one per row")?;
        check_len("truncated", rows.truncated.len(), rows.n, "one per row")
    }

    /// Stores rows `from..to` in one stream; at most its capacity.
    pub(super) fn push_block(
        &mut self,
        stream: usize,
        rows: &Rows<'_>,
        from: usize,
        to: usize,
        stored: &mut impl FnMut(Row),
    ) {
        let count = to - from;
        if count == 1 {
            return self.push_row(stream, rows, from, stored);
        }
        self.make_room(stream, count);
        let Some(state) = self.streams.get_mut(stream) else { return };
        let (capacity, head, stride) = (self.capacity, state.head, self.layout.stride);
        let place = |row: usize| {
            let slot = head + row;
            (stream * capacity + if slot < capacity { slot } else { slot - capacity }) * stride
        };
        let part = |bytes, width: usize| sub::<u8>(bytes, from * width, to * width);
        for (bytes, &(offset, width)) in rows.columns.iter().zip(&self.layout.columns) {
            let places = (0..count).map(place);
            width::scatter(&mut self.records, places, offset, width, part(bytes, width));
        }
        let (terminated, truncated) = (part(rows.terminated, 1), part(rows.truncated, 1));
        for (row, (&terminal, &cut)) in terminated.iter().zip(truncated).enumerate() {
            let flags = u8::from(terminal != 0) * TERMINATED + u8::from(cut != 0) * TRUNCATED;
            if let Some(slot) = self.records.get_mut(place(row) + self.layout.flags) {
                *slot = flags;
            }
            let position = state.pushed + row as u64;
            state.mark(position, flags != 0);
            #[expect(clippy::cast_possible_truncation, reason = "at most MAX_STREAMS")]
            stored(Row { position, record: place(row), stream: stream as u32 });
        }
        let ended = |row: usize| [terminated, truncated].iter().any(|f| f.get(row) != Some(&0));
        let records = &mut self.records;
        let mut open = false;
        for (column, (&width, observations)) in
            self.layout.obs.iter().zip(&mut self.obs).enumerate()
        {
            let (Some(observations), Some(bytes)) =
                (observations.get_mut(stream), rows.obs.get(column))
            else {
                continue;
            };
            let next = rows.next_obs.and_then(|next| next.get(column));
            let pushed = Pushed {
                obs: part(bytes, width),
                next_obs: next.map(|bytes| part(bytes, width)),
                width,
                open: state.open,
            };
            open = observations.push(pushed, ended, |row, lower| {
                put_number(records, place(row) + 4 * column, lower);
            });
        }
        state.open = open;
        state.advance(count, capacity);
    }

    /// [`Storage::push_block`] of row `at` alone.
    fn push_row(
        &mut self,
        stream: usize,
        rows: &Rows<'_>,
        at: usize,
        stored: &mut impl FnMut(Row),
    ) {
        self.make_room(stream, 1);
        let Some(state) = self.streams.get_mut(stream) else { return };
        let start = (stream * self.capacity + state.head) * self.layout.stride;
        let Some(record) = self.records.get_mut(start..start + self.layout.stride) else { return };
        for (bytes, &(offset, width)) in rows.columns.iter().zip(&self.layout.columns) {
            width::copy(sub(bytes, at * width, (at + 1) * width), record, offset);
        }
        let flag = |flags: &[u8]| flags.get(at).is_some_and(|&flag| flag != 0);
        let (terminated, truncated) = (flag(rows.terminated), flag(rows.truncated));
        let ended = terminated || truncated;
        if let Some(slot) = record.get_mut(self.layout.flags) {
            *slot = u8::from(terminated) * TERMINATED + u8::from(truncated) * TRUNCATED;
        }
        state.mark(state.pushed, ended);
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_STREAMS")]
        stored(Row { position: state.pushed, record: start, stream: stream as u32 });
        let mut open = false;
        let columns = self.layout.obs.iter().zip(&mut self.obs).zip(rows.obs).enumerate();
        for (column, ((&width, observations), obs)) in columns {
            let Some(observations) = observations.get_mut(stream) else { continue };
            let part = |bytes| sub::<u8>(bytes, at * width, (at + 1) * width);
            let next_obs = rows.next_obs.and_then(|next| next.get(column)).map(|next| part(next));
            let pushed = Pushed { obs: part(obs), next_obs, width, open: state.open };
            let number = |_, lower| put_number(record, 4 * column, lower);
            open = observations.push(pushed, |_| ended, number);
        }
        state.open = open;
        state.advance(1, self.capacity);
    }

    /// Drops the oldest rows of a stream so that `count` more fit.
    fn make_room(&mut self, stream: usize, count: usize) {
        let Some(state) = self.streams.get_mut(stream) else { return };
        if state.len() + count <= self.capacity {
            return;
        }
        let drop = (state.len() + count - self.capacity) as u64;
        state.evict_before(state.start + drop);
        let record =
            (stream * self.capacity + state.slot(state.start, self.capacity)) * self.layout.stride;
        for (column, observations) in self.obs.iter_mut().enumerate() {
            let Some(observations) = observations.get_mut(stream) else { continue };
            let items = observations.items();
            // The newest is kept to be compared with what is pushed next.
            let oldest = if state.len() == 0 {
                items.end().saturating_sub(1)
            } else {
                let lower = number_at(&self.records, record + 4 * column);
                number_behind(items.end(), lower)
            };
            observations.release_before(oldest);
        }
    }
}

/// Zeroed bytes that the system provides when they are first written; None if it cannot.
fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    // Asked first because an allocation that fails aborts the process.
    Vec::<u8>::new().try_reserve_exact(bytes).ok()?;
    Some(vec![0; bytes])
}

fn no_such_stream(stream: usize, n: usize) -> Error {
    Error::config("env", stream, format!("an environment in 0..{n}"))
}

/// `[from, to)` of a slice whose length was checked.
#[inline]
fn sub<T>(values: &[T], from: usize, to: usize) -> &[T] {
    values.get(from..to).unwrap_or_default()
}
