//! One source: its slots above the root, with their open banks and their statuses.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::time::Instant;

use foldhash::quality::RandomState;
use ledger::{BlockId, Slot};
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::account_writes::LastWrite;
use crate::assembly::{Added, Assembly};
use crate::config::FeedConfig;
use crate::event::{GapReason, Missing};
use crate::stats::SourceProgress;

/// Banks of one slot in one session: replays of a slot are rare.
const BANKS_OF_SLOT_MAX: usize = 8;

/// A bank of this session that was reported, or that was there already.
pub(crate) struct ReportedBank {
    pub(crate) bank_id: Option<u64>,
    pub(crate) id: BlockId,
    hasher: RandomState,
    /// The newest write of each account, with a hash of its address: nothing is sent after a whole bank, unless a
    /// source repeats itself or has a fault, and the bank's own hash finds that out.
    versions: Vec<(u64, u64)>,
    /// They are sorted when one is looked for.
    is_sorted: bool,
}

/// A status that names a bank of a slot.
#[derive(Clone, Copy)]
pub(crate) struct CommitmentStatus {
    pub(crate) bank_id: Option<u64>,
    pub(crate) is_applied: bool,
    /// Whether the bank was there. It may not be approved yet.
    pub(crate) is_found: bool,
}

pub(crate) struct SlotEntry<A, T, M> {
    /// Open banks, and whole ones that wait for their parents.
    pub(crate) open: Vec<Assembly<A, T, M>>,
    pub(crate) reported: Vec<ReportedBank>,
    /// Banks that are dead or were replaced.
    ended: Vec<Option<u64>>,
    pub(crate) is_processed: bool,
    pub(crate) confirmed: Option<CommitmentStatus>,
    pub(crate) finalized: Option<CommitmentStatus>,
    /// When the source said all that it will say.
    pub(crate) frozen_at: Option<Instant>,
}

/// The bank that an update belongs to.
pub(crate) enum UpdateTarget {
    /// Position of the bank in `open`.
    Open(usize),
    /// Position of the bank in `reported`.
    Reported(usize),
    /// The bank was replaced or is dead.
    Ended,
}

pub(crate) struct Session<A, T, M> {
    pub(crate) slots: BTreeMap<Slot, SlotEntry<A, T, M>>,
    /// Bytes of open banks, and of the versions of `reported` ones.
    pub(crate) bytes: usize,
    /// Whether the source counts entries that it does not send. The session does not wait for them.
    pub(crate) lacks_entries: bool,
    /// A bank that contradicts the rooted chain.
    pub(crate) conflict: Option<GapReason>,
    /// Whether it began above the root. Its banks wait until the feed jumps to one of their parents.
    pub(crate) is_detached: bool,
    /// Whether it began in the middle of banks, which then may look whole without being so.
    pub(crate) is_partial: bool,
    /// The whole banks of the session that were reported, or were known.
    pub(crate) linked: SourceProgress,
    /// The slot of the archive that it continues from. Its updates up to that slot do not count.
    pub(crate) joined_at: Slot,
}

/// The start of a stream. Banks of a stream that starts above the root wait for [`Feed::jump`](crate::Feed::jump), and
/// their missing parents are not gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStart {
    /// After the root, with everything.
    AfterRoot,
    /// Above the root, with all of a slot.
    AtSlot,
    /// Above the root, in the middle of a slot. Banks of the first slots may look whole without being so.
    MidSlot,
}

impl<A, T, M> SlotEntry<A, T, M> {
    fn new() -> Self {
        Self {
            open: Vec::new(),
            reported: Vec::new(),
            ended: Vec::new(),
            is_processed: false,
            confirmed: None,
            finalized: None,
            frozen_at: None,
        }
    }

    /// The bank of a content update. It is opened if it is new.
    pub(crate) fn target(
        &mut self,
        bank_id: Option<u64>,
        reserve_id: impl FnOnce() -> BlockId,
        now: Instant,
    ) -> Result<UpdateTarget, GapReason> {
        if let Some(at) = self.open.iter().position(|bank| bank.bank_id == bank_id) {
            return Ok(UpdateTarget::Open(at));
        }
        if let Some(at) = self.reported.iter().rposition(|bank| bank.bank_id == bank_id) {
            return Ok(UpdateTarget::Reported(at));
        }
        if self.ended.contains(&bank_id) {
            return Ok(UpdateTarget::Ended);
        }
        Ok(UpdateTarget::Open(self.open_bank(bank_id, reserve_id, now)?))
    }

    fn open_bank(
        &mut self,
        bank_id: Option<u64>,
        reserve_id: impl FnOnce() -> BlockId,
        now: Instant,
    ) -> Result<usize, GapReason> {
        let banks = self.open.len() + self.reported.len() + self.ended.len() + 1;
        if banks > BANKS_OF_SLOT_MAX {
            return Err(GapReason::BanksOfSlot { banks, limit: BANKS_OF_SLOT_MAX });
        }
        self.open.push(Assembly::new(reserve_id(), bank_id, now));
        Ok(self.open.len() - 1)
    }

    /// Records that a bank was created. Returns the bytes of the banks that it replaces, or `None` if it was known.
    pub(crate) fn create(
        &mut self,
        bank_id: Option<u64>,
        reserve_id: impl FnOnce() -> BlockId,
        now: Instant,
    ) -> Result<Option<(usize, u64)>, GapReason> {
        let known = self.open.iter().position(|bank| bank.bank_id == bank_id);
        let at = match known {
            // A source without bank ids says that a bank was created before it sends anything of it. So this is the
            // end of another bank, whose beginning the session did not get.
            Some(at)
                if !self.open[at].is_created
                    && bank_id.is_none()
                    && self.open[at].has_content() =>
            {
                return Err(GapReason::BeganInside);
            }
            Some(at) if !self.open[at].is_created => at,
            Some(at) if bank_id.is_some() || !self.open[at].has_content() => return Ok(None),
            Some(_) => self.open_bank(bank_id, reserve_id, now)?,
            None if bank_id.is_some() && self.is_known(bank_id) => return Ok(None),
            None => self.open_bank(bank_id, reserve_id, now)?,
        };
        self.open[at].is_created = true;
        let mut bytes = 0;
        let mut banks = 0;
        let mut index = 0;
        let ended = &mut self.ended;
        self.open.retain(|bank| {
            let is_replaced = index != at && bank.is_created;
            index += 1;
            if is_replaced {
                (bytes, banks) = (bytes + bank.bytes, banks + 1);
                if bank.bank_id.is_some() {
                    ended.push(bank.bank_id);
                }
            }
            !is_replaced
        });
        Ok(Some((bytes, banks)))
    }

    fn is_known(&self, bank_id: Option<u64>) -> bool {
        self.reported.iter().any(|bank| bank.bank_id == bank_id) || self.ended.contains(&bank_id)
    }

    /// Ends the open bank that a status names. Returns its bytes, if there is one.
    pub(crate) fn end_open(&mut self, bank_id: Option<u64>) -> Option<usize> {
        let at = match bank_id {
            Some(_) => self.open.iter().position(|bank| bank.bank_id == bank_id)?,
            None => self.open.len().checked_sub(1)?,
        };
        let bank = self.open.remove(at);
        self.record_end(bank.bank_id);
        Some(bank.bytes)
    }

    /// Ignores later updates of a bank.
    pub(crate) fn record_end(&mut self, bank_id: Option<u64>) {
        if self.ended.len() < BANKS_OF_SLOT_MAX && !self.ended.contains(&bank_id) {
            self.ended.push(bank_id);
        }
    }

    /// Returns the reported bank that a status names, or `None` if it is not reported yet.
    pub(crate) fn resolve(&self, named: CommitmentStatus) -> Option<BlockId> {
        let newest = self.reported.last().map(|reported| reported.id);
        match named.bank_id {
            Some(_) => {
                let reported =
                    self.reported.iter().find(|reported| reported.bank_id == named.bank_id);
                reported.map(|reported| reported.id)
            }
            None if self.open.iter().any(Assembly::has_content) => None,
            None => newest,
        }
    }

    /// Whether no bank of the slot was received that has not ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.reported.is_empty()
    }

    /// Whether the source has said all of a bank, or has said that it is final, and the bank was not reported.
    pub(crate) fn is_awaited(&self) -> bool {
        let is_frozen = self.is_processed && self.open.iter().any(|bank| bank.meta.is_some());
        let is_unfound =
            |named: &Option<CommitmentStatus>| named.is_some_and(|named| !named.is_found);
        is_frozen || is_unfound(&self.confirmed) || is_unfound(&self.finalized)
    }

    /// Returns the missing parts of the awaited bank.
    pub(crate) fn missing(&self) -> Missing {
        let Some(bank) = self.open.iter().max_by_key(|bank| bank.meta.is_some()) else {
            return Missing { created: true, meta: true, ..Missing::default() };
        };
        let mut missing = bank.missing();
        if missing.is_nothing() {
            missing.parent = bank.meta.as_ref().map(|meta| meta.parent_slot);
        }
        missing
    }

    fn bytes(&self) -> usize {
        let open: usize = self.open.iter().map(|bank| bank.bytes).sum();
        open + self.reported.iter().map(ReportedBank::bytes).sum::<usize>()
    }
}

impl ReportedBank {
    /// `writes` are those of the bank if this session completed it.
    pub(crate) fn new<'a, A: 'a>(
        bank_id: Option<u64>,
        id: BlockId,
        writes: impl Iterator<Item = &'a LastWrite<A>>,
    ) -> Self {
        let hasher = RandomState::default();
        let version = |write: &LastWrite<A>| (hasher.hash_one(write.pubkey), write.write_version);
        let versions = writes.map(version).collect();
        Self { bank_id, id, hasher, versions, is_sorted: false }
    }

    /// Records a write if it is newer than the reported one. Returns the additional bytes in that case.
    pub(crate) fn record_late(&mut self, pubkey: Pubkey, write_version: u64) -> Option<usize> {
        let bytes = self.bytes();
        // The versions of a bank that another session completed say nothing here.
        if self.versions.is_empty() {
            return None;
        }
        if !self.is_sorted {
            self.versions.sort_unstable();
            self.is_sorted = true;
        }
        let hash = self.hasher.hash_one(pubkey);
        match self.versions.binary_search_by_key(&hash, |(known, _)| *known) {
            Ok(at) if self.versions[at].1 >= write_version => return None,
            Ok(at) => self.versions[at].1 = write_version,
            Err(at) => self.versions.insert(at, (hash, write_version)),
        }
        Some(self.bytes() - bytes)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.versions)
    }
}

impl<A, T, M> Session<A, T, M> {
    pub(crate) fn new(start: StreamStart) -> Self {
        let is_detached = start != StreamStart::AfterRoot;
        let is_partial = start == StreamStart::MidSlot;
        Self {
            slots: BTreeMap::new(),
            bytes: 0,
            lacks_entries: false,
            conflict: None,
            is_detached,
            is_partial,
            linked: SourceProgress::default(),
            joined_at: 0,
        }
    }

    /// Returns the number of whole banks so far, and the newest slot of one. Those that wait for their parents count
    /// only if the session is detached: an attached one may have any number of banks that lead nowhere.
    pub(crate) fn progress(&self) -> SourceProgress {
        let mut progress = self.linked;
        if !self.is_detached {
            return progress;
        }
        for (slot, entry) in &self.slots {
            let whole = entry.open.iter().filter(|bank| bank.is_whole());
            whole.for_each(|_| progress.record(*slot));
        }
        progress
    }

    /// Returns the lowest slot with an open bank that has its block meta.
    pub(crate) fn first_meta(&self) -> Option<Slot> {
        let has_meta = |entry: &SlotEntry<A, T, M>| entry.open.iter().any(|it| it.meta.is_some());
        self.slots.iter().find(|(_, entry)| has_meta(entry)).map(|(slot, _)| *slot)
    }

    /// Whether the block meta of this block was received and waits. All of its children then began in this session.
    pub(crate) fn has_meta(&self, slot: Slot, blockhash: &Hash) -> bool {
        let is_it = |bank: &Assembly<A, T, M>| {
            bank.meta.as_ref().is_some_and(|meta| meta.blockhash == *blockhash)
        };
        self.slots.get(&slot).is_some_and(|entry| entry.open.iter().any(is_it))
    }

    /// Whether all of the children of a reported bank were received.
    pub(crate) fn has_all_children(&self, bank: BlockId) -> bool {
        let has_bank =
            |entry: &SlotEntry<A, T, M>| entry.reported.iter().any(|reported| reported.id == bank);
        !self.is_partial || self.slots.get(&bank.slot).is_some_and(has_bank)
    }

    /// Makes the session continue from the block of an archive.
    pub(crate) fn join(&mut self, slot: Slot) {
        self.joined_at = slot;
        self.attach();
    }

    /// Makes the session continue from the root.
    pub(crate) fn attach(&mut self) {
        (self.is_detached, self.is_partial) = (false, false);
        self.slots.values_mut().for_each(|entry| entry.frozen_at = None);
    }

    /// Returns the entry of a slot above the root, and creates it if it is new.
    pub(crate) fn slot(
        &mut self,
        slot: Slot,
        config: &FeedConfig,
    ) -> Result<&mut SlotEntry<A, T, M>, GapReason> {
        let slots = self.slots.len() + 1;
        if slots > config.slots_max && !self.slots.contains_key(&slot) {
            return Err(GapReason::Slots { slots, limit: config.slots_max });
        }
        Ok(self.slots.entry(slot).or_insert_with(SlotEntry::new))
    }

    /// Stops waiting for entries. Returns the number of banks that waited.
    pub(crate) fn give_up_entries(&mut self) -> u64 {
        self.lacks_entries = true;
        let open = self.slots.values_mut().flat_map(|entry| &mut entry.open);
        let given_up: Vec<usize> = open.filter_map(Assembly::give_up_entries).collect();
        self.bytes -= given_up.iter().sum::<usize>();
        given_up.len() as u64
    }

    /// Counts the bytes that an update added.
    pub(crate) fn record_added(&mut self, added: &Added) {
        if let Added::New { before, after } = added {
            self.bytes = self.bytes - before + after;
        }
    }

    /// Removes the slots up to the root. Returns the number of open banks among them.
    pub(crate) fn prune(&mut self, root: Slot) -> u64 {
        let above = self.slots.split_off(&(root + 1));
        let below = std::mem::replace(&mut self.slots, above);
        self.bytes -= below.values().map(SlotEntry::bytes).sum::<usize>();
        below.values().map(|entry| entry.open.len() as u64).sum()
    }

    /// Slots with an open bank, and the bytes of these banks.
    pub(crate) fn open_slots(&self) -> (Vec<Slot>, usize) {
        let open = || self.slots.iter().filter(|(_, entry)| !entry.open.is_empty());
        let bytes = open().flat_map(|(_, entry)| &entry.open).map(|bank| bank.bytes).sum();
        (open().map(|(slot, _)| *slot).collect(), bytes)
    }

    pub(crate) fn open_banks(&self) -> usize {
        self.slots.values().map(|entry| entry.open.len()).sum()
    }
}
