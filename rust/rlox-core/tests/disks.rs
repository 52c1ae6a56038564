//! Folders on disks without sync or locks, and folders that contain links, pipes or files with holes.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, missing_docs)]

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rlox_core::store::{ColumnPlan, Folder, Fs, Manifest, NewFile, RandomRead, RealFs, Segment, SegmentRef};
use rlox_core::{Error, Result};

mod scratch;
use scratch::folder;

/// The real file system, except for its answers to the sync of a folder and to a lock.
///
/// The answers are error numbers; 0 means no error.
#[derive(Debug, Clone, Copy, Default)]
struct LimitedFs {
    sync_code: i32,
    lock_code: i32,
}

fn result_from_code(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

impl Fs for LimitedFs {
    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        RealFs.create_dirs(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        RealFs.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.rename(from, to)
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        result_from_code(self.sync_code)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealFs.remove(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        RealFs.list(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomRead>> {
        RealFs.open(path)
    }

    fn lock(&self, file: &File) -> std::result::Result<(), TryLockError> {
        if self.lock_code == 0 {
            return file.try_lock();
        }
        Err(TryLockError::Error(io::Error::from_raw_os_error(self.lock_code)))
    }
}

/// Seals ten rows and publishes them as `last`, as a buffer does.
fn save(path: &Path, fs: impl Fs + 'static) -> Result<Folder> {
    let store = Folder::open(path, Arc::new(fs))?;
    let plan = ColumnPlan { name: "x".to_owned(), row_bytes: 8, first: 0, rows: 10 };
    let (number, mut writer) = store.begin_segment(vec![plan], b"")?;
    writer.write(&[7; 80])?;
    let (checksum, bytes) = writer.finish()?;
    let segments = vec![SegmentRef { number, checksum, bytes }];
    store.publish("last", &Manifest { segments, ..Manifest::default() })?;
    store.prune(&["last"])?;
    Ok(store)
}

fn check_saved(path: &Path) {
    let store = Folder::open_real(path).unwrap();
    let listed = store.manifest("last").unwrap().segments;
    assert_eq!(store.segment(listed[0]).unwrap().read_column("x").unwrap(), [7; 80]);
}

#[test]
fn a_disk_that_can_sync_no_folder_keeps_what_is_saved() {
    for sync in [libc::EINVAL, libc::ENOTSUP, libc::ENOSYS, libc::EPERM] {
        let dir = folder(&format!("disks-sync-{sync}"));
        drop(save(&dir.join("a/b"), LimitedFs { sync_code: sync, lock_code: 0 }).unwrap());
        check_saved(&dir.join("a/b"));
    }
}

#[test]
fn a_folder_sync_that_may_succeed_later_is_an_error() {
    for sync in [libc::EIO, libc::ENOSPC, libc::EACCES] {
        let dir = folder(&format!("disks-sync-{sync}"));
        let error = save(&dir, LimitedFs { sync_code: sync, lock_code: 0 }).unwrap_err();
        assert!(matches!(error, Error::Storage { .. }), "{error}");
    }
}

#[test]
fn a_disk_without_locks_has_one_writer_of_this_process() {
    for lock in [libc::ENOLCK, libc::ENOTSUP, libc::ENOSYS, libc::EINVAL] {
        let dir = folder(&format!("disks-lock-{lock}"));
        let disk = LimitedFs { sync_code: 0, lock_code: lock };
        let first = save(&dir, disk).unwrap();
        let error = save(&dir, disk).unwrap_err().to_string();
        assert!(error.contains("another buffer or process is writing there"), "{error}");
        drop(first);
        drop(save(&dir, disk).unwrap());
        check_saved(&dir);
    }
}

#[test]
fn a_lock_that_may_succeed_later_is_an_error() {
    for lock in [libc::EIO, libc::ENOMEM] {
        let dir = folder(&format!("disks-lock-{lock}"));
        let error = save(&dir, LimitedFs { sync_code: 0, lock_code: lock }).unwrap_err().to_string();
        assert!(error.starts_with("cannot lock "), "{error}");
    }
}

/// Saves into a folder where `name` is a link to another file. Returns the error, and the bytes of
/// that file after the save.
fn save_through_link(name: &str) -> (String, String) {
    let dir = folder(&format!("disks-link-{}", name.trim_matches('.')));
    fs::create_dir_all(dir.join("buffer")).unwrap();
    let target = dir.join("theirs");
    fs::write(&target, "precious").unwrap();
    symlink(&target, dir.join("buffer").join(name)).unwrap();
    let result = save(&dir.join("buffer"), RealFs).and_then(|store| store.set_required_manifest("last"));
    (result.unwrap_err().to_string(), fs::read_to_string(&target).unwrap())
}

#[test]
fn a_link_in_place_of_a_file_that_is_written_is_refused_and_its_target_stays() {
    for name in ["lock", ".last.manifest.new", ".000000000000.seg.new"] {
        let (error, target_text) = save_through_link(name);
        assert!(error.contains("not a plain file"), "{name}: {error}");
        assert_eq!(target_text, "precious", "{name}");
    }
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_and_not_waited_for() {
    for name in ["lock", ".last.manifest.new", "000000000000.seg", "last.manifest"] {
        let dir = folder("disks-pipe");
        fs::create_dir_all(&*dir).unwrap();
        assert!(Command::new("mkfifo").arg(dir.join(name)).status().unwrap().success());
        let error = match name.strip_suffix(".manifest") {
            Some("last") => {
                let store = Folder::open_real(&dir).unwrap();
                store.manifest("last").map(drop).unwrap_err()
            }
            _ if std::path::Path::new(name).extension().is_some_and(|ext| ext == "seg") => {
                Segment::open(&RealFs, &dir.join(name)).map(drop).unwrap_err()
            }
            _ => save(&dir, RealFs).map(drop).unwrap_err(),
        };
        assert!(error.to_string().contains("not a plain file"), "{name}: {error}");
    }
}

/// A file of `bytes` bytes: `head`, and then zeros.
#[derive(Debug, Clone)]
struct SparseFile {
    head: Vec<u8>,
    bytes: u64,
}

impl RandomRead for SparseFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        out.fill(0);
        let start = usize::try_from(offset).unwrap().min(self.head.len());
        let n_copied = (self.head.len() - start).min(out.len());
        out[..n_copied].copy_from_slice(&self.head[start..start + n_copied]);
        Ok(())
    }
}

#[derive(Debug)]
struct SparseFs(SparseFile);

impl Fs for SparseFs {
    fn create_dirs(&self, _path: &Path) -> io::Result<()> {
        result_from_code(libc::ENOSYS)
    }

    fn create(&self, _path: &Path) -> io::Result<Box<dyn NewFile>> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        result_from_code(libc::ENOSYS)
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        result_from_code(libc::ENOSYS)
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        result_from_code(libc::ENOSYS)
    }

    fn list(&self, _path: &Path) -> io::Result<Vec<String>> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }

    fn open(&self, _path: &Path) -> io::Result<Box<dyn RandomRead>> {
        Ok(Box::new(self.0.clone()))
    }
}

/// Makes a segment of one column of zeros, with `rows_per_block` rows in a block.
///
/// The head lists `checksum` for every block; the head's own checksum is right.
fn make_zero_segment(row_bytes: u32, rows: u64, rows_per_block: u32, checksum: u32) -> SparseFs {
    let blocks = rows.div_ceil(u64::from(rows_per_block));
    let len = 32 + 28 + 1 + 4 * blocks + 4;
    let bytes = len + rows * u64::from(row_bytes);
    let mut head = b"rloxseg\0\x01\0\0\0".to_vec();
    head.extend(u32::try_from(len).unwrap().to_le_bytes());
    head.extend(bytes.to_le_bytes());
    for number in [1, 0, 1, row_bytes, rows_per_block] {
        head.extend(number.to_le_bytes());
    }
    for number in [0, rows] {
        head.extend(number.to_le_bytes());
    }
    head.push(b'x');
    (0..blocks).for_each(|_| head.extend(checksum.to_le_bytes()));
    let head_checksum = crc32fast::hash(&head);
    head.extend(head_checksum.to_le_bytes());
    SparseFs(SparseFile { head, bytes })
}

fn read_zeros(disk: &SparseFs) -> Result<Vec<u8>> {
    Segment::open(disk, Path::new("hollow.seg"))?.read_column("x")
}

#[test]
fn a_file_with_holes_that_no_memory_could_hold_is_refused() {
    // 2^48 bytes: more than a process can address.
    let error = read_zeros(&make_zero_segment(u32::MAX, 1 << 16, 1, 0)).unwrap_err().to_string();
    assert!(error.starts_with("cannot read hollow.seg: no memory for 281474976645120"), "{error}");
}

#[test]
fn blocks_larger_than_any_writer_makes_them_are_damage() {
    let checksum = |bytes| crc32fast::hash(&vec![0; bytes]);
    assert_eq!(read_zeros(&make_zero_segment(4, 2_048, 1_024, checksum(4_096))).unwrap(), [0; 8_192]);
    assert_eq!(read_zeros(&make_zero_segment(5_000, 2, 1, checksum(5_000))).unwrap(), [0; 10_000]);
    for (row_bytes, rows) in [(4, 1_025), (1, 1 << 30), (5_000, 2)] {
        let error = read_zeros(&make_zero_segment(row_bytes, rows.into(), rows, 0)).unwrap_err();
        assert!(error.to_string().contains("blocks that are too large"), "{error}");
    }
}
