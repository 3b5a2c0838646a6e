//! A recorded run of three validators with forks (`cargo xtask rig --validators 3 --record`), replayed to followers:
//! all banks that the validator froze have the same hash, also on forks, and the abandoned forks are reverted.
//!
//! Shape: the tree of banks is that of the stream's block metadata, and its rooted chain ends at the newest final slot
//! of the stream. A bank is named by its slot and blockhash, since forks may have two banks in one slot.
//! In mode `agree` the independent source lists the SlotHashes of the recorded validator: only one was recorded.
//! Not here: reading the files of `tests/recorded_cluster` (`recording`), the recording (`xtask/src/rig`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chain_solana::{Block, EventSink, LedgerEvent, RevertReason, Verification};
use follow::{AgreementConfig, FollowerConfig, SourceConfig, VerifyMode};
use ledger::{BlockId, Commitment};
use parking_lot::Mutex;
use solana::VerificationLevel;
use solana_sdk_ids::sysvar;
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate};

use crate::followed_ledger::wait;
use crate::recording::{Chunk, FrozenBank, Recording, Replay};

/// The directory of the recording.
const RECORDING: &str = "recorded_cluster";
/// The least number of banks that the longest abandoned fork must have.
const FORK_BANKS_MIN: usize = 2;
/// Rooted banks at the end of the recording that a follower may still have above its root: votes for them are in banks
/// after the recording.
const UNSETTLED_ROOTS: usize = 16;

/// The slot and the blockhash of a bank, which name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BankKey {
    slot: u64,
    blockhash: String,
}

impl BankKey {
    fn from_frozen(bank: &FrozenBank) -> Self {
        Self { slot: bank.slot, blockhash: bank.last_blockhash.clone() }
    }
}

/// The tree of the recorded banks.
struct BankTree {
    /// Parents by bank, from the block metadata.
    parents: BTreeMap<BankKey, BankKey>,
    /// The rooted banks, the oldest first.
    rooted: Vec<BankKey>,
}

impl BankTree {
    fn read<'a>(updates: impl Iterator<Item = &'a SubscribeUpdate>) -> Self {
        let mut parents = BTreeMap::new();
        let mut root_slot = 0;
        for update in updates {
            match &update.update_oneof {
                Some(UpdateOneof::BlockMeta(meta)) => {
                    let bank = BankKey { slot: meta.slot, blockhash: meta.blockhash.clone() };
                    let blockhash = meta.parent_blockhash.clone();
                    parents.insert(bank, BankKey { slot: meta.parent_slot, blockhash });
                }
                Some(UpdateOneof::Slot(it))
                    if it.status == i32::from(SlotStatus::SlotFinalized) =>
                {
                    root_slot = root_slot.max(it.slot);
                }
                _ => {}
            }
        }
        let mut at_root = parents.keys().filter(|bank| bank.slot == root_slot);
        let root = at_root.next().expect("the final slot has a bank").clone();
        assert_eq!(at_root.next(), None, "the final slot has one bank");
        let chain = std::iter::successors(Some(&root), |bank| parents.get(*bank));
        // The oldest one is that of the archive, which has no metadata in the stream.
        let mut rooted: Vec<BankKey> =
            chain.take_while(|it| parents.contains_key(*it)).cloned().collect();
        rooted.reverse();
        Self { parents, rooted }
    }

    /// Returns the newest rooted bank that a follower must have as its root, or below it, at the end.
    fn find_settled(&self) -> &BankKey {
        let at = self.rooted.len().checked_sub(UNSETTLED_ROOTS + 1);
        &self.rooted[at.expect("the recording has more rooted banks")]
    }

    /// Returns the banks below `settled` that were not rooted.
    fn find_abandoned(&self) -> BTreeSet<BankKey> {
        let settled = self.find_settled().slot;
        let is_abandoned = |bank: &&BankKey| bank.slot < settled && !self.rooted.contains(bank);
        self.parents.keys().filter(is_abandoned).cloned().collect()
    }

    /// Returns the number of banks on the longest of these forks.
    fn longest_fork(&self, abandoned: &BTreeSet<BankKey>) -> usize {
        let length = |bank: &BankKey| {
            let chain = std::iter::successors(Some(bank), |bank| self.parents.get(*bank));
            chain.take_while(|bank| abandoned.contains(*bank)).count()
        };
        abandoned.iter().map(length).max().unwrap_or_default()
    }

    /// Returns whether `bank` is `ancestor` or descends from it.
    fn descends(&self, bank: &BankKey, ancestor: &BankKey) -> bool {
        let mut chain = std::iter::successors(Some(bank), |bank| self.parents.get(*bank));
        chain.any(|bank| bank == ancestor)
    }
}

/// The parts of a bank's hash as the follower computed them.
#[derive(Debug)]
struct FollowedBank {
    key: BankKey,
    parent: BlockId,
    previous_blockhash: String,
    hash: String,
    parent_hash: String,
    signature_count: String,
    lt_checksum: String,
}

impl FollowedBank {
    fn from_block(block: &Block) -> Self {
        let parts = &block.hash_components;
        Self {
            key: BankKey { slot: block.id.slot, blockhash: block.blockhash.to_string() },
            parent: block.parent,
            previous_blockhash: block.previous_blockhash.to_string(),
            hash: block.bank_hash.to_string(),
            parent_hash: parts.parent_hash.to_string(),
            signature_count: parts.signature_count.to_string(),
            lt_checksum: parts.lt_checksum.to_string(),
        }
    }

    /// Returns whether the validator froze the same bank.
    fn is_equal(&self, frozen: &FrozenBank) -> bool {
        let FrozenBank { hash, signature_count, lt_checksum, .. } = frozen;
        self.key == BankKey::from_frozen(frozen)
            && self.hash == *hash
            && self.signature_count == *signature_count
            && self.lt_checksum == *lt_checksum
    }
}

/// The banks that the follower has reported.
#[derive(Default)]
struct ReportedBanks {
    frozen: BTreeMap<BlockId, FollowedBank>,
    confirmed: BTreeSet<BlockId>,
    rooted: Vec<BlockId>,
    reverted: BTreeMap<BlockId, RevertReason>,
}

/// Records the events of the follower. Clones share the record.
#[derive(Clone, Default)]
struct BankEvents(Arc<Mutex<ReportedBanks>>);

impl EventSink for BankEvents {
    fn send(&mut self, event: &LedgerEvent) {
        let mut banks = self.0.lock();
        match event {
            LedgerEvent::Frozen { block, .. } => {
                banks.frozen.insert(block.id, FollowedBank::from_block(block));
            }
            LedgerEvent::Confirmed { block, .. } => {
                banks.confirmed.insert(block.id);
            }
            LedgerEvent::Rooted { block, .. } => banks.rooted.push(block.id),
            LedgerEvent::Reverted { block, reason, .. } => {
                banks.reverted.insert(block.id, reason.clone());
            }
            _ => {}
        }
    }
}

/// Returns settings with this mode, and with the independent source if the mode needs one.
fn set_mode(
    config: FollowerConfig,
    mode: VerifyMode,
    independent: Option<String>,
) -> FollowerConfig {
    let sources: Vec<SourceConfig> =
        independent.into_iter().map(|url| SourceConfig { url, x_token: None }).collect();
    let required = sources.len();
    let agreement = AgreementConfig { sources, required };
    FollowerConfig { verify: mode, agreement, ..config }
}

/// Returns the updates that an independent source sends: those of the SlotHashes sysvar.
fn select_slot_hashes(updates: &[SubscribeUpdate]) -> Vec<SubscribeUpdate> {
    let address = sysvar::slot_hashes::ID.to_bytes();
    let is_slot_hashes = |update: &&SubscribeUpdate| match &update.update_oneof {
        Some(UpdateOneof::Account(it)) => {
            it.account.as_ref().is_some_and(|account| account.pubkey == address)
        }
        _ => false,
    };
    updates.iter().filter(is_slot_hashes).cloned().collect()
}

/// Replays the recording to a follower in a mode, and checks that verified banks have its level.
fn check_mode(mode: VerifyMode, level: VerificationLevel) {
    let recording = Recording::read(RECORDING);
    let tree = BankTree::read(recording.updates());
    let abandoned = tree.find_abandoned();
    let longest = tree.longest_fork(&abandoned);
    assert!(longest >= FORK_BANKS_MIN, "the longest of the recorded forks has {longest} banks");
    let Recording { archive, chunks, rest, frozen_banks } = recording;
    let events = BankEvents::default();
    let independent = (mode == VerifyMode::Agree).then(|| Source::new(None));
    let set = |config, address: Option<std::net::SocketAddr>| {
        set_mode(config, mode, address.map(|address| format!("http://{address}")))
    };
    let sinks: Vec<Box<dyn EventSink>> = vec![Box::new(events.clone())];
    let mut replay = Replay::start_with(&archive, independent.as_ref(), set, sinks);
    let reader = replay.following.reader.clone();
    let is_shown = |commitment| {
        let block = reader.view(commitment).block();
        let banks = events.0.lock();
        let key = banks.frozen.get(&block).map(|bank| &bank.key);
        key.is_some_and(|key| abandoned.contains(key)).then_some(block)
    };
    let mut compared_tips = BTreeSet::new();
    let rest = Chunk { slot: u64::MAX, updates: rest };
    for Chunk { updates, .. } in chunks.into_iter().chain([rest]) {
        if let Some(independent) = &independent {
            independent.send(select_slot_hashes(&updates));
        }
        replay.send(updates);
        for commitment in [Commitment::Confirmed, Commitment::Finalized] {
            assert_eq!(is_shown(commitment), None, "an abandoned bank is {commitment:?}");
        }
        // A tip has its capitalization, too.
        let tip = replay.frozen_bank();
        let key = BankKey::from_frozen(&tip);
        if let Some(frozen) = frozen_banks.iter().find(|it| BankKey::from_frozen(it) == key) {
            assert_eq!(&tip, frozen);
            compared_tips.insert(key);
        }
    }
    let status = &replay.following.status;
    wait("the settled bank is final", || {
        status.root() >= tree.find_settled().slot || status.mismatch().is_some()
    });
    assert_eq!((status.mismatch(), status.gaps()), (None, 0));
    assert!(compared_tips.iter().any(|tip| !abandoned.contains(tip)), "no tip was compared");
    let tip = BankKey::from_frozen(&replay.frozen_bank());
    let recorded_root = &tree.rooted[tree.rooted.len() - 1];
    assert!(tree.descends(&tip, recorded_root), "{tip:?} is not above {recorded_root:?}");
    let banks = events.0.lock();
    compare_frozen_banks(&banks, &tree, &frozen_banks, replay.first);
    check_abandoned(&banks, &abandoned);
    check_rooted(&banks, &tree);
    check_levels(&banks, &tree, &abandoned, level, &**status.proof());
    assert_eq!(status.proof().summary().mismatched_banks, 0);
    drop(banks);
    replay.following.stop();
}

/// Checks that the follower has each bank of the validator's log, with its hash and on its parent.
fn compare_frozen_banks(
    banks: &ReportedBanks,
    tree: &BankTree,
    frozen_banks: &[FrozenBank],
    first: u64,
) {
    assert!(!frozen_banks.is_empty(), "the log has no bank");
    for frozen in frozen_banks {
        let key = BankKey::from_frozen(frozen);
        let of_key: Vec<_> = banks.frozen.values().filter(|bank| bank.key == key).collect();
        assert!(!of_key.is_empty(), "the follower has no bank {key:?}");
        let recorded_parent = &tree.parents[&key];
        for bank in of_key {
            assert!(bank.is_equal(frozen), "the validator has {frozen:?}, the follower {bank:?}");
            assert_eq!(bank.parent.slot, recorded_parent.slot, "{key:?}");
            assert_eq!(bank.previous_blockhash, recorded_parent.blockhash, "{key:?}");
            match banks.frozen.get(&bank.parent) {
                Some(parent) => {
                    assert_eq!(parent.key, *recorded_parent, "{key:?}");
                    assert_eq!(parent.hash, bank.parent_hash, "{key:?}");
                }
                None => assert!(bank.parent.slot < first, "{key:?} has the parent of the archive"),
            }
        }
    }
}

/// Checks that abandoned banks were only processed, and then reverted.
fn check_abandoned(banks: &ReportedBanks, abandoned: &BTreeSet<BankKey>) {
    for (id, bank) in banks.frozen.iter().filter(|(_, bank)| abandoned.contains(&bank.key)) {
        assert!(!banks.confirmed.contains(id), "{bank:?} is confirmed");
        assert!(!banks.rooted.contains(id), "{bank:?} is final");
        let reason = banks.reverted.get(id);
        assert_eq!(reason, Some(&RevertReason::Abandoned), "{bank:?} is not reverted");
    }
}

/// Checks that the final banks are the recorded ones, without gaps, at least up to the settled one.
fn check_rooted(banks: &ReportedBanks, tree: &BankTree) {
    let rooted: Vec<&BankKey> = banks.rooted.iter().map(|id| &banks.frozen[id].key).collect();
    let expected: Vec<&BankKey> = tree.rooted.iter().take(rooted.len()).collect();
    assert_eq!(rooted, expected, "the final banks");
    assert!(rooted.last().is_some_and(|bank| **bank >= *tree.find_settled()), "{rooted:?}");
    for id in &banks.rooted {
        assert!(banks.confirmed.contains(id), "{id:?} is final and was not confirmed");
        assert!(!banks.reverted.contains_key(id), "{id:?} is final and was reverted");
    }
}

/// Checks that each final bank has the level of the mode at least. An abandoned bank with a child has that of a
/// sequence, and no abandoned bank has the votes of two thirds of the stake.
fn check_levels(
    banks: &ReportedBanks,
    tree: &BankTree,
    abandoned: &BTreeSet<BankKey>,
    level: VerificationLevel,
    verification: &dyn Verification,
) {
    let level_of = |id: &BlockId| verification.proof(*id).map(|proof| proof.level);
    for id in &banks.rooted {
        assert!(level_of(id) >= Some(level), "{id:?} has {:?}", level_of(id));
    }
    for (id, bank) in banks.frozen.iter().filter(|(_, bank)| abandoned.contains(&bank.key)) {
        let has_child = tree.parents.values().any(|parent| *parent == bank.key);
        let least =
            if has_child { VerificationLevel::Sequence } else { VerificationLevel::Computed };
        let found = level_of(id);
        assert!(found >= Some(least), "{bank:?} has {found:?}");
        assert!(found < Some(VerificationLevel::Voted), "{bank:?} has {found:?}");
    }
}

#[test]
fn forks_of_a_cluster_are_verified_and_left_in_a_sequence() {
    check_mode(VerifyMode::Sequence, VerificationLevel::Sequence);
}

#[test]
fn forks_of_a_cluster_are_verified_and_left_by_votes() {
    check_mode(VerifyMode::Votes, VerificationLevel::Voted);
}

#[test]
fn forks_of_a_cluster_are_verified_and_left_by_agreement() {
    check_mode(VerifyMode::Agree, VerificationLevel::Agreed);
}
