//! Packs sequences of different lengths into rows of one length.

use crate::error::{Error, Result, check_len};
use crate::interrupt::CheckPace;

/// All rows together must have fewer tokens than this, padding included, so that the 32-bit numbers
/// of [`Packing::cumulative_lengths`] can count them.
const MAX_CELLS: usize = 1 << 31;

/// Cost of the search for a row, as a number of elements for [`CheckPace::spend`].
const SEARCH_COST: usize = 16;

/// The position of a sequence in the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Index of the sequence in the input.
    pub sequence: usize,
    /// Index of the row.
    pub bin: usize,
    /// Its first column in the row.
    pub start: usize,
    /// Number of tokens.
    pub len: usize,
}

/// Sequences in rows of `max_len` tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    max_len: usize,
    n_bins: usize,
    places: Vec<Place>,
}

/// The three `[n_bins * max_len]` outputs of [`Packing::describe`].
pub struct Description<'a> {
    /// The index of the sequence that a token belongs to, -1 for padding.
    pub packed: &'a mut [i64],
    /// Whether the cell holds a token.
    pub masks: &'a mut [bool],
    /// The position of the token in its sequence, 0 for padding.
    pub positions: &'a mut [i64],
}

impl Packing {
    /// Packs sequences by first-fit-decreasing (Johnson 1974). The longest sequence comes first;
    /// sequences of the same length keep their order. Each goes into the first row that has room.
    /// The number of rows is at most 11/9 of the fewest possible, plus one. The time is O(n log n).
    ///
    /// # Errors
    /// [`Error::Config`] if `max_len` is 0, for a length outside `1..=max_len`, or if the rows have
    /// 2^31 tokens or more; [`Error::Interrupted`].
    pub fn first_fit_decreasing(lengths: &[i64], max_len: usize) -> Result<Self> {
        if max_len == 0 {
            return Err(Error::config("max_len", 0, "at least 1"));
        }
        let mut longest_first = Vec::with_capacity(lengths.len());
        for (sequence, &length) in lengths.iter().enumerate() {
            let valid_len = usize::try_from(length).ok().filter(|len| (1..=max_len).contains(len));
            let len = valid_len.ok_or_else(|| {
                let got = format!("{length} at index {sequence}");
                let expected = format!("1..={max_len} (max_len); drop or cut that sequence");
                Error::config("length", got, expected)
            })?;
            longest_first.push((sequence, len));
        }
        longest_first.sort_by_key(|&(_, len)| std::cmp::Reverse(len));
        let mut free_space = FreeSpace::new(lengths.len(), max_len);
        let (mut places, mut pace) = (Vec::with_capacity(lengths.len()), CheckPace::default());
        for (sequence, len) in longest_first {
            pace.spend(SEARCH_COST)?;
            let (bin, start) = free_space.take(len);
            places.push(Place { sequence, bin, start, len });
        }
        places.sort_unstable_by_key(|place| (place.bin, place.start));
        let n_bins = places.last().map_or(0, |place| place.bin + 1);
        // A packing without sequences counts as one row here, so that an array can always hold a row.
        if n_bins.max(1).checked_mul(max_len).is_none_or(|cells| cells >= MAX_CELLS) {
            let got = format!("{max_len} and the number of rows {n_bins}");
            return Err(Error::config("max_len", got, "less than 2^31 tokens in all rows together"));
        }
        Ok(Self { max_len, n_bins, places })
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn n_bins(&self) -> usize {
        self.n_bins
    }

    /// Returns the number of tokens of a row.
    #[must_use]
    pub const fn max_len(&self) -> usize {
        self.max_len
    }

    /// Returns the positions of the sequences, row by row, from left to right.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Writes the sequence of each token, and its position in the sequence.
    ///
    /// # Errors
    /// [`Error::Shape`] if an output is not `[n_bins * max_len]`, [`Error::Interrupted`].
    pub fn describe(&self, out: Description<'_>) -> Result<()> {
        let cells = self.n_bins.saturating_mul(self.max_len);
        let reason = "n_bins * max_len";
        check_len("packed", out.packed.len(), cells, reason)?;
        check_len("masks", out.masks.len(), cells, reason)?;
        check_len("positions", out.positions.len(), cells, reason)?;
        out.packed.fill(-1);
        out.masks.fill(false);
        out.positions.fill(0);
        let mut pace = CheckPace::default();
        for place in &self.places {
            pace.spend(place.len)?;
            let cells = self.cells(place);
            if let Some(packed) = out.packed.get_mut(cells.clone()) {
                packed.fill(as_i64(place.sequence));
            }
            if let Some(masks) = out.masks.get_mut(cells.clone()) {
                masks.fill(true);
            }
            let positions = out.positions.get_mut(cells).unwrap_or_default();
            for (index, position) in positions.iter_mut().enumerate() {
                *position = as_i64(index);
            }
        }
        Ok(())
    }

    /// Writes the tokens of `sequences` into rows, `[n_bins * max_len]`, and `pad` elsewhere.
    ///
    /// # Errors
    /// [`Error::Shape`] if `out` does not fit or the length of a sequence differs from its packed
    /// length, [`Error::Interrupted`].
    pub fn write_tokens(&self, sequences: &[&[i64]], pad: i64, out: &mut [i64]) -> Result<()> {
        let cells = self.n_bins.saturating_mul(self.max_len);
        check_len("tokens", out.len(), cells, "n_bins * max_len")?;
        check_len("sequences", sequences.len(), self.places.len(), "as many as were packed")?;
        out.fill(pad);
        let mut pace = CheckPace::default();
        for place in &self.places {
            pace.spend(place.len)?;
            let tokens = sequences.get(place.sequence).copied().unwrap_or_default();
            check_len("sequence", tokens.len(), place.len, "its length when it was packed")?;
            out.get_mut(self.cells(place)).unwrap_or_default().copy_from_slice(tokens);
        }
        Ok(())
    }

    /// Returns where each sequence starts if padding is not counted, row by row, and last the number
    /// of all tokens: `[n_sequences + 1]`, the `cu_seqlens` of variable-length attention kernels.
    #[must_use]
    pub fn cumulative_lengths(&self) -> Vec<i32> {
        let ends = self.places.iter().scan(0, |total, place| {
            *total += place.len;
            Some(i32::try_from(*total).unwrap_or(i32::MAX))
        });
        std::iter::once(0).chain(ends).collect()
    }

    /// Returns (row, first column, length) of each sequence, in the order of their indices.
    /// `packed` is that of [`Description`], `max_len` wide.
    ///
    /// # Errors
    /// [`Error::Config`] if a sequence is in two pieces, or if there is no sequence with one of the
    /// indices below the largest.
    pub fn pieces(packed: &[i64], max_len: usize) -> Result<Vec<(usize, usize, usize)>> {
        let mut indexed_pieces = Vec::new();
        for (bin, row) in packed.chunks(max_len.max(1)).enumerate() {
            let mut start = 0;
            for run in row.chunk_by(|left, right| left == right) {
                if let Some(&sequence) = run.first().filter(|&&sequence| sequence >= 0) {
                    indexed_pieces.push((sequence, (bin, start, run.len())));
                }
                start += run.len();
            }
        }
        indexed_pieces.sort_unstable();
        for (expected, &(sequence, _)) in indexed_pieces.iter().enumerate() {
            if sequence != as_i64(expected) {
                let got = format!("a piece of sequence {sequence} after {expected} pieces");
                let expected = format!("one piece of each sequence; the next one is of sequence {expected}");
                return Err(Error::config("packed", got, expected));
            }
        }
        Ok(indexed_pieces.into_iter().map(|(_, piece)| piece).collect())
    }

    fn cells(&self, place: &Place) -> std::ops::Range<usize> {
        let first = place.bin * self.max_len + place.start;
        first..first + place.len
    }
}

/// The free space of each row, in a tree of maxima that finds the first row with room in O(log n).
struct FreeSpace {
    max_len: usize,
    /// The largest free space of the rows below each node. Node i has the children 2 i and 2 i + 1;
    /// the nodes of the second half are the rows.
    largest_rooms: Vec<usize>,
}

impl FreeSpace {
    /// Returns one empty row for each of `n` sequences, so that there is always a row with room.
    fn new(n: usize, max_len: usize) -> Self {
        Self { max_len, largest_rooms: vec![max_len; 2 * n.next_power_of_two()] }
    }

    /// Takes `len` tokens of the first row with that much room. Returns the row and the column
    /// where they begin.
    fn take(&mut self, len: usize) -> (usize, usize) {
        let rows = self.largest_rooms.len() / 2;
        let mut node = 1;
        while node < rows {
            node = if self.room(2 * node) >= len { 2 * node } else { 2 * node + 1 };
        }
        let room = self.room(node);
        let bin = node - rows;
        self.set(node, room.saturating_sub(len));
        while node > 1 {
            node /= 2;
            self.set(node, self.room(2 * node).max(self.room(2 * node + 1)));
        }
        (bin, self.max_len - room)
    }

    fn room(&self, node: usize) -> usize {
        self.largest_rooms.get(node).copied().unwrap_or(0)
    }

    fn set(&mut self, node: usize, room: usize) {
        if let Some(slot) = self.largest_rooms.get_mut(node) {
            *slot = room;
        }
    }
}

fn as_i64(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
