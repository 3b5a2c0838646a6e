//! The newest version of each account, put together by many threads.
//!
//! Shards with a lock each; which shard is told by a keyed hash, so that ground addresses do not crowd
//! one. A closed account stays as a marker until its archive is read whole: an older version may
//! still come.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;
use std::hash::BuildHasher;

use crate::lattice::LatticeHash;
use crate::storage::Stored;

/// Many more than threads, so that two rarely meet.
const SHARDS: usize = 256;

struct Version {
    slot: u64,
    offset: u64,
    account: AccountSharedData,
}

type Shard = HashMap<Pubkey, Version, RandomState>;

/// Accounts by address.
pub(crate) struct Accounts {
    shards: Vec<Mutex<Shard>>,
    shard_of: RandomState,
}

impl Accounts {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, shard_of: RandomState::default() }
    }

    /// Keeps an account if it is newer than what is there, and moves the hash of all on.
    pub(crate) fn put(&self, slot: u64, stored: Stored, sum: &mut LatticeHash) {
        let Stored { key, offset, account } = stored;
        let shard = self.shard_of.hash_one(key) as usize % SHARDS;
        let version = Version { slot, offset, account: account.clone() };
        let replaced = {
            let mut shard = self.shards[shard].lock();
            match shard.get_mut(&key) {
                Some(kept) if (kept.slot, kept.offset) > (slot, offset) => return,
                Some(kept) => Some(std::mem::replace(kept, version)),
                None => {
                    shard.insert(key, version);
                    None
                }
            }
        };
        // Outside of the lock: sums do not mind the order.
        sum.add(&LatticeHash::of(&key, &account));
        if let Some(replaced) = replaced {
            sum.subtract(&LatticeHash::of(&key, &replaced.account));
        }
    }

    /// Forgets closed accounts. To be called once no older version can come.
    pub(crate) fn forget_closed(&mut self) {
        for shard in &mut self.shards {
            shard.get_mut().retain(|_, version| version.account.lamports() > 0);
        }
    }

    pub(crate) fn len(&mut self) -> usize {
        self.shards.iter_mut().map(|shard| shard.get_mut().len()).sum()
    }

    pub(crate) fn lamports(&mut self) -> u128 {
        let shards = self.shards.iter_mut();
        shards
            .flat_map(|shard| shard.get_mut().values())
            .map(|version| u128::from(version.account.lamports()))
            .sum()
    }

    /// The accounts, shard by shard, each shard let go once it is passed.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = (Pubkey, AccountSharedData)> {
        self.shards.into_iter().flat_map(|shard| {
            shard.into_inner().into_iter().map(|(key, version)| (key, version.account))
        })
    }

    /// Lets a reader see each account, in no order.
    pub(crate) fn each(&self, mut see: impl FnMut(&Pubkey, &AccountSharedData)) {
        for shard in &self.shards {
            for (key, version) in shard.lock().iter() {
                see(key, &version.account);
            }
        }
    }
}
