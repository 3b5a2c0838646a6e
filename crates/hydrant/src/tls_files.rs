//! The files of TLS: a certificate and its key, read again when they change.
//!
//! In: two paths. Out: the certificate of the ports of JSON-RPC and WebSocket ([`http_server::Tls`]).
//! Bounds: a file has at most [`FILE_BYTES_MAX`]. The files are checked for a change each second.
//! Invariant: a pair that is not valid replaces nothing; the log says why, and a metric counts it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_server::{HttpCounters, HttpEvent, Tls};
use tokio::time::MissedTickBehavior;

/// Bytes of a certificate or key: some hundred certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Interval of the checks of the files for a change.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The certificate of a node, with its files.
pub(crate) struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
    tls: Arc<Tls>,
    /// The versions of the files when they were read last, whether they were valid or not.
    versions: Mutex<[Option<FileVersion>; 2]>,
}

/// The metadata that differ after a file was written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl TlsFiles {
    /// The certificate of `--tls-cert` and `--tls-key`. `None` without them.
    pub(crate) fn from_flags(
        certificate: Option<&Path>,
        key: Option<&Path>,
    ) -> Result<Option<Self>> {
        let (certificate, key) = match (certificate, key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate.to_owned(), key.to_owned()),
            (Some(_), None) => bail!("--tls-cert needs --tls-key"),
            (None, Some(_)) => bail!("--tls-key needs --tls-cert"),
        };
        let versions = Mutex::new(versions(&certificate, &key));
        let [chain, pem] = read(&certificate, &key)?;
        let tls = Tls::from_pem(&chain, &pem).with_context(|| pair(&certificate, &key))?;
        Ok(Some(Self { certificate, key, tls: Arc::new(tls), versions }))
    }

    /// Returns the certificate that new connections use.
    pub(crate) fn tls(&self) -> &Arc<Tls> {
        &self.tls
    }

    /// Reads the files, and uses them for new connections if they are valid.
    pub(crate) fn reload(&self, metrics: &HttpCounters) -> Result<()> {
        // Before the files are read: a later change is seen as one.
        *self.versions.lock().unwrap_or_else(PoisonError::into_inner) =
            versions(&self.certificate, &self.key);
        let replaced = read(&self.certificate, &self.key).and_then(|[chain, key]| {
            self.tls.replace(&chain, &key).with_context(|| pair(&self.certificate, &self.key))
        });
        match &replaced {
            Ok(()) => {
                metrics.record(HttpEvent::CertificateLoaded);
                tracing::info!(certificate = %self.certificate.display(), "TLS was reloaded");
            }
            Err(err) => {
                metrics.record(HttpEvent::CertificateRefused);
                tracing::error!("TLS is not changed: {err:#}");
            }
        }
        replaced
    }

    /// Reloads the files when they change, until the task is aborted.
    pub(crate) async fn watch(self: Arc<Self>, metrics: Arc<HttpCounters>) {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            poll.tick().await;
            let files = Arc::clone(&self);
            let metrics = Arc::clone(&metrics);
            // It reads files, perhaps over a network.
            let checked = tokio::task::spawn_blocking(move || {
                if files.have_changed() {
                    // The log and the metrics have its error.
                    let _ = files.reload(&metrics);
                }
            });
            if checked.await.is_err() {
                return; // the runtime ends
            }
        }
    }

    fn have_changed(&self) -> bool {
        let last = *self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions(&self.certificate, &self.key) != last
    }
}

fn pair(certificate: &Path, key: &Path) -> String {
    format!("--tls-cert {}, --tls-key {}", certificate.display(), key.display())
}

fn read(certificate: &Path, key: &Path) -> Result<[Vec<u8>; 2]> {
    let chain = input_file::read(certificate, FILE_BYTES_MAX).context("--tls-cert")?;
    Ok([chain, input_file::read(key, FILE_BYTES_MAX).context("--tls-key")?])
}

fn versions(certificate: &Path, key: &Path) -> [Option<FileVersion>; 2] {
    [certificate, key].map(|path| {
        let metadata = fs::metadata(path).ok()?;
        Some(FileVersion {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    })
}
