//! Free space on a ledger's disk: checked before the ledger is opened, and reported when a write fails.
//!
//! A storage engine may only report that it is poisoned after a write failed in the background. So the cause is found
//! here, by the free bytes of the disk and by a small write of our own.
//! Bounds: one file of [`PROBE_BYTES`], which is removed at once.
//! Not here: the classification of an engine's errors (`engine`).

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::engine::EngineError;
use crate::error::StoreError;

/// The file that is written to test whether writes succeed.
pub(crate) const PROBE: &str = "room";
const PROBE_BYTES: usize = 64 << 10;
/// Free bytes that are needed in addition to the engine's journals: some seconds of blocks, and its small files.
const FREE_BYTES_MIN: u64 = 8 << 20;
/// Bytes of a file block in the system's count, whatever the disk.
const FILE_BLOCK_BYTES: u64 = 512;

/// Fails if the disk of `dir` has too little free space. Opening may have to write the contents of the journals at
/// `engine` again.
pub(crate) fn require_free_space(dir: &Path, engine: &Path) -> Result<(), StoreError> {
    let needed_bytes = FREE_BYTES_MIN + journal_bytes(engine);
    match free_bytes(dir) {
        Some(free_bytes) if free_bytes < needed_bytes => {
            Err(StoreError::InsufficientSpace { dir: dir.into(), free_bytes, needed_bytes })
        }
        _ => match write_probe(dir) {
            Err(err) => Err(from_io(dir, err)),
            Ok(()) => Ok(()),
        },
    }
}

/// Returns the error that describes the disk's state, if that is why the engine failed.
pub(crate) fn explain(dir: &Path, err: &EngineError) -> Option<StoreError> {
    let EngineError::Failed(err) = err else { return None };
    match io_error(&**err) {
        Some(err) => is_no_space(err.kind()).then(|| from_io(dir, copy(err))),
        // The engine does not report the cause. It is the error of a small write, or a disk that is almost full.
        None => match write_probe(dir) {
            Err(err) if is_no_space(err.kind()) => Some(from_io(dir, err)),
            Err(_) => None,
            Ok(()) if free_bytes(dir).is_some_and(|free| free < FREE_BYTES_MIN) => {
                Some(from_io(dir, ErrorKind::StorageFull.into()))
            }
            Ok(()) => file_bytes_max().map(|limit| StoreError::FileTooLarge {
                dir: dir.into(),
                limit,
                source: ErrorKind::FileTooLarge.into(),
            }),
        },
    }
}

/// Creates the error for a system error in `dir`, with the fix in its message.
pub(crate) fn from_io(dir: &Path, source: io::Error) -> StoreError {
    match (source.kind(), file_bytes_max()) {
        (ErrorKind::FileTooLarge, Some(limit)) => {
            StoreError::FileTooLarge { dir: dir.into(), limit, source }
        }
        (kind, _) if is_no_space(kind) => {
            let free_bytes = free_bytes(dir).unwrap_or_default();
            StoreError::DiskFull { dir: dir.into(), free_bytes, source }
        }
        _ => StoreError::Io { doing: "write to", path: dir.into(), source },
    }
}

/// Returns whether a file cannot grow because of the disk, a quota or a limit of the process.
pub(crate) fn is_no_space(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Returns the system's error in the chain of sources of another one, if there is one.
fn io_error<'e>(err: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let mut next = Some(err);
    while let Some(err) = next {
        if let Some(err) = err.downcast_ref() {
            return Some(err);
        }
        next = err.source();
    }
    None
}

fn copy(err: &io::Error) -> io::Error {
    err.raw_os_error().map_or_else(|| err.kind().into(), io::Error::from_raw_os_error)
}

/// Returns the bytes that this process can use on the disk of `dir`; `None` if its file system does not count them.
fn free_bytes(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns the maximum file size of this process (`ulimit -f`), if there is a limit.
fn file_bytes_max() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Writes a small file in `dir` to get the system's error.
fn write_probe(dir: &Path) -> io::Result<()> {
    let path = dir.join(PROBE);
    let write = || {
        let mut file = File::create(&path)?;
        file.write_all(&[1; PROBE_BYTES])?;
        file.sync_data()
    };
    let written = write();
    // A remaining file is overwritten next time, and no ledger needs it.
    let _ = fs::remove_file(&path);
    written
}

/// Returns the bytes of the engine's journals on disk. They are preallocated, so their length does not count.
fn journal_bytes(engine: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(engine) else { return 0 };
    let journals = entries.filter_map(Result::ok).filter(|entry| {
        entry.path().extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jnl"))
    });
    let bytes = journals
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len().min(metadata.blocks().saturating_mul(FILE_BLOCK_BYTES)));
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine_error(err: impl Error + Send + Sync + 'static) -> EngineError {
        EngineError::Failed(Box::new(err))
    }

    #[test]
    fn a_full_disk_is_reported_with_its_directory_its_free_bytes_and_the_systems_error() {
        let dir = tempfile::tempdir().expect("a directory");
        for os_error in [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT] {
            let err = engine_error(io::Error::from(os_error));
            let explained = explain(dir.path(), &err).expect("it is explained");
            assert!(matches!(explained, StoreError::DiskFull { .. }), "{explained:?}");
            let text = explained.to_string();
            assert!(text.contains(&dir.path().display().to_string()), "{text}");
            assert!(text.contains("bytes are free"), "{text}");
            let source = explained.source().map(ToString::to_string).unwrap_or_default();
            assert_eq!(source, io::Error::from(os_error).to_string());
        }
    }

    #[test]
    fn an_engine_error_on_a_disk_with_free_space_is_not_reported_as_a_full_disk() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(
            explain(dir.path(), &engine_error(io::Error::from(ErrorKind::PermissionDenied)))
                .is_none()
        );
        assert!(explain(dir.path(), &EngineError::Busy).is_none());
        let has_space = free_bytes(dir.path()).is_none_or(|free| free >= FREE_BYTES_MIN);
        if has_space && file_bytes_max().is_none() {
            assert!(explain(dir.path(), &engine_error(fjall::Error::Poisoned)).is_none());
        }
    }

    #[test]
    fn a_journal_counts_with_its_written_bytes() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = File::create(dir.path().join("7.jnl")).expect("a file");
        journal.set_len(64 << 20).expect("preallocated");
        assert!(journal_bytes(dir.path()) < 1 << 20);
        fs::write(dir.path().join("8.jnl"), vec![7; 3 << 20]).expect("written");
        fs::write(dir.path().join("table"), vec![7; 3 << 20]).expect("written");
        let bytes = journal_bytes(dir.path());
        assert!((1..=4 << 20).contains(&bytes), "{bytes}");
        assert_eq!(journal_bytes(&dir.path().join("nothing")), 0);
    }
}
