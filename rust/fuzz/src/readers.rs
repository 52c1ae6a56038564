//! Reads files and uses the accepted ones. Every step may return an error, but must not panic.

use std::path::Path;
use std::sync::Arc;

use rlox_core::buffer::{
    BatchKind, BufferState, InMemoryBuffer, MmapReplayBuffer, NStep, OfflineDataset, OwnedBatch,
    PrioritizedReplayBuffer, ReplayBuffer, SampleRequest, SequenceReplayBuffer,
};
use rlox_core::store::{Manifest, Segment};

use crate::buffers::{
    CAPACITY, N_ENVS, N_KINDS, SAVE_NAME, TIERED, ValidSave, dataset, folder, prioritized, push, schema,
    tiered, uniform, valid_drafts, valid_save, windows, write,
};
use crate::disk::MemoryFs;
use crate::draft::{Draft, UNKNOWN_COLUMN};

fn request(len: usize) -> SampleRequest {
    SampleRequest { batch_size: 5, n_batches: 2, len, seed: Some(1) }
}

/// Uses an accepted buffer. Its calls may return errors, but must not panic.
macro_rules! use_in_memory {
    ($make:expr, $buffer:expr, $push:expr) => {{
        let buffer = &mut *$buffer;
        let before = buffer.state();
        let mut again = $make;
        again.restore(&before).expect("a buffer's own state can be restored");
        assert!(again.state() == before, "the restored state differs");
        for t in 0..3 {
            push(t, N_ENVS, |to, rows| drop($push(buffer, to, rows)));
        }
        drop(buffer.state());
    }};
}

fn gather_rows(buffer: &ReplayBuffer) {
    let Ok(sampled_batch) = buffer.sample(request(1)) else { return };
    let n_step = NStep::new(3, 0.9).expect("three steps");
    let mut rows = OwnedBatch::new(&schema(), BatchKind::Transitions, 10);
    drop(rows.fill(|batch| buffer.gather(&sampled_batch.rows, None, batch)));
    let mut rows = OwnedBatch::new(&schema(), BatchKind::NStep, 10);
    drop(rows.fill(|batch| buffer.gather(&sampled_batch.rows, Some(n_step), batch)));
}

fn use_uniform(buffer: &mut ReplayBuffer) {
    gather_rows(buffer);
    use_in_memory!(uniform(), buffer, |b: &mut ReplayBuffer, to, rows| b.push(to, rows, None));
    gather_rows(buffer);
}

fn use_prioritized(buffer: &mut PrioritizedReplayBuffer) {
    let gather = |buffer: &PrioritizedReplayBuffer| {
        if let Ok(sampled_batch) = buffer.sample(request(1)) {
            let mut rows = OwnedBatch::new(&schema(), BatchKind::Transitions, 10);
            drop(rows.fill(|batch| buffer.gather(&sampled_batch.rows, None, batch)));
        }
    };
    gather(buffer);
    use_in_memory!(prioritized(), buffer, |b: &mut PrioritizedReplayBuffer, to, rows| {
        b.push(to, rows, None)
    });
    gather(buffer);
}

fn use_windows(buffer: &mut SequenceReplayBuffer) {
    let gather = |buffer: &SequenceReplayBuffer| {
        if let Ok(sampled_batch) = buffer.sample(request(3)) {
            let mut rows = OwnedBatch::new(&schema(), BatchKind::Sequences, 30);
            drop(rows.fill(|batch| buffer.rows().gather_windows(&sampled_batch, 3, batch)));
        }
    };
    gather(buffer);
    use_in_memory!(windows(), buffer, |b: &mut SequenceReplayBuffer, to, rows| { b.push(to, rows, None) });
    gather(buffer);
}

fn use_tiered(buffer: &mut MmapReplayBuffer) {
    let gather = |buffer: &MmapReplayBuffer| {
        if let Ok(sampled_batch) = buffer.sample(request(1)) {
            let mut rows = OwnedBatch::new(&schema(), BatchKind::Transitions, 10);
            drop(rows.fill(|batch| buffer.gather(&sampled_batch.rows, None, batch)));
        }
    };
    gather(buffer);
    for t in 0..3 {
        push(t, N_ENVS, |to, rows| drop(buffer.push(to, rows)));
    }
    gather(buffer);
}

/// Writes a draft as a folder, opens it, and uses the buffer.
pub(crate) fn open(draft: &Draft) {
    let kind = draft.kind % N_KINDS;
    let Some(fs) = write(draft, valid_save(kind)) else { return };
    macro_rules! load_and_use {
        ($make:expr, $used:expr) => {{
            let mut buffer = $make;
            buffer.set_file_system(Arc::new(fs));
            if buffer.load(folder(), SAVE_NAME).is_ok() {
                $used(&mut buffer);
            }
        }};
    }
    match kind {
        0 => load_and_use!(uniform(), use_uniform),
        1 => load_and_use!(prioritized(), use_prioritized),
        2 => load_and_use!(windows(), use_windows),
        TIERED => drop(tiered(&fs).map(|mut buffer| use_tiered(&mut buffer))),
        _ => load_and_use!(dataset(), use_dataset),
    }
}

/// Restores a buffer from a draft of its state, and uses the buffer.
pub(crate) fn restore(draft: &Draft) {
    let kind = match draft.kind % N_KINDS {
        TIERED => 0,
        kind => kind,
    };
    let ValidSave { state, .. } = valid_save(kind);
    let mut drafted_state = BufferState { layout: state.layout.clone(), ..BufferState::default() };
    for column in &draft.columns {
        let (names, destination) = match column.file {
            0 => (&state.columns, &mut drafted_state.columns),
            _ => (&state.rows, &mut drafted_state.rows),
        };
        let entry = names.get(column.name_index).map(|(name, width, _)| (name.clone(), *width));
        let (name, width) = entry.unwrap_or_else(|| (UNKNOWN_COLUMN.to_owned(), 1));
        destination.push((name, width, column.bytes.clone()));
    }
    macro_rules! restore_and_use {
        ($make:expr, $used:expr) => {{
            let mut buffer = $make;
            if buffer.restore(&drafted_state).is_ok() {
                $used(&mut buffer);
            }
        }};
    }
    match kind {
        0 => restore_and_use!(uniform(), use_uniform),
        1 => restore_and_use!(prioritized(), use_prioritized),
        2 => restore_and_use!(windows(), use_windows),
        _ => restore_and_use!(dataset(), use_dataset),
    }
}

fn use_dataset(data: &mut OfflineDataset) {
    assert!(data.stats().n_episodes <= CAPACITY, "more episodes than rows");
    if let Ok(sampled_batch) = data.sample_trajectories(request(3)) {
        let mut rows = OwnedBatch::new(&schema(), BatchKind::Trajectories, 30);
        drop(rows.fill(|batch| data.gather_trajectories(&sampled_batch, 3, batch)));
    }
    let before = data.state();
    let mut restored_data = dataset();
    restored_data.restore(&before).expect("a dataset's own state can be restored");
    assert!(restored_data.state() == before, "the restored state differs");
}

/// Reads the first columns of a segment, and rows across their blocks.
pub(crate) fn read_segment(bytes: &[u8]) {
    let (fs, path) = (MemoryFs::default(), Path::new("/x.seg"));
    fs.put(path, bytes.to_vec());
    let Ok(segment) = Segment::open(&fs, path) else { return };
    drop(segment.verify());
    let mut scratch = Vec::new();
    for (index, column) in segment.columns().iter().enumerate().take(8) {
        drop(segment.read_column(&column.name));
        for skip in [0, 1, column.rows_per_block.saturating_sub(1), column.rows.saturating_sub(1)] {
            let Some(first) = column.first.checked_add(skip) else { continue };
            let numbers = first..first.saturating_add(2);
            let bytes = column.row_bytes.saturating_mul(2).min(1 << 16);
            drop(segment.read_rows(index, numbers, &mut vec![0; bytes], &mut scratch));
        }
    }
}

/// Reads a manifest, and compares it with a rewritten copy.
pub(crate) fn read_manifest(bytes: &[u8]) {
    let (fs, path) = (MemoryFs::default(), Path::new("/x.manifest"));
    fs.put(path, bytes.to_vec());
    let Ok(manifest) = Manifest::read(&fs, path) else { return };
    // A writer of the same manifest writes the same, except for the block size of empty columns.
    let copy_path = Path::new("/y.manifest");
    manifest.write(Arc::new(fs.clone()), copy_path).expect("a write to memory succeeds");
    assert!(Manifest::read(&fs, copy_path).expect("the copy is read") == manifest, "the copy differs");
}

/// Returns the files of each valid draft: the first segments, and the manifests.
#[must_use]
pub fn valid_files() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut segments, mut manifests) = (Vec::new(), Vec::new());
    for draft in valid_drafts() {
        let fs = write(&draft, valid_save(draft.kind)).expect("a valid draft");
        for name in ["newest", SAVE_NAME] {
            manifests.extend(fs.get(&folder().join(format!("{name}.manifest"))));
        }
        segments.extend(fs.get(&folder().join("000000000001.seg")));
    }
    (segments, manifests)
}

/// Checks that every valid draft is accepted, so that the harness tests what it claims to test.
///
/// # Panics
/// If a valid draft is refused.
pub fn check_valid_drafts() {
    for draft in valid_drafts() {
        let fs = write(&draft, valid_save(draft.kind)).expect("a valid draft");
        macro_rules! check_load {
            ($make:expr) => {{
                let mut buffer = $make;
                buffer.set_file_system(Arc::new(fs));
                buffer.load(folder(), SAVE_NAME).expect("a valid save");
            }};
        }
        match draft.kind {
            0 => check_load!(uniform()),
            1 => check_load!(prioritized()),
            2 => check_load!(windows()),
            TIERED => drop(tiered(&fs).expect("a valid folder")),
            _ => check_load!(dataset()),
        }
    }
}
