//! Downloads the newest snapshot archive of an upstream: `/snapshot.tar.bz2` of its RPC port names it.
//!
//! Bounds: the archive is written to disk as it arrives. Nothing of it stays in memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use loadgen::{Connection, Endpoint, LoadError};

/// Where an upstream names its newest full archive, whatever its compression.
const NEWEST: &str = "/snapshot.tar.bz2";
/// Redirects that are followed.
const REDIRECTS_MAX: usize = 4;
/// The longest name of an archive.
const NAME_BYTES_MAX: usize = 255;

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The upstream does not answer, or the connection broke. Fix: try again, or another upstream.
    #[error("download {path}")]
    Http {
        /// The path at the upstream.
        path: String,
        /// Why.
        #[source]
        err: LoadError,
    },
    /// The upstream has no archive.
    #[error("the upstream answers {path} with status {status}: it serves no snapshots")]
    Status {
        /// The path at the upstream.
        path: String,
        /// The HTTP status.
        status: u16,
    },
    /// The upstream names a file that is no archive of the kind that is read here.
    #[error("the upstream redirects to {location:?}, which is no snapshot-SLOT-HASH.tar.zst")]
    Name {
        /// Where to.
        location: String,
    },
    /// The archive cannot be written. Fix: the directory, or space on the disk.
    #[error("write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        err: io::Error,
    },
}

/// The progress of a download, for another thread.
#[derive(Debug, Default)]
pub struct DownloadProgress {
    bytes: AtomicU64,
    bytes_total: AtomicU64,
}

impl DownloadProgress {
    /// Bytes that were received.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the archive; 0 until they are known.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total.load(Ordering::Relaxed)
    }
}

/// Downloads the newest full archive of an upstream into a directory. Returns its path. The file has its name only
/// when it is whole. An archive that is there already is not downloaded again.
pub async fn download(
    upstream: &Endpoint,
    dir: &Path,
    progress: &DownloadProgress,
) -> Result<PathBuf, DownloadError> {
    let mut path = NEWEST.to_owned();
    for _ in 0..REDIRECTS_MAX {
        let name = archive_name(&path);
        let target = dir.join(name.unwrap_or("snapshot.part"));
        if name.is_some() && target.exists() {
            return Ok(target);
        }
        let part = target.with_extension("part");
        let write_error = |err| DownloadError::Write { path: part.clone(), err };
        let mut file = BufWriter::new(File::create(&part).map_err(write_error)?);
        let received = get(upstream, &path, progress, &mut file).await;
        let stored = file.flush().and_then(|()| file.get_ref().sync_all());
        let (status, location) = match received {
            Ok(received) => received,
            Err(err) => {
                remove(&part);
                return Err(DownloadError::Http { path, err });
            }
        };
        match (status, location) {
            (200, _) if name.is_some() => {
                stored.and_then(|()| std::fs::rename(&part, &target)).map_err(write_error)?;
                return Ok(target);
            }
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                remove(&part);
                path = path_of(&location).ok_or(DownloadError::Name { location })?;
            }
            _ => {
                remove(&part);
                return Err(DownloadError::Status { path, status });
            }
        }
    }
    Err(DownloadError::Name { location: path })
}

async fn get(
    upstream: &Endpoint,
    path: &str,
    progress: &DownloadProgress,
    file: &mut impl Write,
) -> Result<(u16, Option<String>), LoadError> {
    let request = upstream.request("GET", path, None);
    let started = |bytes: Option<u64>| {
        progress.bytes_total.store(bytes.unwrap_or_default(), Ordering::Relaxed);
    };
    let sink = |bytes: &[u8]| {
        progress.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        file.write_all(bytes)
    };
    let mut connection = Connection::open(upstream.clone()).await?;
    connection.exchange_into(&request, started, sink).await
}

/// A part that stays is overwritten by the next download.
fn remove(part: &Path) {
    if let Err(err) = std::fs::remove_file(part) {
        tracing::debug!(part = %part.display(), %err, "not removed");
    }
}

/// The path of a redirect at the same upstream, if it names an archive.
fn path_of(location: &str) -> Option<String> {
    let path = match location.split_once("://") {
        Some((_, rest)) => &rest[rest.find('/')?..],
        None => location,
    };
    let path = format!("/{}", path.trim_start_matches('/'));
    archive_name(&path)?;
    Some(path)
}

/// The name of the archive in a path: `snapshot-SLOT-HASH.tar.zst`, and nothing that leaves a directory.
fn archive_name(path: &str) -> Option<&str> {
    let name = path.strip_prefix('/')?;
    let middle = name.strip_prefix("snapshot-")?.strip_suffix(".tar.zst")?;
    let (slot, hash) = middle.split_once('-')?;
    let is_slot = !slot.is_empty() && slot.bytes().all(|byte| byte.is_ascii_digit());
    let is_hash = !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_slot && is_hash && name.len() <= NAME_BYTES_MAX).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_to_an_archive_and_nowhere_else() {
        let name = "/snapshot-100-4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi.tar.zst";
        assert_eq!(path_of(name).as_deref(), Some(name));
        assert_eq!(path_of(&name[1..]).as_deref(), Some(name));
        assert_eq!(path_of(&format!("http://other{name}")).as_deref(), Some(name));
        for wrong in [
            "/snapshot-100-abc.tar.bz2",
            "/../snapshot-100-abc.tar.zst",
            "/snapshot-1/../../x-abc.tar.zst",
            "/snapshot--abc.tar.zst",
            "/genesis.tar.bz2",
            "",
        ] {
            assert_eq!(path_of(wrong), None, "{wrong}");
        }
    }
}
