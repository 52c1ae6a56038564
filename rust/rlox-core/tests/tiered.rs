//! Rows in memory and on disk together equal those of one buffer in memory, also after a crash.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]
#![allow(clippy::cast_possible_truncation)]

use std::fs;
use std::sync::Arc;

use rlox_core::Error;
use rlox_core::buffer::{InMemory, Kind, MmapReplayBuffer, Rows, Tiers, prune};
use rlox_core::seed::Stream;
use rlox_core::store::FaultyFs;

mod rows;
mod scratch;
mod tiers;
use rows::{filled, push, request, schema};
use scratch::folder;
use tiers::{fill, fill_model, in_memory, model, sample, tiered, tiers};

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
                assert_eq!(all.rows().rings().len(), expected.rows().rings().len());
                for seed in [Some(1), None] {
                    assert!(sample(&all, 300, seed) == model(&expected, 300, seed));
                }
            }
            all.close(false).unwrap();
            assert!(!dir.exists());
        }
    }
}

#[test]
fn memory_holds_the_hot_rows_and_the_disk_no_more_than_the_rest() {
    let dir = folder("tiered-bounded");
    let mut all = tiered(100, 2_560, 1, &dir);
    fill(&mut all, 0..2_700, 1);
    let (memory, disk) = (all.memory().nbytes(), all.disk_bytes());
    fill(&mut all, 2_700..12_000, 1);
    assert_eq!((all.rows().rings().len(), all.memory().rings().len()), (2_560, 100));
    assert!(
        all.memory().nbytes() <= memory * 11 / 10,
        "{} bytes after {memory}",
        all.memory().nbytes()
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
            // Odd steps lack their next observation. Such a row is incomplete until the next step.
            let mut again = tiered(hot, total, n, &dir);
            let kept = steps - lost;
            let mut expected = in_memory(total, n);
            fill_model(&mut expected, 0..kept, n);
            assert_eq!(
                again.rows().rings().len(),
                expected.rows().rings().len(),
                "{steps} steps, {lost} lost"
            );
            if kept > 0 {
                assert!(sample(&again, 200, Some(3)) == model(&expected, 200, Some(3)));
            }
            for stream in 0..n {
                expected.cut_episode(stream).unwrap();
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
    push(0, 1, |to, rows| assert!(all.push(to, rows).is_err()));
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
    assert_eq!(tiered(200, 25_600, 1, &dir).rows().rings().len(), 249);
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
    assert_eq!(all.rows().rings().len(), 444);
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
fn a_folder_whose_newest_manifest_is_gone_is_not_taken_for_an_empty_one() {
    let dir = folder("tiered-lost");
    let mut all = tiered(10, 100, 1, &dir);
    fill(&mut all, 0..50, 1);
    all.close(true).unwrap();
    let (newest, aside) = (dir.join("newest.manifest"), dir.join("aside"));
    fs::rename(&newest, &aside).unwrap();
    for reopen in [true, false] {
        let anew = Tiers { reopen, ..tiers(10, 100, &dir) };
        let error = MmapReplayBuffer::new(schema(), &anew, 1, 0).unwrap_err().to_string();
        assert!(error.contains("newest.manifest is damaged"), "{error}");
    }
    // Nobody else removes its segments either.
    let mut other = in_memory(30, 1);
    fill_model(&mut other, 0..20, 1);
    other.save(&dir, "other").unwrap();
    assert!(matches!(prune(&dir, &[]), Err(Error::Damaged { .. })));
    fs::rename(aside, newest).unwrap();
    // The newest row had no next observation.
    assert_eq!(tiered(10, 100, 1, &dir).rows().rings().len(), 49);
}

#[test]
fn a_buffer_that_died_before_its_first_seal_left_nothing_in_the_way() {
    let dir = folder("tiered-began");
    drop(tiered(10, 100, 1, &dir));
    // The segment was written, but not the manifest that lists it.
    fs::write(dir.join("000000000000.seg"), b"half").unwrap();
    let anew = Tiers { reopen: false, ..tiers(10, 100, &dir) };
    let mut all = MmapReplayBuffer::new(schema(), &anew, 2, 0).unwrap();
    assert!(all.rows().rings().is_empty());
    all.close(false).unwrap();
    assert!(!dir.exists());
}

#[test]
fn closing_leaves_the_files_that_saves_need() {
    let dir = folder("tiered-saves");
    let mut all = tiered(10, 100, 1, &dir);
    fill(&mut all, 0..50, 1);
    let mut other = in_memory(30, 1);
    fill_model(&mut other, 0..20, 1);
    all.save("own").unwrap();
    let expected = sample(&all, 50, Some(1));
    fill(&mut all, 50..90, 1);
    all.close(false).unwrap();
    other.save(&dir, "other").unwrap();
    let mut again = tiered(10, 100, 1, &dir);
    assert!(again.rows().rings().is_empty());
    again.restore("own").unwrap();
    assert!(sample(&again, 50, Some(1)) == expected);
    again.close(false).unwrap();
    in_memory(30, 1).load(&dir, "other").unwrap();
}

#[test]
fn a_store_may_be_reopened_as_often_as_one_likes_before_its_newest_row_is_whole() {
    let dir = folder("tiered-reopened");
    let mut all = tiered(10, 100, 1, &dir);
    fill(&mut all, 0..6, 1);
    for times in 0..5 {
        let whole = all.rows().rings().len() - 1;
        all.save("exact").unwrap();
        drop(all);
        all = tiered(10, 100, 1, &dir);
        assert_eq!(all.rows().rings().len(), whole, "{times}");
        // This row replaces the incomplete one.
        fill(&mut all, 5..6, 1);
    }
    fill(&mut all, 6..30, 1);
    all.close(true).unwrap();
    let again = tiered(10, 100, 1, &dir);
    again.verify().unwrap();
    assert_eq!(again.rows().rings().len(), 29);
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
            let drawn = all.sample(request(1, Some(seed))).unwrap();
            let mut outcome = true;
            filled(1, Kind::Transitions, |batch| {
                if let Err(error) = all.gather(&drawn.rows, None, batch) {
                    assert!(error.to_string().contains("000000000000.seg"), "{error}");
                    outcome = false;
                }
                Ok(())
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
                push(t, 1, |to, rows| pushed += u64::from(all.push(to, rows).is_ok()));
            }
            drop(all.flush());
            let mut expected = in_memory(30, 1);
            fill_model(&mut expected, 0..pushed, 1);
            // One failed write never fills the memory, so every push succeeds.
            assert_eq!(pushed, 12);
            // Until the failure has happened, this read may be the operation that fails.
            if disk.operations() > fail_at {
                assert!(sample(&all, 50, Some(1)) == model(&expected, 50, Some(1)));
            }
            let unsealed = all.unsealed();
            drop(all);
            let again = tiered(6, 30, 1, &dir);
            assert!(again.rows().rings().len() as u64 + unsealed >= pushed, "operation {fail_at}");
            again.verify().unwrap();
        }
        if disk.operations() <= fail_at {
            assert!(fail_at > 60, "only {fail_at} operations");
            break;
        }
        fail_at += 1;
    }
}
