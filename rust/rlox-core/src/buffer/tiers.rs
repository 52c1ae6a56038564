//! Finding and copying rows of both tiers, and blocks of rows in.

use std::ops::Range;

use super::cold::{Cold, Scratch};
use super::draw::Draws;
use super::horizon::{Horizon, real};
use super::replay::Request;
use super::rows::Moment;
use super::schema::Schema;
use super::storage::{Row, Rows, Storage, TERMINATED, TRUNCATED, Target};
use super::tiered::{MmapReplayBuffer, Pick};
use crate::Dtype;
use crate::error::{Error, Result};

impl Storage {
    /// Stores rows `part` of `rows`, which were checked; all of them for [`Target::Each`].
    pub(super) fn push_part(&mut self, target: Target<'_>, rows: &Rows<'_>, part: Range<usize>) {
        if let Target::Stream(stream) = target {
            return self.push_block(stream, rows, part.start, part.end, &mut |_| {});
        }
        for row in part {
            let stream = if let Target::Ids(ids) = target { ids.get(row).copied() } else { None };
            self.push_block(stream.unwrap_or(row), rows, row, row + 1, &mut |_| {});
        }
    }
}

/// The n-step window of a row.
struct Window {
    /// Position of its last row.
    last: u64,
    /// Discounted sum of its rewards.
    total: f64,
    /// Discount of what follows; 0 after a terminal state.
    discount: f64,
}

impl MmapReplayBuffer {
    /// Draws rows, uniformly and with replacement, batch after batch.
    ///
    /// The draws depend on the rows held and the seed, not on where the rows are.
    ///
    /// # Errors
    /// [`Error::Config`] for an empty or closed buffer or a request out of range.
    pub fn sample(&self, request: Request) -> Result<Vec<Pick>> {
        self.open()?;
        let mut picks = Vec::with_capacity(request.rows()?);
        let streams = self.storage.streams.iter().enumerate();
        let mut ends = Vec::with_capacity(self.floors.len());
        let len = streams.fold(0_u64, |before, (at, state)| {
            ends.push(before + state.pushed - self.start(at));
            before + state.pushed - self.start(at)
        });
        let n = self.storage.streams.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "less than the streams")]
        let stream_of = |draw: u64| (draw % n) as usize;
        let equal = ends.first().is_some_and(|&each| each * n == len)
            && ends.iter().zip(1..).all(|(&end, streams)| end * n == len * streams);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len == 0 {
            return Err(Error::config("buffer", "empty", "at least one row; push before sampling"));
        }
        let (seed, first) = self.draws.take(request.seed, request.n_batches);
        for batch in 0..request.n_batches as u64 {
            let mut draws = Draws::new(seed, first.wrapping_add(batch));
            picks.extend((0..request.batch_size).map(|_| {
                let draw = draws.below(len) as u64;
                // As ReplayBuffer maps draws to rows, so that both sample the same.
                let (stream, ahead) = if equal {
                    (stream_of(draw), draw / n)
                } else {
                    let stream = ends.partition_point(|&end| end <= draw);
                    let before = stream.checked_sub(1).and_then(|at| ends.get(at)).copied();
                    (stream, draw - before.unwrap_or(0))
                };
                Pick { stream, position: self.start(stream) + ahead }
            }));
        }
        Ok(picks)
    }

    /// The row with an index.
    ///
    /// # Errors
    /// [`Error::StaleIndex`] if it left the ring or was never written.
    pub fn find(&self, index: u64) -> Result<Pick> {
        self.held(index).ok_or_else(|| {
            let n = self.storage.streams.len() as u64;
            let streams = self.storage.streams.iter().enumerate();
            let filled = streams.filter(|(at, state)| self.start(*at) < state.pushed);
            let ends =
                filled.map(|(at, s)| [self.start(at), s.pushed - 1].map(|p| p * n + at as u64));
            let range = ends.reduce(|[a, b], [c, d]| [a.min(c), b.max(d)]);
            let held = range.map_or_else(
                || "no rows".to_owned(),
                |[low, high]| format!("rows {low} to {high}"),
            );
            Error::StaleIndex { index, held }
        })
    }

    /// The row with an index, None if it is not held.
    fn held(&self, index: u64) -> Option<Pick> {
        let n = self.storage.streams.len() as u64;
        let position = index.checked_div(n)?;
        let stream = usize::try_from(index % n).ok()?;
        let state = self.storage.streams.get(stream)?;
        let held = (self.start(stream)..state.pushed).contains(&position);
        held.then_some(Pick { stream, position })
    }

    /// The row of a pick in memory, None if it is on disk only.
    fn hot(&self, pick: Pick) -> Option<Row> {
        let state = self.storage.streams.get(pick.stream)?;
        let held = (state.start..state.pushed).contains(&pick.position);
        held.then(|| self.storage.row(pick.stream, pick.position))
    }

    /// Copies rows out, as n-step windows if `horizon` is given; cold ones are read from disk and
    /// checked. `out` are the arrays of a batch as for [`Storage::fill`].
    ///
    /// # Errors
    /// [`Error::Damaged`] for a row that is not what was written, [`Error::Storage`] if the disk
    /// refuses.
    pub fn fill(
        &self,
        picks: &[Pick],
        horizon: Option<Horizon>,
        out: &mut [&mut [u8]],
    ) -> Result<()> {
        let cold = self.open()?;
        let mut scratch = Scratch::default();
        for (at, &pick) in picks.iter().enumerate() {
            let parts = out.iter_mut().map(|all| row_of(all, at, picks.len()));
            let mut row: Vec<&mut [u8]> = parts.collect();
            match self.hot(pick) {
                Some(hot) => self.storage.fill(&[hot], None, &mut row),
                None => read_row(cold, &self.storage, pick, &mut row, &mut scratch)?,
            }
            if let Some(horizon) = horizon {
                self.look_ahead(cold, horizon, pick, &mut row, &mut scratch)?;
            }
        }
        Ok(())
    }

    /// Turns the row of a pick in `out` into its n-step window.
    fn look_ahead(
        &self,
        cold: &Cold,
        horizon: Horizon,
        pick: Pick,
        out: &mut [&mut [u8]],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let window = self.window(cold, horizon, pick, scratch)?;
        let (n_obs, n_columns) = (self.storage.obs.len(), self.storage.layout.columns.len());
        let last = Pick { position: window.last, ..pick };
        if last != pick {
            self.read_end(cold, last, out, scratch)?;
        }
        #[expect(clippy::cast_possible_truncation, reason = "rounding to the column's type")]
        if let Some(reward) = out.get_mut(2 * n_obs + Schema::REWARDS) {
            let columns = self.storage.schema.columns();
            match columns.get(Schema::REWARDS).map(|column| column.dtype) {
                Some(Dtype::F32) => reward.copy_from_slice(&(window.total as f32).to_ne_bytes()),
                _ => reward.copy_from_slice(&window.total.to_ne_bytes()),
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "discounts are float32")]
        if let Some(discount) = out.get_mut(2 * n_obs + n_columns + 3) {
            discount.copy_from_slice(&(window.discount as f32).to_ne_bytes());
        }
        Ok(())
    }

    /// Writes `next_obs` and the flags of a row into the row `out`.
    fn read_end(
        &self,
        cold: &Cold,
        pick: Pick,
        out: &mut [&mut [u8]],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (n_obs, n_columns) = (self.storage.obs.len(), self.storage.layout.columns.len());
        let hot = self.hot(pick);
        if hot.is_none() {
            cold.record(&self.storage, pick.stream, pick.position, scratch)?;
        }
        for (column, out) in out.iter_mut().skip(n_obs).take(n_obs).enumerate() {
            match hot {
                Some(row) => self.storage.gather_obs(column, Moment::Next, &[row], out),
                None => cold.obs(&self.storage, (pick.stream, column, 1), out, scratch)?,
            }
        }
        let flags = match hot {
            Some(row) => self.storage.flags(row),
            None => scratch.record.get(self.storage.layout.flags).copied().unwrap_or(0),
        };
        for (out, flag) in out.iter_mut().skip(2 * n_obs + n_columns).zip([TERMINATED, TRUNCATED]) {
            out.fill(u8::from(flags & flag != 0));
        }
        Ok(())
    }

    /// As [`Storage::look_ahead`] sees it: up to n rows, fewer where the episode ends or the newest
    /// row is reached.
    fn window(
        &self,
        cold: &Cold,
        horizon: Horizon,
        pick: Pick,
        scratch: &mut Scratch,
    ) -> Result<Window> {
        let Pick { stream, position } = pick;
        let pushed = self.storage.streams.get(stream).map_or(0, |state| state.pushed);
        let cuts = self.cuts.get(stream).into_iter().flatten();
        let end = cuts.copied().find(|&cut| cut > position).unwrap_or(pushed);
        let end = end.min(position.saturating_add(horizon.n as u64));
        let layout = &self.storage.layout;
        let (offset, width) = layout.columns.get(Schema::REWARDS).copied().unwrap_or_default();
        let (mut window, mut factor) = (Window { last: position, total: 0.0, discount: 0.0 }, 1.0);
        for position in position..end {
            let (begin, bytes) = if let Some(row) = self.hot(Pick { stream, position }) {
                (row.record, &self.storage.records)
            } else {
                cold.record(&self.storage, stream, position, scratch)?;
                (0, &scratch.record)
            };
            let reward = bytes.get(begin + offset..begin + offset + width).unwrap_or_default();
            let flags = bytes.get(begin + layout.flags).copied().unwrap_or(0);
            window.total += factor * real(reward);
            factor *= horizon.gamma;
            window.last = position;
            window.discount = if flags & TERMINATED == 0 { factor } else { 0.0 };
            if flags != 0 {
                break;
            }
        }
        Ok(window)
    }

    /// Writes `values`, `[indices, ...]` bytes, into a column of rows that are not sealed yet;
    /// returns how many of `indices` are no longer held and were passed over.
    ///
    /// # Errors
    /// [`Error::Config`] if one is sealed, because segments never change and its old value would
    /// come back when it leaves memory; [`Error::Shape`] if there is not one value per index.
    /// Nothing is written then.
    pub fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64> {
        self.open()?;
        let Some(&(offset, width)) = self.storage.layout.columns.get(column) else { return Ok(0) };
        let expected = indices.len() * width;
        crate::error::check_len("values", values.len(), expected, "bytes, one row per index")?;
        let sealed = |pick: &Pick| pick.position < self.sealed(pick.stream);
        let held = |index: &u64| self.held(*index);
        if let Some(index) = indices.iter().find(|index| held(index).is_some_and(|p| sealed(&p))) {
            let expected = "indices of rows that are not sealed on disk yet: segments never change, \
                            so that what is written there stays (ReplayBuffer holds rows that can \
                            be updated at any time)";
            return Err(Error::config("indices", index, expected));
        }
        let mut stale = 0;
        for (&index, value) in indices.iter().zip(values.chunks_exact(width)) {
            let Some(row) = self.held(index).and_then(|pick| self.hot(pick)) else {
                stale += 1;
                continue;
            };
            let start = row.record + offset;
            if let Some(slot) = self.storage.records.get_mut(start..start + width) {
                slot.copy_from_slice(value);
            }
        }
        Ok(stale)
    }

    /// Makes the newest observation of a stream follow itself if its row waits for that and is on
    /// disk only, as after [`MmapReplayBuffer::restore`].
    fn repeat_cold(&mut self, stream: usize) -> Result<()> {
        let cold = self.open()?;
        let state = self.storage.streams.get(stream);
        let Some(state) = state.filter(|state| state.open && state.len() == 0) else {
            return Ok(());
        };
        let mut scratch = Scratch::default();
        cold.record(&self.storage, stream, state.pushed.saturating_sub(1), &mut scratch)?;
        let mut rows = Vec::with_capacity(self.storage.obs.len());
        for (column, &width) in self.storage.layout.obs.iter().enumerate() {
            let mut row = vec![0; width];
            cold.obs(&self.storage, (stream, column, 0), &mut row, &mut scratch)?;
            rows.push(row);
        }
        for (streams, row) in self.storage.obs.iter_mut().zip(rows) {
            if let Some(observations) = streams.get_mut(stream) {
                observations.follow(&row);
            }
        }
        if let Some(state) = self.storage.streams.get_mut(stream) {
            state.open = false;
        }
        Ok(())
    }

    /// Ends the running episode of `stream` after its newest row; see [`Storage::cut_episode`].
    ///
    /// # Errors
    /// As there; [`Error::Config`] after `close`.
    pub fn cut_episode(&mut self, stream: usize) -> Result<()> {
        self.repeat_cold(stream)?;
        self.storage.cut_episode(stream)?;
        let pushed = self.storage.streams.get(stream).map_or(0, |state| state.pushed);
        if let Some(cuts) = self.cuts.get_mut(stream)
            && cuts.back().is_none_or(|&cut| cut < pushed)
        {
            cuts.push_back(pushed);
        }
        Ok(())
    }
}

/// Copies a row from disk into `out`, one row of each array of a batch.
fn read_row(
    cold: &Cold,
    storage: &Storage,
    pick: Pick,
    out: &mut [&mut [u8]],
    scratch: &mut Scratch,
) -> Result<()> {
    let Pick { stream, position } = pick;
    cold.record(storage, stream, position, scratch)?;
    let n_obs = storage.obs.len();
    for (at, out) in out.iter_mut().take(2 * n_obs).enumerate() {
        let (column, ahead) = (at % n_obs, u64::from(at >= n_obs));
        cold.obs(storage, (stream, column, ahead), out, scratch)?;
    }
    let layout = &storage.layout;
    let flags = scratch.record.get(layout.flags).copied().unwrap_or(0);
    let index = (position * storage.streams.len() as u64 + stream as u64).to_ne_bytes();
    let [terminated, truncated] = [TERMINATED, TRUNCATED].map(|flag| [u8::from(flags & flag != 0)]);
    let columns = layout
        .columns
        .iter()
        .map(|&(offset, width)| scratch.record.get(offset..offset + width).unwrap_or_default());
    let rest = columns.chain([terminated.as_slice(), &truncated, &index]);
    for (out, bytes) in out.iter_mut().skip(2 * n_obs).zip(rest) {
        out.copy_from_slice(bytes);
    }
    Ok(())
}

/// Row `at` of `[rows, ...]` bytes.
fn row_of(out: &mut [u8], at: usize, rows: usize) -> &mut [u8] {
    let width = out.len().checked_div(rows).unwrap_or(0);
    out.get_mut(at * width..(at + 1) * width).unwrap_or_default()
}
