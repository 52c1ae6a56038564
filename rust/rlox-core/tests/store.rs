//! Files on disk: sealed data reads back, and errors name the path and the byte offset of damage.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rlox_core::seed::Stream;
use rlox_core::store::{ColumnPlan, FaultyFs, Folder, Fs, Manifest, RealFs, Segment, SegmentRef};
use rlox_core::{Error, Result};

mod scratch;
use scratch::folder;

fn bytes(len: usize, index: u64) -> Vec<u8> {
    let mut stream = Stream::new(4, "bytes", index);
    (0..len).map(|_| stream.next_u64().to_le_bytes()[0]).collect()
}

/// A column to write: name, bytes of a row, number of the first row, and the bytes of the rows in
/// parts.
struct ColumnInput<'a>(&'static str, usize, u64, Vec<&'a [u8]>);

/// Seals columns as the folder's next segment.
fn seal(store: &Folder, columns: &[ColumnInput<'_>], meta: &[u8]) -> Result<SegmentRef> {
    let plans = columns.iter().map(|ColumnInput(name, row_bytes, first, parts)| {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let rows = bytes.checked_div(*row_bytes).unwrap_or(0) as u64;
        ColumnPlan { name: (*name).to_owned(), row_bytes: *row_bytes, first: *first, rows }
    });
    let (number, mut writer) = store.begin_segment(plans.collect(), meta)?;
    columns.iter().flat_map(|column| &column.3).try_for_each(|part| writer.write(part))?;
    let (checksum, bytes) = writer.finish()?;
    Ok(SegmentRef { number, checksum, bytes })
}

/// Makes a column whose blocks have one wide row, one whose blocks have many narrow rows, and one
/// without rows.
fn columns(wide: &[u8], narrow: &[u8]) -> Vec<ColumnInput<'static>> {
    let (wide, narrow): (&'static [u8], &'static [u8]) = (wide.to_vec().leak(), narrow.to_vec().leak());
    vec![
        // Parts end in the middle of rows and blocks.
        ColumnInput("wide", 5_000, 7, vec![&wide[..1_234], &wide[1_234..1_234], &wide[1_234..]]),
        ColumnInput("narrow", 6, 1 << 40, vec![narrow]),
        ColumnInput("none", 8, 3, vec![]),
    ]
}

/// Opens a segment, and reads everything that a user can read.
fn read_all(path: &Path) -> Result<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let segment = Segment::open(&RealFs, path)?;
    segment.verify()?;
    Ok((segment.read_column("wide")?, segment.read_column("narrow")?, segment.meta().to_vec()))
}

fn seal_example(dir: &Path) -> (PathBuf, Vec<u8>, Vec<u8>) {
    let (wide, narrow) = (bytes(5_000 * 9, 0), bytes(6 * 3_000, 1));
    let store = Folder::open_real(dir).unwrap();
    let segment_ref = seal(&store, &columns(&wide, &narrow), b"a description").unwrap();
    assert_eq!(segment_ref.number, 0);
    (dir.join("000000000000.seg"), wide, narrow)
}

#[test]
fn rows_read_back_alone_and_in_ranges_across_blocks() {
    let dir = folder("store-ranges");
    let (path, wide, narrow) = seal_example(&dir);
    let segment = Segment::open(&RealFs, &path).unwrap();
    assert_eq!(segment.meta(), b"a description");
    assert_eq!(read_all(&path).unwrap(), (wide, narrow.clone(), b"a description".to_vec()));
    let (column, first) = (segment.position("narrow").unwrap(), 1_u64 << 40);
    let mut scratch = Vec::new();
    for (from, to) in [(0, 1), (681, 682), (682, 683), (2_999, 3_000), (600, 1_400), (0, 3_000), (5, 5)] {
        let mut out = vec![0; (to - from) * 6];
        let numbers = first + from as u64..first + to as u64;
        segment.read_rows(column, numbers, &mut out, &mut scratch).unwrap();
        assert_eq!(out, narrow[from * 6..to * 6], "{from}..{to}");
    }
    for numbers in [first + 2_999..first + 3_001, first - 1..first + 1, 0..2] {
        let error = segment.read_rows(column, numbers, &mut [0; 12], &mut scratch).unwrap_err();
        assert!(matches!(error, Error::Shape { .. }), "{error}");
    }
    assert!(segment.read_column("none").unwrap().is_empty());
    assert!(matches!(segment.read_column("other"), Err(Error::Damaged { .. })));
}

#[test]
fn a_column_with_an_incomplete_row_is_refused() {
    let dir = folder("store-whole");
    let store = Folder::open_real(&dir).unwrap();
    let rows = [0; 4];
    assert!(matches!(seal(&store, &[ColumnInput("x", 0, 0, vec![&rows])], &[]), Err(Error::Config { .. })));
    assert!(matches!(seal(&store, &[ColumnInput("x", 3, 0, vec![&rows])], &[]), Err(Error::Shape { .. })));
    let long_plan = ColumnPlan { name: "x".into(), row_bytes: 2, first: 0, rows: 3 };
    let (_, mut writer) = store.begin_segment(vec![long_plan], &[]).unwrap();
    writer.write(&rows).unwrap();
    assert!(matches!(writer.finish(), Err(Error::Shape { .. })));
}

#[test]
fn every_flipped_bit_and_every_truncation_is_found() {
    let dir = folder("store-flips");
    let (path, ..) = seal_example(&dir);
    let good = fs::read(&path).unwrap();
    let cases = if std::env::var_os("RLOX_FULL").is_some() { 1_000 } else { 200 };
    let mut stream = Stream::new(1, "damage", 0);
    let mut draw_below = |n: usize| usize::try_from(stream.next_u64() % n as u64).unwrap();
    for case in 0..cases {
        let mut bad = good.clone();
        // A quarter of the cases hit the head, which is a small part of the file.
        let position_bound = if case % 4 == 0 { 400 } else { good.len() };
        let position = draw_below(position_bound);
        match case % 3 {
            0 | 1 => bad[position] ^= 1 << draw_below(8),
            _ if case % 2 == 0 => bad.truncate(position),
            _ => bad.extend(bytes(1 + draw_below(9_000), case)),
        }
        fs::write(&path, &bad).unwrap();
        let error = read_all(&path).expect_err("the damage was not seen");
        let Error::Damaged { path: named_path, offset, .. } = error else { panic!("{error}") };
        assert_eq!(named_path, path.display().to_string());
        assert!(offset <= bad.len().max(good.len()) as u64);
    }
    fs::write(&path, &good).unwrap();
    assert!(read_all(&path).is_ok());
}

/// Returns a sealed file with a changed head and the checksum of that head.
fn forge(good: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    change(&mut bytes[16..len - 4]);
    let checksum = crc32fast::hash(&bytes[..len - 4]);
    bytes[len - 4..len].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Offset, counted from byte 16 of the head, of the number of the second column's first row.
const FIRST_ROW_OFFSET: usize = 76 - 16;

#[test]
fn rows_whose_last_block_would_end_beyond_u64_are_damage() {
    let dir = folder("store-last-numbers");
    let (path, ..) = seal_example(&dir);
    let good = fs::read(&path).unwrap();
    // 3,000 rows in blocks of 682: five full blocks would have 3,410 rows.
    for (rows_to_max, is_valid) in [(3_410, true), (3_409, false), (3_000, false), (0, false)] {
        let first = u64::MAX - rows_to_max;
        let bytes = forge(&good, |head| {
            assert_eq!(head[FIRST_ROW_OFFSET..FIRST_ROW_OFFSET + 8], (1_u64 << 40).to_le_bytes());
            head[FIRST_ROW_OFFSET..FIRST_ROW_OFFSET + 8].copy_from_slice(&first.to_le_bytes());
        });
        fs::write(&path, bytes).unwrap();
        match read_all(&path) {
            Ok(_) => assert!(is_valid, "{first}"),
            Err(error) => assert!(!is_valid && matches!(error, Error::Damaged { .. }), "{error}"),
        }
    }
}

#[test]
fn a_forged_head_is_read_or_refused_as_damage() {
    let dir = folder("store-forged");
    let (path, ..) = seal_example(&dir);
    let good = fs::read(&path).unwrap();
    let cases = if std::env::var_os("RLOX_FULL").is_some() { 200_000 } else { 500 };
    let mut stream = Stream::new(2, "forged", 0);
    let mut refused = 0;
    for _ in 0..cases {
        let mut next = || stream.next_u64();
        let bytes = forge(&good, |head| {
            for _ in 0..=next() % 3 {
                let value = [0, 1, u64::MAX, u64::MAX - next() % 10_000, next(), next() % 99];
                let value = value[usize::try_from(next() % 6).unwrap()].to_le_bytes();
                let width = [1, 4, 8][usize::try_from(next() % 3).unwrap()];
                let position = usize::try_from(next() % (head.len() - width) as u64).unwrap();
                head[position..position + width].copy_from_slice(&value[..width]);
            }
        });
        fs::write(&path, bytes).unwrap();
        if let Err(error) = read_all(&path) {
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
            refused += 1;
        }
    }
    assert!(refused > cases / 2, "{refused} of {cases}");
}

#[test]
fn a_file_that_shrinks_or_changes_while_it_is_open_is_an_error() {
    let dir = folder("store-shrinks");
    let (path, wide, _) = seal_example(&dir);
    let segment = Segment::open(&RealFs, &path).unwrap();
    let mut row = vec![0; 5_000];
    segment.read_rows(0, 15..16, &mut row, &mut Vec::new()).unwrap();
    assert_eq!(row, wide[40_000..45_000]);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9_000).unwrap();
    let error = segment.read_rows(0, 15..16, &mut row, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("ends too early"), "{error}");
}

#[test]
fn a_link_a_folder_and_a_missing_file_are_refused() {
    let dir = folder("store-links");
    let (path, ..) = seal_example(&dir);
    let link = dir.join("000000000001.seg");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(Segment::open(&RealFs, &link), Err(Error::Storage { .. })));
    assert!(matches!(Segment::open(&RealFs, &dir), Err(Error::Storage { .. })));
    let error = Segment::open(&RealFs, &dir.join("000000000002.seg")).unwrap_err();
    assert!(error.to_string().contains("000000000002.seg") && error.to_string().contains("missing"));
}

#[test]
fn a_folder_has_one_writer_at_a_time() {
    let dir = folder("store-lock");
    let first = Folder::open_real(&dir).unwrap();
    let error = Folder::open_real(&dir).unwrap_err();
    assert!(error.to_string().contains("another buffer or process"), "{error}");
    drop(first);
    assert!(Folder::open_real(&dir).is_ok());
}

fn seal_small(store: &Folder, index: u64) -> SegmentRef {
    let rows = bytes(80, index);
    seal(store, &[ColumnInput("x", 8, 10 * index, vec![&rows])], &[]).unwrap()
}

fn make_manifest(segments: &[SegmentRef]) -> Manifest {
    let tree = ("tree".to_owned(), 8, bytes(64, 9));
    Manifest { segments: segments.to_vec(), columns: vec![tree], meta: b"meta".to_vec() }
}

#[test]
fn remove_unused_removes_only_what_no_manifest_lists() {
    let dir = folder("store-sweep");
    let store = Folder::open_real(&dir).unwrap();
    let segments: Vec<SegmentRef> = (0..5).map(|i| seal_small(&store, i)).collect();
    store.publish("step-1", &make_manifest(&segments[..2])).unwrap();
    store.publish("step-2", &make_manifest(&segments[1..4])).unwrap();
    fs::write(dir.join(".000000000009.seg.new"), b"half").unwrap();
    fs::write(dir.join("notes.txt"), b"somebody's").unwrap();
    assert_eq!(store.remove_unused().unwrap().files, 2);
    assert_eq!(store.manifest("step-2").unwrap(), make_manifest(&segments[1..4]));
    assert_eq!(store.prune(&["step-2"]).unwrap().files, 1);
    assert!(store.segment(segments[0]).is_err() && dir.join("notes.txt").exists());
    for &listed_segment in &segments[1..4] {
        store.segment(listed_segment).unwrap().verify().unwrap();
    }
    // New numbers follow the existing ones, so an old manifest never lists a new segment.
    drop(store);
    assert_eq!(seal_small(&Folder::open_real(&dir).unwrap(), 7).number, 4);
}

#[test]
fn nothing_is_removed_while_a_manifest_cannot_be_read() {
    let dir = folder("store-unreadable");
    let store = Folder::open_real(&dir).unwrap();
    let segments: Vec<SegmentRef> = (0..2).map(|i| seal_small(&store, i)).collect();
    store.publish("a", &make_manifest(&segments)).unwrap();
    let path = dir.join("a.manifest");
    let mut bad = fs::read(&path).unwrap();
    *bad.last_mut().unwrap() ^= 1;
    fs::write(&path, bad).unwrap();
    assert!(matches!(store.remove_unused(), Err(Error::Damaged { .. })));
    assert!(store.segment(segments[0]).is_ok());
}

#[test]
fn another_segment_under_a_listed_number_is_noticed() {
    let dir = folder("store-swapped");
    let store = Folder::open_real(&dir).unwrap();
    let (first, second) = (seal_small(&store, 0), seal_small(&store, 1));
    fs::copy(dir.join("000000000001.seg"), dir.join("000000000000.seg")).unwrap();
    let error = store.segment(first).unwrap_err();
    assert!(error.to_string().contains("the manifest lists"), "{error}");
    assert!(store.segment(second).is_ok());
    for name in ["", "../up", "a/b", "a.b"] {
        assert!(matches!(store.publish(name, &make_manifest(&[])), Err(Error::Config { .. })));
    }
}

/// Seals and publishes three times, and continues after failures as a run would.
fn run_saves(dir: &Path, disk: FaultyFs) -> Result<Vec<SegmentRef>> {
    let store = Folder::open(dir, Arc::new(disk) as Arc<dyn Fs>)?;
    let (mut listed, mut durable) = (Vec::new(), Vec::new());
    for index in 0..3 {
        let rows = bytes(80, index);
        if let Ok(segment) = seal(&store, &[ColumnInput("x", 8, 0, vec![&rows])], &[]) {
            listed.push(segment);
        }
        if store.publish("last", &make_manifest(&listed)).is_ok() {
            durable.clone_from(&listed);
            // An earlier call would remove segments that are sealed but not listed yet.
            drop(store.remove_unused());
        }
    }
    Ok(durable)
}

#[test]
fn whichever_disk_operation_fails_nothing_published_is_lost() {
    for is_persistent in [false, true] {
        for fail_at in 0.. {
            let dir = folder(&format!("store-faults-{is_persistent}"));
            let disk = FaultyFs::new(fail_at, is_persistent);
            let durable = run_saves(&dir, disk.clone()).unwrap_or_default();
            let store = Folder::open_real(&dir).unwrap();
            if store.has_manifest("last").unwrap() {
                let published = store.manifest("last").unwrap();
                // A publication that failed in its last step may still be on disk.
                assert!(published.segments.len() >= durable.len(), "operation {fail_at}");
                for &segment in &published.segments {
                    store.segment(segment).unwrap().verify().unwrap();
                }
                assert!(durable.iter().all(|segment| published.segments.contains(segment)));
            } else {
                assert!(durable.is_empty(), "operation {fail_at} lost the manifest");
            }
            store.remove_unused().unwrap();
            if disk.operations() <= fail_at {
                assert!(fail_at > 30, "only {fail_at} operations were tried");
                assert_eq!(durable.len(), 3);
                break;
            }
        }
    }
}

#[test]
fn deleting_leaves_what_others_need_and_the_folder_goes_with_the_last_file() {
    let dir = folder("store-delete");
    let store = Folder::open_real(&dir).unwrap();
    let segments = [seal_small(&store, 0), seal_small(&store, 1)];
    store.publish("last", &make_manifest(&segments)).unwrap();
    store.publish("kept", &make_manifest(&segments[1..])).unwrap();
    fs::write(dir.join("notes.txt"), b"somebody's").unwrap();
    let remaining_files = || {
        let files = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name());
        let mut names: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    store.delete("last").unwrap();
    assert_eq!(remaining_files(), ["000000000001.seg", "kept.manifest", "lock", "notes.txt"]);
    store.segment(segments[1]).unwrap();
    store.delete("kept").unwrap();
    assert_eq!(remaining_files(), ["lock", "notes.txt"]);
    fs::remove_file(dir.join("notes.txt")).unwrap();
    store.delete("kept").unwrap();
    assert!(!dir.exists());
}
