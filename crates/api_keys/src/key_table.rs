//! One version of the table of keys: by hash, by number, by the identity of a QUIC client.
//!
//! Cost: a lookup is a binary search, without an allocation.

use std::sync::Arc;

use foldhash::HashMap;

use crate::ids::KeyNumber;
use crate::key_file::{KeyEntry, KeyFile, KeyRules};
use crate::key_hash::KeyHash;
use crate::tier::Tier;
use crate::usage::KeyState;

/// A key with its tier and its state.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) number: KeyNumber,
    pub(crate) name: Box<str>,
    hash: KeyHash,
    pub(crate) tier: Arc<Tier>,
    pub(crate) rules: Option<Box<KeyRules>>,
    pub(crate) state: Arc<KeyState>,
}

impl Key {
    pub(crate) fn hash(&self) -> KeyHash {
        self.hash
    }
}

/// All keys of one version of the file.
#[derive(Debug, Default)]
pub(crate) struct KeyTable {
    pub(crate) anonymous: Option<Arc<Tier>>,
    /// The keys, sorted by number.
    pub(crate) keys: Vec<Key>,
    /// Prefixes of hashes, sorted, with the index of the key.
    by_prefix: Vec<(u64, u32)>,
    by_identity: HashMap<Box<str>, KeyNumber>,
    /// Whether a tier limits bytes.
    pub(crate) limits_bytes: bool,
}

impl KeyTable {
    /// Creates the table of a file. A key of `before` continues with its number and its state.
    pub(crate) fn new(file: KeyFile, before: &Self, mut next: impl FnMut() -> KeyNumber) -> Self {
        let key = |entry: KeyEntry| {
            let KeyEntry { name, hash, tier, rules } = entry;
            let (number, state) = match before.find_hash(&hash) {
                Some(known) => (known.number, Arc::clone(&known.state)),
                None => (next(), Arc::default()),
            };
            Key { number, name, hash, tier, rules, state }
        };
        let mut keys: Vec<Key> = file.keys.into_iter().map(key).collect();
        keys.sort_unstable_by_key(|key| key.number);
        let mut by_prefix: Vec<(u64, u32)> =
            keys.iter().zip(0..).map(|(key, at)| (key.hash.prefix(), at)).collect();
        by_prefix.sort_unstable();
        let identities = keys.iter().flat_map(|key| {
            let rules = key.rules.iter().flat_map(|rules| &*rules.identities);
            rules.map(move |identity| (identity.clone(), key.number))
        });
        let by_identity = identities.collect();
        let mut tiers = keys.iter().map(|key| &key.tier).chain(&file.anonymous);
        let limits_bytes = tiers.any(|tier| tier.bytes_per_s.is_some());
        Self { anonymous: file.anonymous, keys, by_prefix, by_identity, limits_bytes }
    }

    /// Returns the key with a hash.
    pub(crate) fn find_hash(&self, hash: &KeyHash) -> Option<&Key> {
        let at = self.by_prefix.binary_search_by_key(&hash.prefix(), |(prefix, _)| *prefix).ok()?;
        self.keys.get(self.by_prefix[at].1 as usize).filter(|key| key.hash == *hash)
    }

    /// Returns the key with a number.
    pub(crate) fn find(&self, number: KeyNumber) -> Option<&Key> {
        let at = self.keys.binary_search_by_key(&number, |key| key.number).ok()?;
        self.keys.get(at)
    }

    /// Returns the key that the identity of a QUIC client counts as.
    pub(crate) fn find_identity(&self, identity: &str) -> Option<KeyNumber> {
        self.by_identity.get(identity).copied()
    }

    /// Returns the heap bytes of the table and of the keys' states.
    pub(crate) fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(|key| {
            // A shared pointer has two counters.
            let state = size_of::<KeyState>() + 2 * size_of::<usize>();
            let rules = key.rules.as_ref().map_or(0, |rules| rules.heap_bytes());
            key.name.len() + rules + state + key.state.allowance.heap_bytes()
        });
        let identities = self.by_identity.capacity() * (size_of::<(Box<str>, KeyNumber)>() + 1)
            + self.by_identity.keys().map(|identity| identity.len()).sum::<usize>();
        let mut tiers: Vec<&Arc<Tier>> = self.keys.iter().map(|key| &key.tier).collect();
        tiers.sort_unstable_by_key(|tier| Arc::as_ptr(tier));
        tiers.dedup_by_key(|tier| Arc::as_ptr(tier));
        let tiers = tiers.iter().map(|tier| size_of::<Tier>() + tier.heap_bytes());
        keys.sum::<usize>()
            + self.keys.capacity() * size_of::<Key>()
            + self.by_prefix.capacity() * size_of::<(u64, u32)>()
            + identities
            + tiers.sum::<usize>()
    }
}
