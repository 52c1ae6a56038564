//! Observations of one column and environment, each stored once.

use super::chunks::{ChunkQueue, Reader, lower_half};
use super::stacks::Stacks;
use super::width::with_width;
use crate::buffer::schema::ObsField;
use crate::row_copy::RowCopy;
use crate::threads;

/// Several threads copy rows if there are at least this many bytes.
const PARALLEL_FROM: usize = 2 << 20;

/// The observations of one environment in time order.
///
/// The `next_obs` of a row comes after its `obs`. It is also the `obs` of the next row, unless that
/// row was pushed with other bytes.
#[derive(Debug, Clone)]
pub(in crate::buffer) enum Observations {
    /// Rows that are stored as they are.
    Plain(ChunkQueue),
    /// Stacks that share frames.
    Stacked(Box<Stacks>),
}

/// One of the two observations of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObsKind {
    /// The observation before the action.
    Obs,
    /// The observation after the action.
    NextObs,
}

/// The observations of a block of pushed rows, in rows of `width` bytes each.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObsBlock<'a> {
    /// Observations, `[n]` rows.
    pub obs: &'a [u8],
    /// Next observations, `[n]` rows. Without them, the `obs` of the next row is used.
    pub next_obs: Option<&'a [u8]>,
    /// Bytes per row.
    pub width: usize,
    /// Whether the newest stored row still needs the next `obs` as its `next_obs`.
    pub awaits_next_obs: bool,
}

impl Observations {
    /// Makes an empty store. `expected` is the approximate number of live observations.
    pub(super) fn new(column: &ObsField, expected: usize) -> Self {
        match column.stack {
            Some(stack) => Self::Stacked(Box::new(Stacks::new(column, stack, expected))),
            None => Self::Plain(ChunkQueue::new(column.field.row_bytes(), expected)),
        }
    }

    /// Returns the queue whose numbers the records refer to.
    #[inline]
    pub(in crate::buffer) const fn items(&self) -> &ChunkQueue {
        match self {
            Self::Plain(rows) => rows,
            Self::Stacked(stacks) => stacks.items(),
        }
    }

    /// Appends rows.
    ///
    /// `ends_episode` says whether row i ends an episode. `set_number` is called with each row and the
    /// lower half of the number of its `obs`. Returns whether the newest row still needs the next `obs`.
    pub(super) fn push(
        &mut self,
        block: ObsBlock<'_>,
        ends_episode: impl Fn(usize) -> bool,
        mut set_number: impl FnMut(usize, u32),
    ) -> bool {
        if let Self::Plain(rows) = self {
            with_width!(block.width, N => {
                return push_fixed::<N>(rows, block, ends_episode, set_number);
            }, else ());
        }
        let ObsBlock { obs, next_obs, width, mut awaits_next_obs } = block;
        let mut next_rows = next_obs.map(|rows| rows.chunks_exact(width));
        for (row, obs) in obs.chunks_exact(width).enumerate() {
            if awaits_next_obs || !self.newest_equals(obs) {
                self.append(obs);
            }
            set_number(row, lower_half(self.items().end() - 1));
            let next = next_rows.as_mut().and_then(Iterator::next);
            // A row that ends an episode never takes the observation after the reset.
            let next = next.or_else(|| ends_episode(row).then_some(obs));
            awaits_next_obs = next.is_none();
            if let Some(next) = next {
                self.append(next);
            }
        }
        awaits_next_obs
    }

    /// Appends a copy of the newest observation.
    pub(super) fn repeat_newest(&mut self) {
        let newest = self.items().end().saturating_sub(1);
        let mut row = vec![0; self.width()];
        self.copy(newest, &mut row, RowCopy::Cached);
        self.append(&row);
    }

    /// Appends `row` after the newest observation.
    pub(super) fn push_next(&mut self, row: &[u8]) {
        self.append(row);
    }

    /// Releases every observation before `number`.
    #[inline]
    pub(super) fn release_before(&mut self, number: u64) {
        match self {
            Self::Plain(rows) => rows.release_before(number),
            Self::Stacked(stacks) => stacks.release_before(number),
        }
    }

    /// Writes observation `number` into `out`.
    #[inline]
    pub(super) fn copy(&self, number: u64, out: &mut [u8], copy: RowCopy) {
        match self {
            Self::Plain(rows) => {
                // Panics if there is no such observation, so that `out` never keeps its old bytes.
                copy.copy_row(rows.get(number).unwrap_or_default(), out);
            }
            Self::Stacked(stacks) => stacks.copy(number, out, copy),
        }
    }

    /// Returns the queue of items, then the queue of frames if items are stacks.
    pub(in crate::buffer) fn queues(&self) -> impl Iterator<Item = &ChunkQueue> {
        let (items, frames) = match self {
            Self::Plain(rows) => (rows, None),
            Self::Stacked(stacks) => (stacks.items(), Some(stacks.frames())),
        };
        std::iter::once(items).chain(frames)
    }

    /// Same as [`Observations::queues`], but mutable.
    pub(in crate::buffer) fn queues_mut(&mut self) -> impl Iterator<Item = &mut ChunkQueue> {
        let (items, frames) = match self {
            Self::Plain(rows) => (rows, None),
            Self::Stacked(stacks) => {
                let (items, frames) = stacks.queues_mut();
                (items, Some(frames))
            }
        };
        std::iter::once(items).chain(frames)
    }

    /// Returns the stacks if there are any.
    pub(in crate::buffer) fn stacks(&self) -> Option<&Stacks> {
        match self {
            Self::Plain(_) => None,
            Self::Stacked(stacks) => Some(stacks),
        }
    }

    /// Returns the size of one observation in bytes.
    fn width(&self) -> usize {
        match self {
            Self::Plain(rows) => rows.width(),
            Self::Stacked(stacks) => stacks.width(),
        }
    }

    /// Returns the allocated memory in bytes.
    pub(super) fn nbytes(&self) -> usize {
        match self {
            Self::Plain(rows) => rows.nbytes(),
            Self::Stacked(stacks) => stacks.nbytes(),
        }
    }

    #[inline]
    fn append(&mut self, obs: &[u8]) {
        match self {
            Self::Plain(rows) => rows.push(obs),
            Self::Stacked(stacks) => stacks.push(obs),
        }
    }

    #[inline]
    fn newest_equals(&mut self, obs: &[u8]) -> bool {
        match self {
            Self::Plain(rows) => rows.end().checked_sub(1).and_then(|newest| rows.get(newest)) == Some(obs),
            Self::Stacked(stacks) => stacks.newest_equals(obs),
        }
    }
}

/// Same as [`Observations::push`], for rows of `N` bytes.
fn push_fixed<const N: usize>(
    rows: &mut ChunkQueue,
    block: ObsBlock<'_>,
    ends_episode: impl Fn(usize) -> bool,
    mut set_number: impl FnMut(usize, u32),
) -> bool {
    let mut awaits_next_obs = block.awaits_next_obs;
    let mut next_rows = block.next_obs.map(|rows| rows.as_chunks::<N>().0.iter());
    for (row, obs) in block.obs.as_chunks::<N>().0.iter().enumerate() {
        let newest = lower_half(rows.end()).wrapping_sub(1);
        let equals_newest = rows.end() > rows.start() && rows.get_fixed(newest) == Some(obs);
        if awaits_next_obs || !equals_newest {
            rows.push_fixed(obs);
        }
        set_number(row, lower_half(rows.end()).wrapping_sub(1));
        let next = next_rows.as_mut().and_then(Iterator::next);
        let next = next.or_else(|| ends_episode(row).then_some(obs));
        awaits_next_obs = next.is_none();
        if let Some(next) = next {
            rows.push_fixed(next);
        }
    }
    awaits_next_obs
}

/// An observation: its environment and the lower half of its number.
pub(super) type ObsKey = (usize, u32);

/// Copies each item into its row of `out`.
pub(super) fn gather(
    envs: &[Observations],
    items: impl Iterator<Item = ObsKey>,
    width: usize,
    out: &mut [u8],
) {
    with_width!(width, N => {
        let out = out.as_chunks_mut::<N>().0;
        if let [Observations::Plain(rows)] = envs {
            return gather_fixed(&rows.reader::<N>(), items, out);
        }
        for (item, row) in items.zip(out) {
            copy_fixed(envs, item, row);
        }
    }, else {
        let items: Vec<_> = items.map(|item| [item]).collect();
        WideCopy::new(envs, width, out.len()).gather(&items, [out]);
    });
}

/// Copies rows of one environment, each with the row after it, as [`gather_pairs`] does.
///
/// The `newest` row has no row after it and is copied twice. Returns false, without a copy, if rows
/// are so wide that nothing is gained.
pub(super) fn gather_neighbours(
    rows: &ChunkQueue,
    numbers: &[u32],
    newest: u32,
    width: usize,
    (now, next): (&mut [u8], &mut [u8]),
) -> bool {
    with_width!(width, N => {
        let out = (now.as_chunks_mut::<N>().0, next.as_chunks_mut::<N>().0);
        gather_neighbours_fixed(&rows.reader::<N>(), numbers, newest, out);
        true
    }, else false)
}

// The next two are separate functions: inlined beside other widths, their counters would not stay in
// registers.
#[inline(never)]
fn gather_fixed<const N: usize>(
    rows: &Reader<'_, N>,
    items: impl Iterator<Item = ObsKey>,
    out: &mut [[u8; N]],
) {
    for ((_, number), row) in items.zip(out) {
        rows.copy(number, row);
    }
}

#[inline(never)]
fn gather_neighbours_fixed<const N: usize>(
    rows: &Reader<'_, N>,
    numbers: &[u32],
    newest: u32,
    (now, next): (&mut [[u8; N]], &mut [[u8; N]]),
) {
    for ((&number, now), next) in numbers.iter().zip(now).zip(next) {
        rows.copy_pair(number, number == newest, now, next);
    }
}

/// Same as [`gather`], for two items per row. The second is mostly next to the first.
pub(super) fn gather_pairs(
    envs: &[Observations],
    items: impl Iterator<Item = (ObsKey, ObsKey)>,
    width: usize,
    now: &mut [u8],
    next: &mut [u8],
) {
    with_width!(width, N => {
        let out = now.as_chunks_mut::<N>().0.iter_mut().zip(next.as_chunks_mut::<N>().0);
        for ((first, second), (now, next)) in items.zip(out) {
            copy_fixed(envs, first, now);
            copy_fixed(envs, second, next);
        }
    }, else {
        let items: Vec<_> = items.map(|(first, second)| [first, second]).collect();
        WideCopy::new(envs, width, now.len() + next.len()).gather(&items, [now, next]);
    });
}

/// Copies observations that are too long for a few loads and stores.
#[derive(Debug, Clone, Copy)]
struct WideCopy<'a> {
    envs: &'a [Observations],
    width: usize,
    copy: RowCopy,
    is_parallel: bool,
}

impl<'a> WideCopy<'a> {
    /// Makes the copier of a call that copies `bytes` bytes in total.
    fn new(envs: &'a [Observations], width: usize, bytes: usize) -> Self {
        let is_parallel = bytes >= PARALLEL_FROM && threads::count() > 1;
        Self { envs, width, copy: RowCopy::for_size(bytes), is_parallel }
    }

    /// Copies the i-th items into row i of each array.
    fn gather<const M: usize>(self, items: &[[ObsKey; M]], mut out: [&mut [u8]; M]) {
        let half = items.len() / 2;
        if self.is_parallel && half * self.width * M >= PARALLEL_FROM / 2 {
            let (first, rest) = items.split_at(half);
            let mut parts = out.map(|rows| rows.split_at_mut(half * self.width));
            let left = parts.each_mut().map(|part| std::mem::take(&mut part.0));
            let right = parts.map(|part| part.1);
            threads::join(|| self.gather(first, left), || self.gather(rest, right));
            return;
        }
        for (row, items) in items.iter().enumerate() {
            for (&item, out) in items.iter().zip(&mut out) {
                let rows = out.get_mut(row * self.width..(row + 1) * self.width);
                copy_obs(self.envs, item, rows.unwrap_or_default(), self.copy);
            }
        }
    }
}

#[inline]
fn copy_fixed<const N: usize>(envs: &[Observations], item: ObsKey, row: &mut [u8; N]) {
    if let Some(Observations::Plain(rows)) = envs.get(item.0) {
        row.copy_from_slice(rows.get_fixed::<N>(item.1).map_or(&[], <[u8; N]>::as_slice));
    } else {
        copy_obs(envs, item, row, RowCopy::Cached);
    }
}

fn copy_obs(envs: &[Observations], (env, number): ObsKey, row: &mut [u8], copy: RowCopy) {
    if let Some(observations) = envs.get(env) {
        observations.copy(observations.items().full_number(number), row, copy);
    }
}
