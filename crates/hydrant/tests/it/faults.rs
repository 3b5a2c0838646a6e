//! Faults between a source and its follower, by seed: a fault that changes the state is detected, and any other raises no
//! alarm.
//!
//! Shape: the stream of a ledger is recorded once. Each case follows it again from the same snapshot, through a scripted
//! source with one fault in it; the source's later streams have none.
//! Bounds: [`CASES`] of each kind; `HYDRANT_FAULTS=1000` runs that many. A failure names its seed.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chain_solana::{EventSink, LedgerEvent, View};
use fastrand::Rng;
use ledger::{Address, BlockId, Commitment};
use solana_account::ReadableAccount;
use solana_hash::Hash;
use tempfile::TempDir;
use testkit::geyser_source::{self, slot_of};
use tokio::runtime::Runtime;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SlotStatus, SubscribeUpdate, SubscribeUpdateAccountInfo,
};

use crate::followed_ledger::{Following, Source, accounts, config, wait, write_snapshot};
use crate::grpc;

/// Cases of each kind, unless the environment says another number.
const CASES: u64 = 24;
/// The last slot of the recorded stream, which has the start of an epoch.
const END: u64 = 56;

/// The recorded stream of a ledger.
struct Recording {
    source: Source,
    archive: PathBuf,
    /// The state at the snapshot's slot.
    rooted: View,
    root: u64,
    updates: Vec<SubscribeUpdate>,
    /// The right hash of each slot.
    bank_hashes: BTreeMap<u64, Hash>,
    runtime: Runtime,
    _dir: TempDir,
}

impl Recording {
    fn new() -> Self {
        let source = Source::start();
        source.run_to(20);
        let dir = tempfile::tempdir().expect("a directory");
        let rooted = source.reader.view(Commitment::Finalized);
        let root = rooted.block().slot;
        let archive = write_snapshot(&rooted, dir.path());
        source.run_to(END);
        let runtime = Runtime::new().expect("a runtime");
        let recorded = record(&source, root + 1);
        let updates = runtime.block_on(recorded);
        let history = source.history.snapshot();
        let hash = |slot| history.block(slot, Commitment::Processed).map(|it| (slot, it.bank_hash));
        let bank_hashes = (root + 1..=END).filter_map(hash).collect();
        Self { source, archive, rooted, root, updates, bank_hashes, runtime, _dir: dir }
    }

    /// The account updates of a slot that say the last of their account, and change its state.
    fn last_writes(&self, slot: u64) -> Vec<usize> {
        let mut last = HashMap::new();
        for (at, update) in self.updates.iter().enumerate() {
            if let (Some(info), true) = (account_info(update), slot_of(update) == slot) {
                last.insert(info.pubkey.clone(), at);
            }
        }
        let mut last: Vec<usize> = last.into_values().collect();
        last.sort_unstable();
        last.retain(|at| self.changes_state(*at));
        last
    }

    /// Whether the account would have another state without the update.
    fn changes_state(&self, at: usize) -> bool {
        let Some(info) = account_info(&self.updates[at]) else { return false };
        let mut earlier = self.updates[..at].iter().rev().filter_map(account_info);
        let content = |info: &SubscribeUpdateAccountInfo| {
            (info.lamports, info.owner.clone(), info.executable, info.data.to_vec())
        };
        if let Some(earlier) = earlier.find(|earlier| earlier.pubkey == info.pubkey) {
            return content(earlier) != content(info);
        }
        let address = Address::from(<[u8; 32]>::try_from(&*info.pubkey).expect("an address"));
        let Some(account) = self.rooted.record(&address) else { return info.lamports > 0 };
        let account = &account.0;
        let owner = account.owner().to_bytes().to_vec();
        let before = (account.lamports(), owner, account.executable(), account.data().to_vec());
        before != content(info)
    }

    /// Follows the script; later streams get the recording.
    fn follow(&self, script: Vec<SubscribeUpdate>) -> Case {
        let source = geyser_source::Source::new(None);
        let address = self.runtime.block_on(source.serve());
        source.send(script);
        source.repair_after_first_stream(self.updates.clone());
        let shown = Shown::default();
        let mut config = config(address);
        config.feed.incomplete_timeout = Duration::from_millis(100);
        config.stream.reconnect_delay_min = Duration::from_millis(1);
        let sinks: Vec<Box<dyn EventSink>> = vec![Box::new(shown.clone())];
        let following = Following::start_with(config, &self.archive, sinks);
        Case { following, shown, source }
    }

    /// Waits until the follower has the whole recording, verified, and compares it with the source. Besides each bank it
    /// may have shown one of a slot that is on no chain to the tip.
    fn assert_followed(&self, case: &Case, other_bank: Option<u64>) {
        let status = &case.following.status;
        wait("the last bank", || status.processed() >= END || status.mismatch().is_some());
        assert_eq!(status.mismatch(), None);
        wait("its parent is verified", || status.verified() + 1 >= END);
        let ours = case.following.reader.view(Commitment::Processed);
        let theirs = self.source.reader.view(Commitment::Confirmed);
        assert!(accounts(&ours) == accounts(&theirs), "the accounts differ");
        let frozen = || case.shown.0.lock().unwrap_or_else(PoisonError::into_inner).frozen();
        // Subscribers get a bank after readers see it.
        wait("the last bank is shown", || frozen().last() == Some(&END));
        let mut frozen: Vec<u64> = frozen();
        if let Some(at) = frozen.iter().position(|slot| Some(*slot) == other_bank)
            && frozen.get(at + 1) == other_bank.as_ref()
        {
            frozen.remove(at);
        }
        let expected: Vec<u64> = (self.root + 1..=END).collect();
        assert_eq!(frozen, expected, "each bank once, in order");
    }

    /// Nothing was ever shown as confirmed that has a wrong hash.
    fn assert_confirmed_are_right(&self, case: &Case) {
        let shown = case.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (slot, hash) in &shown.confirmed {
            assert_eq!(self.bank_hashes.get(slot), Some(hash), "slot {slot} was confirmed");
        }
    }
}

/// A follower of a scripted source.
struct Case {
    following: Following,
    shown: Shown,
    source: geyser_source::Source,
}

/// The blocks that a subscriber has received.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<ShownBlocks>>);

#[derive(Default)]
struct ShownBlocks {
    /// Frozen banks, without those that were reverted.
    frozen: Vec<BlockId>,
    confirmed: Vec<(u64, Hash)>,
}

impl ShownBlocks {
    fn frozen(&self) -> Vec<u64> {
        self.frozen.iter().map(|block| block.slot).collect()
    }
}

impl EventSink for Shown {
    fn send(&mut self, event: &LedgerEvent) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            LedgerEvent::Frozen { block, .. } => shown.frozen.push(block.id),
            LedgerEvent::Reverted { block, .. } => {
                shown.frozen.retain(|id| *id != block.id);
            }
            LedgerEvent::Confirmed { block, .. } => {
                shown.confirmed.push((block.id.slot, block.bank_hash));
            }
            _ => {}
        }
    }
}

/// Everything from a slot on, up to the confirmation of the last one.
async fn record(source: &Source, from_slot: u64) -> Vec<SubscribeUpdate> {
    let level = CommitmentLevel::Processed;
    let updates = grpc::subscribe(source.grpc.address(), level, from_slot).await;
    let mut updates = updates.expect("a stream");
    let mut recorded = Vec::new();
    loop {
        let update = updates.message().await.expect("no error").expect("an update");
        let is_last = matches!(&update.update_oneof, Some(UpdateOneof::Slot(slot))
            if slot.slot == END && slot.status == i32::from(SlotStatus::SlotConfirmed));
        recorded.push(update);
        if is_last {
            return recorded;
        }
    }
}

fn account_info(update: &SubscribeUpdate) -> Option<&SubscribeUpdateAccountInfo> {
    match &update.update_oneof {
        Some(UpdateOneof::Account(account)) => account.account.as_ref(),
        _ => None,
    }
}

fn info_mut(update: &mut SubscribeUpdate) -> &mut SubscribeUpdateAccountInfo {
    match &mut update.update_oneof {
        Some(UpdateOneof::Account(account)) => account.account.as_mut().expect("an account"),
        _ => panic!("no account"),
    }
}

fn cases() -> u64 {
    std::env::var("HYDRANT_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

/// A fault that changes the state: its effect on the last write of an account, or on its bank.
#[derive(Clone, Copy, Debug)]
enum Corruption {
    Data,
    Lamports,
    Owner,
    Executable,
    Blockhash,
    LostWrite,
    LostTransaction,
    LostMeta,
    LostBank,
}

const CORRUPTIONS: [Corruption; 9] = [
    Corruption::Data,
    Corruption::Lamports,
    Corruption::Owner,
    Corruption::Executable,
    Corruption::Blockhash,
    Corruption::LostWrite,
    Corruption::LostTransaction,
    Corruption::LostMeta,
    Corruption::LostBank,
];

impl Corruption {
    /// The recording with this fault in a slot; `None` if the slot has nothing to which it can happen.
    fn apply(
        self,
        recording: &Recording,
        slot: u64,
        random: &mut Rng,
    ) -> Option<Vec<SubscribeUpdate>> {
        let mut updates = recording.updates.clone();
        let is_alive =
            |at: &usize| account_info(&updates[*at]).is_some_and(|info| info.lamports > 0);
        let mut writes = recording.last_writes(slot);
        match self {
            Self::Data => {
                writes
                    .retain(|at| account_info(&updates[*at]).is_some_and(|it| !it.data.is_empty()));
                writes.retain(is_alive);
                let info = info_mut(&mut updates[random.choice(writes)?]);
                let mut data = info.data.to_vec();
                let at = random.usize(..data.len());
                data[at] ^= 1 << random.u8(..8);
                info.data = data.into();
            }
            Self::Lamports => {
                let info = info_mut(&mut updates[random.choice(writes)?]);
                info.lamports ^= 1 << random.u8(..40);
            }
            Self::Owner => {
                writes.retain(is_alive);
                let info = info_mut(&mut updates[random.choice(writes)?]);
                info.owner[random.usize(..32)] ^= 1 << random.u8(..8);
            }
            Self::Executable => {
                writes.retain(is_alive);
                let info = info_mut(&mut updates[random.choice(writes)?]);
                info.executable = !info.executable;
            }
            Self::Blockhash => {
                let UpdateOneof::BlockMeta(meta) = find_block_meta(&mut updates, slot)? else {
                    return None;
                };
                let mut bytes = meta.blockhash.parse::<Hash>().expect("a hash").to_bytes();
                bytes[random.usize(..32)] ^= 1 << random.u8(..8);
                meta.blockhash = Hash::new_from_array(bytes).to_string();
            }
            Self::LostWrite => {
                updates.remove(random.choice(writes)?);
            }
            Self::LostTransaction => {
                let is_lost = |update: &SubscribeUpdate| {
                    matches!(update.update_oneof, Some(UpdateOneof::Transaction(_)))
                };
                remove(&mut updates, slot, is_lost)?;
            }
            Self::LostMeta => {
                let is_lost = |update: &SubscribeUpdate| {
                    matches!(update.update_oneof, Some(UpdateOneof::BlockMeta(_)))
                };
                remove(&mut updates, slot, is_lost)?;
            }
            Self::LostBank => {
                let is_lost = |update: &SubscribeUpdate| {
                    matches!(&update.update_oneof, Some(UpdateOneof::Slot(status))
                        if status.status == i32::from(SlotStatus::SlotCreatedBank))
                };
                remove(&mut updates, slot, is_lost)?;
            }
        }
        Some(updates)
    }
}

fn find_block_meta(updates: &mut [SubscribeUpdate], slot: u64) -> Option<&mut UpdateOneof> {
    let mut of_slot = updates.iter_mut().filter(|update| slot_of(update) == slot);
    of_slot.find_map(|update| {
        update.update_oneof.as_mut().filter(|it| matches!(it, UpdateOneof::BlockMeta(_)))
    })
}

/// Removes the first such update of a slot.
fn remove(
    updates: &mut Vec<SubscribeUpdate>,
    slot: u64,
    is_lost: impl Fn(&SubscribeUpdate) -> bool,
) -> Option<SubscribeUpdate> {
    let at = updates.iter().position(|update| slot_of(update) == slot && is_lost(update))?;
    Some(updates.remove(at))
}

/// Returns the number of counted events of a kind.
fn events(following: &Following, kind: &str) -> u64 {
    let mut out = metrics::Exposition::default();
    metrics::Collector::write(&*following.status, &mut out);
    let text = out.into_string();
    let name = format!("event=\"{kind}\"");
    let line = text.lines().find(|line| line.contains(&name));
    let count = line.and_then(|line| line.rsplit(' ').next()).and_then(|text| text.parse().ok());
    count.expect("the metric")
}

#[test]
fn faults_that_change_the_state_are_found_within_a_slot() {
    let recording = Recording::new();
    let mut found = BTreeMap::new();
    for seed in 0..cases() {
        let mut random = Rng::with_seed(seed);
        let corruption = CORRUPTIONS[seed as usize % CORRUPTIONS.len()];
        let (slot, script) = std::iter::repeat_with(|| {
            let slot = random.u64(recording.root + 2..END - 10);
            Some((slot, corruption.apply(&recording, slot, &mut random)?))
        })
        .flatten()
        .next()
        .expect("a slot to which it can happen");
        let case = recording.follow(script);
        let status = &case.following.status;
        let what = format!("seed {seed}: {corruption:?} in slot {slot}");
        let repairs = || events(&case.following, "repair");
        wait(&what, || repairs() > 0 || status.gaps() > 0);
        let how = if status.gaps() > 0 { "gap" } else { "hash" };
        *found.entry((format!("{corruption:?}"), how)).or_insert(0) += 1;
        // With another blockhash it is another bank of the slot: a fork until the root is above it.
        let other_bank = matches!(corruption, Corruption::Blockhash).then_some(slot);
        // The next stream has no fault, so nothing of it is left. That a wrong hash is found within a slot is tested in
        // `follow`, where the source waits.
        recording.assert_followed(&case, other_bank);
        assert_eq!(events(&case.following, "mismatched_bank"), 0, "{what}: it was repaired");
        recording.assert_confirmed_are_right(&case);
        case.following.stop();
    }
    print(&format!("{} faults found: {found:?}", cases()));
    recording.source.stop();
}

#[expect(clippy::print_stdout, reason = "the table of a long run")]
fn print(text: &str) {
    println!("{text}");
}

/// A fault that does not change the state.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    Doubled,
    DoubledLater,
    Swapped,
    Cut,
}

const DISTURBANCES: [Disturbance; 4] =
    [Disturbance::Doubled, Disturbance::DoubledLater, Disturbance::Swapped, Disturbance::Cut];

#[test]
fn updates_that_are_doubled_or_swapped_and_streams_that_are_cut_raise_no_alarm() {
    let recording = Recording::new();
    for seed in 0..cases() {
        let mut random = Rng::with_seed(seed);
        let disturbance = DISTURBANCES[seed as usize % DISTURBANCES.len()];
        let mut script = recording.updates.clone();
        let at = random.usize(..script.len() - 1);
        match disturbance {
            Disturbance::Doubled => script.insert(at, script[at].clone()),
            Disturbance::DoubledLater => {
                let later = random.usize(at..script.len());
                script.insert(later, script[at].clone());
            }
            Disturbance::Swapped => script.swap(at, at + 1),
            Disturbance::Cut => script.truncate(at),
        }
        let case = recording.follow(script);
        if matches!(disturbance, Disturbance::Cut) {
            wait("a stream", || case.following.status.sessions() > 0);
            case.source.cut();
        }
        recording.assert_followed(&case, None);
        recording.assert_confirmed_are_right(&case);
        let gaps = case.following.status.gaps();
        assert_eq!(
            gaps,
            0,
            "seed {seed}: {disturbance:?} at {at} of {slot}",
            slot = slot_of(&recording.updates[at])
        );
        case.following.stop();
    }
    recording.source.stop();
}
