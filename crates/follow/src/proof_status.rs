//! The verification of the followed chain, for servers: written by the one writer, read by every thread.
//!
//! Shape: a table of the newest banks' proofs, found by the version in the bank's id, and a few values.
//! Bounds: [`BANKS_MAX`] banks of 40 bytes; of a mismatch [`MISMATCH_ACCOUNTS_MAX`] accounts.
//! Invariant: a reader waits for nothing. A proof that is being replaced reads as unknown.
//! Not here: how a bank is judged (`verification`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use chain_solana::{
    AgreementSource, BankContent, BankProof, MISMATCH_ACCOUNTS_MAX, ResultOrigin,
    VerificationSummary,
};
use ledger::{BlockId, Slot};
use solana::{BankMismatch, TransactionProof, VerificationLevel, VotedStake};
use solana_hash::Hash;

use crate::checked_bank::{CheckMetrics, CheckTimes};
use crate::execution_status::{ExecutionConfig, ExecutionStatus};

/// Number of banks with a stored proof: almost two hours of 400 ms slots.
const BANKS_MAX: usize = 16_384;

/// The proof of one bank. `version` is that of the bank, or 0 while it is written.
#[derive(Debug, Default)]
struct Cell {
    version: AtomicU64,
    slot: AtomicU64,
    voted: AtomicU64,
    total: AtomicU64,
    level: AtomicU8,
    transactions: AtomicU8,
    results: AtomicU8,
}

impl Cell {
    fn store_content(&self, content: BankContent) {
        self.transactions.store(content.transactions as u8, Ordering::Relaxed);
        self.results.store(content.results as u8, Ordering::Relaxed);
    }

    fn content(&self) -> BankContent {
        let transactions = self.transactions.load(Ordering::Relaxed);
        let known = TransactionProof::ALL.into_iter().find(|known| *known as u8 == transactions);
        let results = self.results.load(Ordering::Relaxed);
        let results = ResultOrigin::ALL.into_iter().find(|known| *known as u8 == results);
        BankContent {
            transactions: known.unwrap_or_default(),
            results: results.unwrap_or_default(),
        }
    }
}

/// The newest hash that one independent source lists.
#[derive(Debug)]
pub(crate) struct SourceStatus {
    /// Scheme, host and port.
    server: String,
    is_connected: AtomicBool,
    /// The newest slot of the last listing, or 0.
    newest: AtomicU64,
    disagreements: AtomicU64,
    first: ArcSwapOption<(Slot, Hash)>,
}

impl SourceStatus {
    fn new(server: String) -> Self {
        Self {
            server,
            is_connected: AtomicBool::new(false),
            newest: AtomicU64::new(0),
            disagreements: AtomicU64::new(0),
            first: ArcSwapOption::empty(),
        }
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.is_connected.store(is_connected, Ordering::Relaxed);
    }

    /// Records the newest slot that the source lists now. An earlier listing may have been false.
    pub(crate) fn list(&self, slot: Slot) {
        self.newest.store(slot, Ordering::Relaxed);
    }

    /// The source lists a hash that no bank of the slot has here.
    pub(crate) fn disagree(&self, slot: Slot, reported: Hash) {
        let server = &self.server;
        tracing::error!(server, slot, %reported, "a source lists the hash of another bank");
        if self.disagreements.fetch_add(1, Ordering::Relaxed) == 0 {
            self.first.store(Some(Arc::new((slot, reported))));
        }
    }

    fn summary(&self) -> AgreementSource {
        let newest = Some(self.newest.load(Ordering::Relaxed));
        AgreementSource {
            url: self.server.clone(),
            is_connected: self.is_connected.load(Ordering::Relaxed),
            newest_slot: newest.filter(|slot| *slot > 0),
            disagreements: self.disagreements.load(Ordering::Relaxed),
            first_disagreement: self.first.load().as_deref().copied(),
        }
    }
}

/// The verification of the followed chain.
#[derive(Debug)]
pub struct ProofStatus {
    required: Option<VerificationLevel>,
    cells: Box<[Cell]>,
    /// The newest verified slot, or 0.
    verified: AtomicU64,
    pub(crate) verified_banks: AtomicU64,
    pub(crate) mismatched_banks: AtomicU64,
    pub(crate) repairs: AtomicU64,
    /// Nanoseconds in which accounts were hashed.
    pub(crate) hash_nanos: AtomicU64,
    pub(crate) verifier_bytes: AtomicU64,
    /// The checks of transactions.
    pub(crate) checks: Arc<CheckMetrics>,
    /// The execution of transactions; `None` if they are not executed.
    pub(crate) execution: Option<Arc<ExecutionStatus>>,
    first_mismatch: ArcSwapOption<BankMismatch>,
    /// The one that is not resolved, after the slot of the bank that has to be verified.
    mismatch: ArcSwapOption<(Slot, Arc<BankMismatch>)>,
    limitation: ArcSwapOption<String>,
    /// Why an archive, or the chain of a source, was refused. It ends with the next bank that is confirmed.
    refusal: ArcSwapOption<String>,
    /// A trusted bank that is too old to be compared.
    untrusted: ArcSwapOption<String>,
    trust_root: ArcSwapOption<String>,
    sources: Box<[SourceStatus]>,
}

impl ProofStatus {
    /// The time in which accounts were hashed so far.
    pub fn hash_time(&self) -> Duration {
        Duration::from_nanos(self.hash_nanos.load(Ordering::Relaxed))
    }

    /// The time of the threads that checked transactions so far.
    pub fn check_times(&self) -> CheckTimes {
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed));
        let CheckMetrics { signature_nanos, entry_nanos, balance_nanos, .. } = &*self.checks;
        CheckTimes {
            signatures: time(signature_nanos),
            entries: time(entry_nanos),
            balances: time(balance_nanos),
        }
    }

    /// Nothing is proven yet. A bank needs `required` to be shown as confirmed. `sources` are the servers of
    /// independent sources.
    pub(crate) fn new(required: Option<VerificationLevel>, sources: Vec<String>) -> Self {
        let cells = if required.is_some() { BANKS_MAX } else { 0 };
        Self {
            required,
            cells: std::iter::repeat_with(Cell::default).take(cells).collect(),
            verified: AtomicU64::new(0),
            verified_banks: AtomicU64::new(0),
            mismatched_banks: AtomicU64::new(0),
            repairs: AtomicU64::new(0),
            hash_nanos: AtomicU64::new(0),
            verifier_bytes: AtomicU64::new(0),
            checks: Arc::default(),
            execution: None,
            first_mismatch: ArcSwapOption::empty(),
            mismatch: ArcSwapOption::empty(),
            limitation: ArcSwapOption::empty(),
            refusal: ArcSwapOption::empty(),
            untrusted: ArcSwapOption::empty(),
            trust_root: ArcSwapOption::empty(),
            sources: sources.into_iter().map(SourceStatus::new).collect(),
        }
    }

    /// Adds the execution of transactions.
    pub(crate) fn with_execution(self, config: Option<ExecutionConfig>) -> Self {
        let status = |config: ExecutionConfig| ExecutionStatus::new(config.transactions_per_s);
        Self { execution: config.map(status).map(Arc::new), ..self }
    }

    /// Whether banks are verified.
    pub(crate) fn has_required_level(&self) -> bool {
        self.required.is_some()
    }

    /// The independent sources, by number.
    pub(crate) fn sources(&self) -> &[SourceStatus] {
        &self.sources
    }

    /// The level that a bank needs to be shown as confirmed; `None` if banks are not verified.
    pub fn required_level(&self) -> Option<VerificationLevel> {
        self.required
    }

    /// Returns the bank with a wrong hash. It stops the verification of newer banks.
    pub fn mismatch(&self) -> Option<Arc<BankMismatch>> {
        self.mismatch.load().as_ref().map(|unresolved| Arc::clone(&unresolved.1))
    }

    pub(crate) fn has_mismatch(&self) -> bool {
        self.mismatch.load().is_some()
    }

    /// A bank was verified, and so were its ancestors. True if that ends a mismatch: of a bank of this slot or below.
    pub(crate) fn resolve_mismatch(&self, verified: Slot) -> bool {
        let is_ended = self.mismatch.load().as_ref().is_some_and(|it| it.0 <= verified);
        if is_ended {
            self.mismatch.store(None);
        }
        is_ended
    }

    /// Why no newer bank can be verified, in words.
    pub fn limitation(&self) -> Option<Arc<String>> {
        let reasons = [&self.limitation, &self.refusal, &self.untrusted];
        reasons.into_iter().find_map(ArcSwapOption::load_full)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val::<[Cell]>(&self.cells)
    }

    /// Records the proof of a bank. Only the writer calls it.
    pub(crate) fn record(&self, bank: BlockId, proof: BankProof) {
        let Some(cell) = self.cell(bank) else { return };
        let votes = proof.votes.unwrap_or_default();
        let is_known = cell.version.load(Ordering::Relaxed) == bank.version;
        cell.version.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        cell.slot.store(votes.slot, Ordering::Relaxed);
        cell.voted.store(votes.voted, Ordering::Relaxed);
        cell.total.store(votes.total, Ordering::Relaxed);
        cell.level.store(proof.level as u8, Ordering::Relaxed);
        if !is_known {
            cell.store_content(BankContent::default());
        }
        cell.version.store(bank.version, Ordering::Release);
    }

    /// Records what is known of the content of a bank with a recorded proof. Only the writer calls it.
    pub(crate) fn record_content(&self, bank: BlockId, content: BankContent) {
        let Some(cell) = self.cell(bank) else { return };
        if cell.version.load(Ordering::Relaxed) == bank.version {
            cell.store_content(content);
        }
    }

    /// The chain is shown as confirmed up to this bank.
    pub(crate) fn confirm(&self, bank: BlockId) {
        let level = self.read_proof(bank).map(|proof| proof.level);
        if self.required.is_some() && level >= self.required {
            self.verified.fetch_max(bank.slot, Ordering::Relaxed);
        }
    }

    /// Records a bank with a wrong hash, unless there is one already. `bank` is the slot of the bank
    /// that is not verified: that of the hash, or of its child.
    pub(crate) fn record_mismatch(&self, bank: Slot, mismatch: &BankMismatch) {
        if self.has_mismatch() {
            return;
        }
        let accounts = &mismatch.accounts_written;
        let listed = accounts[..accounts.len().min(MISMATCH_ACCOUNTS_MAX)].into();
        let mismatch = Arc::new(BankMismatch { accounts_written: listed, ..mismatch.clone() });
        if self.first_mismatch.load().is_none() {
            self.first_mismatch.store(Some(Arc::clone(&mismatch)));
        }
        self.mismatch.store(Some(Arc::new((bank, mismatch))));
    }

    /// Says why no newer bank can be verified, or that nothing is in the way.
    pub(crate) fn set_limitation(&self, text: Option<String>) {
        self.limitation.store(text.map(Arc::new));
    }

    /// Whether the state may be shown as confirmed and final: with a level above that of the source's own chain, only
    /// once a bank has it.
    pub fn is_state_proven(&self) -> bool {
        let is_own_word = self.required <= Some(VerificationLevel::Sequence);
        is_own_word || self.verified.load(Ordering::Relaxed) > 0
    }

    /// Sets the start of the proof: a state, and the newest trusted bank up to it that it leads to.
    pub(crate) fn set_trust_root(&self, start: Slot, trusted: Option<Slot>) {
        let text = match trusted {
            Some(slot) => format!(
                "the state of slot {start} and the banks after it lead to the trusted bank of slot {slot} (--trust); the \
                 stakes of the first two epochs are the snapshot's word"
            ),
            None => format!(
                "the state of slot {start}, and the stakes of the first two epochs, are the snapshot's word (--trust)"
            ),
        };
        self.trust_root.store(self.required.map(|_| Arc::new(text)));
    }

    /// Says which trusted bank cannot be compared, for as long as the node runs.
    pub(crate) fn set_untrusted(&self, text: String) {
        self.untrusted.store(Some(Arc::new(text)));
    }

    /// Says why an archive, or the chain of a source, was refused.
    pub(crate) fn set_refusal(&self, text: Option<String>) {
        if text.is_some() || self.refusal.load().is_some() {
            self.refusal.store(text.map(Arc::new));
        }
    }

    fn cell(&self, bank: BlockId) -> Option<&Cell> {
        let index = bank.version.checked_rem(self.cells.len() as u64)?;
        self.cells.get(index as usize)
    }

    fn read_proof(&self, bank: BlockId) -> Option<BankProof> {
        let cell = self.cell(bank)?;
        if cell.version.load(Ordering::Acquire) != bank.version {
            return None;
        }
        let votes = VotedStake {
            slot: cell.slot.load(Ordering::Relaxed),
            voted: cell.voted.load(Ordering::Relaxed),
            total: cell.total.load(Ordering::Relaxed),
        };
        let level = cell.level.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if cell.version.load(Ordering::Relaxed) != bank.version {
            return None;
        }
        let level = VerificationLevel::ALL.into_iter().find(|known| *known as u8 == level)?;
        let votes = (level == VerificationLevel::Voted).then_some(votes);
        Some(BankProof { level, votes })
    }
}

impl Default for ProofStatus {
    fn default() -> Self {
        Self::new(None, Vec::new())
    }
}

impl chain_solana::Verification for ProofStatus {
    fn summary(&self) -> VerificationSummary {
        let mismatch = self.first_mismatch.load_full();
        VerificationSummary {
            required: self.required,
            verified_slot: self.verified_slot(),
            mismatched_banks: self.mismatched_banks.load(Ordering::Relaxed),
            repairs: self.repairs.load(Ordering::Relaxed),
            first_mismatch: mismatch.map(|mismatch| (*mismatch).clone()),
            sources: self.sources.iter().map(SourceStatus::summary).collect(),
            limitation: self.limitation().map(|text| (*text).clone()),
            trust_root: self.trust_root.load().as_deref().cloned(),
            execution: self.execution.as_ref().map(|execution| execution.summary()),
        }
    }

    fn verified_slot(&self) -> Option<Slot> {
        Some(self.verified.load(Ordering::Relaxed)).filter(|slot| *slot > 0)
    }

    fn required_level(&self) -> Option<VerificationLevel> {
        self.required
    }

    fn proof(&self, bank: BlockId) -> Option<BankProof> {
        self.read_proof(bank)
    }

    fn content(&self, bank: BlockId) -> BankContent {
        let cell = self.cell(bank);
        let cell = cell.filter(|cell| cell.version.load(Ordering::Acquire) == bank.version);
        let content = cell.map(|cell| (cell.content(), cell));
        fence(Ordering::Acquire);
        let is_same = |cell: &Cell| cell.version.load(Ordering::Relaxed) == bank.version;
        content.filter(|(_, cell)| is_same(cell)).map(|(content, _)| content).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use chain_solana::Verification;

    use super::*;

    const BANK: BlockId = BlockId { slot: 7, version: 3 };

    #[test]
    fn only_a_bank_with_the_required_level_is_a_verified_slot() {
        let status = ProofStatus::new(Some(VerificationLevel::Agreed), Vec::new());
        let proof = |level| BankProof { level, votes: None };
        assert_eq!((status.proof(BANK), status.verified_slot()), (None, None));
        status.record(BANK, proof(VerificationLevel::Sequence));
        status.confirm(BANK);
        assert_eq!(status.verified_slot(), None);
        status.record(BANK, proof(VerificationLevel::Agreed));
        status.confirm(BANK);
        assert_eq!(status.verified_slot(), Some(7));
        assert_eq!(status.proof(BANK), Some(proof(VerificationLevel::Agreed)));
        assert_eq!(status.proof(BlockId { version: 4, ..BANK }), None);
        assert_eq!(status.proof(BlockId { version: 3 + BANKS_MAX as u64, ..BANK }), None);
    }

    #[test]
    fn without_verification_nothing_is_claimed() {
        let status = ProofStatus::new(None, Vec::new());
        status.record(BANK, BankProof { level: VerificationLevel::Voted, votes: None });
        status.confirm(BANK);
        assert_eq!((status.proof(BANK), status.verified_slot()), (None, None));
        assert_eq!(status.summary().required, None);
    }
}
