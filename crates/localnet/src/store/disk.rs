//! The room on a ledger's disk: asked for before the ledger is opened, and named when a write fails.
//!
//! A storage engine may only say that it is poisoned once its first write has failed in the background. What the
//! disk says is found out here, by its free bytes and by a small write of our own.
//! Bounds: one file of [`PROBE_BYTES`], which is removed at once.
//! Not here: which error of an engine is which (`engine`).

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::StoreError;
use super::engine::EngineError;

/// The file that is written to see whether anything can be.
pub(super) const PROBE: &str = "room";
const PROBE_BYTES: usize = 64 << 10;
/// What must be free beside the journals of the engine: some seconds of blocks, and its small files.
const FREE_BYTES_MIN: u64 = 8 << 20;
/// Bytes of a block of a file as the system counts them, whatever the disk.
const FILE_BLOCK_BYTES: u64 = 512;

/// Fails if the disk of `dir` has not enough room to go on: what the journals at `engine` hold may have to be
/// written once more while it is opened.
pub(super) fn require_free_space(dir: &Path, engine: &Path) -> Result<(), StoreError> {
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

/// The error that says what the disk says, if that is why the engine failed.
pub(super) fn explain(dir: &Path, err: &EngineError) -> Option<StoreError> {
    let EngineError::Failed(err) = err else { return None };
    match io_error(&**err) {
        Some(err) => is_no_space(err.kind()).then(|| from_io(dir, copy(err))),
        // The engine does not say. What a small write finds is the reason, and so is a disk that is all but full.
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

/// An error of the system about something in `dir`, in the words that say what can be done.
pub(super) fn from_io(dir: &Path, source: io::Error) -> StoreError {
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

/// Whether a file cannot grow: the disk, a quota or a limit of the process is in the way.
pub(super) fn is_no_space(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// The system's error below another one, if there is one.
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

/// Bytes that are free for us on the disk of `dir`. None if its file system does not count them.
fn free_bytes(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The largest that a file of this process may become (`ulimit -f`), if there is a limit.
fn file_bytes_max() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Writes a little in `dir`, so that the system says what is wrong.
fn write_probe(dir: &Path) -> io::Result<()> {
    let path = dir.join(PROBE);
    let write = || {
        let mut file = File::create(&path)?;
        file.write_all(&[1; PROBE_BYTES])?;
        file.sync_data()
    };
    let written = write();
    // It is written over the next time, and is nothing that a ledger needs.
    let _ = fs::remove_file(&path);
    written
}

/// Bytes of the engine's journals on disk. They are laid out before they are written, so their length says nothing.
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

    fn failed(err: impl Error + Send + Sync + 'static) -> EngineError {
        EngineError::Failed(Box::new(err))
    }

    #[test]
    fn a_full_disk_is_named_with_its_directory_its_free_bytes_and_the_systems_words() {
        let dir = tempfile::tempdir().expect("a directory");
        for os_error in [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT] {
            let err = failed(io::Error::from(os_error));
            let said = explain(dir.path(), &err).expect("it is explained");
            assert!(matches!(said, StoreError::DiskFull { .. }), "{said:?}");
            let text = said.to_string();
            assert!(text.contains(&dir.path().display().to_string()), "{text}");
            assert!(text.contains("bytes are free"), "{text}");
            let source = said.source().map(ToString::to_string).unwrap_or_default();
            assert_eq!(source, io::Error::from(os_error).to_string());
        }
    }

    #[test]
    fn an_engine_that_failed_on_a_disk_with_room_is_not_said_to_have_none() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(
            explain(dir.path(), &failed(io::Error::from(ErrorKind::PermissionDenied))).is_none()
        );
        assert!(explain(dir.path(), &EngineError::Busy).is_none());
        let room = free_bytes(dir.path()).is_none_or(|free| free >= FREE_BYTES_MIN);
        if room && file_bytes_max().is_none() {
            assert!(explain(dir.path(), &failed(fjall::Error::Poisoned)).is_none());
        }
    }

    #[test]
    fn a_journal_counts_with_what_is_written_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = File::create(dir.path().join("7.jnl")).expect("a file");
        journal.set_len(64 << 20).expect("laid out");
        assert!(journal_bytes(dir.path()) < 1 << 20);
        fs::write(dir.path().join("8.jnl"), vec![7; 3 << 20]).expect("written");
        fs::write(dir.path().join("table"), vec![7; 3 << 20]).expect("written");
        let bytes = journal_bytes(dir.path());
        assert!((1..=4 << 20).contains(&bytes), "{bytes}");
        assert_eq!(journal_bytes(&dir.path().join("nothing")), 0);
    }
}
