//! Restored buffers continue exactly like the saved ones, and saves share segments.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::many_single_char_names)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rlox_core::Error;
use rlox_core::buffer::{
    BatchKind, InMemoryBuffer, MemoryRows, Prioritized, PrioritizedReplayBuffer, ReplayBuffer, RowRef, Rows,
    SampleRequest, SequenceReplayBuffer, Sequences, sampler_by_name,
};
use rlox_core::seed::Stream;
use rlox_core::store::FaultyFs;

mod rows;
mod scratch;
use rows::{Outputs, collect_outputs, push, request, schema};
use scratch::folder;

/// Returns all bytes of some rows.
fn read(source: &MemoryRows, rows: &[RowRef]) -> Outputs {
    collect_outputs(rows.len(), BatchKind::Transitions, |batch| source.gather(rows, rows, batch))
}

fn assert_same_samples(left: &ReplayBuffer, right: &ReplayBuffer) {
    for seed in [Some(1), Some(2), None] {
        let (a, b) =
            (left.sample(request(200, seed)).unwrap().rows, right.sample(request(200, seed)).unwrap().rows);
        assert!(read(left.rows(), &a) == read(right.rows(), &b));
    }
}

fn buffer(capacity: usize, n: usize) -> ReplayBuffer {
    ReplayBuffer::new(schema(), capacity, n, 7, sampler_by_name("uniform").unwrap()).unwrap()
}

fn fill(buffer: &mut ReplayBuffer, steps: std::ops::Range<u64>, n: usize) {
    for t in steps {
        push(t, n, |to, rows| buffer.push(to, rows, None).unwrap());
    }
}

#[test]
fn a_restored_buffer_samples_the_same_rows_and_goes_on_alike() {
    for n in [1, 3] {
        // Not full, just full, and wrapped at several offsets.
        for steps in [1, 29, 30, 31, 47, 90, 123] {
            let dir = folder(&format!("saved_buffers-same-{n}-{steps}"));
            let mut left = buffer(30 * n, n);
            fill(&mut left, 0..steps, n);
            left.save(&dir, "last").unwrap();
            let mut right = buffer(30 * n, n);
            right.load(&dir, "last").unwrap();
            assert_eq!(right.rows().rings().n_pushed(), steps * n as u64);
            assert_same_samples(&left, &right);
            fill(&mut left, steps..steps + 17, n);
            fill(&mut right, steps..steps + 17, n);
            assert_same_samples(&left, &right);
        }
    }
}

fn segment_bytes(dir: &Path) -> Vec<u64> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let segments = files.filter(|f| f.file_name().to_string_lossy().ends_with(".seg"));
    segments.map(|f| f.metadata().unwrap().len()).collect()
}

#[test]
fn a_save_writes_only_new_rows_and_removes_old_segments() {
    let dir = folder("saved_buffers-shared");
    let mut left = buffer(1_000, 1);
    fill(&mut left, 0..900, 1);
    let full_save = left.save(&dir, "step-1").unwrap();
    fill(&mut left, 900..910, 1);
    let small_save = left.save(&dir, "step-2").unwrap();
    assert!(small_save.new_bytes * 20 < full_save.new_bytes, "{small_save:?} after {full_save:?}");
    assert_eq!((small_save.segments, left.save(&dir, "step-3").unwrap().new_bytes), (2, 0));
    for name in ["step-1", "step-2", "step-3"] {
        buffer(1_000, 1).load(&dir, name).unwrap();
    }
    // The first rows leave the ring. Their segment is removed once no manifest lists it.
    for (step, name) in ["step-1", "step-2", "step-3"].iter().enumerate() {
        let begin = 910 + 1_000 * step as u64;
        fill(&mut left, begin..begin + 1_000, 1);
        // An observation on the border is the last of one segment, and the next segment needs it.
        assert!(left.save(&dir, name).unwrap().segments <= 2);
    }
    assert!(segment_bytes(&dir).len() <= 4 && !dir.join("000000000000.seg").exists());
    let mut right = buffer(1_000, 1);
    right.load(&dir, "step-3").unwrap();
    assert_same_samples(&left, &right);
}

#[test]
fn a_restored_buffer_shares_the_segments_it_came_from() {
    let dir = folder("saved_buffers-resumed");
    let mut left = buffer(500, 1);
    fill(&mut left, 0..400, 1);
    left.save(&dir, "a").unwrap();
    let mut right = buffer(500, 1);
    right.load(&dir, "a").unwrap();
    fill(&mut right, 400..405, 1);
    let saved = right.save(&dir, "b").unwrap();
    assert!(saved.segments == 2 && saved.new_bytes < 8_000, "{saved:?}");
    // A save into another folder shares no segments.
    let other = folder("saved_buffers-resumed-other");
    assert_eq!(right.save(&other, "b").unwrap().segments, 1);
    drop(fs::remove_dir_all(&dir));
    let mut third = buffer(500, 1);
    third.load(&other, "b").unwrap();
    assert_same_samples(&right, &third);
    // A save writes removed segments again.
    assert_eq!(left.save(&dir, "a").unwrap().segments, 1);
    third.load(&dir, "a").unwrap();
    assert_same_samples(&left, &third);
}

#[test]
fn columns_written_after_a_save_are_in_the_next() {
    let dir = folder("saved_buffers-written");
    let mut left = buffer(100, 1);
    fill(&mut left, 0..150, 1);
    left.save(&dir, "last").unwrap();
    let column = left.rows().schema().column("latent").unwrap();
    let latent: Vec<u8> = [1.5_f32, 2.5, 3.5, 4.5].iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert_eq!(left.update(column, &[60, 149], &latent).unwrap(), 0);
    left.save(&dir, "last").unwrap();
    let mut right = buffer(100, 1);
    right.load(&dir, "last").unwrap();
    let row = right.rows().rings().find(149).unwrap();
    assert_eq!(read(right.rows(), &[row]).columns[2], latent[8..]);
    assert_same_samples(&left, &right);
    fill(&mut left, 150..160, 1);
    left.save(&dir, "last").unwrap();
    right.load(&dir, "last").unwrap();
    assert_same_samples(&left, &right);
}

#[test]
fn segments_of_many_saves_are_merged_into_one() {
    let dir = folder("saved_buffers-many");
    let mut left = buffer(2_000, 1);
    for t in 0..150 {
        fill(&mut left, t..t + 1, 1);
        assert!(left.save(&dir, "last").unwrap().segments <= 128);
    }
    let mut right = buffer(2_000, 1);
    right.load(&dir, "last").unwrap();
    assert_same_samples(&left, &right);
    assert!(segment_bytes(&dir).len() < 128);
}

#[test]
fn another_layout_and_damage_are_refused_and_change_nothing() {
    let dir = folder("saved_buffers-refused");
    let mut left = buffer(50, 1);
    fill(&mut left, 0..70, 1);
    left.save(&dir, "last").unwrap();
    let mut right = buffer(50, 1);
    fill(&mut right, 0..20, 1);
    let before = read(right.rows(), &right.sample(request(50, Some(1))).unwrap().rows);
    let mut larger = buffer(51, 1);
    assert!(matches!(larger.load(&dir, "last"), Err(Error::Snapshot { .. })));
    assert!(matches!(right.load(&dir, "other"), Err(Error::Missing { .. })));
    assert!(matches!(right.load(&dir, "../last"), Err(Error::Config { .. })));
    for file in ["000000000000.seg", "last.manifest"] {
        let good = fs::read(dir.join(file)).unwrap();
        let mut stream = Stream::new(3, "damage", 0);
        for _ in 0..100 {
            let mut bad = good.clone();
            let position = usize::try_from(stream.next_u64() % bad.len() as u64).unwrap();
            if position % 3 == 0 {
                bad.truncate(position);
            } else {
                bad[position] ^= 1 << (position % 8);
            }
            fs::write(dir.join(file), &bad).unwrap();
            let error = right.load(&dir, "last").unwrap_err();
            assert!(matches!(&error, Error::Damaged { path, .. } if path.ends_with(file)), "{error}");
        }
        fs::write(dir.join(file), &good).unwrap();
    }
    assert!(before == read(right.rows(), &right.sample(request(50, Some(1))).unwrap().rows));
    right.load(&dir, "last").unwrap();
    assert_same_samples(&left, &right);
}

#[test]
fn an_earlier_save_stays_whole_whichever_disk_operation_fails() {
    for is_persistent in [false, true] {
        for fail_at in 0.. {
            let dir = folder(&format!("saved_buffers-faults-{is_persistent}"));
            let mut left = buffer(40, 1);
            fill(&mut left, 0..60, 1);
            left.save(&dir, "last").unwrap();
            let mut early_copy = buffer(40, 1);
            early_copy.load(&dir, "last").unwrap();
            let disk = FaultyFs::new(fail_at, is_persistent);
            left.set_file_system(Arc::new(disk.clone()));
            fill(&mut left, 60..75, 1);
            let saved = left.save(&dir, "last");
            let mut right = buffer(40, 1);
            right.load(&dir, "last").unwrap();
            assert_same_samples(
                if saved.is_ok() || right.rows().rings().n_pushed() == 75 { &left } else { &early_copy },
                &right,
            );
            if saved.is_err() && !is_persistent {
                left.save(&dir, "last").unwrap();
                right.load(&dir, "last").unwrap();
                assert_same_samples(&left, &right);
            }
            if disk.operations() <= fail_at {
                assert!(fail_at > 10 && saved.is_ok());
                break;
            }
        }
    }
}

#[test]
fn restored_priorities_draw_the_same_rows_with_the_same_weights() {
    let dir = folder("saved_buffers-priorities");
    let make = |alpha| {
        PrioritizedReplayBuffer::new(schema(), 64, 1, 7, Prioritized::new(64, alpha, 0.4, true).unwrap())
            .unwrap()
    };
    let mut left = make(0.6);
    for t in 0..100 {
        push(t, 1, |to, rows| left.push(to, rows, Some(&[0.1 + t as f64])).unwrap());
    }
    left.update_priorities(&[50, 99, 3], &[500.0, 0.0, 1.0]).unwrap();
    left.set_beta(0.7).unwrap();
    left.save(&dir, "last").unwrap();
    let mut right = make(0.6);
    right.load(&dir, "last").unwrap();
    for t in 100..130 {
        push(t, 1, |to, rows| left.push(to, rows, None).unwrap());
        push(t, 1, |to, rows| right.push(to, rows, None).unwrap());
        let sampled_batch = left.sample(request(64, None)).unwrap();
        assert_eq!(sampled_batch, right.sample(request(64, None)).unwrap());
        assert!(read(left.rows(), &sampled_batch.rows) == read(right.rows(), &sampled_batch.rows));
    }
    assert_eq!(right.sampler().priorities().beta(), 0.7);
    assert!(matches!(make(0.5).load(&dir, "last"), Err(Error::Snapshot { .. })));
}

#[test]
fn restored_sequences_draw_the_same_windows_and_go_on_alike() {
    let dir = folder("saved_buffers-sequences");
    let make = || SequenceReplayBuffer::new(schema(), 64, 1, 7, Sequences::default()).unwrap();
    let mut left = make();
    let fill = |buffer: &mut SequenceReplayBuffer, steps: std::ops::Range<u64>| {
        for t in steps {
            push(t, 1, |to, rows| buffer.push(to, rows, None).unwrap());
        }
    };
    // The ring has wrapped, and its last episode has not ended.
    fill(&mut left, 0..104);
    left.sample(SampleRequest { len: 4, ..request(3, None) }).unwrap();
    assert!(left.save(&dir, "last").unwrap().new_bytes > 0);
    assert_eq!(left.save(&dir, "last").unwrap().new_bytes, 0);
    let mut right = make();
    right.load(&dir, "last").unwrap();
    for t in 104..150 {
        let (a, b) = (
            left.sample(SampleRequest { len: 6, ..request(20, None) }).unwrap(),
            right.sample(SampleRequest { len: 6, ..request(20, None) }).unwrap(),
        );
        assert_eq!(a, b);
        assert!(read(left.rows(), &a.rows) == read(right.rows(), &b.rows));
        fill(&mut left, t..t + 1);
        fill(&mut right, t..t + 1);
    }
    let mut larger = SequenceReplayBuffer::new(schema(), 65, 1, 7, Sequences::default()).unwrap();
    assert!(matches!(larger.load(&dir, "last"), Err(Error::Snapshot { .. })));
}

#[test]
fn a_row_that_is_overwritten_leaves_with_its_priority() {
    let mut prioritized =
        PrioritizedReplayBuffer::new(schema(), 10, 1, 7, Prioritized::new(10, 1.0, 0.4, true).unwrap())
            .unwrap();
    for t in 0..10 {
        push(t, 1, |to, rows| prioritized.push(to, rows, Some(&[1e6])).unwrap());
    }
    for t in 10..20 {
        push(t, 1, |to, rows| prioritized.push(to, rows, Some(&[1.0])).unwrap());
    }
    assert_eq!(prioritized.sampler().priorities().tree().total(), 10.0);
    assert_eq!(prioritized.update_priorities(&[3, 15, 9], &[5.0, 3.0, 5.0]).unwrap(), 2);
    assert_eq!(prioritized.sampler().priorities().tree().total(), 12.0);
    prioritized.clear();
    assert!(prioritized.sample(request(1, Some(0))).is_err());
    assert!(prioritized.sampler().priorities().tree().is_empty());
}
