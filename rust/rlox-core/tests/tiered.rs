//! Rows in memory and on disk together are those of one buffer in memory, also after a crash.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rlox_core::Error;
use rlox_core::buffer::{Horizon, MmapReplayBuffer, ReplayBuffer, Target, Tiers};
use rlox_core::seed::Stream;
use rlox_core::store::FaultyFs;

mod rows;
mod scratch;
use rows::{Outputs, filled, push, request, schema};
use scratch::folder;

const fn tiers(hot: usize, total: usize, path: &Path) -> Tiers<'_> {
    Tiers { hot_capacity: hot, total_capacity: total, path, reopen: true }
}

fn tiered(hot: usize, total: usize, n: usize, path: &Path) -> MmapReplayBuffer {
    MmapReplayBuffer::new(schema(), &tiers(hot, total, path), n, 7).unwrap()
}

fn in_memory(total: usize, n: usize) -> ReplayBuffer {
    ReplayBuffer::new(schema(), total, n, 7).unwrap()
}

fn fill(buffer: &mut MmapReplayBuffer, steps: std::ops::Range<u64>, n: usize) {
    for t in steps {
        push(t, n, |target, rows| buffer.push(target, rows).unwrap());
    }
}

fn fill_model(buffer: &mut ReplayBuffer, steps: std::ops::Range<u64>, n: usize) {
    for t in steps {
        push(t, n, |target, rows| buffer.storage_mut().push(target, rows, |_| {}).unwrap());
    }
}

fn sample(buffer: &MmapReplayBuffer, rows: usize, seed: Option<u64>) -> Outputs {
    let picks = buffer.sample(request(rows, seed)).unwrap();
    filled(rows, |batch| buffer.fill(&picks, None, batch).unwrap())
}

fn model(buffer: &ReplayBuffer, rows: usize, seed: Option<u64>) -> Outputs {
    let picks = buffer.sample(request(rows, seed)).unwrap();
    filled(rows, |batch| buffer.storage().fill(&picks, None, batch))
}

#[test]
fn rows_of_both_tiers_are_sampled_as_from_one_buffer_in_memory() {
    for n in [1, 3] {
        for (hot, total) in [(5, 40), (40, 40), (1, 300), (100, 200)] {
            let dir = folder(&format!("tiered-both-{n}-{hot}-{total}"));
            let mut all = tiered(hot * n, total * n, n, &dir);
            let mut expected = in_memory(total * n, n);
            for part in [0..1, 1..3, 3..39, 39..45, 45..90, 90..310, 310..420] {
                fill(&mut all, part.clone(), n);
                fill_model(&mut expected, part, n);
                assert_eq!(all.len(), expected.storage().len());
                for seed in [Some(1), None] {
                    assert!(sample(&all, 300, seed) == model(&expected, 300, seed));
                }
            }
            all.close(false).unwrap();
            assert!(!dir.exists());
        }
    }
}

/// Batch and discounts of n-step windows: of the buffer, and of one in memory.
fn windows(
    all: &MmapReplayBuffer,
    one: &ReplayBuffer,
    n: usize,
    seed: u64,
) -> [(Outputs, Vec<u8>); 2] {
    let horizon = Some(Horizon::new(n, 0.9).unwrap());
    let mut discounts = [vec![0; 4 * 200], vec![0; 4 * 200]];
    let [ours, theirs] = &mut discounts;
    let picks = all.sample(request(200, Some(seed))).unwrap();
    let got = filled(200, |batch| {
        let mut arrays: Vec<&mut [u8]> = batch.iter_mut().map(|array| &mut **array).collect();
        arrays.push(ours);
        all.fill(&picks, horizon, &mut arrays).unwrap();
    });
    let rows = one.sample(request(200, Some(seed))).unwrap();
    let expected = filled(200, |batch| {
        let mut arrays: Vec<&mut [u8]> = batch.iter_mut().map(|array| &mut **array).collect();
        arrays.push(theirs);
        one.storage().fill(&rows, horizon, &mut arrays);
    });
    let [ours, theirs] = discounts;
    [(got, ours), (expected, theirs)]
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
        // Reopened without an end of the episode.
        let mut all = tiered(20, 200, 1, &dir);
        fill(&mut all, next..next + 18, 1);
        fill_model(&mut expected, next..next + 18, 1);
        all.cut_episode(0).unwrap();
        expected.storage_mut().cut_episode(0).unwrap();
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
        expected.storage_mut().cut_episode(0).unwrap();
        // Even, so that the newest row is whole.
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
        let target = Target::Stream(stream);
        // Of the last step, if it is odd, the row waits for its next observation and is not whole.
        for t in steps.clone() {
            push(t, 1, |_, rows| all.push(target, rows).unwrap());
            if t + 1 < steps.end || t % 2 == 0 {
                let storage = expected.storage_mut();
                push(t, 1, |_, rows| storage.push(target, rows, |_| {}).unwrap());
            }
        }
        all.close(true).unwrap();
        let again = tiered(6, 120, 2, &dir);
        assert_eq!(again.len(), expected.storage().len());
        assert!(sample(&again, 200, Some(3)) == model(&expected, 200, Some(3)), "{steps:?}");
        expected.storage_mut().cut_episode(stream).unwrap();
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
    expected.storage_mut().cut_episode(0).unwrap();
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
        let picks = [all.find(index).unwrap()];
        let got = filled(1, |batch| all.fill(&picks, None, batch).unwrap());
        assert_eq!(got.indices, [index]);
    }
    for index in [0, 99, 400, u64::MAX] {
        let error = all.find(index).unwrap_err();
        let Error::StaleIndex { index: named, held } = error else { panic!("{error}") };
        assert_eq!((named, held.as_str()), (index, "rows 100 to 399"));
    }
    all.flush().unwrap();
    fill(&mut all, 200..203, 2);
    let column = all.storage().schema().column("latent").unwrap();
    let latent: Vec<u8> = [1.5_f32, 2.5, 3.5, 4.5].iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert_eq!(all.update(column, &[404, 3], &latent).unwrap(), 1);
    // One sealed row, and nothing is written.
    let refused = all.update(column, &[405, 300], &latent);
    assert!(matches!(refused, Err(Error::Config { name: "indices", .. })), "{refused:?}");
    fill(&mut all, 203..260, 2);
    all.flush().unwrap();
    let picks = [404, 405].map(|index| all.find(index).unwrap());
    let got = filled(2, |batch| all.fill(&picks, None, batch).unwrap());
    assert_eq!((&got.columns[2][..8], &got.columns[2][8..]), (&latent[..8], [0; 8].as_slice()));
}

#[test]
fn memory_holds_the_hot_rows_and_the_disk_no_more_than_the_rest() {
    let dir = folder("tiered-bounded");
    let mut all = tiered(100, 2_560, 1, &dir);
    fill(&mut all, 0..2_700, 1);
    let (memory, disk) = (all.storage().nbytes(), all.disk_bytes());
    fill(&mut all, 2_700..12_000, 1);
    assert_eq!((all.len(), all.storage().len()), (2_560, 100));
    assert!(
        all.storage().nbytes() <= memory * 11 / 10,
        "{} bytes after {memory}",
        all.storage().nbytes()
    );
    assert!(all.disk_bytes() <= disk * 11 / 10, "{} bytes after {disk}", all.disk_bytes());
    let files = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert!(files.sum::<u64>() <= disk * 11 / 10 + 50_000);
}

#[test]
fn after_a_crash_every_sealed_row_is_there_and_the_ring_goes_on() {
    for (hot, total, n) in [(5, 60, 1), (30, 600, 1), (30, 1_200, 2)] {
        for steps in [3, 59, 140, 333, 700] {
            let dir = folder(&format!("tiered-crash-{hot}-{steps}-{n}"));
            let mut all = tiered(hot, total, n, &dir);
            fill(&mut all, 0..steps, n);
            let lost = all.unsealed() / n as u64;
            assert!(lost <= (total / n).div_ceil(256).max(hot / n / 3) as u64 + 1, "{lost} lost");
            drop(all);
            // Odd steps come without their next observation: such a row is not whole until it does.
            let mut again = tiered(hot, total, n, &dir);
            let kept = steps - lost;
            let mut expected = in_memory(total, n);
            fill_model(&mut expected, 0..kept, n);
            assert_eq!(again.len(), expected.storage().len(), "{steps} steps, {lost} lost");
            if kept > 0 {
                assert!(sample(&again, 200, Some(3)) == model(&expected, 200, Some(3)));
            }
            for stream in 0..n {
                expected.storage_mut().cut_episode(stream).unwrap();
            }
            fill(&mut again, 1_000..1_100, n);
            fill_model(&mut expected, 1_000..1_100, n);
            assert!(sample(&again, 200, Some(4)) == model(&expected, 200, Some(4)));
            again.verify().unwrap();
        }
    }
}

#[test]
fn flushed_and_kept_rows_are_there_after_reopening() {
    let dir = folder("tiered-kept");
    let mut all = tiered(50, 2_560, 1, &dir);
    fill(&mut all, 0..35, 1);
    all.flush().unwrap();
    assert_eq!(all.unsealed(), 0);
    fill(&mut all, 35..47, 1);
    all.close(true).unwrap();
    assert!(matches!(all.sample(request(1, None)), Err(Error::Config { .. })));
    push(0, 1, |target, rows| assert!(all.push(target, rows).is_err()));
    let again = tiered(20, 5_000, 1, &dir);
    let mut expected = in_memory(5_000, 1);
    fill_model(&mut expected, 0..47, 1);
    assert!(sample(&again, 200, Some(3)) == model(&expected, 200, Some(3)));
}

#[test]
fn frequent_flushes_do_not_multiply_files() {
    let dir = folder("tiered-flushes");
    let mut all = tiered(200, 25_600, 1, &dir);
    for t in 0..250 {
        fill(&mut all, t..t + 1, 1);
        all.flush().unwrap();
    }
    assert!(fs::read_dir(&dir).unwrap().count() <= 250 / 60 + 4);
    drop(all);
    assert_eq!(tiered(200, 25_600, 1, &dir).len(), 249);
}

#[test]
fn a_saved_state_comes_back_exactly_with_its_running_episode() {
    let dir = folder("tiered-exact");
    let mut all = tiered(30, 1_000, 2, &dir);
    fill(&mut all, 0..222, 2);
    sample(&all, 10, None);
    all.save("step-222").unwrap();
    fill(&mut all, 222..900, 2);
    let expected = [sample(&all, 100, Some(1)), sample(&all, 100, None)];
    all.restore("step-222").unwrap();
    assert_eq!(all.len(), 444);
    fill(&mut all, 222..900, 2);
    let got = [sample(&all, 100, Some(1)), sample(&all, 100, None)];
    assert!(got == expected);
    assert!(matches!(all.save("newest"), Err(Error::Config { .. })));
}

#[test]
fn two_buffers_cannot_share_a_folder_and_old_rows_are_not_taken_over_unasked() {
    let dir = folder("tiered-shared");
    let mut all = tiered(10, 100, 1, &dir);
    fill(&mut all, 0..50, 1);
    let second = MmapReplayBuffer::new(schema(), &tiers(10, 100, &dir), 1, 0);
    assert!(matches!(second, Err(Error::Storage { .. })));
    drop(all);
    let anew = Tiers { reopen: false, ..tiers(10, 100, &dir) };
    let error = MmapReplayBuffer::new(schema(), &anew, 1, 0).unwrap_err();
    assert!(error.to_string().contains("reopen=True"), "{error}");
    let other = MmapReplayBuffer::new(schema(), &tiers(10, 100, &dir), 2, 0);
    assert!(matches!(other, Err(Error::Snapshot { .. })));
    for (hot, total) in [(0, 10), (11, 10)] {
        let bad = MmapReplayBuffer::new(schema(), &tiers(hot, total, &dir), 1, 0);
        assert!(matches!(bad, Err(Error::Config { .. })));
    }
}

#[test]
fn damage_is_named_when_a_row_of_it_is_sampled_or_the_store_is_opened() {
    let dir = folder("tiered-damage");
    let mut all = tiered(10, 500, 1, &dir);
    fill(&mut all, 0..500, 1);
    all.close(true).unwrap();
    let mut files: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap() != "lock");
    files.sort();
    let mut stream = Stream::new(3, "damage", 0);
    let mut below = |n: usize| usize::try_from(stream.next_u64() % n as u64).unwrap();
    for case in 0..if std::env::var_os("RLOX_FULL").is_some() { 1_000 } else { 200 } {
        let path = &files[below(files.len())];
        let good = fs::read(path).unwrap();
        let mut bad = good.clone();
        let at = below(bad.len());
        if case % 4 == 0 {
            bad.truncate(at);
        } else {
            bad[at] ^= 1 << below(8);
        }
        fs::write(path, &bad).unwrap();
        let seen = MmapReplayBuffer::new(schema(), &tiers(10, 500, &dir), 1, 0)
            .and_then(|buffer| buffer.verify());
        assert!(
            matches!(&seen, Err(Error::Damaged { path: named, .. }) if *named == path.display().to_string()),
            "{seen:?}"
        );
        fs::write(path, &good).unwrap();
    }
    tiered(10, 500, 1, &dir).verify().unwrap();
}

#[test]
fn a_row_that_was_damaged_under_an_open_buffer_is_an_error_and_others_are_not() {
    let dir = folder("tiered-under");
    let mut all = tiered(10, 500, 1, &dir);
    fill(&mut all, 0..500, 1);
    let first = dir.join("000000000000.seg");
    let bytes = fs::read(&first).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(&first)
        .unwrap()
        .set_len(bytes.len() as u64 / 2)
        .unwrap();
    let outcomes: Vec<bool> = (0..300)
        .map(|seed| {
            let picks = all.sample(request(1, Some(seed))).unwrap();
            let mut outcome = true;
            filled(1, |batch| match all.fill(&picks, None, batch) {
                Ok(()) => {}
                Err(error) => {
                    assert!(error.to_string().contains("000000000000.seg"), "{error}");
                    outcome = false;
                }
            });
            outcome
        })
        .collect();
    assert!(outcomes.contains(&true) && outcomes.contains(&false));
}

#[test]
fn whichever_disk_operation_fails_no_published_row_is_lost() {
    let mut fail_at = 0;
    loop {
        let dir = folder("tiered-faults");
        let disk = FaultyFs::new(fail_at, false);
        let opened =
            MmapReplayBuffer::on(Arc::new(disk.clone()), schema(), &tiers(6, 30, &dir), 1, 7);
        let mut pushed = 0;
        if let Ok(mut all) = opened {
            for t in 0..12 {
                push(t, 1, |target, rows| pushed += u64::from(all.push(target, rows).is_ok()));
            }
            drop(all.flush());
            let mut expected = in_memory(30, 1);
            fill_model(&mut expected, 0..pushed, 1);
            // With one failure the memory always sufficed; a read may be the one that failed.
            assert_eq!(pushed, 12);
            // Until the failure has happened, the read might be what fails.
            if disk.operations() > fail_at {
                assert!(sample(&all, 50, Some(1)) == model(&expected, 50, Some(1)));
            }
            let unsealed = all.unsealed();
            drop(all);
            let again = tiered(6, 30, 1, &dir);
            assert!(again.len() as u64 + unsealed >= pushed, "operation {fail_at}");
            again.verify().unwrap();
        }
        if disk.operations() <= fail_at {
            assert!(fail_at > 60, "only {fail_at} operations");
            break;
        }
        fail_at += 1;
    }
}
