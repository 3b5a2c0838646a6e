//! An archive as the body of a response: read from the disk in chunks, as its client takes them.
//!
//! Bounds: [`CHUNK_BYTES`] in memory. The client must read all of it before a deadline: [`DOWNLOAD_BYTES_PER_S_MIN`].
//! The connection of a client that reads nothing is closed earlier (`rpc.write_timeout_ms`).

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_server::ChunkSource;
use snapshot_solana::WrittenArchive;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::archives::{CHUNK_BYTES, Counters};
use crate::client_permits::ClientPermit;

/// Minimum average rate of a download.
const DOWNLOAD_BYTES_PER_S_MIN: u64 = 64 << 10;
/// The deadline of a small archive.
const DOWNLOAD_TIMEOUT_MIN: Duration = Duration::from_secs(60);

type ReadChunk = JoinHandle<io::Result<(File, Bytes)>>;

/// The bytes of an archive that are still to be sent.
pub(crate) struct DownloadBody {
    path: PathBuf,
    file: Option<File>,
    /// The chunk that is being read, if any.
    reading: Option<ReadChunk>,
    left: u64,
    deadline: Instant,
    counters: Arc<Counters>,
    _permit: ClientPermit,
}

impl DownloadBody {
    pub(crate) fn new(
        archive: &WrittenArchive,
        counters: Arc<Counters>,
        permit: ClientPermit,
    ) -> Self {
        let seconds = archive.bytes / DOWNLOAD_BYTES_PER_S_MIN;
        let deadline = Instant::now() + DOWNLOAD_TIMEOUT_MIN + Duration::from_secs(seconds);
        Self {
            path: archive.path.clone(),
            file: None,
            reading: None,
            left: archive.bytes,
            deadline,
            counters,
            _permit: permit,
        }
    }
}

impl ChunkSource for DownloadBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if Instant::now() > self.deadline {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        let reading = self.reading.get_or_insert_with(|| {
            let path = self.path.clone();
            let file = self.file.take();
            // Not on the other thread: the allocator has a heap of some MiB for each thread with such a chunk.
            let chunk = vec![0; self.left.min(CHUNK_BYTES) as usize];
            tokio::task::spawn_blocking(move || read(path, file, chunk))
        });
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let read = read.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
        Poll::Ready(Some(read.map(|(file, chunk)| {
            self.file = Some(file);
            self.left -= chunk.len() as u64;
            chunk
        })))
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }
}

impl Drop for DownloadBody {
    fn drop(&mut self) {
        let is_whole = self.left == 0;
        let Counters { downloaded, aborted, .. } = &*self.counters;
        Counters::add(if is_whole { downloaded } else { aborted });
    }
}

fn read(path: PathBuf, file: Option<File>, mut chunk: Vec<u8>) -> io::Result<(File, Bytes)> {
    let mut file = match file {
        Some(file) => file,
        None => File::open(path)?,
    };
    file.read_exact(&mut chunk)?;
    Ok((file, chunk.into()))
}
