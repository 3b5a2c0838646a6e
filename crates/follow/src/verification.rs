//! The proof of a followed chain: the hash of each bank, computed from its writes, compared with reported hashes.
//!
//! In: whole banks with the old and new states of the accounts that they wrote. Out: their hashes, and [`Decision`]s
//! for the feed: banks that may be shown as confirmed, and banks that are requested again because their hash is wrong.
//! Bounds: the feed and [`verify::VerifierConfig`] bound the banks above the root. Each is requested again once, and
//! with [`OnMismatch::Report`] at each new stream.
//! Invariant: a bank is approved only if its hash has the required level, and so has that of each ancestor.
//! Not here: how a hash is computed and judged (`verify`), what servers read of it (`proof_status`).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chain_solana::{BankHashComponents, BankProof};
use feed::Decision;
use lattice::{HardFork, LtHash};
use ledger::{BlockId, Slot};
use snapshot_solana::stored_rows::LatticeRow;
use solana::{BankMismatch, HashReporter, VerificationLevel};
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_sdk_ids::sysvar;
use verify::{
    ArchivedBank, RootBank, SignedVote, SourceId, StakedVoters, SummedBank, Verdict, VerdictChange,
    Verifier, VerifierConfig, VerifierError, WRITTEN_LISTED_MAX,
};

use crate::jump::JumpRefusal;
use crate::prepared_bank::PreparedBank;
use crate::proof_status::ProofStatus;
use crate::stream::Reports;
use crate::transaction_checks::TransactionChecks;
use crate::trust::{TrustError, TrustedBank, TrustedBanks};
use crate::unchecked_banks::UncheckedBanks;

#[cfg(test)]
mod tests;
mod transactions;

/// The method of verifying banks, which decides the commitment of a bank. The docs of the variants are the help of
/// `--verify`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "flags",
    derive(clap::ValueEnum, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum VerifyMode {
    /// Trust the source: show its commitments at once.
    // Blocks have no bank hash.
    Off,
    /// Compute the hash of each bank and compare it with the one that its child lists.
    // A commitment is shown about a slot later.
    #[default]
    Sequence,
    /// Require independent sources to list the hash, too (--verify-source).
    Agree,
    /// Require validators with more than two thirds of the stake to sign the hash, or a descendant's.
    // Only on a chain with votes in its blocks.
    Votes,
    /// As sequence, and run the transactions again to compare their results (--verify-execution).
    Execution,
}

impl VerifyMode {
    /// The level that a bank needs to be shown as confirmed.
    pub(crate) fn required_level(self) -> Option<VerificationLevel> {
        match self {
            Self::Off => None,
            Self::Sequence | Self::Execution => Some(VerificationLevel::Sequence),
            Self::Agree => Some(VerificationLevel::Agreed),
            Self::Votes => Some(VerificationLevel::Voted),
        }
    }
}

/// The reaction to a bank with a wrong hash after it was requested again. The docs of the variants are the help
/// of `--on-mismatch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "flags",
    derive(clap::ValueEnum, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum OnMismatch {
    /// Become unhealthy, and take no newer bank.
    #[default]
    Stop,
    /// Become unhealthy until the bank is right, and show newer banks as processed only.
    // Each new stream sends the bank again. A right bank of the same slot or above it also ends the mismatch.
    Report,
}

/// Why no newer bank can have the required level.
#[derive(Debug, thiserror::Error)]
enum Limitation {
    #[error("the stakes of the epoch of slot {0} are unknown")]
    Stakes(Slot),
    #[error("too many banks wait for their verification")]
    Full,
    #[error("the chain is not the trusted one: {0}")]
    Trust(TrustError),
}

/// The hashes of a bank that is whole.
pub(crate) struct BankHashes {
    pub(crate) bank_hash: Hash,
    pub(crate) components: BankHashComponents,
}

pub(crate) struct Verification {
    verifier: Option<Verifier>,
    on_mismatch: OnMismatch,
    decisions: VecDeque<Decision>,
    /// Slots above the root with a bank that was requested again.
    repaired: BTreeSet<Slot>,
    /// Banks above the root with a hash that was wrong again, and their descendants; only with [`OnMismatch::Report`].
    unverified: BTreeSet<BlockId>,
    /// Slots above the root for which a source lists another hash.
    disagreed: BTreeSet<(Slot, SourceId)>,
    limitation: Option<Limitation>,
    /// The block of an archive that is not proven.
    jumped: Option<JumpedBank>,
    /// The block of the last archive.
    archive: Option<BlockId>,
    /// The trusted banks above the root.
    trusted: TrustedBanks,
    /// Checks the transactions of banks; `None` if nothing is verified.
    checks: Option<TransactionChecks>,
    unchecked: UncheckedBanks,
    proof: Arc<ProofStatus>,
}

/// The bank of an archive above the root, which is neither proven nor dropped.
struct JumpedBank {
    id: BlockId,
    /// The hard forks from before the jump.
    hard_forks: Vec<HardFork>,
    /// The first contradiction.
    refusal: Option<JumpRefusal>,
}

impl Verification {
    /// Verifies the banks above `root`, and their transactions with `checks`. Without one nothing is verified.
    pub(crate) fn new(
        verifier: Option<Verifier>,
        checks: Option<TransactionChecks>,
        on_mismatch: OnMismatch,
        trusted: TrustedBanks,
        proof: Arc<ProofStatus>,
    ) -> Self {
        Self {
            verifier,
            on_mismatch,
            decisions: VecDeque::new(),
            repaired: BTreeSet::new(),
            unverified: BTreeSet::new(),
            disagreed: BTreeSet::new(),
            limitation: None,
            jumped: None,
            archive: None,
            trusted,
            checks,
            unchecked: UncheckedBanks::default(),
            proof,
        }
    }

    /// The ledger has jumped to the block of an archive, on the confirmed bank. It is verified as the banks above it are,
    /// except that any contradiction is the archive's fault.
    pub(crate) fn jump(
        &mut self,
        block: BlockId,
        parent: BlockId,
        fields: &snapshot_solana::BankFields,
        now: Duration,
    ) -> Result<(), VerifierError> {
        let Some(verifier) = &mut self.verifier else { return Ok(()) };
        let lt_hash = (*fields.lt_hash).clone();
        let bank = RootBank { block, bank_hash: fields.bank_hash, lt_hash };
        let before = verifier.hard_forks().to_vec();
        let hard_forks = fields.hard_forks.clone();
        let changed = verifier.jump(ArchivedBank { bank, parent, hard_forks }, now)?;
        self.archive = Some(block);
        self.jumped = Some(JumpedBank { id: block, hard_forks: before, refusal: None });
        self.end_limitation();
        self.proof.record(block, BankProof { level: VerificationLevel::Computed, votes: None });
        self.handle_changes(&changed);
        Ok(())
    }

    /// The block of an archive was dropped. Returns the contradiction, if there was one.
    pub(crate) fn end_jump(&mut self) -> Option<JumpRefusal> {
        let JumpedBank { hard_forks, refusal, .. } = self.jumped.take()?;
        if let Some(verifier) = &mut self.verifier {
            verifier.set_hard_forks(hard_forks);
        }
        self.end_limitation();
        refusal
    }

    /// Whether a bank is the unproven block of an archive, or descends from it.
    fn is_above_jump(&self, bank: BlockId) -> bool {
        let jumped = self.jumped.as_ref().map(|jumped| jumped.id);
        let Some(verifier) = self.verifier.as_ref().filter(|_| jumped.is_some()) else {
            return false;
        };
        std::iter::successors(Some(bank), |at| verifier.parent(*at)).any(|at| Some(at) == jumped)
    }

    /// Whether a bank is the block of a refused archive, or descends from it: it is being dropped.
    fn is_above_refused_jump(&self, bank: BlockId) -> bool {
        let is_refused = self.jumped.as_ref().is_some_and(|jumped| jumped.refusal.is_some());
        is_refused && self.is_above_jump(bank)
    }

    /// The lattice hash over all accounts after a bank; `None` if banks are not verified.
    pub(crate) fn lt_hash(&self, bank: BlockId) -> Option<LtHash> {
        self.verifier.as_ref()?.lt_hash(bank).cloned()
    }

    /// Whether banks are verified. If not, the sources' commitments are shown as they are.
    pub(crate) fn is_on(&self) -> bool {
        self.verifier.is_some()
    }

    /// Whether nothing more is taken from the sources.
    pub(crate) fn is_stopped(&self) -> bool {
        self.on_mismatch == OnMismatch::Stop && self.proof.has_mismatch()
    }

    /// Computes the hashes of a bank, and compares that of its parent with the one that it lists. All hashes are zero
    /// if banks are not verified.
    pub(crate) fn freeze(
        &mut self,
        bank: &SummedBank<'_>,
        prepared: &PreparedBank,
        now: Duration,
    ) -> Result<BankHashes, VerifierError> {
        let Some(verifier) = &mut self.verifier else {
            return Ok(BankHashes { bank_hash: Hash::default(), components: Default::default() });
        };
        if self.checks.is_some() {
            self.unchecked.insert(bank.block);
        }
        let parent_hash = verifier.bank_hash(bank.parent).unwrap_or_default();
        let sysvars = BankSysvars::from_bank(prepared);
        let reported = sysvars.parent_hash;
        // The root, or a bank that was found right: if the child lists another hash, the child is wrong.
        let required = self.proof.required_level();
        let is_right = match verifier.verdict(bank.parent) {
            None => true,
            Some(Verdict::Matched(level)) => Some(*level) >= required,
            Some(Verdict::Pending | Verdict::Mismatch { .. }) => false,
        };
        let mut changed = match is_right {
            true => Vec::new(),
            false => verifier.child_reports(bank.parent, reported, now)?,
        };
        if let Some(slot) = sysvars.restart {
            verifier.add_hard_fork(slot);
        }
        changed.extend(verifier.freeze_summed(bank, now)?);
        let bank_hash = verifier.bank_hash(bank.block).unwrap_or_default();
        let lt_hash = verifier.lt_hash(bank.block);
        let components = BankHashComponents {
            parent_hash,
            signature_count: bank.signature_count,
            last_blockhash: bank.blockhash,
            lt_checksum: lt_hash
                .map_or_else(Hash::default, |sum| Hash::new_from_array(sum.checksum())),
        };
        let computed = BankProof { level: VerificationLevel::Computed, votes: None };
        self.proof.record(bank.block, computed);
        if required == Some(VerificationLevel::Voted) && !verifier.has_stakes(bank.block.slot) {
            self.limit(Limitation::Stakes(bank.block.slot));
        }
        if is_right && reported != parent_hash {
            self.handle_wrong_child(prepared, parent_hash, reported);
        }
        self.handle_changes(&changed);
        Ok(BankHashes { bank_hash, components })
    }

    /// A new stream will send all banks above the root: those that are not right are dropped before.
    pub(crate) fn retry_unverified(&mut self) {
        let wrong = self.unverified.iter().chain(self.unchecked.faulty());
        self.decisions.extend(wrong.copied().map(Decision::Retract));
    }

    /// A child that is still open lists this hash of `bank`. If it is the computed one, the bank has its verdict a slot
    /// before the child is whole. Any other hash is judged once the child is whole, because an open bank may be
    /// damaged.
    pub(crate) fn preview_child(&mut self, bank: BlockId, reported: Hash, now: Duration) {
        let Some(verifier) = &mut self.verifier else { return };
        let is_computed = verifier.bank_hash(bank) == Some(reported);
        if !is_computed || !matches!(verifier.verdict(bank), Some(Verdict::Pending)) {
            return;
        }
        // The bank is known: it has a hash and a verdict.
        let changed = verifier.child_reports(bank, reported, now).unwrap_or_default();
        self.handle_changes(&changed);
    }

    /// Removes and returns the next decision for the feed.
    pub(crate) fn pop_decision(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    /// Whether no more banks above the root may be frozen. The proof then says why.
    pub(crate) fn is_full(&mut self) -> bool {
        let is_full = self.verifier.as_ref().is_some_and(Verifier::is_full);
        if is_full {
            self.limit(Limitation::Full);
        }
        is_full
    }

    /// Sets the stakes of an epoch, for votes on its slots.
    pub(crate) fn set_epoch_stakes(&mut self, stakes: &StakedVoters) {
        if let Some(verifier) = &mut self.verifier {
            verifier.set_epoch_stakes(stakes.clone());
        }
        let is_found = |slot: &Slot| stakes.slots().contains(slot);
        if let Some(Limitation::Stakes(slot)) = &self.limitation
            && is_found(slot)
        {
            self.end_limitation();
        }
    }

    /// Counts votes. Returns the newest slot for which enough stake has voted now.
    pub(crate) fn count_votes(&mut self, votes: &[SignedVote], now: Duration) -> Option<Slot> {
        let verifier = self.verifier.as_mut()?;
        let mut changed = Vec::new();
        let mut decided = None;
        for vote in votes {
            let slot = vote.vote().slot();
            changed.extend(verifier.vote(vote, now));
            if verifier.is_decided(slot) {
                decided = decided.max(Some(slot));
            }
        }
        self.handle_changes(&changed);
        decided
    }

    /// Compares the hashes that an independent source lists.
    pub(crate) fn compare_reports(&mut self, reports: &Reports, now: Duration) {
        let Some(verifier) = &mut self.verifier else { return };
        let source = SourceId(reports.source);
        let mut changed = Vec::new();
        for report in &reports.hashes {
            // The number of sources is the verifier's bound.
            changed.extend(verifier.source_reports(source, *report, now).unwrap_or_default());
        }
        self.handle_changes(&changed);
        for (slot, _) in &reports.hashes {
            self.name_dissenting(*slot);
        }
    }

    /// Names the sources that list another hash than a bank that its own chain confirms.
    fn name_dissenting(&mut self, slot: Slot) {
        let Some(verifier) = &self.verifier else { return };
        if !verifier.is_matched(slot) {
            return;
        }
        for (source, reported) in verifier.dissenting(slot) {
            if self.disagreed.insert((slot, source))
                && let Some(status) = self.proof.sources().get(usize::from(source.0))
            {
                status.disagree(slot, reported);
            }
        }
    }

    /// The first reason stays until it has ended.
    fn limit(&mut self, limitation: Limitation) {
        if self.limitation.is_none() {
            tracing::error!("banks cannot be verified: {limitation}");
            self.proof.set_limitation(Some(limitation.to_string()));
            self.limitation = Some(limitation);
        }
    }

    fn end_limitation(&mut self) {
        self.limitation = None;
        self.proof.set_limitation(None);
    }

    fn handle_changes(&mut self, changed: &[VerdictChange]) {
        for VerdictChange { block, verdict, .. } in changed {
            match verdict {
                Verdict::Pending => {}
                Verdict::Matched(level) => self.handle_match(*block, *level),
                Verdict::Mismatch { mismatch, is_first } => {
                    self.handle_mismatch(*block, mismatch, *is_first);
                }
            }
        }
    }

    fn handle_match(&mut self, bank: BlockId, level: VerificationLevel) {
        if level > VerificationLevel::Sequence {
            // Others than its own chain say so now.
            self.unverified.remove(&bank);
        }
        if self.is_above_unverified(bank) {
            return;
        }
        let votes = self.verifier.as_ref().and_then(|verifier| verifier.voted_stake(bank));
        let before = chain_solana::Verification::proof(&*self.proof, bank);
        self.proof.record(bank, BankProof { level, votes });
        self.name_dissenting(bank.slot);
        if Some(level) < self.proof.required_level() {
            return;
        }
        if let Err(err) = self.check_trusted(bank) {
            return self.limit(Limitation::Trust(err));
        }
        if self.is_above_refused_jump(bank) {
            return;
        }
        let is_first = before.map(|before| before.level) < self.proof.required_level();
        if self.awaits_transactions(bank) {
            if is_first {
                self.unchecked.wait(bank);
            }
            return;
        }
        self.approve(bank, is_first);
    }

    /// Shows a bank with the required level. Its transactions, and those of its ancestors, have been checked.
    fn approve(&mut self, bank: BlockId, is_first: bool) {
        if self.is_above_jump(bank) {
            self.jumped = None;
        }
        if is_first {
            self.proof.verified_banks.fetch_add(1, Ordering::Relaxed);
            let is_over = match &self.limitation {
                Some(Limitation::Full) => true,
                // A bank below it may be approved after it, when its transactions have been checked.
                Some(Limitation::Trust(err)) => bank.slot >= err.slot(),
                _ => false,
            };
            if is_over {
                self.end_limitation();
            }
            if self.repaired.contains(&bank.slot) {
                tracing::info!(slot = bank.slot, "the bank that was requested again is right");
            }
        }
        if self.on_mismatch == OnMismatch::Report && self.proof.resolve_mismatch(bank.slot) {
            let level = self.proof.required_level().map(VerificationLevel::name);
            tracing::info!(slot = bank.slot, level, "banks have the required level again");
        }
        self.decisions.push_back(Decision::Approve(bank));
    }

    /// Compares the trusted banks up to a bank with it and its ancestors above the root. Below the block of an archive,
    /// the archive names them.
    fn check_trusted(&self, bank: BlockId) -> Result<(), TrustError> {
        let Some(verifier) = &self.verifier else { return Ok(()) };
        for trusted in self.trusted.up_to(bank.slot) {
            let TrustedBank { slot, bank_hash } = *trusted;
            let mut child = None;
            let mut reached = Some(bank);
            while let Some(above) = reached.filter(|at| at.slot > slot) {
                child = Some(above);
                reached = verifier.parent(above);
            }
            let Some(reached) = reached else { continue };
            let is_passed = child.is_some() && child == self.archive;
            let found = verifier.bank_hash(reached).unwrap_or_default();
            if reached.slot == slot && found != bank_hash {
                return Err(TrustError::Hash { slot, trusted: bank_hash, found });
            }
            if reached.slot < slot && !is_passed {
                return Err(TrustError::Skipped { slot });
            }
        }
        Ok(())
    }

    /// Whether the hash of the bank, or that of an ancestor, was found wrong.
    fn is_above_unverified(&self, bank: BlockId) -> bool {
        self.is_above_any(bank, &self.unverified)
    }

    /// Whether the bank, or an ancestor, is one of these.
    fn is_above_any(&self, bank: BlockId, banks: &BTreeSet<BlockId>) -> bool {
        let Some(verifier) = self.verifier.as_ref().filter(|_| !banks.is_empty()) else {
            return false;
        };
        let mut ancestors = std::iter::successors(Some(bank), |at| verifier.parent(*at));
        ancestors.any(|at| banks.contains(&at))
    }

    /// A child lists another hash than that of its parent, which was found right or is the root.
    fn handle_wrong_child(&mut self, bank: &PreparedBank, computed: Hash, reported: Hash) {
        let accounts = bank.accounts();
        let accounts_written_len = accounts.len();
        let listed = accounts.map(|(pubkey, _)| *pubkey).take(WRITTEN_LISTED_MAX);
        let mismatch = BankMismatch {
            slot: bank.parent.slot,
            computed,
            reported,
            reporter: HashReporter::Child,
            accounts_written: listed.collect(),
            accounts_written_len,
            fault: None,
        };
        self.handle_mismatch(bank.id, &mismatch, true);
    }

    /// Requests the bank again once, and reports the mismatch if it recurs. The hash is that of `bank`, or of its
    /// parent.
    fn handle_mismatch(&mut self, bank: BlockId, mismatch: &BankMismatch, is_first: bool) {
        // Transactions are the source's word, whatever an archive says.
        if mismatch.fault.is_none() && self.is_above_jump(bank) {
            return self.refuse_jump(mismatch);
        }
        let is_reported = self.proof.has_mismatch();
        if !is_reported && !is_first {
            // A bank below it is being dropped, and it goes with that one.
            return;
        }
        if !is_reported && self.repaired.insert(bank.slot) {
            let reported = mismatch.reported;
            if self.verifier.as_mut().is_some_and(|it| it.recount_hard_fork(bank, reported)) {
                tracing::warn!(slot = mismatch.slot, "the cluster restarted twice at a slot");
            }
            log_mismatch("the bank is requested again", mismatch);
            self.proof.repairs.fetch_add(1, Ordering::Relaxed);
            self.decisions.push_back(Decision::Retract(bank));
            return;
        }
        self.proof.mismatched_banks.fetch_add(1, Ordering::Relaxed);
        if is_first {
            log_mismatch("it stays unverified", mismatch);
            self.proof.record_mismatch(bank.slot, mismatch);
        }
        if self.on_mismatch == OnMismatch::Report {
            self.unverified.insert(bank);
        }
    }

    /// The archive is not of the chain that is followed: its block is dropped with all above it.
    fn refuse_jump(&mut self, mismatch: &BankMismatch) {
        let Some(jumped) = &mut self.jumped else { return };
        if jumped.refusal.is_some() {
            return;
        }
        log_mismatch("the archive is refused", mismatch);
        let BankMismatch { slot, computed, reported, reporter, .. } = *mismatch;
        let archive = jumped.id.slot;
        let reporter = reporter.name();
        jumped.refusal =
            Some(JumpRefusal::Contradicted { archive, slot, computed, reported, reporter });
        self.decisions.push_back(Decision::Retract(jumped.id));
    }

    pub(crate) fn root(&mut self, bank: BlockId) -> Result<(), VerifierError> {
        self.repaired = self.repaired.split_off(&(bank.slot + 1));
        self.unverified = self.unverified.split_off(&bank);
        self.disagreed = self.disagreed.split_off(&(bank.slot + 1, SourceId(0)));
        if self.trusted.remove_to(bank.slot) {
            let (start, trusted) = self.trusted.trust_root();
            self.proof.set_trust_root(start, trusted);
        }
        self.unchecked.set_root(bank);
        self.verifier.as_mut().map_or(Ok(()), |verifier| verifier.root(bank).map(drop))
    }

    /// A bank and its descendants were dropped.
    pub(crate) fn drop_bank(&mut self, bank: BlockId) {
        self.unverified.remove(&bank);
        self.unchecked.remove(bank);
        self.stop_checks(bank);
        if let Some(verifier) = &mut self.verifier {
            verifier.drop_fork(bank);
        }
    }

    /// The sum over all accounts after a bank, or after the root, and the hard forks. `None` if banks are not verified.
    pub(crate) fn lattice(&self, bank: BlockId) -> Option<LatticeRow> {
        let verifier = self.verifier.as_ref()?;
        let lt_hash = verifier.lt_hash(bank)?.clone();
        Some(LatticeRow { lt_hash, hard_forks: verifier.hard_forks().to_vec() })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.verifier.as_ref().map_or(0, |verifier| verifier.usage().bytes)
    }
}

/// A verifier of the banks above the block of a snapshot.
pub(crate) fn from_snapshot(
    block: BlockId,
    fields: &snapshot_solana::BankFields,
    config: VerifierConfig,
) -> Verifier {
    let lt_hash = (*fields.lt_hash).clone();
    let root = RootBank { block, bank_hash: fields.bank_hash, lt_hash };
    let mut verifier = Verifier::new(config, root);
    verifier.set_hard_forks(fields.hard_forks.clone());
    verifier
}

fn log_mismatch(outcome: &str, mismatch: &BankMismatch) {
    let computed = mismatch.computed;
    let reported = mismatch.reported;
    let accounts: Vec<String> = mismatch.accounts_written.iter().map(ToString::to_string).collect();
    if let Some(fault) = &mismatch.fault {
        let check = fault.check.name();
        let index = fault.index;
        let slot = mismatch.slot;
        tracing::error!(slot, check, index, ?accounts, "the transactions of a bank: {outcome}");
        return;
    }
    tracing::error!(
        slot = mismatch.slot,
        %computed,
        %reported,
        reporter = ?mismatch.reporter,
        accounts_written = ?accounts,
        accounts_written_len = mismatch.accounts_written_len,
        "the hash of a bank is not the reported one: {outcome}"
    );
}

/// The hashes of other banks in the sysvars of a bank.
struct BankSysvars {
    /// The hash that it lists for its parent. A bank that lists none, or that of another slot, lists a wrong one.
    parent_hash: Hash,
    /// The slot of a restart of the cluster (a hard fork) that the bank is the first to follow: it changes
    /// LastRestartSlot.
    restart: Option<Slot>,
}

impl BankSysvars {
    fn from_bank(bank: &PreparedBank) -> Self {
        let listed = bank.account(&sysvar::slot_hashes::ID);
        let listed = listed.and_then(|account| verify::newest_slot_hash(account.0.data()));
        let of_parent = listed.filter(|(slot, _)| *slot == bank.parent.slot);
        Self {
            parent_hash: of_parent.map(|(_, hash)| hash).unwrap_or_default(),
            restart: bank.restart_slot(),
        }
    }
}
