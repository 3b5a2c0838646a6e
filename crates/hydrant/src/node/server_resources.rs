//! Resources that all servers of a node share, whatever its chain: the CPU pool, the clients with their API keys and
//! rates, and the response cache.
//!
//! Not here: the servers (`solana`, `kaspa`), and the file of keys (`api_key_file`).

use std::sync::Arc;

use anyhow::{Context, Result};
use clients::RateLimiter;
use response_cache::ResponseCache;

use crate::api_key_file::ApiKeyFile;
use crate::node::NodeConfig;
use crate::process_setup::cpu_pool;

/// The resources that the servers of a node share.
pub(crate) struct ServerResources {
    pub(crate) pool: Arc<cpu_pool::Pool>,
    pub(crate) clients: Arc<RateLimiter>,
    pub(crate) response_cache: Arc<ResponseCache>,
    /// `None`: clients need no key.
    pub(crate) api_keys: Option<ApiKeyFile>,
}

impl ServerResources {
    /// Starts the CPU threads, and restores the usage of the API keys.
    pub(crate) fn start(config: &NodeConfig) -> Result<Self> {
        let mut api_keys = config.api_keys.clone();
        api_keys.iter_mut().for_each(|file| file.restore_usage(config.ledger_dir.as_deref()));
        let keys = api_keys.as_ref().map(ApiKeyFile::keys);
        Ok(Self {
            pool: Arc::new(cpu_pool(&config.pool).context("start the CPU threads")?),
            clients: Arc::new(RateLimiter::new(config.pool.clients).with_api_keys(keys)),
            response_cache: Arc::new(ResponseCache::new(config.cache_bytes_max)),
            api_keys,
        })
    }
}
