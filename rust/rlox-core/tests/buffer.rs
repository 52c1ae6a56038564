//! The storage of transitions beside a plain list: wrap-around, episodes, streams, refusals.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

mod common;

use common::{Step, episodes, push, read, schema};
use rlox_core::Error;
use rlox_core::buffer::{Horizon, ReplayBuffer, Request, RingBuffer, Rows, Target};

fn buffer(dim: usize, capacity: usize, n_envs: usize) -> ReplayBuffer {
    ReplayBuffer::new(schema(dim), capacity, n_envs, 7).unwrap()
}

/// Everything held, with the newest `capacity` steps of each stream expected.
fn check(buffer: &ReplayBuffer, pushed: &[Vec<Step>]) {
    let storage = buffer.storage();
    let n = pushed.len();
    let each = storage.capacity() / n;
    let held: usize = pushed.iter().map(|steps| steps.len().min(each)).sum();
    assert_eq!(storage.len(), held);
    for (env, steps) in pushed.iter().enumerate() {
        for (t, step) in steps.iter().enumerate() {
            let index = (t * n + env) as u64;
            if t + each < steps.len() {
                assert!(matches!(storage.find(index), Err(Error::StaleIndex { .. })));
            } else {
                let row = storage.find(index).unwrap();
                assert_eq!(storage.index(row), index);
                assert_eq!(storage.in_slot(storage.slot(row)), Some(row));
                assert_eq!(&read(buffer, row), step, "env {env} t {t}");
            }
        }
        assert!(storage.find((steps.len() * n + env) as u64).is_err());
    }
}

#[test]
fn rows_are_kept_exactly_at_every_offset_of_small_rings_and_row_sizes() {
    for dim in [1, 2, 3, 4, 17, 33] {
        for capacity in 1..7 {
            let steps = episodes(23, 0, dim, |t| (t % 5 == 2, t % 7 == 3));
            let mut buffer = buffer(dim, capacity, 1);
            for t in 0..steps.len() {
                push(&mut buffer, Target::Stream(0), &steps[t..=t], true);
                check(&buffer, &[steps[..=t].to_vec()]);
            }
        }
    }
}

#[test]
fn a_batch_of_rows_equals_the_same_rows_one_by_one_whatever_its_size() {
    let steps = episodes(5_000, 0, 3, |t| (t % 50 == 2, t % 70 == 3));
    for size in [1, 2, 7, 100, 1_023, 1_024, 1_025, 5_000] {
        for capacity in [1, 5, 100, 3_000, 10_000] {
            let mut buffer = buffer(3, capacity, 1);
            steps.chunks(size).for_each(|part| push(&mut buffer, Target::Stream(0), part, true));
            check(&buffer, std::slice::from_ref(&steps));
        }
    }
}

#[test]
fn every_environment_has_a_ring_of_its_own() {
    for n in [1, 7, 256] {
        let mut buffer = buffer(2, 5 * n + n / 2, n);
        assert_eq!(buffer.storage().capacity(), 5 * n);
        let streams: Vec<_> =
            (0..n).map(|env| episodes(13, env, 2, |t| ((t + env) % 4 == 0, t == env))).collect();
        for t in 0..13 {
            let now: Vec<Step> = streams.iter().map(|steps| steps[t].clone()).collect();
            push(&mut buffer, Target::Each, &now, true);
        }
        check(&buffer, &streams);
    }
}

#[test]
fn rows_addressed_to_environments_may_come_unevenly() {
    let ids = [2, 0, 2, 2, 1, 2, 0, 2, 2, 2, 2];
    let all: Vec<_> = (0..3).map(|env| episodes(11, env, 2, |t| (t == 3, false))).collect();
    let mut pushed = vec![Vec::new(); 3];
    let mut mixed = Vec::new();
    for id in ids {
        let step = all[id][pushed[id].len()].clone();
        pushed[id].push(step.clone());
        mixed.push(step);
    }
    let mut buffer = buffer(2, 12, 3);
    push(&mut buffer, Target::Ids(&ids), &mixed, true);
    check(&buffer, &pushed);
    let request = Request { batch_size: 40_000, n_batches: 1, seed: Some(3) };
    let mut counts = std::collections::BTreeMap::new();
    for row in buffer.sample(request).unwrap() {
        *counts.entry(buffer.storage().index(row)).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 7);
    assert!(counts.values().all(|&count: &i32| (count - 40_000 / 7).abs() < 400), "{counts:?}");
}

#[test]
fn a_next_observation_left_out_is_the_next_one_pushed_but_never_over_an_ends_reset() {
    let mut steps = episodes(9, 0, 2, |t| (t == 2, t == 5));
    for capacity in 1..12 {
        let mut buffer = buffer(2, capacity, 1);
        for t in 0..steps.len() {
            push(&mut buffer, Target::Stream(0), &steps[t..=t], false);
            let mut expected = steps[..=t].to_vec();
            for i in 0..=t {
                let ended = expected[i].terminated || expected[i].truncated;
                let from = if ended || i == t { i } else { i + 1 };
                expected[i].next_obs = expected[from].obs.clone();
            }
            check(&buffer, &[expected]);
        }
    }
    for step in &mut steps {
        step.truncated = false;
    }
    let mut buffer = buffer(2, 100, 1);
    push(&mut buffer, Target::Stream(0), &steps[..4], false);
    push(&mut buffer, Target::Stream(0), &steps[4..], false);
    let row = buffer.storage().find(3).unwrap();
    assert_eq!(read(&buffer, row).next_obs, steps[4].obs);
}

#[test]
fn an_observation_is_stored_once_and_again_only_where_the_bytes_differ() {
    let mut buffer = buffer(64, 4_096, 1);
    let records = buffer.storage().nbytes();
    push(&mut buffer, Target::Stream(0), &episodes(50_000, 0, 64, |t| (t % 500 == 9, false)), true);
    let observations = buffer.storage().nbytes() - records;
    assert!(observations < 4_096 * 256 * 11 / 10, "{observations}");
}

#[test]
fn clearing_forgets_the_rows_and_keeps_counting() {
    let steps = episodes(9, 0, 2, |t| (t == 2, false));
    let mut buffer = buffer(2, 4, 1);
    push(&mut buffer, Target::Stream(0), &steps, true);
    buffer.storage_mut().clear();
    assert!(buffer.storage().is_empty());
    assert!(buffer.sample(Request { batch_size: 1, n_batches: 1, seed: None }).is_err());
    assert!(buffer.storage().find(8).is_err());
    push(&mut buffer, Target::Stream(0), &steps, true);
    assert!(buffer.storage().find(12).is_err());
    for (index, step) in (14..18).zip(&steps[5..]) {
        assert_eq!(&read(&buffer, buffer.storage().find(index).unwrap()), step);
    }
}

#[test]
fn a_write_to_an_overwritten_row_is_passed_over_and_counted() {
    let steps = episodes(9, 0, 2, |_| (false, false));
    let mut buffer = buffer(2, 4, 1);
    push(&mut buffer, Target::Stream(0), &steps, true);
    let values: Vec<u8> = [-1_i64, -2, -3, -4].iter().flat_map(|v| v.to_ne_bytes()).collect();
    let tag = buffer.storage().schema().column("tag").unwrap();
    assert_eq!(buffer.storage_mut().update(tag, &[8, 4, 5, 9], &values), Ok(2));
    let tags: Vec<i64> =
        (5..9).map(|i| read(&buffer, buffer.storage().find(i).unwrap()).tag).collect();
    assert_eq!(tags, [-3, 6, 7, -1]);
    assert!(buffer.storage_mut().update(tag, &[8, 4], &values).is_err());
}

#[test]
fn batches_of_one_call_are_the_batches_of_as_many_calls() {
    let mut buffer = buffer(2, 64, 1);
    push(&mut buffer, Target::Stream(0), &episodes(100, 0, 2, |_| (false, false)), true);
    let call = |n_batches, seed| buffer.sample(Request { batch_size: 9, n_batches, seed }).unwrap();
    assert_eq!(call(1, Some(5)), call(3, Some(5))[..9]);
    let (together, apart) = (call(3, None), [call(1, None), call(1, None)].concat());
    assert_ne!(together[9..], apart[..]);
    assert_eq!(buffer.draws().drawn(), 5);
    let mut again = ReplayBuffer::new(schema(2), 64, 1, 7).unwrap();
    push(&mut again, Target::Stream(0), &episodes(100, 0, 2, |_| (false, false)), true);
    let singles: Vec<_> = (0..5)
        .flat_map(|_| again.sample(Request { batch_size: 9, n_batches: 1, seed: None }).unwrap())
        .collect();
    assert_eq!(singles, [together, apart].concat());
}

#[test]
fn n_step_windows_equal_the_definition_and_never_cross_an_end_or_a_cut() {
    let steps = episodes(60, 0, 2, |t| (t % 11 == 4, t % 13 == 6));
    for (capacity, n) in [(7, 1), (7, 3), (20, 5), (60, 4), (100, 100)] {
        let mut buffer = buffer(2, capacity, 1);
        push(&mut buffer, Target::Stream(0), &steps[..40], true);
        buffer.storage_mut().cut_episode(0).unwrap();
        push(&mut buffer, Target::Stream(0), &steps[40..], true);
        let horizon = Horizon::new(n, 0.9).unwrap();
        for t in 60 - capacity.min(60)..60 {
            let row = buffer.storage().find(t as u64).unwrap();
            let (mut reward, mut discount, mut last) = ([0; 4], [0; 4], Vec::new());
            buffer.storage().look_ahead(horizon, &[row], &mut reward, &mut discount, &mut last);
            let (mut total, mut factor, mut end) = (0.0, 1.0, t);
            for (k, step) in steps.iter().enumerate().take(t + n).skip(t) {
                total += factor * f64::from(step.reward);
                factor *= 0.9;
                end = k;
                if step.terminated || step.truncated || k == 39 {
                    break;
                }
            }
            #[allow(clippy::cast_possible_truncation)]
            let expected = (total as f32, if steps[end].terminated { 0.0 } else { factor as f32 });
            assert_eq!(
                (f32::from_ne_bytes(reward), f32::from_ne_bytes(discount)),
                expected,
                "{t} of {capacity}"
            );
            assert_eq!(buffer.storage().index(last[0]), end as u64);
            assert_eq!(read(&buffer, last[0]), steps[end]);
        }
    }
}

#[test]
fn rows_of_a_wrong_size_or_stream_are_refused_and_change_nothing() {
    let mut buffer = buffer(2, 8, 2);
    let (four, eight) = ([0; 4], [0; 8]);
    let good = Rows {
        n: 1,
        obs: &[&eight],
        next_obs: None,
        columns: &[&four, &four, &eight],
        terminated: &[0],
        truncated: &[0],
    };
    let wrong = [
        (Target::Stream(2), good),
        (Target::Each, good),
        (Target::Ids(&[2]), good),
        (Target::Ids(&[]), good),
        (Target::Stream(0), Rows { obs: &[&four], ..good }),
        (Target::Stream(0), Rows { obs: &[], ..good }),
        (Target::Stream(0), Rows { next_obs: Some(&[&four]), ..good }),
        (Target::Stream(0), Rows { columns: &[&four, &four, &four], ..good }),
        (Target::Stream(0), Rows { terminated: &[], ..good }),
        (Target::Stream(0), Rows { truncated: &[0, 0], ..good }),
    ];
    for (target, rows) in wrong {
        assert!(buffer.storage_mut().push(target, rows, |_| {}).is_err(), "{target:?} {rows:?}");
    }
    assert!(buffer.storage().is_empty());
    buffer.storage_mut().push(Target::Stream(1), good, |_| {}).unwrap();
    assert_eq!((buffer.storage().len(), buffer.storage().pushed()), (1, 1));
}
