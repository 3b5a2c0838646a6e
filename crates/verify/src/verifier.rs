//! The banks above the root, and the verdict of each.

use std::collections::BTreeMap;
use std::time::Duration;

use lattice::{BankHashInputs, HardFork, LtHash, crossed_hard_forks};
use ledger::{BlockId, Slot};
use solana::{BankMismatch, HashReporter, VerificationLevel, VotedStake};
use solana_hash::Hash;

use crate::bank::{
    ArchivedBank, Bank, ChildReport, FrozenBank, ParentHashes, RootBank, SummedBank, sum_changes,
};
use crate::error::VerifierError;
use crate::reports::{SourceId, SourceReports};
use crate::stakes::StakedVoters;
use crate::tally::VoteTallies;
use crate::verdict::{Verdict, VerdictChange};
use crate::vote::SignedVote;

/// Votes and reports count for slots up to this many above the root: 200 seconds of 400 ms slots.
pub const SLOTS_AHEAD_MAX: u64 = 512;
/// Epochs whose stakes are stored: the root's, the next one, and the one after it.
const EPOCHS_MAX: usize = 3;

/// The limits of a verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifierConfig {
    /// Banks above the root, at most. Default: 512. Each takes 2.3 KiB and 32 bytes an account that it wrote, at most
    /// 131 KiB.
    pub banks_max: usize,
    /// Independent sources, at most. Default: 16. Each takes 40 bytes a slot.
    pub sources_max: usize,
    /// Sources that must list the same hash. Default: 0, which turns that level off.
    pub sources_required: usize,
}

impl Default for VerifierConfig {
    fn default() -> Self {
        Self { banks_max: 512, sources_max: 16, sources_required: 0 }
    }
}

/// The usage of a verifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifierUsage {
    /// Banks above the root.
    pub banks: usize,
    /// Bytes of banks, votes, reports and stakes.
    pub bytes: usize,
}

/// Computes the hash of each bank above the root, and compares it with what is reported.
pub struct Verifier {
    config: VerifierConfig,
    root: RootBank,
    hard_forks: Vec<HardFork>,
    /// The bank of the last archive, if it is above the root.
    archived: Option<BlockId>,
    banks: BTreeMap<BlockId, Bank>,
    reports: SourceReports,
    tallies: VoteTallies,
    /// The oldest first.
    stakes: Vec<StakedVoters>,
}

impl Verifier {
    /// A verifier of the banks above `root`. The root's own hashes are taken as they are.
    pub fn new(config: VerifierConfig, root: RootBank) -> Self {
        Self {
            config,
            archived: None,
            root,
            hard_forks: Vec::new(),
            banks: BTreeMap::new(),
            reports: SourceReports::default(),
            tallies: VoteTallies::default(),
            stakes: Vec::new(),
        }
    }

    /// Limits of the verifier.
    pub fn config(&self) -> &VerifierConfig {
        &self.config
    }

    /// Sets the hard forks of the cluster. They apply to the banks that are frozen afterwards.
    pub fn set_hard_forks(&mut self, hard_forks: Vec<HardFork>) {
        self.hard_forks = hard_forks;
    }

    /// The hard forks that are known.
    pub fn hard_forks(&self) -> &[HardFork] {
        &self.hard_forks
    }

    /// Adds a hard fork above the root, such as that of the LastRestartSlot sysvar, if it is not known.
    pub fn add_hard_fork(&mut self, slot: Slot) {
        let is_known = self.hard_forks.iter().any(|fork| fork.slot == slot);
        if slot > self.root.block.slot && !is_known {
            self.hard_forks.push(HardFork { slot, count: 1 });
        }
    }

    /// A cluster may restart twice at a slot, and LastRestartSlot does not say so. If that gives the reported hash of a
    /// bank, it holds for the banks that are frozen afterwards: the bank itself has to be dropped and frozen again.
    pub fn recount_hard_fork(&mut self, block: BlockId, reported: Hash) -> bool {
        let Some(bank) = self.banks.get(&block) else { return false };
        let parent_slot = bank.parent.slot;
        let slot = block.slot;
        let Some(parent) = self.hashes(bank.parent) else { return false };
        let inputs = BankHashInputs {
            parent_hash: parent.bank_hash.to_bytes(),
            signature_count: bank.signature_count,
            last_blockhash: bank.blockhash.to_bytes(),
            lt_hash: &bank.lt_hash,
            hard_forks: crossed_hard_forks(&self.hard_forks, parent_slot, slot) + 1,
        };
        if Hash::new_from_array(inputs.hash()) != reported {
            return false;
        }
        let is_crossed = |fork: &&mut HardFork| parent_slot < fork.slot && fork.slot <= slot;
        let Some(fork) = self.hard_forks.iter_mut().find(is_crossed) else { return false };
        fork.count += 1;
        true
    }

    /// Sets the stakes of an epoch. Only votes for slots of such an epoch count. Votes that were counted with other
    /// stakes of the epoch are dropped, and of four epochs the oldest one.
    pub fn set_epoch_stakes(&mut self, stakes: StakedVoters) {
        self.stakes.retain(|known| known.slots().start() != stakes.slots().start());
        self.tallies.remove_epoch(&stakes);
        self.stakes.push(stakes);
        self.stakes.sort_by_key(|stakes| *stakes.slots().start());
        if self.stakes.len() > EPOCHS_MAX {
            self.stakes.remove(0);
        }
    }

    /// Whether the stakes of a slot's epoch are known.
    pub fn has_stakes(&self, slot: Slot) -> bool {
        self.stakes.iter().any(|stakes| stakes.slots().contains(&slot))
    }

    /// Whether enough stake voted for one hash of a slot, which may be that of no bank here.
    pub fn is_decided(&self, slot: Slot) -> bool {
        self.tallies.decision(slot).is_some()
    }

    /// A bank froze: computes its hash. Its parent is the root, or was passed before.
    ///
    /// Cost: about 2.3 us a small account that changed; 90 us for one of 128 KiB.
    pub fn freeze(
        &mut self,
        bank: &FrozenBank<'_>,
        now: Duration,
    ) -> Result<Vec<VerdictChange>, VerifierError> {
        let FrozenBank { block, parent, changes, signature_count, blockhash } = *bank;
        self.check_next(block, parent)?;
        let (change, written) = sum_changes(changes);
        let change = &change;
        let written = &written[..];
        let bank = SummedBank { block, parent, change, written, signature_count, blockhash };
        self.freeze_summed(&bank, now)
    }

    /// As [`Self::freeze`], a bank whose accounts were added up before.
    ///
    /// Cost: microseconds.
    pub fn freeze_summed(
        &mut self,
        bank: &SummedBank<'_>,
        now: Duration,
    ) -> Result<Vec<VerdictChange>, VerifierError> {
        let block = bank.block;
        let parent = bank.parent;
        let parent = self.check_next(block, parent)?;
        let bank = Bank::freeze(bank, parent, &self.hard_forks, now);
        self.banks.insert(block, bank);
        Ok(self.judge_slot(block.slot, now))
    }

    /// Adds the bank of an archive above a gap. It is judged as other banks are, and whatever the archive claims: its
    /// hash is right if its children, sources or votes say so. Votes and reports count from its slot on. Dropping it
    /// leaves the hard forks that the archive has ([`Self::set_hard_forks`]).
    pub fn jump(
        &mut self,
        archived: ArchivedBank,
        now: Duration,
    ) -> Result<Vec<VerdictChange>, VerifierError> {
        let ArchivedBank { bank, parent, hard_forks } = archived;
        let block = bank.block;
        self.check_next(block, parent)?;
        self.hard_forks = hard_forks;
        self.archived = Some(block);
        self.banks.insert(block, Bank::from_archive(bank, parent, now));
        Ok(self.judge_slot(block.slot, now))
    }

    /// The hashes of the parent, if a bank may be frozen on it.
    fn check_next(
        &self,
        block: BlockId,
        parent: BlockId,
    ) -> Result<ParentHashes<'_>, VerifierError> {
        if block.slot <= parent.slot {
            return Err(VerifierError::NotAboveParent { block, parent });
        }
        if self.banks.contains_key(&block) {
            return Err(VerifierError::KnownBank(block));
        }
        if self.is_full() {
            let max = self.config.banks_max;
            return Err(VerifierError::TooManyBanks { max });
        }
        self.hashes(parent).ok_or(VerifierError::UnknownBank(parent))
    }

    /// A child of `block` lists its hash in SlotHashes ([`newest_slot_hash`](crate::newest_slot_hash)).
    pub fn child_reports(
        &mut self,
        block: BlockId,
        hash: Hash,
        now: Duration,
    ) -> Result<Vec<VerdictChange>, VerifierError> {
        let bank = self.banks.get_mut(&block).ok_or(VerifierError::UnknownBank(block))?;
        if hash != bank.bank_hash {
            bank.child_report = ChildReport::Differs(hash);
        } else if bank.child_report == ChildReport::Missing {
            bank.child_report = ChildReport::Equal;
        }
        Ok(self.judge(block, now).into_iter().collect())
    }

    /// An independent source lists the hash of a slot. A slot that is not above the root, or too far above it, does not
    /// count.
    pub fn source_reports(
        &mut self,
        source: SourceId,
        (slot, hash): (Slot, Hash),
        now: Duration,
    ) -> Result<Vec<VerdictChange>, VerifierError> {
        let max = self.config.sources_max;
        if usize::from(source.0) >= max {
            return Err(VerifierError::UnknownSource { source_id: source.0, max });
        }
        if !self.is_ahead(slot) {
            return Ok(Vec::new());
        }
        self.reports.insert(source, slot, hash);
        Ok(self.judge_slot(slot, now))
    }

    /// Whether the hash of a bank of the slot is one that its child, sources or votes say.
    pub fn is_matched(&self, slot: Slot) -> bool {
        let mut banks = banks_at(&self.banks, slot);
        banks.any(|(_, bank)| matches!(bank.verdict, Verdict::Matched(_)))
    }

    /// The sources that list a hash for a slot which no bank of the slot has here.
    pub fn dissenting(&self, slot: Slot) -> impl Iterator<Item = (SourceId, Hash)> {
        let is_of_bank =
            move |hash: &Hash| banks_at(&self.banks, slot).any(|(_, bank)| bank.bank_hash == *hash);
        let reports = self.reports.of_slot(slot).iter().copied();
        reports.filter(move |(_, hash)| !is_of_bank(hash))
    }

    /// Counts a vote, if the account has stake and its authorized voter signed.
    pub fn vote(&mut self, vote: &SignedVote, now: Duration) -> Vec<VerdictChange> {
        let slot = vote.vote().slot();
        let hash = vote.vote().hash();
        if !self.is_ahead(slot) {
            return Vec::new();
        }
        let stakes = self.stakes.iter().find(|stakes| stakes.slots().contains(&slot));
        let voter =
            stakes.and_then(|stakes| Some((stakes, stakes.voter(vote.vote().vote_account())?)));
        let Some((stakes, (number, voter))) = voter else { return Vec::new() };
        if !voter.authorized_voter.is_some_and(|key| vote.is_signed_by(&key)) {
            return Vec::new();
        }
        let banks = &self.banks;
        let tallies = &mut self.tallies;
        let is_bank = |hash: &Hash| banks_at(banks, slot).any(|(_, bank)| bank.bank_hash == *hash);
        match tallies.add((slot, hash), (number, voter), stakes, is_bank) {
            true => self.judge_slot(slot, now),
            false => Vec::new(),
        }
    }

    /// Makes `block` the root. Returns the banks up to it with their last verdicts, the oldest first. Banks that do not
    /// descend from it are dropped.
    pub fn root(&mut self, block: BlockId) -> Result<Vec<(BlockId, Verdict)>, VerifierError> {
        if block == self.root.block {
            return Ok(Vec::new());
        }
        if !self.banks.contains_key(&block) {
            return Err(VerifierError::UnknownBank(block));
        }
        let mut rooted = Vec::new();
        let mut next = block;
        while let Some(bank) = self.banks.remove(&next) {
            if next == block {
                let bank_hash = bank.bank_hash;
                let lt_hash = bank.lt_hash;
                self.root = RootBank { block, bank_hash, lt_hash };
            }
            rooted.push((next, bank.verdict));
            next = bank.parent;
        }
        rooted.reverse();
        let old = std::mem::take(&mut self.banks);
        // A parent comes before its children.
        for (id, bank) in old {
            if bank.parent == block || self.banks.contains_key(&bank.parent) {
                self.banks.insert(id, bank);
            }
        }
        // Only those above a bank's parent count for it.
        self.hard_forks.retain(|fork| fork.slot > block.slot);
        self.reports.remove_to(block.slot);
        self.tallies.remove_to(block.slot);
        Ok(rooted)
    }

    /// Drops a bank and its descendants, for instance before the slot is replayed.
    pub fn drop_fork(&mut self, block: BlockId) {
        let mut dropped = vec![block];
        // A parent comes before its children.
        self.banks.retain(|id, bank| {
            let is_dropped = *id == block || dropped.contains(&bank.parent);
            if is_dropped {
                dropped.push(*id);
            }
            !is_dropped
        });
    }

    /// The verdict of a bank above the root.
    pub fn verdict(&self, block: BlockId) -> Option<&Verdict> {
        Some(&self.banks.get(&block)?.verdict)
    }

    /// The parent of a bank above the root.
    pub fn parent(&self, block: BlockId) -> Option<BlockId> {
        Some(self.banks.get(&block)?.parent)
    }

    /// The stake that voted for a bank above the root, or for a descendant, if it was enough.
    pub fn voted_stake(&self, block: BlockId) -> Option<VotedStake> {
        self.banks.get(&block)?.voted
    }

    /// The computed hash of a bank, or the hash of the root.
    pub fn bank_hash(&self, block: BlockId) -> Option<Hash> {
        Some(self.hashes(block)?.bank_hash)
    }

    /// The lattice hash over all accounts after a bank, or after the root.
    pub fn lt_hash(&self, block: BlockId) -> Option<&LtHash> {
        Some(self.hashes(block)?.lt_hash)
    }

    /// The root and its hashes, from which another verifier may start.
    pub fn root_bank(&self) -> &RootBank {
        &self.root
    }

    /// Whether no more banks can be frozen before the root moves.
    pub fn is_full(&self) -> bool {
        self.banks.len() >= self.config.banks_max
    }

    /// Banks and bytes in use.
    pub fn usage(&self) -> VerifierUsage {
        let banks = self.banks.values().map(Bank::bytes).sum::<usize>();
        let stakes = self.stakes.iter().map(StakedVoters::bytes).sum::<usize>();
        let bytes =
            size_of::<Self>() + banks + stakes + self.reports.bytes() + self.tallies.bytes();
        VerifierUsage { banks: self.banks.len(), bytes }
    }

    fn hashes(&self, block: BlockId) -> Option<ParentHashes<'_>> {
        if block == self.root.block {
            let RootBank { bank_hash, lt_hash, .. } = &self.root;
            return Some(ParentHashes { bank_hash: *bank_hash, lt_hash });
        }
        let Bank { bank_hash, lt_hash, .. } = self.banks.get(&block)?;
        Some(ParentHashes { bank_hash: *bank_hash, lt_hash })
    }

    /// Whether votes and reports for a slot count: above the root, or from the bank of an archive on.
    fn is_ahead(&self, slot: Slot) -> bool {
        let root = self.root.block.slot;
        let archived = self.archived.filter(|archived| self.banks.contains_key(archived));
        let before = archived.map_or(root, |archived| archived.slot - 1);
        slot > before && slot - before <= SLOTS_AHEAD_MAX
    }

    /// Judges all banks of a slot again, and the ancestors of one that enough stake voted for.
    fn judge_slot(&mut self, slot: Slot, now: Duration) -> Vec<VerdictChange> {
        let mut changed = Vec::new();
        let voted = self.tallies.decision(slot);
        let blocks: Vec<BlockId> = banks_at(&self.banks, slot).map(|(block, _)| block).collect();
        for block in blocks {
            if let Some(decision) = voted
                && self.bank_hash(block) == Some(decision.hash)
            {
                changed.extend(self.mark_voted(block, decision.voted, now));
            }
            changed.extend(self.judge(block, now));
        }
        changed
    }

    /// Marks a bank that enough stake voted for, and its ancestors: its hash covers theirs.
    fn mark_voted(
        &mut self,
        block: BlockId,
        voted: VotedStake,
        now: Duration,
    ) -> Vec<VerdictChange> {
        let mut changed = Vec::new();
        let mut next = block;
        while let Some(bank) = self.banks.get_mut(&next)
            && bank.voted.is_none()
        {
            bank.voted = Some(voted);
            let parent = bank.parent;
            changed.extend(self.judge(next, now));
            next = parent;
        }
        changed.reverse();
        changed
    }

    /// Judges a bank. Returns its verdict if that changed.
    fn judge(&mut self, block: BlockId, now: Duration) -> Option<VerdictChange> {
        let verdict = self.judge_reports(block)?;
        let bank = self.banks.get_mut(&block)?;
        if bank.verdict == verdict {
            return None;
        }
        bank.verdict = verdict.clone();
        let since_frozen = now.saturating_sub(bank.frozen_at);
        Some(VerdictChange { block, verdict, since_frozen })
    }

    /// The verdict that follows from all reports so far. Votes count before sources, and those before a child.
    fn judge_reports(&self, block: BlockId) -> Option<Verdict> {
        let bank = self.banks.get(&block)?;
        if bank.voted.is_some() {
            return Some(Verdict::Matched(VerificationLevel::Voted));
        }
        let agreed = self.reports.agreed_hash(block.slot, self.config.sources_required);
        // The cluster may have voted for another bank of the slot, which is on another fork.
        let is_no_banks = |hash: &Hash| {
            !banks_at(&self.banks, block.slot).any(|(_, bank)| bank.bank_hash == *hash)
        };
        let voted = self.tallies.decision(block.slot).map(|decision| decision.hash);
        let mismatch = if let Some(voted) = voted.filter(is_no_banks) {
            Some((voted, HashReporter::Votes))
        } else if let ChildReport::Differs(hash) = bank.child_report {
            Some((hash, HashReporter::Child))
        } else {
            agreed.filter(is_no_banks).map(|agreed| (agreed, HashReporter::Sources))
        };
        Some(match mismatch {
            Some((reported, reporter)) => Verdict::Mismatch {
                mismatch: BankMismatch {
                    slot: block.slot,
                    computed: bank.bank_hash,
                    reported,
                    reporter,
                    accounts_written: bank.written.clone(),
                    accounts_written_len: bank.written_len,
                    fault: None,
                },
                is_first: self.is_first_mismatch(bank),
            },
            None if agreed == Some(bank.bank_hash) => Verdict::Matched(VerificationLevel::Agreed),
            None if bank.child_report == ChildReport::Equal => {
                Verdict::Matched(VerificationLevel::Sequence)
            }
            None => Verdict::Pending,
        })
    }

    fn is_first_mismatch(&self, bank: &Bank) -> bool {
        let mut next = bank.parent;
        while let Some(bank) = self.banks.get(&next) {
            if matches!(bank.verdict, Verdict::Mismatch { .. }) {
                return false;
            }
            next = bank.parent;
        }
        true
    }
}

fn banks_at(banks: &BTreeMap<BlockId, Bank>, slot: Slot) -> impl Iterator<Item = (BlockId, &Bank)> {
    let first = BlockId { slot, version: 0 };
    let last = BlockId { slot, version: u64::MAX };
    banks.range(first..=last).map(|(block, bank)| (*block, bank))
}
