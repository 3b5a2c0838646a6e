//! Writes an object in pieces, for objects that do not fit memory.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::DepotError;
use crate::attempts::Attempts;
use crate::backend::Upload;
use crate::inner::Inner;
use crate::metrics::Operation;
use crate::object_backend::failure;
use crate::requests::Failure;

/// Bytes of a part. S3 wants at least 5 MiB, and at most 10,000 parts: 80 GB.
const PART_BYTES: usize = 8 << 20;

/// An object that is being written. If it is dropped without [`Self::finish`], no object exists, but a bucket may store
/// the parts until its lifecycle rule removes them. [`Self::abort`] removes them at once.
pub struct ObjectWriter {
    inner: Arc<Inner>,
    key: String,
    upload: Upload,
    pending: BytesMut,
    bytes: u64,
}

impl ObjectWriter {
    pub(crate) fn new(inner: Arc<Inner>, key: &str, upload: Upload) -> Self {
        Self { inner, key: key.to_owned(), upload, pending: BytesMut::new(), bytes: 0 }
    }

    /// Appends bytes. Up to 8 MiB are buffered.
    ///
    /// # Errors
    ///
    /// A part could not be written. The object cannot be finished then.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), DepotError> {
        self.bytes += bytes.len() as u64;
        self.pending.extend_from_slice(&bytes);
        while self.pending.len() >= PART_BYTES {
            let part = self.pending.split_to(PART_BYTES).freeze();
            self.write_part(part).await?;
        }
        Ok(())
    }

    /// Publishes the object, durably. Returns its length.
    ///
    /// # Errors
    ///
    /// The last part or the publication failed. The object may exist then.
    pub async fn finish(mut self) -> Result<u64, DepotError> {
        // An upload of S3 has at least one part, which may be empty.
        let part = self.pending.split().freeze();
        if !part.is_empty() || self.bytes == 0 {
            self.write_part(part).await?;
        }
        let Self { inner, key, upload, bytes, .. } = self;
        let mut attempts = Attempts::new(&inner, Operation::Upload, &key);
        match upload {
            Upload::File(file) => match attempts.run(bytes, file.publish()).await {
                Ok(()) => Ok(bytes),
                Err(failure) => Err(last_error(&mut attempts, failure).await),
            },
            Upload::Parts(mut parts) => loop {
                let finished = async { parts.complete().await.map(|_| ()).map_err(failure) };
                match attempts.run(0, finished).await {
                    Ok(()) => return Ok(bytes),
                    Err(failure) => attempts.wait_after(failure).await?,
                }
            },
        }
    }

    /// Removes the unfinished object.
    ///
    /// # Errors
    ///
    /// The store could not remove it.
    pub async fn abort(self) -> Result<(), DepotError> {
        let Self { inner, key, upload, .. } = self;
        let Upload::Parts(mut parts) = upload else {
            // The file is removed when it is dropped.
            return Ok(());
        };
        let mut attempts = Attempts::new(&inner, Operation::Upload, &key);
        loop {
            let aborted = async { parts.abort().await.map_err(failure) };
            match attempts.run(0, aborted).await {
                Ok(()) => return Ok(()),
                Err(failure) => attempts.wait_after(failure).await?,
            }
        }
    }

    /// Writes a part once: the store itself retries, because the number of a part is its own.
    async fn write_part(&mut self, part: Bytes) -> Result<(), DepotError> {
        let bytes = part.len();
        let inner = &self.inner;
        let mut attempts = Attempts::new(inner, Operation::Upload, &self.key);
        // The time limit covers the retries of the store.
        let limit = (bytes as u64).saturating_mul(u64::from(inner.config.retries_max) + 1);
        let written = match &mut self.upload {
            Upload::File(file) => attempts.run(limit, file.write(part)).await,
            Upload::Parts(parts) => {
                let put = parts.put_part(part.into());
                attempts.run(limit, async { put.await.map_err(failure) }).await
            }
        };
        match written {
            Ok(()) => {
                inner.metrics.count_written(bytes);
                Ok(())
            }
            Err(failure) => Err(last_error(&mut attempts, failure).await),
        }
    }
}

/// The error of a request that cannot be sent again.
async fn last_error(attempts: &mut Attempts<'_>, failure: Failure) -> DepotError {
    let failure = match failure {
        Failure::Temporary(reason) => Failure::Final(reason),
        failure => failure,
    };
    match attempts.wait_after(failure).await {
        Err(err) => err,
        Ok(()) => unreachable!("only a temporary failure is retried"),
    }
}
