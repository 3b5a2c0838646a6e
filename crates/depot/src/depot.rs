//! A depot: its requests with their retries.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ::metrics::Collector;
use bytes::Bytes;
use object_store::ObjectStore;
use object_store::memory::InMemory;

use crate::attempts::Attempts;
use crate::backend::Backend;
use crate::file_store::FileStore;
use crate::inner::Inner;
use crate::key::{Location, check_key, check_prefix, parse_url};
use crate::metrics::{DepotMetrics, Operation};
use crate::object_backend::ObjectBackend;
use crate::requests::{Failure, Listing, ObjectInfo, Received};
use crate::{DepotConfig, DepotError, ObjectWriter, s3};

/// Directory of the objects that [`Depot::check`] creates.
const CHECK_PREFIX: &str = "check";

/// Objects of a page of a bucket's list: S3 replies with at most as many.
const BUCKET_LIST_PAGE: usize = 1_000;

/// Objects of a page of a directory's list: each page reads the names of all files, so fewer pages cost less.
const DIRECTORY_LIST_PAGE: usize = 100_000;

/// Bytes of a body that the time limit of an attempt allows for. A longer body is received by several attempts.
const READ_BYTES_TIMED: usize = 64 << 20;

/// An attempt that received this many bytes made progress, so it does not count as failed.
const PROGRESS_BYTES_MIN: usize = 1 << 20;

/// A store of immutable objects. Cheap to clone.
#[derive(Clone)]
pub struct Depot {
    pub(crate) inner: Arc<Inner>,
}

/// The result of [`Depot::put_new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object has this body.
    Created,
    /// There is an object with another body.
    Exists,
}

impl Depot {
    /// Opens the depot at a URL: `file:///directory`, `s3://bucket/prefix`, or `memory:`. The endpoint, region and
    /// credentials of S3 come from the environment (`AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID` and others). A
    /// missing directory is created. No request is sent: see [`Self::check`].
    ///
    /// # Errors
    ///
    /// The URL or the environment is invalid, or the directory cannot be created.
    pub fn open(url: &str, config: &DepotConfig) -> Result<Self, DepotError> {
        let name = url.trim_end_matches('/').to_owned();
        let backend = match parse_url(url)? {
            Location::Directory(dir) => {
                let opened = FileStore::open(&dir);
                let refuse = |err: std::io::Error| DepotError::Url {
                    url: url.to_owned(),
                    why: err.to_string(),
                };
                Backend::Files(opened.map_err(refuse)?)
            }
            Location::Bucket { bucket, prefix } => {
                let opened = s3::open(&bucket);
                let store = opened.map_err(|why| DepotError::Url { url: url.to_owned(), why })?;
                Backend::Objects(ObjectBackend::new(store, &prefix, config))
            }
            Location::Memory => {
                Backend::Objects(ObjectBackend::new(Arc::new(InMemory::new()), "", config))
            }
        };
        Ok(Self::new(backend, name, config))
    }

    /// Opens a depot over any store. All its keys start with `prefix`, which may be empty.
    pub fn with_store(store: Arc<dyn ObjectStore>, prefix: &str, config: &DepotConfig) -> Self {
        let name = format!("{store}:{prefix}");
        Self::new(Backend::Objects(ObjectBackend::new(store, prefix, config)), name, config)
    }

    fn new(backend: Backend, name: String, config: &DepotConfig) -> Self {
        let metrics = Arc::new(DepotMetrics::new());
        Self { inner: Arc::new(Inner { backend, name, config: config.clone(), metrics }) }
    }

    /// The URL of the depot, without user and password.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the counters of requests, retries, failures and bytes.
    pub fn metrics(&self) -> Arc<dyn Collector> {
        Arc::clone(&self.inner.metrics) as Arc<dyn Collector>
    }

    /// Checks that the store can be written and read, and that it refuses to create an object twice.
    ///
    /// # Errors
    ///
    /// [`DepotError::NotExclusive`] if the store replaces the object, otherwise those of the requests.
    pub async fn check(&self) -> Result<(), DepotError> {
        let key = format!("{CHECK_PREFIX}/{:032x}", fastrand::u128(..));
        let first = Bytes::from_static(b"first");
        let not_exclusive = || DepotError::NotExclusive { store: self.inner.name.clone() };
        let created = self.put_new(&key, first.clone()).await?;
        let second = self.put_new(&key, Bytes::from_static(b"second")).await?;
        let found = self.get(&key, first.len() + 1).await;
        self.delete(&key).await?;
        if created == Put::Created && second == Put::Exists && found.is_ok_and(|it| it == first) {
            Ok(())
        } else {
            Err(not_exclusive())
        }
    }

    /// Creates an object if there is none of this key, once or not at all. If the store says that it exists, or does not
    /// respond, the object is read back: an object with the same body counts as created.
    ///
    /// # Errors
    ///
    /// The key is invalid, or the last attempt failed. Then the object may exist.
    pub async fn put_new(&self, key: &str, body: Bytes) -> Result<Put, DepotError> {
        check_key(key)?;
        let inner = &*self.inner;
        let mut attempts = Attempts::new(inner, Operation::Put, key);
        loop {
            let created = inner.backend.create(key, body.clone());
            let failure = match attempts.run(body.len() as u64, created).await {
                Ok(()) => {
                    inner.metrics.count_written(body.len());
                    return Ok(Put::Created);
                }
                Err(Failure::Exists) => match self.is_same(key, &body).await? {
                    Some(true) => return Ok(Put::Created),
                    Some(false) => return Ok(Put::Exists),
                    // Another request creates the object and may still fail (409), or it was deleted.
                    None => Failure::Temporary("exists, and cannot be read".to_owned()),
                },
                Err(failure) => failure,
            };
            let was_sent = matches!(failure, Failure::Temporary(_));
            let Err(err) = attempts.wait_after(failure).await else { continue };
            if !was_sent {
                return Err(err);
            }
            // The last attempt may have been applied although its response is lost.
            return match self.is_same(key, &body).await {
                Ok(Some(true)) => Ok(Put::Created),
                Ok(Some(false)) => Ok(Put::Exists),
                _ => Err(err),
            };
        }
    }

    /// Starts an object that is written in pieces. It replaces an object of this key, so the caller chooses unique keys.
    /// Nothing can be read before [`ObjectWriter::finish`].
    ///
    /// # Errors
    ///
    /// The key is invalid, or the last attempt failed.
    pub async fn put_stream(&self, key: &str) -> Result<ObjectWriter, DepotError> {
        check_key(key)?;
        let mut attempts = Attempts::new(&self.inner, Operation::Upload, key);
        loop {
            match attempts.run(0, self.inner.backend.start_upload(key)).await {
                Ok(upload) => return Ok(ObjectWriter::new(Arc::clone(&self.inner), key, upload)),
                Err(failure) => attempts.wait_after(failure).await?,
            }
        }
    }

    /// Reads a whole object.
    ///
    /// # Errors
    ///
    /// [`DepotError::NotFound`], [`DepotError::TooLong`], or the last attempt failed.
    pub async fn get(&self, key: &str, bytes_max: usize) -> Result<Bytes, DepotError> {
        self.read(key, None, bytes_max).await
    }

    /// Reads a range of an object. After a cut it continues where the body ended.
    ///
    /// # Errors
    ///
    /// [`DepotError::NotFound`], the object is shorter than the range, or the last attempt failed.
    pub async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, DepotError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let bytes_max = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        self.read(key, Some(range), bytes_max).await
    }

    /// Lists all objects in a directory and below, in the order of their keys. A slash at the end of `prefix` has no
    /// meaning.
    ///
    /// # Errors
    ///
    /// [`DepotError::TooMany`] if there are more than `list_max`, or the last attempt failed.
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, DepotError> {
        let max = self.inner.config.list_max;
        let found = self.list_after(prefix, "", max.saturating_add(1)).await?;
        if found.len() > max {
            return Err(DepotError::TooMany { prefix: self.inner.object(prefix), max });
        }
        Ok(found)
    }

    /// Lists the objects whose keys come after `after`, at most `max`, in the order of their keys. `after` is a key, or
    /// empty. Cost in a directory: the names of all its files are read, see [`Self::list_page`].
    ///
    /// # Errors
    ///
    /// A prefix or key is invalid, or the last attempt failed.
    pub async fn list_after(
        &self,
        prefix: &str,
        after: &str,
        max: usize,
    ) -> Result<Vec<ObjectInfo>, DepotError> {
        let prefix = check_prefix(prefix)?;
        if !after.is_empty() {
            check_key(after)?;
        }
        let listing = Listing { prefix, after, max };
        let mut attempts = Attempts::new(&self.inner, Operation::List, prefix);
        loop {
            // A list of a million keys takes a thousand pages: about 200 bytes a key.
            let bytes = (max.min(self.inner.config.list_max) as u64).saturating_mul(200);
            match attempts.run(bytes, self.inner.backend.list(listing)).await {
                Ok(found) => return Ok(found),
                Err(failure) => attempts.wait_after(failure).await?,
            }
        }
    }

    /// Returns the number of objects after which a list of many is best continued: what one request to a bucket returns, and
    /// more for a directory.
    pub fn list_page(&self) -> usize {
        match self.inner.backend {
            Backend::Files(_) => DIRECTORY_LIST_PAGE,
            Backend::Objects(_) => BUCKET_LIST_PAGE,
        }
    }

    /// Deletes an object. It may be absent.
    ///
    /// # Errors
    ///
    /// The key is invalid, or the last attempt failed.
    pub async fn delete(&self, key: &str) -> Result<(), DepotError> {
        check_key(key)?;
        let mut attempts = Attempts::new(&self.inner, Operation::Delete, key);
        loop {
            match attempts.run(0, self.inner.backend.delete(key)).await {
                Ok(()) | Err(Failure::NotFound) => return Ok(()),
                Err(failure) => attempts.wait_after(failure).await?,
            }
        }
    }

    /// Whether an object has this body; `None` if it does not exist.
    async fn is_same(&self, key: &str, body: &Bytes) -> Result<Option<bool>, DepotError> {
        match self.get(key, body.len()).await {
            Ok(found) => Ok(Some(found == body)),
            Err(DepotError::TooLong { .. }) => Ok(Some(false)),
            Err(DepotError::NotFound { .. }) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Reads an object or a range of it. An attempt continues after the bytes of those before.
    async fn read(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        bytes_max: usize,
    ) -> Result<Bytes, DepotError> {
        check_key(key)?;
        let inner = &*self.inner;
        let mut attempts = Attempts::new(inner, Operation::Get, key);
        let mut received = Received::default();
        loop {
            let before = received.bytes.len();
            let read = inner.backend.read(key, range.as_ref(), bytes_max, &mut received);
            let result = attempts.run(bytes_max.min(READ_BYTES_TIMED) as u64, read).await;
            let bytes = received.bytes.len() - before;
            inner.metrics.count_read(bytes);
            if received.is_complete() {
                return Ok(received.bytes.into());
            }
            if bytes >= PROGRESS_BYTES_MIN {
                attempts.restart_count();
            }
            let cut = || Failure::Temporary("the body was cut".to_owned());
            attempts.wait_after(result.err().unwrap_or_else(cut)).await?;
        }
    }
}

impl fmt::Debug for Depot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Depot").field(&self.inner.name).finish()
    }
}
