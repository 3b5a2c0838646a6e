//! The store behind a depot: one attempt of each request, without retries.

use std::ops::Range;

use bytes::Bytes;
use object_store::MultipartUpload;

use crate::file_store::{FileStore, UnfinishedFile};
use crate::object_backend::ObjectBackend;
use crate::requests::{Failure, Listing, ObjectInfo, Received};

/// The store behind a depot.
pub(crate) enum Backend {
    Files(FileStore),
    Objects(ObjectBackend),
}

/// The unfinished object in the store.
pub(crate) enum Upload {
    File(UnfinishedFile),
    Parts(Box<dyn MultipartUpload>),
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
