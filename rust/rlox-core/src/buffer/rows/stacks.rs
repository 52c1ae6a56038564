//! Frame stacks whose frames are stored once.
//!
//! A stack is stored as the numbers of its frames. A pushed stack is compared with the one before
//! it by bytes, frame by frame. A frame is shared if it equals the frame at the next place or at the
//! same place of that stack, or the frame before it in its own stack. Any other frame is stored. So
//! stacks after a reset are reproduced exactly for every convention (repeated first frames, zeros,
//! frames of the last episode).

use super::chunks::ChunkQueue;
use crate::buffer::schema::{FrameStack, ObsField, StackAxis};
use crate::row_copy::RowCopy;

/// A frame is shared only if it is among the newest frames, as many as this number of stacks have.
///
/// An older frame is stored again, so that a frame that never changes does not keep all later
/// frames alive.
const MAX_STACKS_BACK: u64 = 4;

/// The stacks of one environment.
#[derive(Debug, Clone)]
pub(in crate::buffer) struct Stacks {
    stack: FrameStack,
    /// Size in bytes of the contiguous part of a pixel in one frame, for [`StackAxis::Last`].
    pixel_bytes: usize,
    frame_bytes: usize,
    /// Frame numbers modulo 2^32, `[size]` u32 per stack.
    numbers: ChunkQueue,
    frames: ChunkQueue,
    /// The stack that is compared, as frames `[size, frame_bytes]`. Only for [`StackAxis::Last`].
    frame_scratch: Vec<u8>,
}

impl Stacks {
    /// Makes an empty store. `expected_stacks` is the approximate number of live stacks.
    pub(super) fn new(column: &ObsField, stack: FrameStack, expected_stacks: usize) -> Self {
        let bytes = column.field.row_bytes();
        let last = column.field.shape.last().copied().unwrap_or(1);
        let frame_bytes = bytes / stack.size;
        Self {
            stack,
            pixel_bytes: last / stack.size * column.field.dtype.size(),
            frame_bytes,
            numbers: ChunkQueue::new(4 * stack.size, expected_stacks),
            frames: ChunkQueue::new(frame_bytes, expected_stacks),
            frame_scratch: if stack.axis == StackAxis::Last { vec![0; bytes] } else { Vec::new() },
        }
    }

    /// Returns the queue of stacks (as frame numbers).
    pub(in crate::buffer) const fn items(&self) -> &ChunkQueue {
        &self.numbers
    }

    /// Returns the queue of frames.
    pub(in crate::buffer) const fn frames(&self) -> &ChunkQueue {
        &self.frames
    }

    /// Returns both queues, mutable.
    pub(super) const fn queues_mut(&mut self) -> (&mut ChunkQueue, &mut ChunkQueue) {
        (&mut self.numbers, &mut self.frames)
    }

    /// Returns whether the newest stack has the bytes `row`.
    pub(super) fn newest_equals(&mut self, row: &[u8]) -> bool {
        let Some(newest) = self.numbers.end().checked_sub(1).and_then(|n| self.numbers.get(n)) else {
            return false;
        };
        let frames =
            split_frames(&mut self.frame_scratch, row, self.stack, self.pixel_bytes, self.frame_bytes);
        newest.as_chunks().0.iter().zip(frames.chunks_exact(self.frame_bytes)).all(|(&number, frame)| {
            self.frames.get(self.frames.full_number(u32::from_ne_bytes(number))) == Some(frame)
        })
    }

    /// Appends a stack.
    pub(super) fn push(&mut self, row: &[u8]) {
        let newest = self.numbers.end().checked_sub(1).and_then(|n| self.numbers.get(n));
        let previous: Vec<u64> = newest.map(|ids| frame_numbers(&self.frames, ids)).unwrap_or_default();
        let frames =
            split_frames(&mut self.frame_scratch, row, self.stack, self.pixel_bytes, self.frame_bytes);
        let mut numbers = Vec::with_capacity(4 * self.stack.size);
        let mut neighbour = None;
        let oldest = self.frames.end().saturating_sub(MAX_STACKS_BACK * self.stack.size as u64);
        for (place, frame) in frames.chunks_exact(self.frame_bytes).enumerate() {
            let shared_number = [previous.get(place + 1).copied(), neighbour, previous.get(place).copied()]
                .into_iter()
                .flatten()
                .find(|&number| number >= oldest && self.frames.get(number) == Some(frame));
            let number = shared_number.unwrap_or_else(|| {
                self.frames.push(frame);
                self.frames.end() - 1
            });
            neighbour = Some(number);
            #[expect(clippy::cast_possible_truncation, reason = "fewer than 2^32 frames live")]
            numbers.extend_from_slice(&(number as u32).to_ne_bytes());
        }
        self.numbers.push(&numbers);
    }

    /// Releases every stack before `number` and the frames that only those stacks contain.
    pub(super) fn release_before(&mut self, number: u64) {
        self.numbers.release_before(number);
        let oldest = self.numbers.get(self.numbers.start());
        // A stack shares frames only with the one before it, so later stacks have no older frame.
        let frame = oldest.and_then(|ids| frame_numbers(&self.frames, ids).into_iter().min());
        self.frames.release_before(frame.unwrap_or(self.frames.end()));
    }

    /// Writes stack `number` into `out`.
    pub(super) fn copy(&self, number: u64, out: &mut [u8], copy: RowCopy) {
        let lower_halves = self.numbers.get(number).unwrap_or_default();
        if lower_halves.is_empty() {
            // Panics, as it does for observations that are not stacked.
            return copy.copy_row(lower_halves, out);
        }
        for (place, &id) in lower_halves.as_chunks().0.iter().enumerate() {
            let frame = self.frames.get(self.frames.full_number(u32::from_ne_bytes(id)));
            self.write_frame(frame.unwrap_or_default(), place, out, copy);
        }
    }

    /// Returns the axis that counts the frames.
    pub(super) const fn axis(&self) -> StackAxis {
        self.stack.axis
    }

    /// Returns the number of a frame from its lower half.
    pub(in crate::buffer) const fn frame_number(&self, lower: u32) -> u64 {
        self.frames.full_number(lower)
    }

    /// Writes a frame to its place in the stack `out`.
    pub(super) fn write_frame(&self, frame: &[u8], place: usize, out: &mut [u8], copy: RowCopy) {
        match self.stack.axis {
            StackAxis::First => {
                let start = place * self.frame_bytes;
                copy.copy_row(frame, out.get_mut(start..start + self.frame_bytes).unwrap_or_default());
            }
            StackAxis::Last => interleave(frame, self.pixel_bytes, self.stack.size, place, out),
        }
    }

    /// Returns the size of a stack in bytes.
    pub(super) const fn width(&self) -> usize {
        self.frame_bytes * self.stack.size
    }

    /// Returns the allocated memory in bytes.
    pub(super) fn nbytes(&self) -> usize {
        self.numbers.nbytes() + self.frames.nbytes() + self.frame_scratch.len()
    }
}

/// Returns the frame numbers of a stack.
fn frame_numbers(frames: &ChunkQueue, lower_halves: &[u8]) -> Vec<u64> {
    lower_halves.as_chunks().0.iter().map(|&id| frames.full_number(u32::from_ne_bytes(id))).collect()
}

/// Returns `row` as `[size, frame_bytes]`.
fn split_frames<'a>(
    scratch: &'a mut [u8],
    row: &'a [u8],
    stack: FrameStack,
    pixel_bytes: usize,
    frame_bytes: usize,
) -> &'a [u8] {
    if stack.axis == StackAxis::First {
        return row;
    }
    for (place, frame) in scratch.chunks_exact_mut(frame_bytes).enumerate() {
        extract_frame(row, pixel_bytes, stack.size, place, frame);
    }
    scratch
}

/// Extracts frame `place` of an interleaved stack.
fn extract_frame(row: &[u8], pixel_bytes: usize, size: usize, place: usize, frame: &mut [u8]) {
    if pixel_bytes == 1 && size == 4 {
        for (pixel, four) in frame.iter_mut().zip(row.as_chunks::<4>().0) {
            *pixel = four.get(place).copied().unwrap_or_default();
        }
        return;
    }
    let pixels = row.chunks_exact(pixel_bytes * size);
    for (slot, pixel) in frame.chunks_exact_mut(pixel_bytes).zip(pixels) {
        if let Some(part) = pixel.get(place * pixel_bytes..(place + 1) * pixel_bytes) {
            slot.copy_from_slice(part);
        }
    }
}

/// The inverse of [`extract_frame`].
fn interleave(frame: &[u8], pixel_bytes: usize, size: usize, place: usize, out: &mut [u8]) {
    if pixel_bytes == 1 && size == 4 {
        for (&pixel, four) in frame.iter().zip(out.as_chunks_mut::<4>().0) {
            if let Some(slot) = four.get_mut(place) {
                *slot = pixel;
            }
        }
        return;
    }
    let pixels = out.chunks_exact_mut(pixel_bytes * size);
    for (part, pixel) in frame.chunks_exact(pixel_bytes).zip(pixels) {
        if let Some(slot) = pixel.get_mut(place * pixel_bytes..(place + 1) * pixel_bytes) {
            slot.copy_from_slice(part);
        }
    }
}
