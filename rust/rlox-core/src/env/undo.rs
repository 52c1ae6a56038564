//! Long work on a batch that can be interrupted. The batch is then either unchanged or changed
//! completely.

use super::batch::Batch;
use super::clock::EpisodeClock;
use super::seeding::{Key, STREAM};
use crate::error::Result;
use crate::interrupt;
use crate::seed::Stream;

/// Estimated nanoseconds from which work is done in pieces and can be undone. For shorter work this
/// would cost more than it is worth.
const UNDO_FROM: usize = 20_000_000;

/// Estimated nanoseconds of a piece.
const PIECE: usize = 5_000_000;

/// The state of a shard before work that can be undone. It takes the bytes of the state and about 20
/// more per environment.
pub(super) struct Undo<F> {
    pub(super) state: Vec<F>,
    pub(super) clock: EpisodeClock,
    pub(super) saved_positions: Vec<SavedPosition>,
}

/// A saved position of a stream.
pub(super) struct SavedPosition {
    row: usize,
    /// (seed, index) of the stream, if the work replaces the stream.
    key: Option<Key>,
    position: u64,
}

impl SavedPosition {
    /// Returns the position of the stream of `row`, before the work draws from it.
    pub(super) fn new(row: usize, stream: &Stream) -> Self {
        Self { row, key: None, position: stream.position() }
    }

    /// Returns the position of the stream of `row` with this key, before the work replaces the stream.
    pub(super) fn with_key(row: usize, stream: &Stream, key: Key) -> Self {
        Self { key: Some(key), ..Self::new(row, stream) }
    }

    /// Restores the stream and its position.
    pub(super) fn restore(&self, streams: &mut [Stream]) {
        let Some(stream) = streams.get_mut(self.row) else { return };
        if let Some((seed, index)) = self.key {
            *stream = Stream::new(seed, STREAM, index);
        }
        stream.set_position(self.position);
    }

    /// Returns the row and the saved position of its stream.
    pub(super) const fn position(&self) -> (usize, u64) {
        (self.row, self.position)
    }
}

/// Calls `work` on all shards. `work` takes about `nanoseconds` in total. Its arguments are the
/// number of the first shard and the shards. Long work is done piece by piece.
///
/// # Errors
/// [`crate::Error::Interrupted`]; every shard is unchanged then.
pub(super) fn run_undoable(
    shards: &mut [Box<dyn Batch>],
    nanoseconds: usize,
    mut work: impl FnMut(usize, &mut [Box<dyn Batch>]),
) -> Result<()> {
    if nanoseconds < UNDO_FROM {
        work(0, shards);
        return Ok(());
    }
    let shards_per_piece = (shards.len() / (nanoseconds / PIECE)).max(1);
    for first in (0..shards.len()).step_by(shards_per_piece) {
        if let Err(error) = interrupt::check() {
            for shard in shards.iter_mut().take(first) {
                shard.undo();
            }
            return Err(error);
        }
        let end = shards.len().min(first + shards_per_piece);
        let part = shards.get_mut(first..end).unwrap_or_default();
        for shard in &mut *part {
            shard.save_for_undo();
        }
        work(first, part);
    }
    for shard in shards {
        shard.accept();
    }
    Ok(())
}
