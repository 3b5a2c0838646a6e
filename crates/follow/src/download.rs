//! Downloads snapshot archives of an upstream: `/snapshot.tar.bz2` and `/incremental-snapshot.tar.bz2` of its RPC port
//! name the newest ones.
//!
//! Bounds: an archive is written to disk as it arrives, up to [`DownloadLimits::bytes_max`]; nothing of it stays in
//! memory. A download that receives too little in [`DownloadLimits::stall_timeout`] ends. [`REDIRECTS_MAX`] redirects
//! are followed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_client::{Connection, Endpoint, HttpClientError, shorten_message};
use snapshot_solana::ArchiveName;
use store::durable_file;

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 4;
/// The longest name of an archive.
const NAME_BYTES_MAX: usize = 255;
/// Bytes that a download receives in each `stall_timeout`, at least: about a kilobyte a second.
const PROGRESS_BYTES_MIN: u64 = 64 << 10;

/// The kind of a snapshot archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveKind {
    /// An archive of all accounts.
    Full,
    /// The accounts that were written since a full archive.
    Incremental,
}

impl ArchiveKind {
    /// Path at which an upstream names its newest archive, whatever its compression.
    fn newest(self) -> &'static str {
        match self {
            Self::Full => "/snapshot.tar.bz2",
            Self::Incremental => "/incremental-snapshot.tar.bz2",
        }
    }
}

/// Limits of one download of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadLimits {
    /// Bytes of an archive at most. Default: 512 GiB; those of mainnet have some 100 GB.
    pub bytes_max: u64,
    /// A download that receives less than 64 KiB in this time has stalled. Default: 60 s.
    pub stall_timeout: Duration,
}

impl Default for DownloadLimits {
    fn default() -> Self {
        Self { bytes_max: 512 << 30, stall_timeout: Duration::from_secs(60) }
    }
}

/// The reason why no archive was downloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The upstream does not respond, or the connection broke. Fix: try again, or use another upstream.
    #[error("download {path}")]
    Http {
        /// Path of the archive at the upstream.
        path: String,
        /// Error of the HTTP client.
        #[source]
        err: HttpClientError,
    },
    /// The upstream has no archive.
    #[error("the upstream answers {path} with status {status}: it serves no snapshots")]
    Status {
        /// Path of the archive at the upstream.
        path: String,
        /// HTTP status of the response.
        status: u16,
    },
    /// The upstream names a file that is not an archive of the requested kind.
    #[error(
        "the upstream redirects to {location:?}, which is no snapshot-SLOT-HASH.tar.zst or .tar.lz4"
    )]
    Name {
        /// Target of the refused redirect.
        location: String,
    },
    /// The upstream stopped sending. Fix: try again, or another upstream.
    #[error(
        "download {path}: {bytes} B were received, and less than {min} B in the last {timeout:?}"
    )]
    Stalled {
        /// Path of the archive at the upstream.
        path: String,
        /// Number of bytes received.
        bytes: u64,
        /// Minimum number of bytes in `timeout`.
        min: u64,
        /// Interval in which the bytes are counted.
        timeout: Duration,
    },
    /// The archive is too large. Fix: another upstream, or a higher limit.
    #[error("download {path}: it has {bytes} B or more, at most {limit} (--snapshot-bytes-max)")]
    TooLarge {
        /// Path of the archive at the upstream.
        path: String,
        /// Its bytes as the upstream says, or those that were received.
        bytes: u64,
        /// Maximum size of an archive in bytes.
        limit: u64,
    },
    /// The archive cannot be written. Fix: the directory, or space on the disk.
    #[error("write {}", path.display())]
    Write {
        /// Path of the local file.
        path: PathBuf,
        /// Error of the operating system.
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
    /// Returns the number of bytes received.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the archive; 0 until they are known.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total.load(Ordering::Relaxed)
    }
}

struct Received {
    status: u16,
    location: Option<String>,
    /// The length of a body that is longer than the limit.
    too_large: Option<u64>,
}

/// The name of the newest archive of an upstream. Nothing of the archive is downloaded.
pub async fn newest_archive(
    upstream: &Endpoint,
    kind: ArchiveKind,
    limits: &DownloadLimits,
) -> Result<ArchiveName, DownloadError> {
    let path = kind.newest().to_owned();
    let limits = DownloadLimits { bytes_max: 0, ..*limits };
    let Received { status, location, .. } =
        get(upstream, &path, &limits, &DownloadProgress::default(), &mut io::sink()).await?;
    let Some(location) = location.filter(|_| is_redirect(status)) else {
        return Err(DownloadError::Status { path, status });
    };
    let target = archive_path(&location);
    let name = target.as_deref().and_then(archive_name).and_then(ArchiveName::parse);
    let name = name.filter(|name| has_kind(name, kind));
    name.ok_or_else(|| name_error(&location))
}

/// Downloads the newest archive of an upstream into a directory. Returns its path. The file has its name only when it
/// is whole. An existing archive is not downloaded again.
pub async fn download(
    upstream: &Endpoint,
    kind: ArchiveKind,
    dir: &Path,
    limits: &DownloadLimits,
    progress: &DownloadProgress,
) -> Result<PathBuf, DownloadError> {
    let mut path = kind.newest().to_owned();
    for _ in 0..REDIRECTS_MAX {
        let name = archive_name(&path);
        let target = dir.join(name.unwrap_or("snapshot.part"));
        if name.is_some() && target.exists() {
            return Ok(target);
        }
        let part = PartFile(target.with_extension("part"));
        let write_error = |err| DownloadError::Write { path: part.0.clone(), err };
        let mut file = BufWriter::new(File::create(&part.0).map_err(write_error)?);
        let received = get(upstream, &path, limits, progress, &mut file).await;
        let stored = file.flush();
        match received? {
            Received { too_large: Some(bytes), .. } => {
                return Err(DownloadError::TooLarge { path, bytes, limit: limits.bytes_max });
            }
            Received { status: 200, .. } if name.is_some() => {
                let renamed =
                    stored.and_then(|()| durable_file::rename(file.get_ref(), &part.0, &target));
                renamed.map_err(write_error)?;
                return Ok(target);
            }
            Received { status, location: Some(location), .. } if is_redirect(status) => {
                let target = archive_path(&location);
                let is_it = |path: &String| {
                    let name = archive_name(path).and_then(ArchiveName::parse);
                    name.is_some_and(|name| has_kind(&name, kind))
                };
                path = target.filter(is_it).ok_or_else(|| name_error(&location))?;
            }
            Received { status, .. } => {
                return Err(DownloadError::Status { path, status });
            }
        }
    }
    Err(name_error(&path))
}

fn name_error(location: &str) -> DownloadError {
    DownloadError::Name { location: shorten_message(location) }
}

async fn get(
    upstream: &Endpoint,
    path: &str,
    limits: &DownloadLimits,
    progress: &DownloadProgress,
    file: &mut impl Write,
) -> Result<Received, DownloadError> {
    let bytes_before = progress.bytes();
    let bytes_max = limits.bytes_max;
    let too_large = AtomicU64::new(0);
    let request = upstream.request("GET", path, None);
    let started = |bytes: Option<u64>| {
        progress.bytes_total.store(bytes.unwrap_or_default(), Ordering::Relaxed);
        too_large.store(bytes.filter(|bytes| *bytes > bytes_max).unwrap_or(0), Ordering::Relaxed);
    };
    let sink = |bytes: &[u8]| {
        let new = bytes.len() as u64;
        let received = progress.bytes.fetch_add(new, Ordering::Relaxed) + new - bytes_before;
        if received > bytes_max {
            too_large.fetch_max(received, Ordering::Relaxed);
        }
        match too_large.load(Ordering::Relaxed) {
            0 => file.write_all(bytes),
            _ => Err(io::ErrorKind::FileTooLarge.into()),
        }
    };
    let exchange = async {
        let mut connection = Connection::open(upstream.clone()).await?;
        connection.exchange_into(&request, started, sink).await
    };
    let exchange = with_progress(exchange, progress, limits.stall_timeout).await;
    let too_large = Some(too_large.into_inner()).filter(|bytes| *bytes > 0);
    match exchange {
        Some(Ok((status, location))) => Ok(Received { status, location, too_large }),
        Some(Err(_)) if too_large.is_some() => {
            Ok(Received { status: 200, location: None, too_large })
        }
        Some(Err(err)) => Err(DownloadError::Http { path: path.to_owned(), err }),
        None => Err(DownloadError::Stalled {
            path: path.to_owned(),
            bytes: progress.bytes() - bytes_before,
            min: PROGRESS_BYTES_MIN,
            timeout: limits.stall_timeout,
        }),
    }
}

/// The result of a download; `None` if it receives too little.
async fn with_progress<T>(
    download: impl Future<Output = T>,
    progress: &DownloadProgress,
    stall_timeout: Duration,
) -> Option<T> {
    tokio::pin!(download);
    loop {
        let before = progress.bytes();
        match tokio::time::timeout(stall_timeout, &mut download).await {
            Ok(done) => return Some(done),
            Err(_) if progress.bytes() - before < PROGRESS_BYTES_MIN => return None,
            Err(_) => {}
        }
    }
}

/// A file that is not whole, which is removed unless it was renamed. One that stays is overwritten by the next
/// download.
struct PartFile(PathBuf);

impl Drop for PartFile {
    fn drop(&mut self) {
        if let Err(err) = std::fs::remove_file(&self.0)
            && err.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(part = %self.0.display(), %err, "not removed");
        }
    }
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

fn has_kind(name: &ArchiveName, kind: ArchiveKind) -> bool {
    name.base.is_some() == (kind == ArchiveKind::Incremental)
}

/// The path of a redirect at the same upstream, if it names an archive.
fn archive_path(location: &str) -> Option<String> {
    let path = match location.split_once("://") {
        Some((_, rest)) => &rest[rest.find('/')?..],
        None => location,
    };
    let path = format!("/{}", path.trim_start_matches('/'));
    archive_name(&path)?;
    Some(path)
}

/// The name of the archive in a path, and nothing that leaves a directory.
fn archive_name(path: &str) -> Option<&str> {
    let name = path.strip_prefix('/')?;
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    let is_archive = is_plain && name.len() <= NAME_BYTES_MAX && ArchiveName::parse(name).is_some();
    is_archive.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_to_an_archive_and_nowhere_else() {
        for name in [
            "/snapshot-100-4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi.tar.zst",
            "/incremental-snapshot-100-150-4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi.tar.zst",
            "/snapshot-100-4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi.tar.lz4",
            "/incremental-snapshot-100-150-4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi.tar.lz4",
        ] {
            assert_eq!(archive_path(name).as_deref(), Some(name));
            assert_eq!(archive_path(&name[1..]).as_deref(), Some(name));
            assert_eq!(archive_path(&format!("http://other{name}")).as_deref(), Some(name));
        }
        for wrong in [
            "/snapshot-100-abc.tar.bz2",
            "/../snapshot-100-abc.tar.zst",
            "/snapshot-1/../../x-abc.tar.zst",
            "/snapshot--abc.tar.zst",
            "/snapshot-+1-abc.tar.zst",
            "/incremental-snapshot-100-abc.tar.zst",
            "/genesis.tar.bz2",
            "",
        ] {
            assert_eq!(archive_path(wrong), None, "{wrong}");
        }
    }
}
