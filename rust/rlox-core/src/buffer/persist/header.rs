//! The saved state of rows besides their bytes: that of rings, queues and random draws.

use crate::buffer::rows::{EnvRing, MemoryRows, sources};
use crate::buffer::sampling::SamplerState;
use crate::error::{Error, Result};

/// How many numbers the column `streams` has for each environment.
const RING_NUMBERS: usize = 6;
/// Largest number that a buffer can reach in practice.
const MAX_NUMBER: u64 = 1 << 62;

/// A column to save: name, size of an element in bytes, content.
pub(in crate::buffer) type SavedColumn = (String, usize, Vec<u8>);

/// The saved state of rings, queues and random draws.
#[derive(Debug, Clone)]
pub(in crate::buffer) struct Header {
    /// The ring of each environment.
    pub rings: Vec<EnvRing>,
    /// For each source, the number of its first row and the one after the last.
    pub ranges: Vec<(u64, u64)>,
    pub seed: u64,
    pub batches_drawn: u64,
}

impl Header {
    /// Makes the header of the current rows and draws.
    pub(in crate::buffer) fn from_rows(rows: &MemoryRows, state: &SamplerState) -> Self {
        let ranges = sources(rows).iter().map(|source| (source.start, source.end)).collect();
        let rings = rows.rings().by_env.clone();
        Self { rings, ranges, seed: state.seed(), batches_drawn: state.batches_drawn() }
    }

    /// Returns the state of the random draws.
    pub(in crate::buffer) const fn sampler_state(&self) -> SamplerState {
        SamplerState::at_batch(self.seed, self.batches_drawn)
    }

    /// Returns the header as columns of little-endian numbers.
    pub(in crate::buffer) fn columns(&self) -> Vec<SavedColumn> {
        let rings = self.rings.iter().flat_map(|ring| {
            [
                ring.start,
                ring.n_pushed,
                ring.head as u64,
                u64::from(ring.awaits_next_obs),
                u64::from(ring.begins_episode),
                ring.episode_starts.len() as u64,
            ]
        });
        let episodes = self.rings.iter().flat_map(|ring| ring.episode_starts.iter().copied());
        let ranges = self.ranges.iter().flat_map(|&(start, end)| [start, end]);
        let column = |name: &str, width: usize, numbers: &mut dyn Iterator<Item = u64>| {
            (name.to_owned(), width.saturating_mul(8), numbers.flat_map(u64::to_le_bytes).collect())
        };
        vec![
            column("streams", RING_NUMBERS, &mut { rings }),
            column("episodes", 1, &mut { episodes }),
            column("queues", 2, &mut { ranges }),
            column("draws", 2, &mut [self.seed, self.batches_drawn].into_iter()),
        ]
    }

    /// Reads the columns of [`Header::columns`] for rows like `rows`.
    ///
    /// A ring with more than `max_rows` rows is refused. `column` returns the bytes of a column.
    pub(in crate::buffer) fn parse(
        rows: &MemoryRows,
        max_rows: u64,
        column: &dyn Fn(&'static str) -> Result<Vec<u8>>,
    ) -> Result<Self> {
        let numbers = |name| parse_numbers(name, &column(name)?);
        let &[seed, batches_drawn] = numbers("draws")?.as_slice() else {
            return Err(Error::snapshot("draws", "of another length", "2 numbers"));
        };
        let (states, episodes) = (numbers("streams")?, numbers("episodes")?);
        let (states, rest) = states.as_chunks::<RING_NUMBERS>();
        let n = rows.rings().n_envs();
        if states.len() != n || !rest.is_empty() {
            return Err(Error::snapshot("streams", states.len(), format!("{n} environments")));
        }
        let mut episodes = episodes.into_iter();
        let ring = |state: &[u64; RING_NUMBERS]| {
            parse_ring(state, &mut episodes, max_rows, rows.rings().capacity).ok_or_else(|| {
                Error::snapshot("streams", format!("{state:?}"), "rows and episodes that fit a ring")
            })
        };
        let rings = states.iter().map(ring).collect::<Result<_>>()?;
        if let Some(stray) = episodes.next() {
            return Err(Error::snapshot("episodes", format!("{stray} beside"), "those of the rings"));
        }
        let ranges = numbers("queues")?;
        let (pairs, rest) = ranges.as_chunks::<2>();
        let expected = sources(rows).len();
        let is_valid = pairs.iter().all(|[start, end]| start <= end && *end <= MAX_NUMBER);
        if pairs.len() != expected || !rest.is_empty() || !is_valid {
            return Err(Error::snapshot("queues", format!("{ranges:?}"), format!("{expected} ranges")));
        }
        Ok(Self { rings, ranges: pairs.iter().map(|&[a, b]| (a, b)).collect(), seed, batches_drawn })
    }
}

fn parse_numbers(name: &'static str, bytes: &[u8]) -> Result<Vec<u64>> {
    let (numbers, rest) = bytes.as_chunks();
    if rest.is_empty() {
        return Ok(numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect());
    }
    Err(Error::snapshot(name, format!("{} bytes", bytes.len()), "whole numbers of 8 bytes"))
}

/// Makes a ring from these numbers and takes its episodes from `episodes`. None if no ring can have
/// them.
fn parse_ring(
    &[start, n_pushed, head, awaits_next_obs, begins_episode, count]: &[u64; RING_NUMBERS],
    episodes: &mut impl Iterator<Item = u64>,
    max_rows: u64,
    capacity: usize,
) -> Option<EnvRing> {
    let rows = n_pushed.checked_sub(start)?;
    let (head, count) = (usize::try_from(head).ok()?, usize::try_from(count).ok()?);
    let parse_flag = |number| (number <= 1).then_some(number == 1);
    let (awaits_next_obs, begins_episode) = (parse_flag(awaits_next_obs)?, parse_flag(begins_episode)?);
    let episodes: std::collections::VecDeque<u64> = episodes.take(count).collect();
    let is_increasing = episodes.iter().zip(episodes.iter().skip(1)).all(|(a, b)| a < b);
    let is_within = episodes.back().is_none_or(|&last| last < n_pushed);
    let is_valid =
        rows <= max_rows && n_pushed <= MAX_NUMBER && head < capacity && is_increasing && is_within;
    let is_complete = episodes.len() == count && !(awaits_next_obs && begins_episode);
    (is_valid && is_complete).then_some(EnvRing {
        start,
        n_pushed,
        head,
        awaits_next_obs,
        episode_starts: episodes,
        begins_episode,
    })
}

/// Checks that a save is one of a buffer whose layout is `expected`.
pub(in crate::buffer) fn check_layout(got: &[u8], expected: &str) -> Result<()> {
    if got == expected.as_bytes() {
        return Ok(());
    }
    let got = String::from_utf8_lossy(got).replace('\n', "; ");
    Err(Error::snapshot("layout", got, expected.replace('\n', "; ")))
}
