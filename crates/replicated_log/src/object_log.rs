//! A log in a directory or bucket: one object for each batch, created if absent.
//!
//! Needs no server. Writers are fenced by the name of the next object (`generation_log`). Readers poll for it
//! (`reader`).
//! Cost in a bucket: one put for each append. A reader at the end sends up to 50 requests a second while batches
//! arrive, and five while none does. Cost in a directory: a list reads the names of all objects of the generation. A
//! reader lists at its start, after a failure, and every three seconds without a batch; a writer lists every ten
//! seconds.
//! Bounds: the size and age limits of the configuration, when the leading writer calls `remove_old`.
//! Not here: requests and their retries (`depot`).

mod batch_object;
mod generation_files;
mod generation_log;
mod keys;
mod reader;
mod retention;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use depot::{Depot, DepotConfig, DepotError, Put};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use self::batch_object::encode_marker;
use self::generation_files::{GenerationFiles, is_full};
use self::generation_log::GenerationLog;
use self::keys::{format_generation_dir, format_marker_dir, format_marker_key, parse_number};
use self::reader::ReadSettings;
use self::retention::Retention;
use crate::config::LogConfig;
use crate::error::LogError;
use crate::log::{Log, LogSpace};

/// Wait of a reader at the end of the log before its first poll, by default.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// Longest wait of a reader between two polls, by default. A larger value costs fewer requests and adds lag.
const POLL_INTERVAL_MAX: Duration = Duration::from_millis(200);

/// All generations of a log in a directory or bucket.
#[derive(Debug)]
pub struct ObjectLogSpace {
    depot: Depot,
    cluster: String,
    retention: Retention,
    read_settings: ReadSettings,
    /// Open generations, so that a reader is woken by the writer of the same process.
    open_generations: Mutex<BTreeMap<u64, Weak<GenerationFiles>>>,
}

impl ObjectLogSpace {
    /// Opens the depot of a configuration.
    pub(crate) fn open(config: &LogConfig) -> Result<Self, LogError> {
        let depot_config =
            DepotConfig { request_timeout: config.request_timeout, ..DepotConfig::default() };
        // The error of a depot names its URL without the password.
        let depot = Depot::open(&config.url, &depot_config)
            .map_err(|error| LogError::new(config.cluster.as_str(), "open the log", error))?;
        Ok(Self::with_depot(depot, config))
    }

    /// Creates a log space in a depot. The URL of the configuration has no effect.
    pub fn with_depot(depot: Depot, config: &LogConfig) -> Self {
        Self {
            depot,
            cluster: config.cluster.clone(),
            retention: Retention { bytes_max: config.max_bytes, age_max: config.max_age },
            read_settings: ReadSettings {
                poll_interval_min: POLL_INTERVAL_MIN,
                poll_interval_max: POLL_INTERVAL_MAX,
                in_flight_bytes: config.in_flight_bytes as u64,
            },
            open_generations: Mutex::default(),
        }
    }

    /// Sets the waits of readers at the end of the log: `min` at first, doubled with each poll up to `max`. Affects the
    /// generations that are opened afterwards.
    #[cfg(test)]
    fn with_poll_interval(mut self, min: Duration, max: Duration) -> Self {
        self.read_settings.poll_interval_min = min;
        self.read_settings.poll_interval_max = max;
        self
    }

    /// Deletes a generation: first its marker, then its batches. Returns whether it existed.
    #[cfg(test)]
    async fn delete_generation(&self, generation: u64) -> Result<bool, LogError> {
        let Some(files) = GenerationFiles::open(&self.depot, &self.cluster, generation).await?
        else {
            return Ok(false);
        };
        let key = format_marker_key(&self.cluster, generation);
        let deleted = self.depot.delete(&key).await;
        deleted.map_err(|error| LogError::new(self.name(), "delete a generation", error))?;
        for batch in files.list_all().await? {
            files.delete_batch(batch.first).await?;
        }
        Ok(true)
    }

    /// Returns the name of the log in errors.
    fn name(&self) -> String {
        format!("{}/hydrant-{}", self.depot.name(), self.cluster)
    }

    async fn find_newest_generation(&self) -> Result<Option<u64>, LogError> {
        Ok(self.list_generations().await?.pop())
    }

    /// Lists the generations, in their order.
    async fn list_generations(&self) -> Result<Vec<u64>, LogError> {
        let dir = format_marker_dir(&self.cluster);
        let page_max = self.depot.list_page();
        let mut after = String::new();
        let mut generations = Vec::new();
        loop {
            let page = self.depot.list_after(&dir, &after, page_max).await;
            let page =
                page.map_err(|error| LogError::new(self.name(), "list generations", error))?;
            generations.extend(page.iter().filter_map(|object| parse_number(&object.key)));
            match page.last() {
                Some(object) if page.len() == page_max => after.clone_from(&object.key),
                _ => return Ok(generations),
            }
        }
    }

    /// Removes the generations before a generation. The marker of each goes after its batches, so that the next call
    /// continues a removal that failed.
    async fn remove_old_generations(&self, below: u64) -> Result<usize, LogError> {
        let mut generations = self.list_generations().await?;
        generations.retain(|generation| *generation < below);
        for generation in &generations {
            self.delete_batches(*generation).await?;
            let key = format_marker_key(&self.cluster, *generation);
            let deleted = self.depot.delete(&key).await;
            deleted.map_err(|error| LogError::new(self.name(), "delete a generation", error))?;
            // Those that a writer created meanwhile. Its next append notices that the marker is gone.
            self.delete_batches(*generation).await?;
        }
        Ok(generations.len())
    }

    /// Deletes the batches of all instances of a generation. The marker may be damaged.
    async fn delete_batches(&self, generation: u64) -> Result<(), LogError> {
        let dir = format_generation_dir(&self.cluster, generation);
        let error = |error: DepotError| LogError::new(self.name(), "delete a generation", error);
        loop {
            let page = self.depot.list_after(&dir, "", self.depot.list_page()).await;
            let page = page.map_err(error)?;
            if page.is_empty() {
                return Ok(());
            }
            for object in page {
                self.depot.delete(&object.key).await.map_err(error)?;
            }
        }
    }

    async fn create_marker(&self, generation: u64) -> Result<bool, LogError> {
        let key = format_marker_key(&self.cluster, generation);
        let marker = encode_marker(fastrand::u128(..).to_le_bytes());
        match self.depot.put_new(&key, marker).await {
            Ok(Put::Created) => Ok(true),
            Ok(Put::Exists) => Ok(false),
            Err(error) if is_full(&error) => {
                let reason = format!("{error}; fix: make room, or lower --log-max-bytes");
                Err(LogError::with_no_space(
                    self.name(),
                    format!("create generation {generation}"),
                    reason,
                ))
            }
            Err(error) => {
                Err(LogError::new(self.name(), format!("create generation {generation}"), error))
            }
        }
    }

    async fn open_log(&self, generation: u64) -> Result<Arc<dyn Log>, LogError> {
        let files = GenerationFiles::open(&self.depot, &self.cluster, generation).await?;
        let Some(files) = files else {
            let attempt = format!("open generation {generation}");
            let error = LogError::with_reason(self.name(), attempt, "it does not exist");
            return Err(error.of_missing_generation());
        };
        let files = self.share_files(generation, files);
        Ok(Arc::new(GenerationLog::new(files, self.retention, self.read_settings)))
    }

    /// Returns the files of a generation that is open in this process already, or else `files`.
    fn share_files(&self, generation: u64, files: GenerationFiles) -> Arc<GenerationFiles> {
        let mut open = self.open_generations.lock();
        open.retain(|_, files| files.strong_count() > 0);
        let opened = open.get(&generation).and_then(Weak::upgrade);
        if let Some(opened) = opened.filter(|opened| opened.instance() == files.instance()) {
            return opened;
        }
        let files = Arc::new(files);
        open.insert(generation, Arc::downgrade(&files));
        files
    }
}

impl LogSpace for ObjectLogSpace {
    fn newest_generation(&self) -> BoxFuture<'_, Result<Option<u64>, LogError>> {
        Box::pin(self.find_newest_generation())
    }

    fn create_generation(&self, generation: u64) -> BoxFuture<'_, Result<bool, LogError>> {
        Box::pin(self.create_marker(generation))
    }

    fn open_generation(&self, generation: u64) -> BoxFuture<'_, Result<Arc<dyn Log>, LogError>> {
        Box::pin(self.open_log(generation))
    }

    fn remove_generations_below(&self, generation: u64) -> BoxFuture<'_, Result<usize, LogError>> {
        Box::pin(self.remove_old_generations(generation))
    }

    fn durability_faults(&self) -> BoxFuture<'_, Result<Vec<String>, LogError>> {
        Box::pin(async move {
            match self.depot.check().await {
                Ok(()) => Ok(Vec::new()),
                // Appends are not fenced in a store that replaces objects.
                Err(error) => Err(LogError::new(self.name(), "check the store", error)),
            }
        })
    }
}
