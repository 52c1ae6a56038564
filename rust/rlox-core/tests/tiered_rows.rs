//! Rows in memory and on disk: as n-step windows, by index, and after cuts and reopenings.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation)]

use rlox_core::Error;
use rlox_core::buffer::{BatchKind, EnvIndex, InMemoryBuffer, MmapReplayBuffer, NStep, ReplayBuffer, Rows};

mod rows;
mod scratch;
mod tiers;
use rows::{Outputs, collect_outputs, push, request};
use scratch::folder;
use tiers::{fill, fill_model, in_memory, make_tiered, sample, sample_in_memory};

/// Samples n-step windows from a buffer with rows in memory and on disk, and from one in memory.
fn sample_windows(
    tiered_buffer: &MmapReplayBuffer,
    memory_buffer: &ReplayBuffer,
    n: usize,
    seed: u64,
) -> [Outputs; 2] {
    let n_step = Some(NStep::new(n, 0.9).unwrap());
    let rows = tiered_buffer.sample(request(200, Some(seed))).unwrap().rows;
    let got = collect_outputs(200, BatchKind::NStep, |batch| tiered_buffer.gather(&rows, n_step, batch));
    let rows = memory_buffer.sample(request(200, Some(seed))).unwrap().rows;
    [got, collect_outputs(200, BatchKind::NStep, |batch| memory_buffer.gather(&rows, n_step, batch))]
}

#[test]
fn n_step_windows_in_memory_and_on_disk_equal_those_of_one_buffer_in_memory() {
    for (n, memory_capacity, total) in [(1, 5, 60), (3, 30, 300), (2, 40, 40)] {
        let dir = folder(&format!("tiered-windows-{n}-{memory_capacity}"));
        let mut buffer = make_tiered(memory_capacity * n, total * n, n, &dir);
        let mut expected = in_memory(total * n, n);
        for part in [0..1, 1..37, 37..123, 123..500] {
            fill(&mut buffer, part.clone(), n);
            fill_model(&mut expected, part, n);
            for steps in [1, 2, 5, 40] {
                let [got, model] = sample_windows(&buffer, &expected, steps, 3);
                assert!(got == model, "{n} environments, {steps} steps");
            }
        }
    }
}

#[test]
fn no_window_joins_what_was_pushed_before_and_after_a_reopening_or_a_cut() {
    let dir = folder("tiered-cuts");
    let mut expected = in_memory(200, 1);
    let mut next_step = 0;
    for round in 0..6 {
        // The buffer is reopened in mid-episode.
        let mut buffer = make_tiered(20, 200, 1, &dir);
        fill(&mut buffer, next_step..next_step + 18, 1);
        fill_model(&mut expected, next_step..next_step + 18, 1);
        buffer.cut_episode(0).unwrap();
        expected.cut_episode(0).unwrap();
        fill(&mut buffer, next_step + 18..next_step + 25, 1);
        fill_model(&mut expected, next_step + 18..next_step + 25, 1);
        buffer.save("kept").unwrap();
        fill(&mut buffer, next_step + 25..next_step + 40, 1);
        buffer.restore("kept").unwrap();
        for steps in [1, 4, 50] {
            let [got, model] = sample_windows(&buffer, &expected, steps, round);
            assert!(got == model, "round {round}, {steps} steps");
        }
        fill(&mut buffer, next_step + 25..next_step + 27, 1);
        fill_model(&mut expected, next_step + 25..next_step + 27, 1);
        expected.cut_episode(0).unwrap();
        // The last step is even, so that the newest row is complete.
        next_step += 28;
        buffer.close(true).unwrap();
    }
    let error = make_tiered(20, 200, 1, &dir).cut_episode(1).unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
}

#[test]
fn a_row_dropped_at_reopening_is_replaced_by_the_next_pushed_row() {
    let dir = folder("tiered-taken-back");
    let mut expected = in_memory(120, 2);
    let steps = [(0, 0..2), (1, 0..9), (0, 100..105), (1, 100..103)];
    for (env, steps) in steps {
        let mut buffer = make_tiered(6, 120, 2, &dir);
        let to = EnvIndex::One(env);
        // If the last step is odd, its row lacks its next observation and is incomplete.
        for t in steps.clone() {
            push(t, 1, |_, rows| buffer.push(to, rows).unwrap());
            if t + 1 < steps.end || t % 2 == 0 {
                push(t, 1, |_, rows| expected.push(to, rows, None).unwrap());
            }
        }
        buffer.close(true).unwrap();
        let reopened = make_tiered(6, 120, 2, &dir);
        assert_eq!(reopened.rows().rings().len(), expected.rows().rings().len());
        assert!(sample(&reopened, 200, Some(3)) == sample_in_memory(&expected, 200, Some(3)), "{steps:?}");
        expected.cut_episode(env).unwrap();
    }
}

#[test]
fn a_cut_after_a_restore_completes_the_newest_row_on_disk() {
    let dir = folder("tiered-cold-cut");
    let mut buffer = make_tiered(9, 60, 1, &dir);
    fill(&mut buffer, 0..20, 1);
    buffer.save("here").unwrap();
    buffer.restore("here").unwrap();
    buffer.cut_episode(0).unwrap();
    let mut expected = in_memory(60, 1);
    fill_model(&mut expected, 0..20, 1);
    expected.cut_episode(0).unwrap();
    for part in [20..21, 21..50] {
        assert!(sample(&buffer, 200, Some(3)) == sample_in_memory(&expected, 200, Some(3)));
        fill(&mut buffer, part.clone(), 1);
        fill_model(&mut expected, part, 1);
    }
}

#[test]
fn rows_are_found_by_index_and_written_to_until_they_are_sealed() {
    let dir = folder("tiered-indices");
    let mut buffer = make_tiered(60, 300, 2, &dir);
    fill(&mut buffer, 0..200, 2);
    for index in [100, 101, 399] {
        let row_refs = [buffer.rows().rings().find(index).unwrap()];
        let got = collect_outputs(1, BatchKind::Transitions, |batch| buffer.gather(&row_refs, None, batch));
        assert_eq!(got.indices, [index]);
    }
    for index in [0, 99, 400, u64::MAX] {
        let error = buffer.rows().rings().find(index).unwrap_err();
        let Error::StaleIndex { index: named_index, held } = error else { panic!("{error}") };
        assert_eq!((named_index, held.as_str()), (index, "rows 100 to 399"));
    }
    buffer.flush().unwrap();
    fill(&mut buffer, 200..203, 2);
    let column = buffer.memory().schema().column("latent").unwrap();
    let latent: Vec<u8> = [1.5_f32, 2.5, 3.5, 4.5].iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert_eq!(buffer.update(column, &[404, 3], &latent).unwrap(), 1);
    // One of the rows is sealed, so nothing is written.
    let result = buffer.update(column, &[405, 300], &latent);
    assert!(matches!(result, Err(Error::Config { ref name, .. }) if name == "indices"), "{result:?}");
    fill(&mut buffer, 203..260, 2);
    buffer.flush().unwrap();
    let written_refs = [404, 405].map(|index| buffer.rows().rings().find(index).unwrap());
    let got = collect_outputs(2, BatchKind::Transitions, |batch| buffer.gather(&written_refs, None, batch));
    assert_eq!((&got.columns[2][..8], &got.columns[2][8..]), (&latent[..8], [0; 8].as_slice()));
}
