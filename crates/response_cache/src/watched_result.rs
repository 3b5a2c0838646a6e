//! A result that was sent, with its dependencies: checks whether it is still current without computing it again.
//!
//! In: the dependencies of a call, before it is computed. Out: whether a result that was computed since then is still
//! the current one.
//! Invariant: a result that counts as current equals the one that would be computed now. If that is uncertain, because
//! a dependency changed while the result was computed, the result counts as changed.

use std::sync::Arc;

use ledger::{Commitment, Slot};

use crate::dependencies::{ComparedState, Dependencies, ImmutableHash, Precondition};
use crate::ledger_versions::LedgerVersions;

/// The dependencies of a result that was sent.
pub struct WatchedResult {
    commitment: Commitment,
    min_context_slot: Option<Slot>,
    /// The version of the view before it was computed.
    valid_at: u64,
    dependencies: Box<[u64]>,
    precondition: Option<Arc<Precondition>>,
    object: Option<WatchedObject>,
    compared: Option<ComparedState>,
    /// The version of the processed view before it was computed. It grows with every change of the ledger.
    read_at: u64,
}

/// An object that the result is about, by its hash.
struct WatchedObject {
    read_hash: Arc<ImmutableHash>,
    hash: [u8; 32],
}

impl WatchedResult {
    /// Starts to watch the dependencies of a result before it is computed. `None` if its object does not exist.
    pub fn start(ledger: &dyn LedgerVersions, dependencies: &Dependencies) -> Option<Self> {
        let Dependencies {
            commitment,
            min_context_slot,
            precondition,
            immutable_hash,
            compared,
            ..
        } = dependencies;
        let (read_at, _) = ledger.version_and_slot(Commitment::Processed);
        let object = match immutable_hash {
            Some(read_hash) => {
                let hash = read_hash(ledger)?;
                Some(WatchedObject { read_hash: Arc::clone(read_hash), hash })
            }
            None => None,
        };
        let watched = dependencies.watch(ledger.change_tracker());
        let (valid_at, _) = ledger.version_and_slot(*commitment);
        Some(Self {
            commitment: *commitment,
            min_context_slot: *min_context_slot,
            valid_at,
            dependencies: watched,
            precondition: precondition.clone(),
            object,
            compared: compared.clone(),
            read_at,
        })
    }

    /// Ends the watch after the result was computed. `None` if the ledger changed meanwhile, so that the result may be
    /// about another object, or of a state that was compared before it changed and has changed back.
    pub fn finish(self, ledger: &dyn LedgerVersions) -> Option<Self> {
        let (now, _) = ledger.version_and_slot(Commitment::Processed);
        let is_tracked = self.object.is_none() && self.compared.is_none();
        let is_certain = is_tracked || self.read_at == now;
        (is_certain && self.is_current(ledger)).then_some(self)
    }

    /// Returns whether the result is the current one.
    pub fn is_current(&self, ledger: &dyn LedgerVersions) -> bool {
        let (version, slot) = ledger.version_and_slot(self.commitment);
        let changes = ledger.change_tracker();
        let is_unchanged =
            |number: &u64| changes.changed_at(self.commitment, *number) <= self.valid_at;
        self.valid_at <= version
            && self.min_context_slot.is_none_or(|min| slot >= min)
            && self.dependencies.iter().all(is_unchanged)
            && self.precondition.as_ref().is_none_or(|precondition| precondition(ledger))
            && self.object.as_ref().is_none_or(|it| (it.read_hash)(ledger) == Some(it.hash))
            && self.compared.as_ref().is_none_or(|compared| (compared.is_same)(ledger))
    }

    /// Returns the bytes of the result's dependencies, and of the state that it is compared with.
    pub fn bytes(&self) -> u64 {
        let compared = self.compared.as_ref().map_or(0, |compared| compared.bytes);
        compared + (size_of::<Self>() + size_of_val(&*self.dependencies)) as u64
    }
}
