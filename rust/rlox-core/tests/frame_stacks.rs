//! Frame stacks, of which each frame is stored once: they are exact after any kind of reset, and take
//! little memory.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use rlox_core::buffer::{
    EnvIndex, FrameStack, InMemoryBuffer, ObsField, ObsKind, ReplayBuffer, Schema, StackAxis, Transitions,
    sampler_by_name,
};
use rlox_core::seed::Stream;
use rlox_core::{Dtype, Field};

const SIZE: usize = 4;

/// The frames of a stack after a reset.
#[derive(Debug, Clone, Copy)]
enum Reset {
    RepeatFirst,
    Zeros,
    KeepOld,
    AllNew,
}

fn frame(rng: &mut Stream, len: usize, levels: u64) -> Vec<u8> {
    (0..len).map(|_| u8::try_from(rng.next_u64() % levels).unwrap()).collect()
}

/// Lays out frames `[SIZE][pixels]` along `axis`.
fn lay_out_stack(frames: &[Vec<u8>], axis: StackAxis, n_channels: usize) -> Vec<u8> {
    match axis {
        StackAxis::First => frames.concat(),
        StackAxis::Last => {
            let pixels = frames[0].len() / n_channels;
            let pixel = |p: usize| frames.iter().flat_map(move |f| &f[p * n_channels..(p + 1) * n_channels]);
            (0..pixels).flat_map(pixel).copied().collect()
        }
    }
}

struct Step {
    obs: Vec<u8>,
    next_obs: Vec<u8>,
    is_end: bool,
}

/// Makes `n` steps in episodes of equal length. Pixels have `levels` colours; with one colour the
/// screen never changes.
fn steps(
    n: usize,
    axis: StackAxis,
    n_channels: usize,
    reset: Reset,
    episode_len: usize,
    levels: u64,
) -> Vec<Step> {
    let mut rng = Stream::new(1, "frames", levels);
    let len = 6 * n_channels;
    let mut frames = vec![vec![0; len]; SIZE];
    let mut starts_episode = true;
    let mut out = Vec::new();
    for t in 0..n {
        if starts_episode {
            let first = frame(&mut rng, len, levels);
            match reset {
                Reset::RepeatFirst => frames = vec![first; SIZE],
                Reset::Zeros => frames = [vec![vec![0; len]; SIZE - 1], vec![first]].concat(),
                Reset::KeepOld => frames[SIZE - 1] = first,
                Reset::AllNew => frames = (0..SIZE).map(|_| frame(&mut rng, len, levels)).collect(),
            }
        }
        let obs = lay_out_stack(&frames, axis, n_channels);
        frames.remove(0);
        frames.push(frame(&mut rng, len, levels));
        starts_episode = (t + 1) % episode_len == 0;
        out.push(Step { obs, next_obs: lay_out_stack(&frames, axis, n_channels), is_end: starts_episode });
    }
    out
}

fn buffer(axis: StackAxis, n_channels: usize, capacity: usize) -> ReplayBuffer {
    let shape = match axis {
        StackAxis::First => vec![SIZE, 6, n_channels],
        StackAxis::Last => vec![2, 3, SIZE * n_channels],
    };
    let stack = Some(FrameStack { size: SIZE, axis });
    let obs = ObsField { field: Field::new("", Dtype::U8, shape), stack };
    let schema = Schema::new(vec![obs], (Dtype::I64, vec![1]), Dtype::F32, Vec::new()).unwrap();
    ReplayBuffer::new(schema, capacity, 1, 0, sampler_by_name("uniform").unwrap()).unwrap()
}

fn push(buffer: &mut ReplayBuffer, steps: &[Step], with_next: bool) {
    let obs: Vec<u8> = steps.iter().flat_map(|step| step.obs.clone()).collect();
    let next_obs: Vec<u8> = steps.iter().flat_map(|step| step.next_obs.clone()).collect();
    let flags: Vec<u8> = steps.iter().map(|step| u8::from(step.is_end)).collect();
    let (actions, rewards) = (vec![0; 8 * steps.len()], vec![0; 4 * steps.len()]);
    let next = [next_obs.as_slice()];
    let rows = Transitions {
        n: steps.len(),
        obs: &[&obs],
        next_obs: with_next.then_some(&next),
        columns: &[&actions, &rewards],
        terminated: &vec![0; steps.len()],
        truncated: &flags,
    };
    buffer.push(EnvIndex::One(0), rows, None).unwrap();
}

fn read(buffer: &ReplayBuffer, index: usize, obs_kind: ObsKind) -> Vec<u8> {
    let mut out = vec![0; buffer.rows().schema().obs()[0].field.row_bytes()];
    let row = buffer.rows().rings().find(index as u64).unwrap();
    buffer.rows().gather_obs(0, obs_kind, &[row], &mut out).unwrap();
    out
}

#[test]
fn every_stack_comes_back_exactly_whatever_a_reset_shows() {
    for axis in [StackAxis::First, StackAxis::Last] {
        for n_channels in [1, 3] {
            for reset in [Reset::RepeatFirst, Reset::Zeros, Reset::KeepOld, Reset::AllNew] {
                for (episode_len, levels) in [(1, 256), (2, 256), (3, 2), (7, 256), (9, 1), (99, 2)] {
                    let steps = steps(40, axis, n_channels, reset, episode_len, levels);
                    for capacity in [1, 2, 5, 13, 64] {
                        let mut buffer = buffer(axis, n_channels, capacity);
                        for (t, step) in steps.iter().enumerate() {
                            push(&mut buffer, std::slice::from_ref(step), true);
                            let oldest = (t + 1).saturating_sub(capacity);
                            for index in [oldest, usize::midpoint(oldest, t), t] {
                                let context = (axis, n_channels, reset, episode_len, levels, capacity, t);
                                let read = |obs_kind| read(&buffer, index, obs_kind);
                                assert_eq!(read(ObsKind::Obs), steps[index].obs, "{context:?}");
                                assert_eq!(read(ObsKind::NextObs), steps[index].next_obs, "{context:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_missing_next_stack_is_the_next_pushed_one_except_at_an_end() {
    let steps = steps(30, StackAxis::Last, 1, Reset::RepeatFirst, 7, 256);
    let mut buffer = buffer(StackAxis::Last, 1, 20);
    steps.chunks(4).for_each(|part| push(&mut buffer, part, false));
    for t in 10..30 {
        assert_eq!(read(&buffer, t, ObsKind::Obs), steps[t].obs);
        let source = if steps[t].is_end || t == 29 { t } else { t + 1 };
        assert_eq!(read(&buffer, t, ObsKind::NextObs), steps[source].obs);
    }
}

#[test]
fn a_step_stores_one_frame_and_a_constant_frame_does_not_keep_old_ones() {
    let (rows, frame_bytes) = (10_000, 6 * 3);
    let mut buffer = buffer(StackAxis::First, 3, rows);
    let records = buffer.rows().nbytes();
    push(&mut buffer, &steps(3 * rows, StackAxis::First, 3, Reset::RepeatFirst, 500, 256), true);
    let frame_index_bytes = 4 * SIZE;
    let stack_bytes = buffer.rows().nbytes() - records;
    assert!(stack_bytes < rows * (frame_bytes + frame_index_bytes) * 107 / 100, "{stack_bytes}");

    let mut still_steps = steps(20 * rows, StackAxis::First, 3, Reset::KeepOld, usize::MAX, 256);
    for step in &mut still_steps {
        step.obs[..frame_bytes].fill(9);
        step.next_obs[..frame_bytes].fill(9);
    }
    push(&mut buffer, &still_steps, true);
    let still_bytes = buffer.rows().nbytes() - records;
    assert!(still_bytes < rows * (2 * frame_bytes + frame_index_bytes) * 107 / 100, "{still_bytes}");
    assert_eq!(read(&buffer, 23 * rows - 1, ObsKind::NextObs), still_steps[20 * rows - 1].next_obs);
}

#[test]
fn a_stack_that_does_not_divide_its_axis_is_refused() {
    for (size, axis) in [(3, StackAxis::First), (0, StackAxis::First), (4, StackAxis::Last)] {
        let stack = Some(FrameStack { size, axis });
        let obs = ObsField { field: Field::new("", Dtype::U8, [4, 6]), stack };
        let result = Schema::new(vec![obs], (Dtype::I64, vec![1]), Dtype::F32, Vec::new());
        assert!(result.unwrap_err().to_string().contains("frame"), "{size} {axis:?}");
    }
}
