//! Files with valid checksums are refused if no writer could have made their heads.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rlox_core::store::{ColumnPlan, Manifest, RealFs, write_segment};

mod scratch;
use scratch::folder;

/// Writes a segment with two columns of one row, 24 bytes each, changes it with `edit`, and gives
/// its head a valid checksum.
fn write_two_columns(dir: &Path, edit: impl Fn(&mut Vec<u8>)) -> PathBuf {
    let path = dir.join("a.manifest");
    let plan = |name: &str| ColumnPlan { name: name.to_owned(), row_bytes: 24, first: 0, rows: 1 };
    let plans = vec![plan("segments"), plan("segment_")];
    write_segment(Arc::new(RealFs), &path, plans, b"", &[&[0; 48]]).unwrap();
    let mut file = fs::read(&path).unwrap();
    let head_len = file.len() - 48 - 4;
    edit(&mut file);
    let checksum = crc32fast::hash(&file[..head_len]);
    file[head_len..head_len + 4].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&path, file).unwrap();
    path
}

#[test]
fn a_file_with_valid_checksums_is_refused_if_no_writer_could_make_it() {
    let dir = folder("no-writer-makes-it");
    fs::create_dir_all(&dir).unwrap();
    let open = |edit: &dyn Fn(&mut Vec<u8>)| {
        Manifest::read(&RealFs, &write_two_columns(&dir, edit)).map_err(|error| error.to_string())
    };
    let manifest = open(&|_| ()).unwrap();
    assert_eq!(manifest.segments.len(), 1);
    assert_eq!(manifest.columns, [("segment_".to_owned(), 24, vec![0; 24])]);
    let last_byte_of_name = |file: &[u8]| file.windows(8).position(|part| part == b"segment_").unwrap() + 7;
    let duplicate_result = open(&|file| {
        let at = last_byte_of_name(file);
        file[at] = b's';
    });
    assert!(duplicate_result.unwrap_err().contains("two columns \"segments\""));
    let invalid_utf8_result = open(&|file| {
        let at = last_byte_of_name(file);
        file[at] = 0xFF;
    });
    assert!(invalid_utf8_result.unwrap_err().contains("not UTF-8"));
}

#[test]
fn a_manifest_with_an_invalid_list_of_segments_is_refused() {
    let dir = folder("no-list");
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("a.manifest");
    for (row_bytes, row) in [(8, vec![0; 8]), (24, vec![0xFF; 24])] {
        let plan = ColumnPlan { name: "segments".into(), row_bytes, first: 0, rows: 1 };
        write_segment(Arc::new(RealFs), &path, vec![plan], b"", &[&row]).unwrap();
        let error = Manifest::read(&RealFs, &path).unwrap_err().to_string();
        assert!(error.contains("an invalid list of segments"), "{error}");
    }
}

#[test]
fn a_segment_is_not_begun_with_two_columns_of_one_name() {
    let dir = folder("one-name");
    fs::create_dir_all(&dir).unwrap();
    let plan = ColumnPlan { name: "x".into(), row_bytes: 1, first: 0, rows: 0 };
    let path = dir.join("a.seg");
    let error = write_segment(Arc::new(RealFs), &path, vec![plan.clone(), plan], b"", &[]);
    assert!(error.unwrap_err().to_string().contains("two named \"x\""));
    assert!(!path.exists());
}
