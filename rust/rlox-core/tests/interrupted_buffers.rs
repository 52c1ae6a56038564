//! Long changes of a buffer stop when they are interrupted, and leave the buffer unchanged.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

mod common;

use std::thread::sleep;
use std::time::Duration;

use common::{bytes, schema};
use rlox_core::buffer::{
    BatchShape, Buffer, BufferState, Draws, EnvIndex, FrameStack, InMemoryBuffer, ObsField, Prioritized,
    Rings, RowRef, SampleRequest, SampleRng, Sampler, Schema, StackAxis, Transitions, Uniform,
};
use rlox_core::interrupt::interruptible;
use rlox_core::{Dtype, Error, Field, Result};

/// Number of rows that makes a call long enough to be interrupted.
const LONG_ROWS: usize = 300_000;
const N_ENVS: usize = 3;

/// Runs `work`, which is interrupted at its first check. Returns its error.
fn run_interrupted<T>(work: impl FnOnce() -> Result<T>) -> Option<Error> {
    interruptible(
        || true,
        || {
            // Long enough that the next check asks whether to stop.
            sleep(Duration::from_millis(40));
            work().err()
        },
    )
}

/// Pushes `n` rows whose observations count up. Every seventh row ends an episode.
fn push<S: Sampler>(buffer: &mut Buffer<S>, to: EnvIndex<'_>, n: usize, first_obs: u16) -> Result<()> {
    let width = buffer.rows().schema().obs()[0].field.row_bytes();
    let row = |at: usize| (at + usize::from(first_obs)).to_le_bytes().into_iter().cycle().take(width);
    let obs: Vec<u8> = (0..n).flat_map(row).collect();
    let number = vec![1; 4 * n];
    let tag: Vec<u8> = (0..n).flat_map(usize::to_ne_bytes).collect();
    let ends: Vec<u8> = (0..n).map(|at| u8::from(at % 7 == 0)).collect();
    let mut columns = vec![number.as_slice(), &number, &tag];
    columns.truncate(buffer.rows().schema().columns().len());
    let priorities: Vec<f64> = ends.iter().map(|&end| 1.0 + f64::from(end)).collect();
    let rows = Transitions {
        n,
        obs: &[&obs],
        next_obs: None,
        columns: &columns,
        terminated: &ends,
        truncated: &vec![0; n],
    };
    buffer.push(to, rows, Some(&priorities))
}

fn state<S: Sampler>(buffer: &Buffer<S>) -> BufferState {
    buffer.state()
}

/// Interrupts long pushes to a buffer, and compares it with a twin that had no long push.
fn check<S: Sampler>(make: impl Fn() -> Buffer<S>, interrupt_push: impl Fn(&mut Buffer<S>, EnvIndex<'_>)) {
    let uneven_envs: Vec<usize> = (0..LONG_ROWS).map(|at| (at * at) % N_ENVS).collect();
    let few_envs: Vec<usize> = (0..100).map(|at| at % N_ENVS).collect();
    for to in [EnvIndex::One(1), EnvIndex::Ids(&uneven_envs)] {
        for n_before in [0, 100] {
            let (mut buffer, mut twin) = (make(), make());
            for buffer in [&mut buffer, &mut twin] {
                push(buffer, EnvIndex::Ids(&few_envs[..n_before]), n_before, 0).unwrap();
            }
            interrupt_push(&mut buffer, to);
            assert!(state(&buffer) == state(&twin), "{n_before} rows before");
            for buffer in [&mut buffer, &mut twin] {
                push(buffer, EnvIndex::Ids(&few_envs), 100, 9).unwrap();
            }
            assert!(state(&buffer) == state(&twin), "{n_before} rows before, then more");
        }
    }
}

fn interrupt<S: Sampler>(buffer: &mut Buffer<S>, to: EnvIndex<'_>) {
    assert_eq!(run_interrupted(|| push(buffer, to, LONG_ROWS, 5)), Some(Error::Interrupted));
}

fn prioritized(capacity: usize) -> Buffer<Prioritized> {
    let leaves = capacity / N_ENVS * N_ENVS;
    let rule = Prioritized::new(leaves, 0.6, 0.4, true).unwrap();
    Buffer::new(schema(3), capacity, N_ENVS, 1, rule).unwrap()
}

#[test]
fn a_long_push_stops_when_it_is_interrupted() {
    for capacity in [30, 300_000] {
        check(|| Buffer::<Uniform>::new(schema(3), capacity, N_ENVS, 1, Uniform).unwrap(), interrupt);
        check(|| prioritized(capacity), interrupt);
    }
}

/// A schema of frame stacks whose other columns are small.
fn stack_schema() -> Schema {
    let stack = Some(FrameStack { axis: StackAxis::First, size: 4 });
    let obs = ObsField { field: Field::new("", Dtype::U8, [4, 2]), stack };
    Schema::new(vec![obs], (Dtype::U8, vec![1, 4]), Dtype::F32, Vec::new()).unwrap()
}

#[test]
fn a_long_push_of_frame_stacks_stops_when_it_is_interrupted() {
    check(|| Buffer::<Uniform>::new(stack_schema(), 400, N_ENVS, 1, Uniform).unwrap(), interrupt);
}

/// A uniform sampler that reports an interruption after 1,000 rows.
#[derive(Debug)]
struct LateInterrupt;

impl Sampler for LateInterrupt {
    fn draw(&self, rings: &Rings, request: BatchShape, rng: &mut SampleRng, out: &mut Draws) -> Result<()> {
        Uniform.draw(rings, request, rng, out)
    }

    fn tracks_rows(&self) -> bool {
        true
    }

    fn on_push(&mut self, rings: &Rings, _: &[(usize, RowRef)], _: Option<&[f64]>) -> Result<()> {
        if rings.n_pushed() > 1_000 { Err(Error::Interrupted) } else { Ok(()) }
    }
}

#[test]
fn a_push_interrupted_after_its_rows_were_stored_removes_them() {
    let interrupt_late = |buffer: &mut Buffer<LateInterrupt>, to: EnvIndex<'_>| {
        assert_eq!(push(buffer, to, LONG_ROWS, 5), Err(Error::Interrupted));
    };
    for capacity in [30, 300_000] {
        check(
            || Buffer::<LateInterrupt>::new(schema(3), capacity, N_ENVS, 1, LateInterrupt).unwrap(),
            interrupt_late,
        );
        check(
            || Buffer::<LateInterrupt>::new(stack_schema(), capacity, N_ENVS, 1, LateInterrupt).unwrap(),
            interrupt_late,
        );
    }
}

#[test]
fn interrupted_updates_change_nothing() {
    for capacity in [30, 300_000] {
        let mut buffer = prioritized(capacity);
        push(&mut buffer, EnvIndex::One(2), LONG_ROWS, 0).unwrap();
        let before = state(&buffer);
        let rows = (0..LONG_ROWS as u64).map(|position| position * N_ENVS as u64 + 2);
        let indices: Vec<u64> = rows.clone().rev().chain(rows.clone()).chain(rows).collect();
        let values = bytes(&vec![0.25; indices.len()]);
        assert_eq!(run_interrupted(|| buffer.update(1, &indices, &values)), Some(Error::Interrupted));
        assert!(state(&buffer) == before);
        let priorities = vec![9.0; indices.len()];
        let work = || buffer.update_priorities(&indices, &priorities);
        assert_eq!(run_interrupted(work), Some(Error::Interrupted));
        assert!(state(&buffer) == before);
        buffer.update(1, &indices, &values).unwrap();
        buffer.update_priorities(&indices, &priorities).unwrap();
        assert!(state(&buffer) != before);
        let request = SampleRequest { batch_size: 50, n_batches: 1, len: 1, seed: Some(1) };
        assert_eq!(buffer.sample(request).unwrap().weights, [1.0; 50]);
    }
}

#[test]
fn making_a_sum_tree_stops_when_it_is_interrupted() {
    let make = || Prioritized::new(1 << 22, 0.6, 0.4, true);
    assert_eq!(run_interrupted(make), Some(Error::Interrupted));
}
