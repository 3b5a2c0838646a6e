//! Strong validators that are computed without the response: for responses that are too long to be hashed
//! before they are sent.
//!
//! In: a request by its cache key, which includes the encoding, and its dependencies. Out: a [`Validator`] of
//! these and of the publish version at which each dependency last changed. Versions start again with each
//! process, so a random key of the process is mixed in, unless the result has an immutable object with its own
//! hash (a block). So a validator of another node never matches, except that of the same object and software version.
//! Invariant: responses with equal validators are byte for byte the same. A validator is built only if every
//! dependency last changed in a publish that is visible ([`ValidatorBuilder::build`]), so it identifies one
//! state of the dependencies. A response gets the validator from before its view was taken, and only if it is
//! the same afterwards.

use std::hash::{BuildHasher, Hasher, RandomState};

use std::sync::Arc;

use ledger::{Commitment, Slot};

use crate::dependencies::{CacheableCall, Dependencies, ImmutableHash};
use crate::ledger_versions::LedgerVersions;

/// A validator: the first half of a hash.
pub type Validator = [u8; 16];

/// Random key that differs between processes.
pub struct ProcessKey([u8; 32]);

impl ProcessKey {
    pub(crate) fn new() -> Self {
        let mut key = [0; 32];
        for (at, part) in key.chunks_mut(8).enumerate() {
            let mut hasher = RandomState::new().build_hasher(); // its keys are the system's randomness
            hasher.write_usize(at);
            part.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        Self(key)
    }
}

/// Builds validators for the responses to one request.
pub struct ValidatorBuilder {
    key: Box<[u8]>,
    commitment: Commitment,
    dependencies: Box<[u64]>,
    immutable_hash: Option<Arc<ImmutableHash>>,
}

impl ValidatorBuilder {
    /// Starts to watch the dependencies.
    pub fn new(ledger: &dyn LedgerVersions, call: &CacheableCall) -> Self {
        let Dependencies { commitment, immutable_hash, .. } = &call.dependencies;
        let dependencies = call.dependencies.watch(ledger.change_tracker());
        let commitment = *commitment;
        let immutable_hash = immutable_hash.clone();
        Self { key: call.key.clone(), commitment, dependencies, immutable_hash }
    }

    /// Returns the validator of a response that is computed from the current view, and the slot of that view; `None`
    /// while a dependency is being changed.
    pub fn build(
        &self,
        process_key: &ProcessKey,
        ledger: &dyn LedgerVersions,
    ) -> Option<(Validator, Slot)> {
        // The view is read first: a change after it has a later version.
        let (version, slot) = ledger.version_and_slot(self.commitment);
        let mut hasher = match &self.immutable_hash {
            Some(hash) => {
                let mut hasher = blake3::Hasher::new();
                // Another node may have made the client's response, in the form of another version.
                hasher.update(env!("CARGO_PKG_VERSION").as_bytes());
                hasher.update(&hash(ledger)?);
                hasher
            }
            None => blake3::Hasher::new_keyed(&process_key.0),
        };
        let changes = ledger.change_tracker();
        for number in &self.dependencies {
            let changed_at = changes.changed_at(self.commitment, *number);
            if changed_at > version {
                return None;
            }
            hasher.update(&number.to_le_bytes()).update(&changed_at.to_le_bytes());
        }
        hasher.update(&(self.dependencies.len() as u64).to_le_bytes()).update(&self.key);
        Some((short_hash(&hasher), slot))
    }
}

/// Returns the first half of a hash: 128 bits, at which no two values collide by chance.
pub fn short_hash(hasher: &blake3::Hasher) -> Validator {
    let mut half = [0; 16];
    hasher.finalize_xof().fill(&mut half);
    half
}
