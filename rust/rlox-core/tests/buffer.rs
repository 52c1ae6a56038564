//! Compares the storage of a replay buffer with a plain list: wrap-around, episodes, several
//! environments, and rows that are refused.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

mod common;

use common::{Step, buffer, episodes, push, read};
use rlox_core::Error;
use rlox_core::buffer::{
    BatchKind, BatchPart, EnvIndex, InMemoryBuffer, NStep, OwnedBatch, PADDING, ReplayBuffer, SampleRequest,
    Transitions,
};

/// Checks that the buffer holds exactly the newest `capacity / n` steps of each of the `n`
/// environments.
fn check(buffer: &ReplayBuffer, pushed: &[Vec<Step>]) {
    let rings = buffer.rows().rings();
    let n = pushed.len();
    let ring_capacity = rings.capacity() / n;
    let expected_len: usize = pushed.iter().map(|steps| steps.len().min(ring_capacity)).sum();
    assert_eq!(rings.len(), expected_len);
    for (env, steps) in pushed.iter().enumerate() {
        for (t, step) in steps.iter().enumerate() {
            let index = (t * n + env) as u64;
            if t + ring_capacity < steps.len() {
                assert!(matches!(rings.find(index), Err(Error::StaleIndex { .. })));
            } else {
                let row = rings.find(index).unwrap();
                assert_eq!(rings.index(row), index);
                assert_eq!(&read(buffer, row), step, "env {env} t {t}");
            }
        }
        assert!(rings.find((steps.len() * n + env) as u64).is_err());
    }
}

#[test]
fn rows_are_kept_exactly_at_every_offset_of_small_rings_and_row_sizes() {
    for dim in [1, 2, 3, 4, 17, 33] {
        for capacity in 1..7 {
            let steps = episodes(23, 0, dim, |t| (t % 5 == 2, t % 7 == 3));
            let mut buffer = buffer(dim, capacity, 1);
            for t in 0..steps.len() {
                push(&mut buffer, EnvIndex::One(0), &steps[t..=t], true);
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
            steps.chunks(size).for_each(|part| push(&mut buffer, EnvIndex::One(0), part, true));
            check(&buffer, std::slice::from_ref(&steps));
        }
    }
}

#[test]
fn every_environment_has_a_ring_of_its_own() {
    for n in [1, 7, 256] {
        let mut buffer = buffer(2, 5 * n + n / 2, n);
        assert_eq!(buffer.rows().rings().capacity(), 5 * n);
        let env_steps: Vec<_> =
            (0..n).map(|env| episodes(13, env, 2, |t| ((t + env) % 4 == 0, t == env))).collect();
        for t in 0..13 {
            let current_steps: Vec<Step> = env_steps.iter().map(|steps| steps[t].clone()).collect();
            push(&mut buffer, EnvIndex::Each, &current_steps, true);
        }
        check(&buffer, &env_steps);
    }
}

#[test]
fn rows_addressed_to_environments_may_come_unevenly() {
    let ids = [2, 0, 2, 2, 1, 2, 0, 2, 2, 2, 2];
    let env_steps: Vec<_> = (0..3).map(|env| episodes(11, env, 2, |t| (t == 3, false))).collect();
    let mut pushed = vec![Vec::new(); 3];
    let mut mixed = Vec::new();
    for id in ids {
        let step = env_steps[id][pushed[id].len()].clone();
        pushed[id].push(step.clone());
        mixed.push(step);
    }
    let mut buffer = buffer(2, 12, 3);
    push(&mut buffer, EnvIndex::Ids(&ids), &mixed, true);
    check(&buffer, &pushed);
    let request = SampleRequest { batch_size: 40_000, n_batches: 1, len: 1, seed: Some(3) };
    let mut counts = std::collections::BTreeMap::new();
    for row in buffer.sample(request).unwrap().rows {
        *counts.entry(buffer.rows().rings().index(row)).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 7);
    assert!(counts.values().all(|&count: &i32| (count - 40_000 / 7).abs() < 400), "{counts:?}");
}

#[test]
fn a_missing_next_observation_is_the_next_pushed_one_except_at_an_end() {
    let mut steps = episodes(9, 0, 2, |t| (t == 2, t == 5));
    for capacity in 1..12 {
        let mut buffer = buffer(2, capacity, 1);
        for t in 0..steps.len() {
            push(&mut buffer, EnvIndex::One(0), &steps[t..=t], false);
            let mut expected = steps[..=t].to_vec();
            for i in 0..=t {
                let ended = expected[i].terminated || expected[i].truncated;
                let source = if ended || i == t { i } else { i + 1 };
                expected[i].next_obs = expected[source].obs.clone();
            }
            check(&buffer, &[expected]);
        }
    }
    for step in &mut steps {
        step.truncated = false;
    }
    let mut buffer = buffer(2, 100, 1);
    push(&mut buffer, EnvIndex::One(0), &steps[..4], false);
    push(&mut buffer, EnvIndex::One(0), &steps[4..], false);
    let row = buffer.rows().rings().find(3).unwrap();
    assert_eq!(read(&buffer, row).next_obs, steps[4].obs);
}

#[test]
fn an_observation_is_stored_once_and_again_only_where_the_bytes_differ() {
    let mut buffer = buffer(64, 4_096, 1);
    let records = buffer.rows().nbytes();
    push(&mut buffer, EnvIndex::One(0), &episodes(50_000, 0, 64, |t| (t % 500 == 9, false)), true);
    let observations = buffer.rows().nbytes() - records;
    assert!(observations < 4_096 * 256 * 11 / 10, "{observations}");
}

#[test]
fn clearing_forgets_the_rows_and_keeps_counting() {
    let steps = episodes(9, 0, 2, |t| (t == 2, false));
    let mut buffer = buffer(2, 4, 1);
    push(&mut buffer, EnvIndex::One(0), &steps, true);
    buffer.clear();
    assert!(buffer.rows().rings().is_empty());
    assert!(buffer.sample(SampleRequest { batch_size: 1, n_batches: 1, len: 1, seed: None }).is_err());
    assert!(buffer.rows().rings().find(8).is_err());
    push(&mut buffer, EnvIndex::One(0), &steps, true);
    assert!(buffer.rows().rings().find(12).is_err());
    for (index, step) in (14..18).zip(&steps[5..]) {
        assert_eq!(&read(&buffer, buffer.rows().rings().find(index).unwrap()), step);
    }
}

#[test]
fn updates_of_overwritten_rows_are_skipped_and_counted_and_of_future_rows_refused() {
    let steps = episodes(9, 0, 2, |_| (false, false));
    let mut buffer = buffer(2, 4, 1);
    push(&mut buffer, EnvIndex::One(0), &steps, true);
    let values: Vec<u8> = [-1_i64, -2, -3, -4].iter().flat_map(|v| v.to_ne_bytes()).collect();
    let tag = buffer.rows().schema().column("tag").unwrap();
    assert!(matches!(buffer.update(tag, &[8, 4, 5, 9], &values), Err(Error::StaleIndex { index: 9, .. })));
    assert_eq!(buffer.update(tag, &[8, 4, 5, PADDING], &values), Ok(2));
    let tags: Vec<i64> = (5..9).map(|i| read(&buffer, buffer.rows().rings().find(i).unwrap()).tag).collect();
    assert_eq!(tags, [-3, 6, 7, -1]);
    assert!(buffer.update(tag, &[8, 4], &values).is_err());
}

#[test]
fn one_call_for_n_batches_equals_n_calls_for_one_batch() {
    let mut buffer = buffer(2, 64, 1);
    push(&mut buffer, EnvIndex::One(0), &episodes(100, 0, 2, |_| (false, false)), true);
    let sample_rows = |n_batches, seed| {
        let request = SampleRequest { batch_size: 9, n_batches, len: 1, seed };
        buffer.sample(request).unwrap().rows
    };
    assert_eq!(sample_rows(1, Some(5)), sample_rows(3, Some(5))[..9]);
    let (joint_rows, separate_rows) =
        (sample_rows(3, None), [sample_rows(1, None), sample_rows(1, None)].concat());
    assert_ne!(joint_rows[9..], separate_rows[..]);
    assert_eq!(buffer.sampler_state().batches_drawn(), 5);
    let mut second_buffer = self::buffer(2, 64, 1);
    push(&mut second_buffer, EnvIndex::One(0), &episodes(100, 0, 2, |_| (false, false)), true);
    let singles: Vec<_> = (0..5)
        .flat_map(|_| {
            second_buffer
                .sample(SampleRequest { batch_size: 9, n_batches: 1, len: 1, seed: None })
                .unwrap()
                .rows
        })
        .collect();
    assert_eq!(singles, [joint_rows, separate_rows].concat());
}

#[test]
fn n_step_windows_equal_the_definition_and_never_cross_an_end_or_a_cut() {
    let steps = episodes(60, 0, 2, |t| (t % 11 == 4, t % 13 == 6));
    for (capacity, n) in [(7, 1), (7, 3), (20, 5), (60, 4), (100, 100)] {
        let mut buffer = buffer(2, capacity, 1);
        push(&mut buffer, EnvIndex::One(0), &steps[..40], true);
        buffer.cut_episode(0).unwrap();
        push(&mut buffer, EnvIndex::One(0), &steps[40..], true);
        let n_step = NStep::new(n, 0.9).unwrap();
        for t in 60 - capacity.min(60)..60 {
            let row = buffer.rows().rings().find(t as u64).unwrap();
            let mut arrays = OwnedBatch::new(buffer.rows().schema(), BatchKind::NStep, 1);
            arrays.fill(|batch| buffer.gather(&[row], Some(n_step), batch)).unwrap();
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
            let (rewards, discounts) = (arrays.f32(BatchPart::Column(1)), arrays.f32(BatchPart::Discounts));
            assert_eq!((rewards[0], discounts[0]), expected, "{t} of {capacity}");
            let last = read(&buffer, buffer.rows().rings().find(end as u64).unwrap());
            assert_eq!(
                (arrays.f32(BatchPart::Obs(0)), arrays.f32(BatchPart::NextObs(0))),
                (steps[t].obs.clone(), last.next_obs)
            );
            let flags = [BatchPart::Terminated, BatchPart::Truncated].map(|part| arrays.bytes(part) == [1]);
            assert_eq!(flags, [last.terminated, last.truncated]);
            assert_eq!(arrays.bytes(BatchPart::Indices), (t as u64).to_ne_bytes());
        }
    }
}

#[test]
fn rows_of_a_wrong_size_or_stream_are_refused_and_change_nothing() {
    let mut buffer = buffer(2, 8, 2);
    let (four, eight) = ([0; 4], [0; 8]);
    let good = Transitions {
        n: 1,
        obs: &[&eight],
        next_obs: None,
        columns: &[&four, &four, &eight],
        terminated: &[0],
        truncated: &[0],
    };
    let wrong = [
        (EnvIndex::One(2), good),
        (EnvIndex::Each, good),
        (EnvIndex::Ids(&[2]), good),
        (EnvIndex::Ids(&[]), good),
        (EnvIndex::One(0), Transitions { obs: &[&four], ..good }),
        (EnvIndex::One(0), Transitions { obs: &[], ..good }),
        (EnvIndex::One(0), Transitions { next_obs: Some(&[&four]), ..good }),
        (EnvIndex::One(0), Transitions { columns: &[&four, &four, &four], ..good }),
        (EnvIndex::One(0), Transitions { terminated: &[], ..good }),
        (EnvIndex::One(0), Transitions { truncated: &[0, 0], ..good }),
    ];
    for (to, rows) in wrong {
        assert!(buffer.push(to, rows, None).is_err(), "{to:?} {rows:?}");
    }
    assert!(buffer.rows().rings().is_empty());
    buffer.push(EnvIndex::One(1), good, None).unwrap();
    assert_eq!((buffer.rows().rings().len(), buffer.rows().rings().n_pushed()), (1, 1));
}
