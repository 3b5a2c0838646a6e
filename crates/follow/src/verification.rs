//! The proof of a followed chain: the hash of each bank, computed from its writes, beside what its children report.
//!
//! In: whole banks with the old and new states of the accounts that they wrote. Out: their hashes, and the commitments
//! that may be shown.
//! Shape: a source's confirmations and roots wait in one queue until the bank's child has listed the computed hash.
//! Bounds: the feed and [`verify::VerifierConfig`] bound the banks above the root, and each is in the queue twice at
//! most.
//! Invariant: a bank whose hash is not the reported one is not shown as confirmed, unless [`OnMismatch::Report`] says so.
//! Not here: how a hash is computed and judged (`verify`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chain_solana::BankHashComponents;
use ledger::BlockId;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_sdk_ids::sysvar;
use verify::{FrozenBank, RootBank, Verdict, VerdictChange, Verifier, VerifierError};

use crate::status::FollowStatus;

/// How banks are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyMode {
    /// Not at all: a block has no bank hash, and a source's commitments are shown at once.
    Off,
    /// Each bank's hash is compared with the one that its child lists. A commitment is shown once that is done, which is
    /// about a slot later.
    #[default]
    Sequence,
}

/// What follows a bank whose computed hash is not the reported one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMismatch {
    /// The node is unhealthy from then on, and shows nothing newer than the last verified banks.
    #[default]
    Stop,
    /// The node is unhealthy from then on, and follows further.
    Report,
}

/// A commitment that a source reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    Confirmed(BlockId),
    Rooted(BlockId),
}

impl Reached {
    fn bank(self) -> BlockId {
        let (Self::Confirmed(bank) | Self::Rooted(bank)) = self;
        bank
    }
}

/// The hashes of a bank that is whole.
pub(crate) struct BankHashes {
    pub(crate) bank_hash: Hash,
    pub(crate) components: BankHashComponents,
}

/// The verifier of a writer.
pub(crate) struct Verification {
    verifier: Option<Verifier>,
    on_mismatch: OnMismatch,
    /// Commitments in the order in which the source reported them.
    unverified: VecDeque<Reached>,
    status: Arc<FollowStatus>,
}

impl Verification {
    /// Verifies the banks above `root`. Without one nothing is verified.
    pub(crate) fn new(
        verifier: Option<Verifier>,
        on_mismatch: OnMismatch,
        status: Arc<FollowStatus>,
    ) -> Self {
        Self { verifier, on_mismatch, unverified: VecDeque::new(), status }
    }

    /// Whether nothing more is taken from the sources.
    pub(crate) fn is_stopped(&self) -> bool {
        self.on_mismatch == OnMismatch::Stop && self.status.mismatch().is_some()
    }

    /// Computes the hashes of a bank, and compares that of its parent with the one that it lists. All hashes are zero
    /// if banks are not verified.
    pub(crate) fn freeze(
        &mut self,
        bank: &FrozenBank<'_>,
        now: Duration,
    ) -> Result<BankHashes, VerifierError> {
        let Some(verifier) = &mut self.verifier else {
            return Ok(BankHashes { bank_hash: Hash::default(), components: Default::default() });
        };
        let parent_hash = verifier.bank_hash(bank.parent).unwrap_or_default();
        let reported = parent_hash_of(bank);
        let mut changed = if bank.parent == verifier.root_bank().block {
            if reported != parent_hash {
                self.status.report_mismatch(&format!(
                    "slot {}: its hash is {parent_hash} here, and {reported} in its child {}: the snapshot and the \
                     source are of different chains, or the verified bank was replaced",
                    bank.parent.slot, bank.block.slot
                ));
            }
            Vec::new()
        } else {
            verifier.child_reports(bank.parent, reported, now)?
        };
        changed.extend(verifier.freeze(bank, now)?);
        let bank_hash = verifier.bank_hash(bank.block).unwrap_or_default();
        let lt_hash = verifier.lt_hash(bank.block);
        let components = BankHashComponents {
            parent_hash,
            signature_count: bank.signature_count,
            last_blockhash: bank.blockhash,
            lt_checksum: lt_hash
                .map_or_else(Hash::default, |sum| Hash::new_from_array(sum.checksum())),
        };
        changed.iter().for_each(|change| self.report(change));
        Ok(BankHashes { bank_hash, components })
    }

    fn report(&self, change: &VerdictChange) {
        let slot = change.block.slot;
        match &change.verdict {
            Verdict::Pending => {}
            Verdict::Matched(_) => {
                self.status.verified_banks.fetch_add(1, Ordering::Relaxed);
                self.status.verified.fetch_max(slot, Ordering::Relaxed);
            }
            Verdict::Mismatch(mismatch) => {
                self.status.mismatched_banks.fetch_add(1, Ordering::Relaxed);
                if !mismatch.is_first {
                    return;
                }
                let (computed, reported) = (mismatch.computed, mismatch.reported);
                let written: Vec<String> =
                    mismatch.accounts_written.iter().map(ToString::to_string).collect();
                tracing::error!(
                    slot,
                    %computed,
                    %reported,
                    reporter = ?mismatch.reporter,
                    accounts_written = ?written,
                    accounts_written_len = mismatch.accounts_written_len,
                    "the hash of a bank is not the reported one"
                );
                self.status.report_mismatch(&format!(
                    "slot {slot}: its hash is {computed} by what it wrote, and {reported} by what the chain says"
                ));
            }
        }
    }

    /// A commitment that a source reports.
    pub(crate) fn push(&mut self, reached: Reached) {
        self.unverified.push_back(reached);
    }

    /// The next commitment that may be shown.
    pub(crate) fn pop(&mut self) -> Option<Reached> {
        let next = *self.unverified.front()?;
        self.may_show(next.bank()).then(|| self.unverified.pop_front()).flatten()
    }

    fn may_show(&self, bank: BlockId) -> bool {
        let Some(verifier) = &self.verifier else { return true };
        match verifier.verdict(bank) {
            Some(Verdict::Matched(_)) => true,
            Some(Verdict::Pending) => false,
            Some(Verdict::Mismatch(_)) => self.on_mismatch == OnMismatch::Report,
            // The root, or a bank that was dropped meanwhile.
            None => true,
        }
    }

    /// A bank became the root.
    pub(crate) fn root(&mut self, bank: BlockId) -> Result<(), VerifierError> {
        self.verifier.as_mut().map_or(Ok(()), |verifier| verifier.root(bank).map(drop))
    }

    /// A bank and its descendants were dropped.
    pub(crate) fn drop_bank(&mut self, bank: BlockId) {
        self.unverified.retain(|reached| reached.bank() != bank);
        if let Some(verifier) = &mut self.verifier {
            verifier.drop_fork(bank);
        }
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.verifier.as_ref().map_or(0, |verifier| verifier.usage().bytes)
    }
}

/// A verifier of the banks above the block of a snapshot.
pub(crate) fn from_snapshot(block: BlockId, fields: &snapshot_solana::BankFields) -> Verifier {
    let lt_hash = (*fields.lt_hash).clone();
    let root = RootBank { block, bank_hash: fields.bank_hash, lt_hash };
    let mut verifier = Verifier::new(verify::VerifierConfig::default(), root);
    verifier.set_hard_forks(fields.hard_forks.clone());
    verifier
}

/// The hash that a bank lists for its parent. A bank that lists none, or that of another slot, lists a wrong one.
fn parent_hash_of(bank: &FrozenBank<'_>) -> Hash {
    let slot_hashes =
        bank.changes.iter().rev().find(|change| change.pubkey == sysvar::slot_hashes::ID);
    let listed = slot_hashes
        .and_then(|change| change.after.as_ref())
        .and_then(|account| verify::newest_slot_hash(account.0.data()));
    let of_parent = listed.filter(|(slot, _)| *slot == bank.parent.slot);
    of_parent.map(|(_, hash)| hash).unwrap_or_default()
}
