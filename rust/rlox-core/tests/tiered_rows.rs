//! Rows of both tiers as n-step windows, by index, and after cuts and reopenings.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation)]

use rlox_core::Error;
use rlox_core::buffer::{EnvIndex, InMemory, Kind, MmapReplayBuffer, NStep, ReplayBuffer, Rows};

mod rows;
mod scratch;
mod tiers;
use rows::{Outputs, filled, push, request};
use scratch::folder;
use tiers::{fill, fill_model, in_memory, model, sample, tiered};

/// Samples n-step windows from a buffer of both tiers and from one in memory.
fn windows(all: &MmapReplayBuffer, one: &ReplayBuffer, n: usize, seed: u64) -> [Outputs; 2] {
    let n_step = Some(NStep::new(n, 0.9).unwrap());
    let rows = all.sample(request(200, Some(seed))).unwrap().rows;
    let got = filled(200, Kind::NStep, |batch| all.gather(&rows, n_step, batch));
    let rows = one.sample(request(200, Some(seed))).unwrap().rows;
    [got, filled(200, Kind::NStep, |batch| one.gather(&rows, n_step, batch))]
}

#[test]
fn n_step_windows_of_both_tiers_are_those_of_one_buffer_in_memory() {
    for (n, hot, total) in [(1, 5, 60), (3, 30, 300), (2, 40, 40)] {
        let dir = folder(&format!("tiered-windows-{n}-{hot}"));
        let mut all = tiered(hot * n, total * n, n, &dir);
        let mut expected = in_memory(total * n, n);
        for part in [0..1, 1..37, 37..123, 123..500] {
            fill(&mut all, part.clone(), n);
            fill_model(&mut expected, part, n);
            for steps in [1, 2, 5, 40] {
                let [got, model] = windows(&all, &expected, steps, 3);
                assert!(got == model, "{n} streams, {steps} steps");
            }
        }
    }
}

#[test]
fn no_window_joins_what_was_pushed_before_and_after_a_reopening_or_a_cut() {
    let dir = folder("tiered-cuts");
    let mut expected = in_memory(200, 1);
    let mut next = 0;
    for round in 0..6 {
        // The buffer is reopened in mid-episode.
        let mut all = tiered(20, 200, 1, &dir);
        fill(&mut all, next..next + 18, 1);
        fill_model(&mut expected, next..next + 18, 1);
        all.cut_episode(0).unwrap();
        expected.cut_episode(0).unwrap();
        fill(&mut all, next + 18..next + 25, 1);
        fill_model(&mut expected, next + 18..next + 25, 1);
        all.save("kept").unwrap();
        fill(&mut all, next + 25..next + 40, 1);
        all.restore("kept").unwrap();
        for steps in [1, 4, 50] {
            let [got, model] = windows(&all, &expected, steps, round);
            assert!(got == model, "round {round}, {steps} steps");
        }
        fill(&mut all, next + 25..next + 27, 1);
        fill_model(&mut expected, next + 25..next + 27, 1);
        expected.cut_episode(0).unwrap();
        // The last step is even, so that the newest row is complete.
        next += 28;
        all.close(true).unwrap();
    }
    let error = tiered(20, 200, 1, &dir).cut_episode(1).unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
}

#[test]
fn a_row_that_a_reopening_took_back_gives_way_to_the_one_pushed_in_its_place() {
    let dir = folder("tiered-taken-back");
    let mut expected = in_memory(120, 2);
    let steps = [(0, 0..2), (1, 0..9), (0, 100..105), (1, 100..103)];
    for (stream, steps) in steps {
        let mut all = tiered(6, 120, 2, &dir);
        let to = EnvIndex::One(stream);
        // If the last step is odd, its row lacks its next observation and is incomplete.
        for t in steps.clone() {
            push(t, 1, |_, rows| all.push(to, rows).unwrap());
            if t + 1 < steps.end || t % 2 == 0 {
                push(t, 1, |_, rows| expected.push(to, rows, None).unwrap());
            }
        }
        all.close(true).unwrap();
        let again = tiered(6, 120, 2, &dir);
        assert_eq!(again.rows().rings().len(), expected.rows().rings().len());
        assert!(sample(&again, 200, Some(3)) == model(&expected, 200, Some(3)), "{steps:?}");
        expected.cut_episode(stream).unwrap();
    }
}

#[test]
fn a_cut_after_a_restore_ends_the_row_that_waited_on_disk() {
    let dir = folder("tiered-cold-cut");
    let mut all = tiered(9, 60, 1, &dir);
    fill(&mut all, 0..20, 1);
    all.save("here").unwrap();
    all.restore("here").unwrap();
    all.cut_episode(0).unwrap();
    let mut expected = in_memory(60, 1);
    fill_model(&mut expected, 0..20, 1);
    expected.cut_episode(0).unwrap();
    for part in [20..21, 21..50] {
        assert!(sample(&all, 200, Some(3)) == model(&expected, 200, Some(3)));
        fill(&mut all, part.clone(), 1);
        fill_model(&mut expected, part, 1);
    }
}

#[test]
fn rows_are_found_by_index_and_written_to_until_they_are_sealed() {
    let dir = folder("tiered-indices");
    let mut all = tiered(60, 300, 2, &dir);
    fill(&mut all, 0..200, 2);
    for index in [100, 101, 399] {
        let picks = [all.rows().rings().find(index).unwrap()];
        let got = filled(1, Kind::Transitions, |batch| all.gather(&picks, None, batch));
        assert_eq!(got.indices, [index]);
    }
    for index in [0, 99, 400, u64::MAX] {
        let error = all.rows().rings().find(index).unwrap_err();
        let Error::StaleIndex { index: named, held } = error else { panic!("{error}") };
        assert_eq!((named, held.as_str()), (index, "rows 100 to 399"));
    }
    all.flush().unwrap();
    fill(&mut all, 200..203, 2);
    let column = all.memory().schema().column("latent").unwrap();
    let latent: Vec<u8> = [1.5_f32, 2.5, 3.5, 4.5].iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert_eq!(all.update(column, &[404, 3], &latent).unwrap(), 1);
    // One of the rows is sealed, so nothing is written.
    let refused = all.update(column, &[405, 300], &latent);
    assert!(
        matches!(refused, Err(Error::Config { ref name, .. }) if name == "indices"),
        "{refused:?}"
    );
    fill(&mut all, 203..260, 2);
    all.flush().unwrap();
    let picks = [404, 405].map(|index| all.rows().rings().find(index).unwrap());
    let got = filled(2, Kind::Transitions, |batch| all.gather(&picks, None, batch));
    assert_eq!((&got.columns[2][..8], &got.columns[2][8..]), (&latent[..8], [0; 8].as_slice()));
}
