//! A depot over an `ObjectStore`: a bucket, the memory of this process, or a store of tests.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::retry::{RetryContext, RetryPolicy};
use object_store::{
    Error, GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions,
};

use crate::DepotConfig;
use crate::redact::reason;
use crate::requests::{Failure, Listing, ObjectInfo, Received};

/// A depot over an `ObjectStore`.
pub(crate) struct ObjectBackend {
    store: Arc<dyn ObjectStore>,
    /// The start of all keys, without a slash at the end. It may be empty.
    prefix: String,
    part_retries: Arc<PartRetries>,
}

/// Retries of the parts of an upload, which only the store can send again.
#[derive(Debug)]
struct PartRetries(DepotConfig);

impl ObjectBackend {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, prefix: &str, config: &DepotConfig) -> Self {
        let part_retries = Arc::new(PartRetries(config.clone()));
        Self { store, prefix: prefix.trim_matches('/').to_owned(), part_retries }
    }

    pub(crate) async fn create(&self, key: &str, body: Bytes) -> Result<(), Failure> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = self.store.put_opts(&self.path(key)?, body.into(), options).await;
        put.map(|_| ()).map_err(failure)
    }

    pub(crate) async fn start_upload(
        &self,
        key: &str,
    ) -> Result<Box<dyn MultipartUpload>, Failure> {
        let retries = Arc::clone(&self.part_retries) as Arc<dyn RetryPolicy>;
        let options = PutMultipartOptions::default().with_retry_policy(retries);
        self.store.put_multipart_opts(&self.path(key)?, options).await.map_err(failure)
    }

    pub(crate) async fn read(
        &self,
        key: &str,
        range: Option<&Range<u64>>,
        bytes_max: usize,
        received: &mut Received,
    ) -> Result<(), Failure> {
        let done = received.bytes.len() as u64;
        let wanted = match range {
            Some(range) => Some(GetRange::Bounded(range.start + done..range.end)),
            None => (done > 0).then_some(GetRange::Offset(done)),
        };
        let options = GetOptions { range: wanted, ..GetOptions::default() };
        let found = self.store.get_opts(&self.path(key)?, options).await.map_err(failure)?;
        let length = done + found.range.end.saturating_sub(found.range.start);
        let whole = range.map_or(found.meta.size, |range| range.end - range.start);
        if length != whole {
            let reason = format!("answered {length} bytes of {whole}, of {}", found.meta.size);
            return Err(Failure::Final(reason));
        }
        received.set_expected(whole, bytes_max)?;
        let mut body = found.into_stream();
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|err| Failure::Temporary(reason(&err)))?;
            if received.bytes.len() as u64 + chunk.len() as u64 > whole {
                return Err(Failure::Final(format!("sent more than {whole} bytes")));
            }
            received.bytes.extend_from_slice(&chunk);
        }
        Ok(())
    }

    pub(crate) async fn list(&self, listing: Listing<'_>) -> Result<Vec<ObjectInfo>, Failure> {
        let prefix = match (self.prefix.as_str(), listing.prefix) {
            ("", "") => None,
            (_, "") => Some(parse(&self.prefix)?),
            (_, prefix) => Some(self.path(prefix)?),
        };
        let mut entries = if listing.after.is_empty() {
            self.store.list(prefix.as_ref())
        } else {
            self.store.list_with_offset(prefix.as_ref(), &self.path(listing.after)?)
        };
        let mut found: Vec<ObjectInfo> = Vec::new();
        while found.len() < listing.max
            && let Some(entry) = entries.next().await
        {
            let entry = entry.map_err(failure)?;
            let Some(key) = self.key(entry.location.as_ref()) else { continue };
            if found.last().is_some_and(|last| last.key.as_str() >= key) {
                return Err(Failure::Final("lists keys out of order".to_owned()));
            }
            found.push(ObjectInfo { key: key.to_owned(), bytes: entry.size });
        }
        Ok(found)
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<(), Failure> {
        self.store.delete(&self.path(key)?).await.map_err(failure)
    }

    fn path(&self, key: &str) -> Result<Path, Failure> {
        if self.prefix.is_empty() { parse(key) } else { parse(&format!("{}/{key}", self.prefix)) }
    }

    /// The key of an object within the depot. `None` for an object of another prefix, or whose name is not a key.
    fn key<'a>(&self, location: &'a str) -> Option<&'a str> {
        let key = location.strip_prefix(self.prefix.as_str())?;
        let key = if self.prefix.is_empty() { key } else { key.strip_prefix('/')? };
        crate::key::check_key(key).ok().map(|()| key)
    }
}

#[async_trait]
impl RetryPolicy for PartRetries {
    async fn retry(&self, context: RetryContext) -> bool {
        let attempt = u32::try_from(context.attempt).unwrap_or(u32::MAX);
        let is_allowed = attempt <= self.0.retries_max;
        if is_allowed {
            tokio::time::sleep(self.0.backoff(attempt)).await;
        }
        is_allowed
    }
}

fn parse(path: &str) -> Result<Path, Failure> {
    Path::parse(path).map_err(|err| Failure::Final(reason(&err)))
}

/// Decides whether another attempt may succeed.
pub(crate) fn failure(err: Error) -> Failure {
    match err {
        Error::NotFound { .. } => Failure::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
            Failure::Exists
        }
        Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::UnknownConfigurationKey { .. } => Failure::Final(reason(&err)),
        err => Failure::Temporary(reason(&err)),
    }
}
