//! The ledger's directory: its mark, its lock, and its newest slot.
//!
//! | file             | holds                                                                    |
//! |------------------|--------------------------------------------------------------------------|
//! | `hydrant-ledger` | the mark of a ledger of Hydrant, with its format                         |
//! | `lock`           | locked while open, with the process id for the error message             |
//! | `newest`         | the newest stored slot, written after its block                          |
//! | `room`           | written and removed at once, to test whether the disk has space          |
//! | the engine's     | everything else                                                          |
//!
//! `newest` detects an engine that silently falls back to an older state because its files are damaged. It is not
//! synced: it may be behind after a power failure, but never ahead.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ledger::Slot;

use crate::disk::{self, PROBE};
use crate::durable_file;
use crate::error::StoreError;

/// The format that this version writes to the mark. Raised when the layout changes.
const FORMAT: u32 = 1;
const MARK: &str = "hydrant-ledger";
const MARK_TEXT: &str = "hydrant ledger, format ";
const LOCK: &str = "lock";
const NEWEST: &str = "newest";

/// The contents of a directory that is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryContents {
    /// The directory does not exist, is empty, or contains an interrupted creation of a ledger without its mark.
    Nothing,
    /// The directory contains a ledger of Hydrant.
    Ledger,
}

/// A ledger's directory, locked until this is dropped.
pub struct Directory {
    path: PathBuf,
    newest: Option<File>,
    _lock: File,
}

impl Directory {
    /// Inspects a directory with an engine at the path `engine`. Fails if it contains foreign files and no ledger.
    pub fn inspect(dir: &Path, engine: &str) -> Result<DirectoryContents, StoreError> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                return Ok(DirectoryContents::Nothing);
            }
            Err(err) => return Err(io_error("read", dir)(err)),
        };
        let mut foreign = None;
        for entry in entries {
            let name = entry.map_err(io_error("read", dir))?.file_name();
            if name == MARK {
                return Ok(DirectoryContents::Ledger);
            }
            if ![LOCK, NEWEST, PROBE, engine].iter().any(|ours| name == *ours) {
                foreign = foreign.or(Some(name));
            }
        }
        match foreign {
            Some(name) => Err(StoreError::Foreign {
                dir: dir.into(),
                found: name.to_string_lossy().into_owned(),
            }),
            None => Ok(DirectoryContents::Nothing),
        }
    }

    /// Locks a directory, which is created if needed.
    pub fn lock(dir: &Path) -> Result<Self, StoreError> {
        durable_file::create_dir_all(dir).map_err(io_error("create", dir))?;
        let path = dir.join(LOCK);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut lock = file.map_err(io_error("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { dir: dir.into(), user: user(&mut lock) });
            }
            Err(TryLockError::Error(err)) => return Err(io_error("lock", &path)(err)),
        }
        let user = format!("process {}", std::process::id());
        lock.set_len(0)
            .and_then(|()| lock.write_all(user.as_bytes()))
            .map_err(io_error("write", &path))?;
        Ok(Self { path: dir.into(), newest: None, _lock: lock })
    }

    /// Removes a ledger. Other files stay. The mark is removed first: a directory without it does not count as a
    /// ledger. The lock file stays, because a process that waits for it must lock the same file.
    pub fn remove(dir: &Path, engine: &str) -> Result<(), StoreError> {
        if Self::inspect(dir, engine)? == DirectoryContents::Ledger {
            let directory = Self::lock(dir)?;
            remove_file(&dir.join(MARK))?;
            directory.clear(engine)?;
        }
        Ok(())
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the files that an interrupted creation or removal left behind.
    pub fn clear(&self, engine: &str) -> Result<(), StoreError> {
        remove_file(&self.path.join(engine))?;
        remove_file(&self.path.join(PROBE))?;
        remove_file(&self.path.join(NEWEST))
    }

    /// Marks the directory as a ledger of Hydrant.
    pub fn mark(&self) -> Result<(), StoreError> {
        let path = self.path.join(MARK);
        let write = || {
            let mut file = File::create(&path)?;
            writeln!(file, "{MARK_TEXT}{FORMAT}")?;
            file.sync_all()?;
            durable_file::sync_entry(&path)
        };
        write().map_err(io_error("write", &path))
    }

    /// Fails unless the mark has a format that this version can read.
    pub fn check_mark(&self) -> Result<(), StoreError> {
        let path = self.path.join(MARK);
        let text = fs::read(&path).map_err(io_error("read", &path))?;
        let text = String::from_utf8_lossy(&text);
        let format = text.strip_prefix(MARK_TEXT).map(str::trim_end);
        match format {
            Some(format) if format.parse() == Ok(FORMAT) => Ok(()),
            Some(format) if format.parse::<u32>().is_ok() => Err(StoreError::Format {
                dir: self.path.clone(),
                found: format.to_owned(),
                expected: FORMAT,
            }),
            _ => Err(self.damage_error(format!("{MARK}: does not say which format"))),
        }
    }

    /// Reads the newest stored slot.
    pub fn newest(&self) -> Result<Slot, StoreError> {
        let path = self.path.join(NEWEST);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                return Err(self.damage_error(format!("{NEWEST}: missing")));
            }
            Err(err) => return Err(io_error("read", &path)(err)),
        };
        let slot = bytes.first_chunk().map(|slot| Slot::from_le_bytes(*slot));
        match slot {
            Some(slot) if bytes == newest_bytes(slot) => Ok(slot),
            _ => Err(self.damage_error(format!("{NEWEST}: checksum"))),
        }
    }

    /// Writes the slot of the newest stored block.
    pub fn set_newest(&mut self, slot: Slot) -> Result<(), StoreError> {
        let path = self.path.join(NEWEST);
        let mut write = || {
            if self.newest.is_none() {
                let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
                self.newest = Some(file?);
            }
            let Some(file) = &mut self.newest else { return Ok(()) };
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&newest_bytes(slot))
        };
        write().map_err(io_error("write", &path))
    }

    /// Syncs the directory's entries to disk.
    pub fn sync(&self) -> Result<(), StoreError> {
        let sync = || {
            if let Some(newest) = &self.newest {
                newest.sync_all()?;
            }
            File::open(&self.path)?.sync_all()
        };
        sync().map_err(io_error("sync", &self.path))
    }

    /// Returns the error of a damaged ledger.
    pub fn damage_error(&self, what: impl Into<String>) -> StoreError {
        StoreError::Damaged { dir: self.path.clone(), what: what.into() }
    }
}

fn remove_file(path: &Path) -> Result<(), StoreError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(err)),
        _ => Ok(()),
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| match path.parent() {
        Some(dir) if disk::is_no_space(source.kind()) => disk::from_io(dir, source),
        _ => StoreError::Io { doing, path, source },
    }
}

/// Returns the process that wrote the lock file.
fn user(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.read_to_string(&mut text) {
        Ok(_) if text.starts_with("process ") => text,
        _ => "another process".to_owned(),
    }
}

fn newest_bytes(slot: Slot) -> Vec<u8> {
    let slot = slot.to_le_bytes();
    [slot.as_slice(), &crc32fast::hash(&slot).to_le_bytes()].concat()
}
