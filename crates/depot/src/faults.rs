//! A store in memory that fails by seed, for tests: 503, silence, lost responses, conflicts, cut bodies.
//!
//! Faults depend on the seed and on the order of requests only.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fastrand::Rng;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, Extensions, GetOptions, GetResult, GetResultPayload,
    ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

/// Probabilities of faults, each from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The store responds with 503 and does nothing.
    pub unavailable: f64,
    /// The store carries out the request, and its response is lost.
    pub lost_answer: f64,
    /// The store never responds, and does nothing.
    pub silent: f64,
    /// The store responds with 409 to a creation, and does nothing.
    pub conflict: f64,
    /// A body ends before its length, with an error or without.
    pub cut_body: f64,
    /// The store replaces objects that had to be created only.
    pub replaces: bool,
}

/// A store that fails by seed.
pub struct FaultyStore {
    inner: InMemory,
    faults: Mutex<Faults>,
    random: Mutex<Rng>,
    lists: AtomicUsize,
}

impl FaultyStore {
    /// An empty store.
    pub fn new(seed: u64, faults: Faults) -> Arc<Self> {
        let random = Mutex::new(Rng::with_seed(seed));
        let faults = Mutex::new(faults);
        Arc::new(Self { inner: InMemory::new(), faults, random, lists: AtomicUsize::new(0) })
    }

    /// Number of lists that were requested.
    pub fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }

    /// Changes the faults of later requests.
    pub fn set_faults(&self, faults: Faults) {
        *self.faults.lock() = faults;
    }

    fn has(&self, fault: impl FnOnce(&Faults) -> f64) -> bool {
        let probability = fault(&self.faults.lock());
        probability > 0.0 && self.random.lock().f64() < probability
    }

    /// Fails before a request is carried out.
    async fn arrive(&self) -> Result<()> {
        if self.has(|faults| faults.silent) {
            std::future::pending::<()>().await;
        }
        if self.has(|faults| faults.unavailable) { Err(new_error("503")) } else { Ok(()) }
    }

    /// Fails after a request was carried out.
    fn pass_response<T>(&self, response: T) -> Result<T> {
        if self.has(|faults| faults.lost_answer) {
            Err(new_error("the response is lost"))
        } else {
            Ok(response)
        }
    }

    /// The body, or its start.
    fn body(&self, bytes: Bytes) -> GetResultPayload {
        let mut chunks = vec![Ok(bytes.clone())];
        if self.has(|faults| faults.cut_body) {
            let at = self.random.lock().usize(0..=bytes.len().saturating_sub(1));
            chunks = vec![Ok(bytes.slice(..at))];
            if self.random.lock().bool() {
                chunks.push(Err(new_error("the connection was reset")));
            }
        }
        GetResultPayload::Stream(stream::iter(chunks).boxed())
    }
}

fn new_error(reason: &str) -> Error {
    Error::Generic { store: "faulty", source: reason.into() }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        self.arrive().await?;
        if options.mode == PutMode::Create && self.has(|faults| faults.conflict) {
            let source = "409".into();
            return Err(Error::AlreadyExists { path: location.to_string(), source });
        }
        if self.faults.lock().replaces {
            options.mode = PutMode::Overwrite;
        }
        let result = self.inner.put_opts(location, payload, options).await?;
        self.pass_response(result)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.arrive().await?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.arrive().await?;
        let found = self.inner.get_opts(location, options).await?;
        let meta = found.meta.clone();
        let range = found.range.clone();
        let payload = self.body(found.bytes().await?);
        let attributes = Attributes::default();
        let extensions = Extensions::default();
        self.pass_response(GetResult { payload, meta, range, attributes, extensions })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        if self.has(|faults| faults.unavailable) {
            return stream::once(async { Err(new_error("503")) }).boxed();
        }
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        if self.has(|faults| faults.unavailable) {
            return stream::once(async { Err(new_error("503")) }).boxed();
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.arrive().await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.arrive().await?;
        self.inner.copy_opts(from, to, options).await
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}
