//! A buffer with rows in memory and on disk equals a buffer in memory, also after a crash.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]
#![allow(clippy::cast_possible_truncation)]

use std::fs;
use std::sync::Arc;

use rlox_core::Error;
use rlox_core::buffer::{BatchKind, InMemoryBuffer, MmapConfig, MmapReplayBuffer, Rows, prune};
use rlox_core::seed::Stream;
use rlox_core::store::FaultyFs;

mod rows;
mod scratch;
mod tiers;
use rows::{collect_outputs, push, request, schema};
use scratch::folder;
use tiers::{fill, fill_model, in_memory, make_tiered, make_tiers, sample, sample_in_memory};

#[test]
fn rows_in_memory_and_on_disk_are_sampled_as_from_one_buffer_in_memory() {
    for n in [1, 3] {
        for (memory_capacity, total) in [(5, 40), (40, 40), (1, 300), (100, 200)] {
            let dir = folder(&format!("tiered-both-{n}-{memory_capacity}-{total}"));
            let mut buffer = make_tiered(memory_capacity * n, total * n, n, &dir);
            let mut expected = in_memory(total * n, n);
            for part in [0..1, 1..3, 3..39, 39..45, 45..90, 90..310, 310..420] {
                fill(&mut buffer, part.clone(), n);
                fill_model(&mut expected, part, n);
                assert_eq!(buffer.rows().rings().len(), expected.rows().rings().len());
                for seed in [Some(1), None] {
                    assert!(sample(&buffer, 300, seed) == sample_in_memory(&expected, 300, seed));
                }
            }
            buffer.close(false).unwrap();
            assert!(!dir.exists());
        }
    }
}

#[test]
fn memory_and_disk_use_stay_bounded() {
    let dir = folder("tiered-bounded");
    let mut buffer = make_tiered(100, 2_560, 1, &dir);
    fill(&mut buffer, 0..2_700, 1);
    let (memory, disk) = (buffer.memory().nbytes(), buffer.disk_bytes());
    fill(&mut buffer, 2_700..12_000, 1);
    assert_eq!((buffer.rows().rings().len(), buffer.memory().rings().len()), (2_560, 100));
    assert!(
        buffer.memory().nbytes() <= memory * 11 / 10,
        "{} bytes after {memory}",
        buffer.memory().nbytes()
    );
    assert!(buffer.disk_bytes() <= disk * 11 / 10, "{} bytes after {disk}", buffer.disk_bytes());
    let files = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert!(files.sum::<u64>() <= disk * 11 / 10 + 50_000);
}

#[test]
fn after_a_crash_every_sealed_row_is_there_and_the_ring_goes_on() {
    for (memory_capacity, total, n) in [(5, 60, 1), (30, 600, 1), (30, 1_200, 2)] {
        for steps in [3, 59, 140, 333, 700] {
            let dir = folder(&format!("tiered-crash-{memory_capacity}-{steps}-{n}"));
            let mut buffer = make_tiered(memory_capacity, total, n, &dir);
            fill(&mut buffer, 0..steps, n);
            let lost_steps = buffer.n_unsealed() / n as u64;
            assert!(
                lost_steps <= (total / n).div_ceil(256).max(memory_capacity / n / 3) as u64 + 1,
                "{lost_steps} lost"
            );
            drop(buffer);
            // Odd steps lack their next observation. Such a row is incomplete until the next step.
            let mut reopened = make_tiered(memory_capacity, total, n, &dir);
            let kept_steps = steps - lost_steps;
            let mut expected = in_memory(total, n);
            fill_model(&mut expected, 0..kept_steps, n);
            assert_eq!(
                reopened.rows().rings().len(),
                expected.rows().rings().len(),
                "{steps} steps, {lost_steps} lost"
            );
            if kept_steps > 0 {
                assert!(sample(&reopened, 200, Some(3)) == sample_in_memory(&expected, 200, Some(3)));
            }
            for env in 0..n {
                expected.cut_episode(env).unwrap();
            }
            fill(&mut reopened, 1_000..1_100, n);
            fill_model(&mut expected, 1_000..1_100, n);
            assert!(sample(&reopened, 200, Some(4)) == sample_in_memory(&expected, 200, Some(4)));
            reopened.verify().unwrap();
        }
    }
}

#[test]
fn flushed_and_kept_rows_are_there_after_reopening() {
    let dir = folder("tiered-kept");
    let mut buffer = make_tiered(50, 2_560, 1, &dir);
    fill(&mut buffer, 0..35, 1);
    buffer.flush().unwrap();
    assert_eq!(buffer.n_unsealed(), 0);
    fill(&mut buffer, 35..47, 1);
    buffer.close(true).unwrap();
    assert!(matches!(buffer.sample(request(1, None)), Err(Error::Config { .. })));
    push(0, 1, |to, rows| assert!(buffer.push(to, rows).is_err()));
    let reopened = make_tiered(20, 5_000, 1, &dir);
    let mut expected = in_memory(5_000, 1);
    fill_model(&mut expected, 0..47, 1);
    assert!(sample(&reopened, 200, Some(3)) == sample_in_memory(&expected, 200, Some(3)));
}

#[test]
fn frequent_flushes_do_not_multiply_files() {
    let dir = folder("tiered-flushes");
    let mut buffer = make_tiered(200, 25_600, 1, &dir);
    for t in 0..250 {
        fill(&mut buffer, t..t + 1, 1);
        buffer.flush().unwrap();
    }
    assert!(fs::read_dir(&dir).unwrap().count() <= 250 / 60 + 4);
    drop(buffer);
    assert_eq!(make_tiered(200, 25_600, 1, &dir).rows().rings().len(), 249);
}

#[test]
fn a_saved_state_comes_back_exactly_with_its_running_episode() {
    let dir = folder("tiered-exact");
    let mut buffer = make_tiered(30, 1_000, 2, &dir);
    fill(&mut buffer, 0..222, 2);
    sample(&buffer, 10, None);
    buffer.save("step-222").unwrap();
    fill(&mut buffer, 222..900, 2);
    let expected = [sample(&buffer, 100, Some(1)), sample(&buffer, 100, None)];
    buffer.restore("step-222").unwrap();
    assert_eq!(buffer.rows().rings().len(), 444);
    fill(&mut buffer, 222..900, 2);
    let got = [sample(&buffer, 100, Some(1)), sample(&buffer, 100, None)];
    assert!(got == expected);
    assert!(matches!(buffer.save("newest"), Err(Error::Config { .. })));
}

#[test]
fn two_buffers_cannot_share_a_folder_and_old_rows_need_reopen() {
    let dir = folder("tiered-shared");
    let mut buffer = make_tiered(10, 100, 1, &dir);
    fill(&mut buffer, 0..50, 1);
    let second = MmapReplayBuffer::new(schema(), &make_tiers(10, 100, &dir), 1, 0);
    assert!(matches!(second, Err(Error::Storage { .. })));
    drop(buffer);
    let new_tiers = MmapConfig { reopen: false, ..make_tiers(10, 100, &dir) };
    let error = MmapReplayBuffer::new(schema(), &new_tiers, 1, 0).unwrap_err();
    assert!(error.to_string().contains("reopen=True"), "{error}");
    let other = MmapReplayBuffer::new(schema(), &make_tiers(10, 100, &dir), 2, 0);
    assert!(matches!(other, Err(Error::Snapshot { .. })));
    for (memory_capacity, total) in [(0, 10), (11, 10)] {
        let bad = MmapReplayBuffer::new(schema(), &make_tiers(memory_capacity, total, &dir), 1, 0);
        assert!(matches!(bad, Err(Error::Config { .. })));
    }
}

#[test]
fn a_folder_whose_newest_manifest_is_gone_is_not_taken_for_an_empty_one() {
    let dir = folder("tiered-lost");
    let mut buffer = make_tiered(10, 100, 1, &dir);
    fill(&mut buffer, 0..50, 1);
    buffer.close(true).unwrap();
    let (newest, moved_manifest) = (dir.join("newest.manifest"), dir.join("aside"));
    fs::rename(&newest, &moved_manifest).unwrap();
    for reopen in [true, false] {
        let new_tiers = MmapConfig { reopen, ..make_tiers(10, 100, &dir) };
        let error = MmapReplayBuffer::new(schema(), &new_tiers, 1, 0).unwrap_err().to_string();
        assert!(error.contains("newest.manifest is damaged"), "{error}");
    }
    // Other buffers' calls on this folder do not remove the segments either.
    let mut other = in_memory(30, 1);
    fill_model(&mut other, 0..20, 1);
    other.save(&dir, "other").unwrap();
    assert!(matches!(prune(&dir, &[]), Err(Error::Damaged { .. })));
    fs::rename(moved_manifest, newest).unwrap();
    // The newest row had no next observation.
    assert_eq!(make_tiered(10, 100, 1, &dir).rows().rings().len(), 49);
}

#[test]
fn a_buffer_that_ended_before_its_first_seal_does_not_block_the_folder() {
    let dir = folder("tiered-began");
    drop(make_tiered(10, 100, 1, &dir));
    // The segment was written, but not the manifest that lists it.
    fs::write(dir.join("000000000000.seg"), b"half").unwrap();
    let new_tiers = MmapConfig { reopen: false, ..make_tiers(10, 100, &dir) };
    let mut buffer = MmapReplayBuffer::new(schema(), &new_tiers, 2, 0).unwrap();
    assert!(buffer.rows().rings().is_empty());
    buffer.close(false).unwrap();
    assert!(!dir.exists());
}

#[test]
fn closing_leaves_the_files_that_saves_need() {
    let dir = folder("tiered-saves");
    let mut buffer = make_tiered(10, 100, 1, &dir);
    fill(&mut buffer, 0..50, 1);
    let mut other = in_memory(30, 1);
    fill_model(&mut other, 0..20, 1);
    buffer.save("own").unwrap();
    let expected = sample(&buffer, 50, Some(1));
    fill(&mut buffer, 50..90, 1);
    buffer.close(false).unwrap();
    other.save(&dir, "other").unwrap();
    let mut reopened = make_tiered(10, 100, 1, &dir);
    assert!(reopened.rows().rings().is_empty());
    reopened.restore("own").unwrap();
    assert!(sample(&reopened, 50, Some(1)) == expected);
    reopened.close(false).unwrap();
    in_memory(30, 1).load(&dir, "other").unwrap();
}

#[test]
fn a_folder_may_be_reopened_repeatedly_while_its_newest_row_is_incomplete() {
    let dir = folder("tiered-reopened");
    let mut buffer = make_tiered(10, 100, 1, &dir);
    fill(&mut buffer, 0..6, 1);
    for round in 0..5 {
        let n_complete = buffer.rows().rings().len() - 1;
        buffer.save("exact").unwrap();
        drop(buffer);
        buffer = make_tiered(10, 100, 1, &dir);
        assert_eq!(buffer.rows().rings().len(), n_complete, "{round}");
        // This row replaces the incomplete one.
        fill(&mut buffer, 5..6, 1);
    }
    fill(&mut buffer, 6..30, 1);
    buffer.close(true).unwrap();
    let reopened_buffer = make_tiered(10, 100, 1, &dir);
    reopened_buffer.verify().unwrap();
    assert_eq!(reopened_buffer.rows().rings().len(), 29);
}

#[test]
fn damage_is_named_when_the_folder_is_opened_or_verified() {
    let dir = folder("tiered-damage");
    let mut original = make_tiered(10, 500, 1, &dir);
    fill(&mut original, 0..500, 1);
    original.close(true).unwrap();
    let mut files: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap() != "lock");
    files.sort();
    let mut stream = Stream::new(3, "damage", 0);
    let mut draw_below = |n: usize| usize::try_from(stream.next_u64() % n as u64).unwrap();
    for case in 0..if std::env::var_os("RLOX_FULL").is_some() { 1_000 } else { 200 } {
        let path = &files[draw_below(files.len())];
        let good = fs::read(path).unwrap();
        let mut bad = good.clone();
        let position = draw_below(bad.len());
        if case % 4 == 0 {
            bad.truncate(position);
        } else {
            bad[position] ^= 1 << draw_below(8);
        }
        fs::write(path, &bad).unwrap();
        let result = MmapReplayBuffer::new(schema(), &make_tiers(10, 500, &dir), 1, 0)
            .and_then(|buffer| buffer.verify());
        assert!(
            matches!(&result, Err(Error::Damaged { path: named_path, .. }) if *named_path == path.display().to_string()),
            "{result:?}"
        );
        fs::write(path, &good).unwrap();
    }
    make_tiered(10, 500, 1, &dir).verify().unwrap();
}

#[test]
fn a_row_that_was_damaged_under_an_open_buffer_is_an_error_and_others_are_not() {
    let dir = folder("tiered-under");
    let mut buffer = make_tiered(10, 500, 1, &dir);
    fill(&mut buffer, 0..500, 1);
    let first = dir.join("000000000000.seg");
    let bytes = fs::read(&first).unwrap();
    fs::OpenOptions::new().write(true).open(&first).unwrap().set_len(bytes.len() as u64 / 2).unwrap();
    let outcomes: Vec<bool> = (0..300)
        .map(|seed| {
            let sampled_batch = buffer.sample(request(1, Some(seed))).unwrap();
            let mut outcome = true;
            collect_outputs(1, BatchKind::Transitions, |batch| {
                if let Err(error) = buffer.gather(&sampled_batch.rows, None, batch) {
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
        let open_result =
            MmapReplayBuffer::with_fs(Arc::new(disk.clone()), schema(), &make_tiers(6, 30, &dir), 1, 7);
        let mut n_pushed = 0;
        if let Ok(mut buffer) = open_result {
            for t in 0..12 {
                push(t, 1, |to, rows| n_pushed += u64::from(buffer.push(to, rows).is_ok()));
            }
            drop(buffer.flush());
            let mut expected = in_memory(30, 1);
            fill_model(&mut expected, 0..n_pushed, 1);
            // One failed write never fills the memory, so every push succeeds.
            assert_eq!(n_pushed, 12);
            // Until the failure has happened, this read may be the operation that fails.
            if disk.operations() > fail_at {
                assert!(sample(&buffer, 50, Some(1)) == sample_in_memory(&expected, 50, Some(1)));
            }
            let unsealed = buffer.n_unsealed();
            drop(buffer);
            let reopened = make_tiered(6, 30, 1, &dir);
            assert!(reopened.rows().rings().len() as u64 + unsealed >= n_pushed, "operation {fail_at}");
            reopened.verify().unwrap();
        }
        if disk.operations() <= fail_at {
            assert!(fail_at > 60, "only {fail_at} operations");
            break;
        }
        fail_at += 1;
    }
}
