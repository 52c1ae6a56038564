//! Long work on a batch that can be interrupted: afterwards the batch is as before or as after.

use super::batch::Batch;
use super::clock::Clock;
use super::seeding::{Key, STREAM};
use crate::error::Result;
use crate::interrupt;
use crate::seed::Stream;

/// Estimated nanoseconds from which work is done in pieces and can be taken back. Shorter work pays
/// nothing for it.
const LONG: usize = 20_000_000;

/// Estimated nanoseconds of a piece.
const PIECE: usize = 5_000_000;

/// What a shard was before work that can be taken back: some 20 bytes and a state per environment.
pub(super) struct Undo<F> {
    pub(super) state: Vec<F>,
    pub(super) clock: Clock,
    pub(super) marks: Vec<Mark>,
}

/// Where a stream was.
pub(super) struct Mark {
    row: usize,
    /// (seed, index) of the stream if it was another one.
    key: Option<Key>,
    position: u64,
}

impl Mark {
    /// Of the stream of `row`, which is about to be drawn from.
    pub(super) fn of(row: usize, stream: &Stream) -> Self {
        Self { row, key: None, position: stream.position() }
    }

    /// Of the stream of `row` with this key, which is about to be replaced.
    pub(super) fn replaced(row: usize, stream: &Stream, key: Key) -> Self {
        Self { key: Some(key), ..Self::of(row, stream) }
    }

    /// Brings the stream back there.
    pub(super) fn apply(&self, streams: &mut [Stream]) {
        let Some(stream) = streams.get_mut(self.row) else { return };
        if let Some((seed, index)) = self.key {
            *stream = Stream::new(seed, STREAM, index);
        }
        stream.set_position(self.position);
    }

    /// The row, and the position to which its stream is to go back.
    pub(super) const fn position(&self) -> (usize, u64) {
        (self.row, self.position)
    }
}

/// Does `work`, which takes about `nanoseconds` in all, on all shards: given are the number of the
/// first shard and the shards. Long work is done piece by piece.
///
/// # Errors
/// [`crate::Error::Interrupted`]; every shard is as before then.
pub(super) fn undoable(
    shards: &mut [Box<dyn Batch>],
    nanoseconds: usize,
    mut work: impl FnMut(usize, &mut [Box<dyn Batch>]),
) -> Result<()> {
    if nanoseconds < LONG {
        work(0, shards);
        return Ok(());
    }
    let piece = (shards.len() / (nanoseconds / PIECE)).max(1);
    for first in (0..shards.len()).step_by(piece) {
        if let Err(stopped) = interrupt::check() {
            for shard in shards.iter_mut().take(first) {
                shard.take_back();
            }
            return Err(stopped);
        }
        let end = shards.len().min(first + piece);
        let part = shards.get_mut(first..end).unwrap_or_default();
        for shard in &mut *part {
            shard.keep();
        }
        work(first, part);
    }
    for shard in shards {
        shard.accept();
    }
    Ok(())
}
