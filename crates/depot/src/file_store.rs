//! A depot in a directory: an object is a file, which is synced before its name exists, and the name is synced after it.
//!
//! `object_store` has a store of files too. It does not sync them, so a power failure may lose an object that was
//! reported as written.
//! Cost: an object takes two syncs of the disk. A list reads the names of all files below its prefix, and the lengths of
//! those that it returns.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::durable_file;
use tempfile::NamedTempFile;

use crate::object_info::ObjectInfo;
use crate::request::{Failure, Listing, Received};

/// Directory of files that are being written. No key starts with a dot.
const UNFINISHED_DIR: &str = ".unfinished";

/// Age of an unfinished file that a killed process has left.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Permissions of a file before the process' mask.
const MODE: u32 = 0o666;

/// A depot in a directory.
pub(crate) struct FileStore {
    root: Arc<Path>,
}

impl FileStore {
    /// Creates the directory if it is missing, and removes old files that a killed process has left.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let unfinished = root.join(UNFINISHED_DIR);
        durable_file::create_dir_all(&unfinished)?;
        for entry in fs::read_dir(&unfinished)?.flatten() {
            let age = entry.metadata().and_then(|it| it.modified()).ok();
            let age = age.and_then(|modified| modified.elapsed().ok());
            if age.is_some_and(|age| age > ABANDONED_AFTER) {
                // If it cannot be removed, it takes space only.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(Self { root: root.into() })
    }

    pub(crate) async fn create(&self, key: &str, body: Bytes) -> Result<(), Failure> {
        let target = self.root.join(key);
        let root = Arc::clone(&self.root);
        run_blocking(move || {
            let mut file = new_file(&root)?;
            file.write_all(&body)?;
            file.as_file().sync_all()?;
            create_parent(&target)?;
            match file.persist_noclobber(&target) {
                Ok(_) => Ok(durable_file::sync_entry(&target)?),
                Err(err) if err.error.kind() == ErrorKind::AlreadyExists => {
                    // The process that wrote it may have been killed before it synced the name.
                    durable_file::sync_entry(&target)?;
                    Err(Failure::Exists)
                }
                Err(err) => Err(err.error.into()),
            }
        })
        .await
    }

    pub(crate) async fn read(
        &self,
        key: &str,
        range: Option<&Range<u64>>,
        bytes_max: usize,
        received: &mut Received,
    ) -> Result<(), Failure> {
        let path = self.root.join(key);
        let range = range.cloned();
        let read = move || -> Result<Received, Failure> {
            let mut file = File::open(&path).map_err(not_found)?;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(Failure::NotFound);
            }
            let range = range.unwrap_or(0..metadata.len());
            if range.end > metadata.len() {
                let reason = format!("has {} bytes, {range:?} was wanted", metadata.len());
                return Err(Failure::Final(reason));
            }
            let mut found = Received::default();
            found.set_expected(range.end - range.start, bytes_max)?;
            file.seek(SeekFrom::Start(range.start))?;
            file.take(range.end - range.start).read_to_end(&mut found.bytes)?;
            Ok(found)
        };
        *received = run_blocking(read).await?;
        Ok(())
    }

    pub(crate) async fn list(&self, listing: Listing<'_>) -> Result<Vec<ObjectInfo>, Failure> {
        let root = Arc::clone(&self.root);
        let Listing { prefix, after, max } = listing;
        let prefix = prefix.to_owned();
        let after = after.to_owned();
        run_blocking(move || {
            let mut keys = Vec::new();
            list_dir(&root, &prefix, &after, &mut keys)?;
            keys.sort_unstable();
            read_lengths(&root, keys, max)
        })
        .await
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<(), Failure> {
        let path = self.root.join(key);
        let root = Arc::clone(&self.root);
        run_blocking(move || {
            fs::remove_file(&path).map_err(not_found)?;
            durable_file::sync_entry(&path)?;
            // Its directories go with their last file. `create` makes them again if it needs them.
            let parents = path.ancestors().skip(1).take_while(|dir| **dir != *root);
            for dir in parents {
                if fs::remove_dir(dir).is_err() {
                    break;
                }
            }
            Ok(())
        })
        .await
    }
}

impl From<io::Error> for Failure {
    fn from(err: io::Error) -> Self {
        match err.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full(err.to_string()),
            _ => Self::Temporary(err.to_string()),
        }
    }
}

/// An error of a file that is read or removed.
fn not_found(err: io::Error) -> Failure {
    match err.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Failure::NotFound,
        _ => err.into(),
    }
}

fn new_file(root: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.permissions(Permissions::from_mode(MODE));
    builder.tempfile_in(root.join(UNFINISHED_DIR))
}

fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), durable_file::create_dir_all)
}

/// Returns the first `max` files that still exist, with their lengths.
fn read_lengths(root: &Path, keys: Vec<String>, max: usize) -> Result<Vec<ObjectInfo>, Failure> {
    let mut found = Vec::with_capacity(keys.len().min(max));
    for key in keys {
        if found.len() == max {
            break;
        }
        match fs::symlink_metadata(root.join(&key)) {
            Ok(metadata) => found.push(ObjectInfo { key, bytes: metadata.len() }),
            // It was deleted meanwhile.
            Err(err) if err.kind() == ErrorKind::NotFound => {}
            Err(err) => return Err(err.into()),
        }
    }
    Ok(found)
}

/// Appends the keys of the files of a directory and below, without order.
fn list_dir(
    root: &Path,
    prefix: &str,
    after: &str,
    found: &mut Vec<String>,
) -> Result<(), Failure> {
    let entries = match fs::read_dir(root.join(prefix)) {
        Ok(entries) => entries,
        Err(err) => {
            return match not_found(err) {
                Failure::NotFound => Ok(()),
                failure => Err(failure),
            };
        }
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        // Names that are not keys were not written by a depot.
        let Some(name) = name.to_str().filter(|name| crate::key::check_key(name).is_ok()) else {
            continue;
        };
        let key = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        if entry.file_type()?.is_dir() {
            // All keys below start with it.
            let below = format!("{key}/");
            if below.as_str() > after || after.starts_with(&below) {
                list_dir(root, &key, after, found)?;
            }
        } else if key.as_str() > after {
            found.push(key);
        }
    }
    Ok(())
}

/// Runs work that waits for the disk on a thread that may wait.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|err| Err(Failure::Final(err.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_deleted_during_a_list_is_replaced_by_the_next() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["a", "c", "d", "e"] {
            fs::write(dir.path().join(name), name).expect("a file");
        }
        // `b` was there when the names were read.
        let keys = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let found = read_lengths(dir.path(), keys, 3).expect("a list");
        let found: Vec<_> = found.iter().map(|it| (it.key.as_str(), it.bytes)).collect();
        assert_eq!(found, [("a", 1), ("c", 1), ("d", 1)]);
    }
}
