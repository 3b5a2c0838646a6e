//! The start of a fork's local ledger: at the slot, time and epoch of its upstream.
//!
//! They are in three sysvars, which are cached like any account, but never adopted as accounts. So a fork without the
//! network, or with a pin, starts at the same point as the fork that filled the cache.
//! Cost: 17 KB of the cache for each start.

use chain_solana::{FetchError, StartPoint, StartPointError, StartSysvars};
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;

use crate::cache::{CachedAccount, DiskCache};

/// The sysvars of a [`StartPoint`].
pub(crate) const SYSVARS: [Pubkey; 3] =
    [sysvar::clock::ID, sysvar::epoch_schedule::ID, sysvar::stake_history::ID];

/// Why the slot of the upstream is unknown. The fork then starts at slot 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The upstream did not answer, and the cache does not have the sysvars.
    #[error("{0}")]
    Fetch(FetchError),
    /// No ledger can start at these sysvars.
    #[error(transparent)]
    Sysvars(#[from] StartPointError),
}

/// Reads the fetched sysvars, or else those of the cache, and caches fetched ones.
pub(crate) fn start_point(
    fetched: Result<Vec<CachedAccount>, FetchError>,
    cache: Option<&mut DiskCache>,
) -> Result<StartPoint, StartError> {
    let records = match (fetched, cache) {
        (Ok(records), None) => records,
        (Ok(records), Some(cache)) => {
            if let Err(err) = cache.put(&records) {
                tracing::warn!(%err, "the cache of the fork does not store where it starts");
            }
            records
        }
        (Err(err), cache) => {
            let cached = cache.map(|cache| SYSVARS.iter().filter_map(|key| cache.get(key)));
            let cached: Vec<CachedAccount> = cached.into_iter().flatten().collect();
            if cached.len() < SYSVARS.len() {
                return Err(StartError::Fetch(err));
            }
            cached
        }
    };
    let data = |key: Pubkey| {
        let record = records.iter().find(|record| record.pubkey == key);
        let account = record.and_then(|record| record.account.as_ref());
        account.map(|account| account.0.data()).unwrap_or_default()
    };
    let [clock, epoch_schedule, stake_history] = SYSVARS.map(data);
    Ok(StartPoint::from_sysvars(&StartSysvars { clock, epoch_schedule, stake_history })?)
}
