//! The name of an answer that is made without any byte of it: for answers that are too long to be hashed
//! before they go.
//!
//! In: a request as the cache knows it, its coding included, and what it reads. Out: a [`Validator`] of these
//! and of the publishes by which each thing read last changed. Publishes begin anew with the process, so
//! what is unlike any other start of it is mixed in, unless what is told has a hash of its own (a block).
//! Invariant: answers of equal stamps are byte for byte the same. A stamp is given when everything read
//! has changed by a publish that is visible ([`ValidatorBuilder::build`]), so what it stands for is one state of that;
//! and an answer gets the one from before it took its view only if it is still the same after.

use std::hash::{BuildHasher, Hasher, RandomState};

use ledger::{Commitment, Slot};

use crate::dependencies::{CacheableCall, Dependencies};
use crate::node::Node;

/// Half of a hash.
pub(crate) type Validator = [u8; 16];

/// What tells this start of the process from all others.
pub(crate) struct ProcessKey([u8; 32]);

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

/// Stamps the answers to one request.
pub(crate) struct ValidatorBuilder {
    key: Box<[u8]>,
    commitment: Commitment,
    dependencies: Box<[u64]>,
    immutable_id: Option<ImmutableId>,
}

/// What an answer tells of, by its own hash: now, whatever it was when the request came.
#[derive(Clone, Copy)]
pub(crate) struct ImmutableId {
    pub(crate) slot: Slot,
    pub(crate) hash: fn(&Node, Slot, Commitment) -> Option<[u8; 32]>,
}

impl ValidatorBuilder {
    /// Begins to watch what is read.
    pub(crate) fn new(node: &Node, asked: &CacheableCall) -> Self {
        let Dependencies { commitment, immutable_id, .. } = asked.dependencies;
        let dependencies = asked.dependencies.watch(node.reader.change_tracker());
        Self { key: asked.key.clone(), commitment, dependencies, immutable_id }
    }

    /// The stamp of an answer that is made of what is visible now, and the slot of that; none while
    /// something that it reads is being changed.
    pub(crate) fn build(&self, node: &Node) -> Option<(Validator, Slot)> {
        // The view before anything is asked: what changes after it is told as later.
        let view = node.reader.view(self.commitment);
        let mut hasher = match &self.immutable_id {
            Some(name) => {
                let mut hasher = blake3::Hasher::new();
                hasher.update(&(name.hash)(node, name.slot, self.commitment)?);
                hasher
            }
            None => blake3::Hasher::new_keyed(&node.response_cache.process_key.0),
        };
        let changes = node.reader.change_tracker();
        for number in &self.dependencies {
            let changed_at = changes.changed_at(self.commitment, *number);
            if changed_at > view.version() {
                return None;
            }
            hasher.update(&number.to_le_bytes()).update(&changed_at.to_le_bytes());
        }
        hasher.update(&(self.dependencies.len() as u64).to_le_bytes()).update(&self.key);
        Some((crate::value_response::short_hash(&hasher), view.block().slot))
    }
}
