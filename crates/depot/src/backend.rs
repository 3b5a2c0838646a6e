//! The store behind a depot: one attempt of each request, without retries.

use std::ops::Range;

use bytes::Bytes;

use crate::ObjectInfo;
use crate::file_store::FileStore;
use crate::object_backend::ObjectBackend;
use crate::object_writer::Upload;

/// The store behind a depot.
pub(crate) enum Backend {
    Files(FileStore),
    Objects(ObjectBackend),
}

/// Why one attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no such object.
    NotFound,
    /// The object was not created because it exists, or because another request creates it.
    Exists,
    /// The object is longer than the caller allows.
    TooLong { bytes: u64, bytes_max: usize },
    /// The store has no space. Nothing was created.
    Full(String),
    /// Another attempt would fail too.
    Final(String),
    /// Another attempt may succeed. This one may have been applied.
    Temporary(String),
}

/// The body of an object, or a part of it, as far as it was received.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    /// Length of the whole body, once it is known.
    pub(crate) expected: Option<u64>,
}

impl Received {
    /// Whether everything was received.
    pub(crate) fn is_complete(&self) -> bool {
        self.expected == Some(self.bytes.len() as u64)
    }

    /// Sets the length of the whole body.
    ///
    /// # Errors
    ///
    /// It is longer than the caller allows, or is not the same as before.
    pub(crate) fn set_expected(&mut self, bytes: u64, bytes_max: usize) -> Result<(), Failure> {
        if usize::try_from(bytes).is_ok_and(|bytes| bytes <= bytes_max) {
            match self.expected.replace(bytes) {
                Some(before) if before != bytes => {
                    let reason = format!("had {before} bytes and has {bytes} bytes now");
                    Err(Failure::Final(reason))
                }
                _ => Ok(()),
            }
        } else {
            Err(Failure::TooLong { bytes, bytes_max })
        }
    }
}

/// The keys to list.
#[derive(Clone, Copy)]
pub(crate) struct Listing<'a> {
    /// The directory, without a slash at the end. It may be empty.
    pub(crate) prefix: &'a str,
    /// Only keys after this one. It may be empty.
    pub(crate) after: &'a str,
    /// Number of keys, the first in order.
    pub(crate) max: usize,
}

impl Backend {
    /// Creates an object if there is none.
    pub(crate) async fn create(&self, key: &str, body: Bytes) -> Result<(), Failure> {
        match self {
            Self::Files(files) => files.create(key, body).await,
            Self::Objects(objects) => objects.create(key, body).await,
        }
    }

    /// Starts an object that is written in pieces.
    pub(crate) async fn start_upload(&self, key: &str) -> Result<Upload, Failure> {
        match self {
            Self::Files(files) => files.start_upload(key).await.map(Upload::File),
            Self::Objects(objects) => objects.start_upload(key).await.map(Upload::Parts),
        }
    }

    /// Reads an object, or a range of it, after the bytes that were received before.
    pub(crate) async fn read(
        &self,
        key: &str,
        range: Option<&Range<u64>>,
        bytes_max: usize,
        received: &mut Received,
    ) -> Result<(), Failure> {
        match self {
            Self::Files(files) => files.read(key, range, bytes_max, received).await,
            Self::Objects(objects) => objects.read(key, range, bytes_max, received).await,
        }
    }

    /// Lists objects in the order of their keys.
    pub(crate) async fn list(&self, listing: Listing<'_>) -> Result<Vec<ObjectInfo>, Failure> {
        match self {
            Self::Files(files) => files.list(listing).await,
            Self::Objects(objects) => objects.list(listing).await,
        }
    }

    /// Deletes an object. It may be absent.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), Failure> {
        match self {
            Self::Files(files) => files.delete(key).await,
            Self::Objects(objects) => objects.delete(key).await,
        }
    }
}
