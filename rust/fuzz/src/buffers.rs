//! Buffers of each kind, their valid saves, and drafts of such saves.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rlox_core::buffer::{
    BufferState, EnvIndex, FrameStack, InMemoryBuffer, MmapConfig, MmapReplayBuffer, ObsField,
    OfflineDataset, Prioritized, PrioritizedReplayBuffer, ReplayBuffer, Schema, SequenceReplayBuffer,
    Sequences, StackAxis, Transitions, sampler_by_name,
};
use rlox_core::store::{ColumnPlan, Manifest, Segment, SegmentRef, write_segment};
use rlox_core::{Dtype, Field, Result};

use crate::disk::MemoryFs;
use crate::draft::{Draft, DraftColumn, MAX_SEGMENTS, UNKNOWN_COLUMN};

/// Capacity of a buffer in rows, over both environments.
pub(crate) const CAPACITY: usize = 24;
pub(crate) const N_ENVS: usize = 2;
/// Number of kinds of buffers: uniform, prioritized, windows, tiered (memory and disk), dataset.
pub(crate) const N_KINDS: u8 = 5;
pub(crate) const TIERED: u8 = 3;
/// The name under which buffers are saved.
pub(crate) const SAVE_NAME: &str = "last";
/// The manifest's column that lists segments by number, one byte each.
const SEGMENT_LIST: &str = "segments";

/// Returns the folder of the buffers. It exists on disk because the tiered buffer locks it.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("rlox-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for a lock");
        path.canonicalize().expect("the folder")
    })
}

/// A schema of a vector, a stack of three frames of bytes, and an extra column.
pub(crate) fn schema() -> Schema {
    let plain = ObsField { field: Field::new("x", Dtype::F32, [2]), stack: None };
    let stack = Some(FrameStack { size: 3, axis: StackAxis::First });
    let stacked = ObsField { field: Field::new("pixels", Dtype::U8, [3, 5]), stack };
    let extra = vec![Field::new("latent", Dtype::F32, [2])];
    Schema::new(vec![plain, stacked], (Dtype::F32, vec![1]), Dtype::F32, extra).expect("a schema")
}

/// Passes one row of each of `n` environments at step `t` to `store`. An episode ends every seven
/// steps.
pub(crate) fn push(t: u8, n: usize, store: impl FnOnce(EnvIndex<'_>, Transitions<'_>)) {
    let x = [t; 8].repeat(n);
    let pixels: Vec<u8> = [t, t + 1, t + 2].map(|t| [t; 5]).concat().repeat(n);
    let (numbers, latent) = ([0, 0, t, 0x40].repeat(n), [0; 8].repeat(n));
    let ends = vec![u8::from(t % 7 == 6); n];
    let rows = Transitions {
        n,
        obs: &[&x, &pixels],
        next_obs: None,
        columns: &[&numbers, &numbers, &latent],
        terminated: &ends,
        truncated: &vec![0; n],
    };
    store(EnvIndex::Each, rows);
}

pub(crate) fn uniform() -> ReplayBuffer {
    let rule = sampler_by_name("uniform").expect("a rule");
    ReplayBuffer::new(schema(), CAPACITY, N_ENVS, 7, rule).expect("a buffer")
}

pub(crate) fn prioritized() -> PrioritizedReplayBuffer {
    let rule = Prioritized::new(CAPACITY, 0.5, 0.4, true).expect("a rule");
    PrioritizedReplayBuffer::new(schema(), CAPACITY, N_ENVS, 7, rule).expect("a buffer")
}

pub(crate) fn windows() -> SequenceReplayBuffer {
    let rule = Sequences::default();
    SequenceReplayBuffer::new(schema(), CAPACITY, N_ENVS, 7, rule).expect("a buffer")
}

pub(crate) fn tiered(fs: &MemoryFs) -> Result<MmapReplayBuffer> {
    let tiers = MmapConfig { hot_capacity: 12, total_capacity: CAPACITY, path: folder(), reopen: true };
    MmapReplayBuffer::with_fs(Arc::new(fs.clone()), schema(), &tiers, N_ENVS, 7)
}

pub(crate) fn dataset() -> OfflineDataset {
    let mut result = None;
    push(6, 1, |_, rows| result = Some(OfflineDataset::new(schema(), rows, true, 7)));
    result.expect("a dataset").expect("a dataset")
}

/// A valid save of one kind of buffer: its draft, column names and widths, meta bytes, and state.
pub(crate) struct ValidSave {
    draft: Draft,
    manifest_columns: Vec<(String, usize)>,
    segment_columns: Vec<(String, usize)>,
    meta: [Vec<u8>; 2],
    pub(crate) state: BufferState,
}

pub(crate) fn valid_save(kind: u8) -> &'static ValidSave {
    static ALL: OnceLock<Vec<ValidSave>> = OnceLock::new();
    let all = ALL.get_or_init(|| (0..N_KINDS).map(make_valid_save).collect());
    &all[usize::from(kind)]
}

fn make_valid_save(kind: u8) -> ValidSave {
    let fs = MemoryFs::default();
    macro_rules! save_steps {
        ($make:expr, $push:expr) => {{
            let mut buffer = $make;
            buffer.set_file_system(Arc::new(fs.clone()));
            for t in 0..20 {
                push(t, N_ENVS, |to, rows| $push(&mut buffer, to, rows));
                if t % 8 == 7 {
                    buffer.save(folder(), SAVE_NAME).expect("a save");
                }
            }
            buffer.save(folder(), SAVE_NAME).expect("a save");
            buffer.state()
        }};
    }
    let state = match kind {
        0 => save_steps!(uniform(), |b: &mut ReplayBuffer, to, rows| b.push(to, rows, None).expect("room")),
        1 => save_steps!(prioritized(), |b: &mut PrioritizedReplayBuffer, to, rows| {
            b.push(to, rows, Some(&[1.0, 2.0])).expect("room");
        }),
        2 => {
            save_steps!(windows(), |b: &mut SequenceReplayBuffer, to, rows| b
                .push(to, rows, None)
                .expect("room"))
        }
        TIERED => {
            let mut buffer = tiered(&fs).expect("a buffer");
            for t in 0..15 {
                push(t, N_ENVS, |to, rows| buffer.push(to, rows).expect("room"));
            }
            buffer.save(SAVE_NAME).expect("a save");
            BufferState::default()
        }
        _ => {
            let mut data = dataset();
            data.set_file_system(Arc::new(fs.clone()));
            data.save(folder(), SAVE_NAME).expect("a save");
            data.state()
        }
    };
    read_valid_save(&fs, kind, state)
}

fn read_valid_save(fs: &MemoryFs, kind: u8, state: BufferState) -> ValidSave {
    let path = folder().join(format!("{SAVE_NAME}.manifest"));
    let manifest = Manifest::read(fs, &path).expect("a manifest");
    let names = manifest.columns.iter().map(|(name, width, _)| (name.clone(), *width));
    let mut save = ValidSave {
        draft: Draft { kind, columns: Vec::new() },
        manifest_columns: names.collect(),
        segment_columns: Vec::new(),
        meta: [manifest.meta.clone(), Vec::new()],
        state,
    };
    for (name_index, (_, _, bytes)) in manifest.columns.iter().enumerate() {
        save.draft.columns.push(DraftColumn { file: 0, name_index, first: 0, bytes: bytes.clone() });
    }
    for (index, listed) in manifest.segments.iter().take(MAX_SEGMENTS).enumerate() {
        let path = folder().join(format!("{:012}.seg", listed.number));
        let segment = Segment::open(fs, &path).expect("a segment");
        save.meta[1] = segment.meta().to_vec();
        save.segment_columns = segment.columns().iter().map(|c| (c.name.clone(), c.row_bytes)).collect();
        for (name_index, column) in segment.columns().iter().enumerate() {
            let bytes = segment.read_column(&column.name).expect("its rows");
            save.draft.columns.push(DraftColumn { file: index + 1, name_index, first: column.first, bytes });
        }
    }
    save
}

/// Returns a valid draft of each kind of saved buffer.
#[must_use]
pub fn valid_drafts() -> Vec<Draft> {
    (0..N_KINDS).map(|kind| valid_save(kind).draft.clone()).collect()
}

/// Returns a valid draft of each kind of state.
#[must_use]
pub fn valid_states() -> Vec<Draft> {
    let kinds = (0..N_KINDS).filter(|&kind| kind != TIERED);
    let draft = |kind| {
        let state = &valid_save(kind).state;
        let column = |file| {
            move |(name, (_, _, bytes)): (usize, &(String, usize, Vec<u8>))| DraftColumn {
                file,
                name_index: name,
                first: 0,
                bytes: bytes.clone(),
            }
        };
        let columns = state.columns.iter().enumerate().map(column(0));
        let rows = state.rows.iter().enumerate().map(column(1));
        Draft { kind, columns: columns.chain(rows).collect() }
    };
    kinds.map(draft).collect()
}

/// Returns the columns of one file of a draft, as [`write_segment`] takes them. Incomplete rows are
/// cut off.
fn columns_of_file(draft: &Draft, file: usize, names: &[(String, usize)]) -> (Vec<ColumnPlan>, Vec<Vec<u8>>) {
    let file_columns = draft.columns.iter().filter(|column| column.file == file).map(|column| {
        let (name, row_bytes) = match names.get(column.name_index) {
            Some((name, width)) => (name.clone(), *width),
            None => (UNKNOWN_COLUMN.to_owned(), 1),
        };
        let rows = column.bytes.len() / row_bytes;
        let bytes = column.bytes[..rows * row_bytes].to_vec();
        (ColumnPlan { name, row_bytes, first: column.first, rows: rows as u64 }, bytes)
    });
    file_columns.unzip()
}

/// Writes a draft as a correct writer would. Returns None if the format cannot express it.
pub(crate) fn write(draft: &Draft, save: &ValidSave) -> Option<MemoryFs> {
    let fs = MemoryFs::default();
    let mut segment_refs = Vec::new();
    for number in 1..=MAX_SEGMENTS {
        let (plans, rows) = columns_of_file(draft, number, &save.segment_columns);
        if plans.is_empty() {
            continue;
        }
        let path = folder().join(format!("{number:012}.seg"));
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let checksum = write_segment(Arc::new(fs.clone()), &path, plans, &save.meta[1], &rows).ok()?;
        let bytes = fs.get(&path)?.len() as u64;
        segment_refs.push(SegmentRef { number: number as u64, checksum, bytes });
    }
    let mut names = save.manifest_columns.clone();
    names.push((SEGMENT_LIST.to_owned(), 1));
    let (plans, rows) = columns_of_file(draft, 0, &names);
    let mut segments = segment_refs.clone();
    let mut columns = Vec::new();
    for (plan, rows) in plans.into_iter().zip(rows) {
        if plan.name == SEGMENT_LIST {
            let missing = SegmentRef { number: 99, checksum: 0, bytes: 0 };
            let find_segment = |&n: &u8| segment_refs.get(usize::from(n)).copied().unwrap_or(missing);
            segments = rows.iter().map(find_segment).collect();
        } else {
            columns.push((plan.name, plan.row_bytes, rows));
        }
    }
    let manifest = Manifest { segments, columns, meta: save.meta[0].clone() };
    let name = if draft.kind % N_KINDS == TIERED { "newest" } else { SAVE_NAME };
    let path = folder().join(format!("{name}.manifest"));
    manifest.write(Arc::new(fs.clone()), &path).ok()?;
    Some(fs)
}
