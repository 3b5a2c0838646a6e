//! The commitments of a chain of verified banks, and the reactions to a wrong hash.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{History, HistoryLimits, Reader, Verification};
use feed::FeedConfig;
use follow::{
    AgreementConfig, Base, FollowHandle, FollowStatus, Follower, FollowerConfig, OnMismatch,
    SourceConfig, StreamConfig, VerifyMode,
};
use lattice::HardFork;
use ledger::Commitment;
use query::LedgerConfig;
use snapshot_solana::Progress;
use solana::{HashReporter, VerificationLevel, VotedStake};
use solana_pubkey::Pubkey;
use tempfile::TempDir;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate};

use crate::proven::Proven;
use crate::script::{account, status};
use crate::snapshot::{self, WALLET};
use testkit::eventually::eventually;
use testkit::geyser_source::{Source, slot_of};

pub(crate) async fn source_config(source: &Source) -> SourceConfig {
    SourceConfig { url: format!("http://{}", source.serve().await), x_token: None }
}

pub(crate) fn config(sources: Vec<SourceConfig>, verify: VerifyMode) -> FollowerConfig {
    FollowerConfig {
        sources,
        stream: StreamConfig {
            reconnect_delay_min: Duration::from_millis(1),
            ..StreamConfig::default()
        },
        feed: FeedConfig {
            incomplete_timeout: Duration::from_millis(300),
            // Whatever comes is prepared at once.
            quiescent_after: 0,
            ..FeedConfig::default()
        },
        history: HistoryLimits { blocks_max: 1_000, bytes_max: 1 << 30 },
        verify,
        verify_entries: false,
        execution: None,
        agreement: AgreementConfig::default(),
        upstream: None,
        archives: None,
        epoch_stakes: Vec::new(),
        trusted_banks: Vec::new(),
        on_mismatch: OnMismatch::Stop,
    }
}

/// Loads the state of an archive.
pub(crate) fn load_base(archive: &Path) -> Base {
    let limits = LedgerConfig::new(100_000);
    let loaded = snapshot_ledger::load_snapshot(&limits, archive, None, 1, &Progress::default());
    Base::from_snapshot(loaded.expect("the archive loads")).expect("a base")
}

/// A follower of scripted sources.
pub(crate) struct Rig {
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) status: Arc<FollowStatus>,
    handle: FollowHandle,
    _dir: TempDir,
}

impl Rig {
    /// Starts a follower. Returns the chain above its snapshot, too.
    pub(crate) fn start(config: FollowerConfig) -> (Self, Proven) {
        let dir = tempfile::tempdir().expect("a directory");
        let archive = snapshot::write(dir.path());
        Self::start_from(config, &archive, dir)
    }

    /// Starts a follower from an archive in a directory.
    pub(crate) fn start_from(
        config: FollowerConfig,
        archive: &Path,
        dir: TempDir,
    ) -> (Self, Proven) {
        let follower = Follower::new(config, load_base(archive)).expect("a follower");
        let reader = follower.reader().clone();
        let history = Arc::clone(follower.history());
        let view = reader.view(Commitment::Finalized);
        let accounts = view.all().map(|(address, account)| {
            let pubkey = Pubkey::try_from(address.as_bytes()).expect("32 bytes");
            (pubkey, account.0.clone())
        });
        let chain = Proven::new(follower.snapshot_fields(), accounts.collect());
        let status = Arc::clone(follower.status());
        let handle = follower.start(Vec::new()).expect("it starts");
        (Self { reader, history, status, handle, _dir: dir }, chain)
    }

    pub(crate) async fn wait(&self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let describe = || {
            let gap = self.status.last_gap();
            let proof = self.status.proof().summary();
            format!("{what}: {:?}, {gap:?}, {proof:?}", self.slots())
        };
        eventually(|| is_done(self), describe).await;
    }

    /// Slots at processed, confirmed and finalized.
    pub(crate) fn slots(&self) -> [u64; 3] {
        Commitment::ALL.map(|commitment| self.reader.view(commitment).block().slot)
    }

    pub(crate) async fn wait_for_slots(&self, slots: [u64; 3]) {
        self.wait(&format!("{slots:?}"), |rig| rig.slots() == slots).await;
    }

    /// The votes that decided on the bank of a slot.
    pub(crate) fn votes(&self, slot: u64) -> Option<VotedStake> {
        let history = self.history.snapshot();
        let block = history.block(slot, Commitment::Processed)?;
        self.status.proof().proof(block.id)?.votes
    }

    pub(crate) fn banks(&self) -> u64 {
        let mut out = metrics::Exposition::default();
        metrics::Collector::write(&*self.status, &mut out);
        let text = out.into_string();
        let name = "hydrant_follow_events_total{event=\"bank\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|count| count.parse().ok()).unwrap_or_default()
    }

    /// The level of the bank of a slot.
    pub(crate) fn level(&self, slot: u64) -> Option<VerificationLevel> {
        let history = self.history.snapshot();
        let block = history.block(slot, Commitment::Processed)?;
        self.status.proof().proof(block.id).map(|proof| proof.level)
    }

    pub(crate) async fn stop(self) {
        let stopped = tokio::task::spawn_blocking(|| self.handle.stop()).await;
        stopped.expect("it ends").expect("without an error");
    }
}

fn is_wallet(update: &SubscribeUpdate) -> bool {
    let Some(UpdateOneof::Account(update)) = &update.update_oneof else { return false };
    update.account.as_ref().is_some_and(|account| account.pubkey == WALLET)
}

/// A follower of a source that has sent nothing.
async fn start_followed() -> (Source, Rig, Proven) {
    let source = Source::new(None);
    let config = config(vec![source_config(&source).await], VerifyMode::Sequence);
    let (rig, chain) = Rig::start(config);
    (source, rig, chain)
}

/// A follower that has two banks. The second one has no child.
async fn with_two_banks() -> (Source, Rig, Proven) {
    let (source, rig, mut chain) = start_followed().await;
    source.send(chain.chain(101..=102));
    rig.wait_for_slots([102, 101, 100]).await;
    (source, rig, chain)
}

/// Changes the wallet's lamports in a slot.
fn damage_wallet(damaged: u64) -> impl Fn(&mut SubscribeUpdate) + Send + Sync {
    move |update| {
        if slot_of(update) == damaged
            && is_wallet(update)
            && let Some(UpdateOneof::Account(update)) = &mut update.update_oneof
            && let Some(account) = &mut update.account
        {
            account.lamports += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_is_confirmed_once_its_child_lists_its_hash() {
    let (source, rig, mut chain) = start_followed().await;
    assert_eq!(rig.status.proof().verified_slot(), None);
    source.send(chain.chain(101..=102));
    let mut fork = chain.clone();
    source.send(chain.chain(103..=103));
    source.send([status(101, SlotStatus::SlotFinalized), status(103, SlotStatus::SlotFinalized)]);
    rig.wait_for_slots([103, 102, 101]).await;
    let levels = [101, 102, 103].map(|slot| rig.level(slot));
    let sequence = VerificationLevel::Sequence;
    let computed = VerificationLevel::Computed;
    assert_eq!(levels, [Some(sequence), Some(sequence), Some(computed)]);
    assert_eq!(rig.status.verified(), 102);
    // A bank that waits for its child is complete, however long that takes: the gap of a later bank without its
    // transaction comes first.
    let is_transaction =
        |update: &SubscribeUpdate| matches!(update.update_oneof, Some(UpdateOneof::Transaction(_)));
    let mut incomplete = fork.bank(105, 1);
    incomplete.retain(|update| !is_transaction(update));
    incomplete.push(status(105, SlotStatus::SlotProcessed));
    source.send_damaged(incomplete, []);
    rig.wait("a gap", |rig| rig.status.gaps() > 0).await;
    let gap = rig.status.last_gap().unwrap_or_default();
    assert!(gap.starts_with("slot 105: "), "{gap}");
    source.send(chain.bank(104, 7));
    rig.wait_for_slots([104, 103, 103]).await;
    assert_eq!((rig.status.gaps(), rig.status.sessions()), (1, 2));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_is_confirmed_as_soon_as_an_open_child_lists_its_hash() {
    let (source, rig, mut chain) = with_two_banks().await;
    // SlotHashes is the third update of a bank.
    let child = chain.bank(103, 7);
    source.send(child[..2].to_vec());
    assert_eq!(rig.status.verified(), 101);
    source.send(child[2..3].to_vec());
    rig.wait_for_slots([102, 102, 100]).await;
    source.send(child[3..].to_vec());
    rig.wait_for_slots([103, 102, 100]).await;
    assert_eq!((rig.status.gaps(), rig.status.sessions()), (0, 1));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_is_not_confirmed_by_an_open_child_that_lists_another_hash() {
    let (source, rig, mut chain) = with_two_banks().await;
    let child = chain.bank(103, 7);
    let mut other = child[2].clone();
    if let Some(UpdateOneof::Account(update)) = &mut other.update_oneof {
        let info = update.account.as_mut().expect("an account");
        let mut data = info.data.to_vec();
        // The hash of the newest slot, after the length and the slot.
        data[20] ^= 1;
        (info.data, info.write_version) = (data.into(), 0);
    }
    source.send([child[0].clone(), child[1].clone(), other]);
    source.send(child[3..].to_vec());
    // One of the two banks is wrong, once the child is whole.
    rig.wait("a repair", |rig| rig.status.proof().summary().repairs == 1).await;
    assert_eq!(rig.status.verified(), 101);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_bank_is_requested_again_and_then_confirmed() {
    let source = Source::new(None);
    source.damage(1, damage_wallet(102));
    let config = config(vec![source_config(&source).await], VerifyMode::Sequence);
    let (rig, mut chain) = Rig::start(config);
    source.send(chain.chain(101..=104));
    rig.wait_for_slots([104, 103, 100]).await;
    let summary = rig.status.proof().summary();
    assert_eq!((summary.repairs, summary.mismatched_banks, summary.first_mismatch), (1, 0, None));
    assert_eq!(rig.status.sessions(), 2);
    let requests = source.requests();
    assert_eq!(requests.last().map(|request| request.from_slot), Some(Some(101)));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_that_is_damaged_again_stops_the_node_and_is_never_confirmed() {
    let source = Source::new(None);
    source.damage(usize::MAX, damage_wallet(102));
    let config = config(vec![source_config(&source).await], VerifyMode::Sequence);
    let (rig, mut chain) = Rig::start(config);
    source.send(chain.chain(101..=104));
    source.send([status(102, SlotStatus::SlotFinalized)]);
    rig.wait("a mismatch", |rig| rig.status.mismatch().is_some()).await;
    let summary = rig.status.proof().summary();
    assert_eq!((summary.repairs, summary.verified_slot), (1, Some(101)));
    let mismatch = summary.first_mismatch.expect("it is there");
    assert_eq!((mismatch.slot, mismatch.reporter), (102, HashReporter::Child));
    assert_ne!(mismatch.computed, mismatch.reported);
    assert!(mismatch.accounts_written.contains(&WALLET.into()), "{mismatch:?}");
    assert_eq!(mismatch.accounts_written_len, 5);
    assert_eq!((rig.slots()[1..].to_vec(), rig.status.sessions()), (vec![101, 100], 2));
    // Nothing newer is taken.
    source.send(chain.chain(105..=106));
    source.cut();
    rig.wait("a third session", |rig| rig.status.sessions() == 3).await;
    assert!(rig.slots()[0] <= 104);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn banks_above_a_reported_mismatch_are_processed_and_never_confirmed() {
    let (source, rig, mut chain) = reporting(usize::MAX).await;
    source.send(chain.chain(101..=105));
    source.send([status(103, SlotStatus::SlotFinalized)]);
    rig.wait("a mismatch", |rig| rig.status.proof().summary().mismatched_banks == 3).await;
    rig.wait_for_slots([105, 101, 100]).await;
    let summary = rig.status.proof().summary();
    assert_eq!(summary.first_mismatch.map(|mismatch| mismatch.slot), Some(102));
    assert_eq!((summary.repairs, summary.verified_slot), (1, Some(101)));
    assert_eq!(rig.level(102), Some(VerificationLevel::Computed));
    // It is followed further.
    source.send(chain.chain(106..=107));
    rig.wait_for_slots([107, 101, 100]).await;
    assert!(rig.status.mismatch().is_some());
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_that_a_later_stream_sends_right_ends_a_reported_mismatch() {
    let (source, rig, mut chain) = reporting(2).await;
    source.send(chain.chain(101..=105));
    source.send([status(103, SlotStatus::SlotFinalized)]);
    rig.wait("a mismatch", |rig| rig.status.mismatch().is_some()).await;
    rig.wait_for_slots([105, 101, 100]).await;
    source.cut();
    rig.wait_for_slots([105, 104, 103]).await;
    let summary = rig.status.proof().summary();
    assert_eq!((summary.verified_slot, rig.status.mismatch()), (Some(104), None));
    // The summary still has it.
    assert_eq!(summary.first_mismatch.map(|mismatch| mismatch.slot), Some(102));
    assert_eq!(rig.level(102), Some(VerificationLevel::Sequence));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn banks_above_a_reported_mismatch_pile_up_to_a_bound() {
    let (source, rig, mut chain) = reporting(usize::MAX).await;
    source.send(chain.chain(101..=620));
    let limitation = |rig: &Rig| rig.status.proof().limitation();
    rig.wait("the bound", |rig| limitation(rig).is_some()).await;
    let text = limitation(&rig).expect("it is there");
    assert_eq!(text.as_str(), "too many banks wait for their verification");
    let [processed, confirmed, finalized] = rig.slots();
    // 512 banks above the root, and none that is not verified is confirmed.
    assert!(processed <= 612 && confirmed <= 101 && finalized == 100, "{:?}", rig.slots());
    rig.stop().await;
}

/// A follower that reports mismatches. The first `damaged` streams of its source have a wrong bank 102.
async fn reporting(damaged: usize) -> (Source, Rig, Proven) {
    let source = Source::new(None);
    source.damage(damaged, damage_wallet(102));
    let config = config(vec![source_config(&source).await], VerifyMode::Sequence);
    let config = FollowerConfig { on_mismatch: OnMismatch::Report, ..config };
    let (rig, chain) = Rig::start(config);
    (source, rig, chain)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_replayed_with_another_hash_is_verified_as_the_second_bank() {
    let (source, rig, mut chain) = start_followed().await;
    source.send(chain.chain(101..=101));
    let mut second = chain.clone();
    source.send(chain.bank(102, 1));
    rig.wait("the first bank", |rig| rig.slots()[0] == 102).await;
    second.version = 1;
    source.send(second.bank(102, 2));
    source.send([status(102, SlotStatus::SlotConfirmed)]);
    second.version = 0;
    source.send(second.chain(103..=104));
    rig.wait_for_slots([104, 103, 100]).await;
    let history = rig.history.snapshot();
    let block = history.block(102, Commitment::Confirmed).expect("a block");
    assert_eq!(block.transactions.len(), 1);
    let summary = rig.status.proof().summary();
    assert_eq!((summary.repairs, summary.mismatched_banks), (0, 0));
    assert_eq!(rig.level(102), Some(VerificationLevel::Sequence));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_cluster_is_a_hard_fork() {
    // The bank is right at once.
    follow_restart(1, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_restarts_at_a_slot_are_found_by_the_hash_and_need_one_repair() {
    follow_restart(2, 1).await;
}

/// The cluster was restarted `count` times at a slot; that many `repairs` are needed.
async fn follow_restart(count: u64, repairs: u64) {
    let (source, rig, mut chain) = start_followed().await;
    source.send(chain.chain(101..=102));
    // The bank of slot 105 is the first after a restart at slot 104.
    chain.hard_forks.push(HardFork { slot: 104, count });
    let id = solana_sdk_ids::sysvar::last_restart_slot::ID.to_bytes();
    let restart = account(105, id, 1, 104_u64.to_le_bytes().to_vec());
    source.send(chain.bank_with(105, vec![restart], Vec::new()));
    source.send([status(105, SlotStatus::SlotConfirmed)]);
    source.send(chain.chain(106..=107));
    rig.wait_for_slots([107, 106, 100]).await;
    let summary = rig.status.proof().summary();
    assert_eq!((summary.repairs, summary.mismatched_banks), (repairs, 0));
    rig.stop().await;
}

/// Independent sources in addition to the followed one; two must agree.
async fn agreeing(count: usize) -> (Source, Vec<Source>, Rig, Proven) {
    let source = Source::new(None);
    let independent: Vec<Source> = (0..count).map(|_| Source::new(None)).collect();
    let mut sources = Vec::new();
    for source in &independent {
        sources.push(source_config(source).await);
    }
    let config = config(vec![source_config(&source).await], VerifyMode::Agree);
    let agreement = AgreementConfig { sources, required: 2 };
    let (rig, chain) = Rig::start(FollowerConfig { agreement, ..config });
    (source, independent, rig, chain)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_source_does_not_agree() {
    let (source, independent, rig, mut chain) = agreeing(2).await;
    source.send(chain.chain(101..=102));
    let at_102 = chain.child_slot_hashes();
    source.send(chain.chain(103..=103));
    independent[0].send([at_102.clone()]);
    rig.wait("the report", |rig| rig.status.proof().summary().sources[0].newest_slot.is_some())
        .await;
    rig.wait("the banks", |rig| rig.slots()[0] == 103).await;
    assert_eq!((rig.slots()[1], rig.level(102)), (100, Some(VerificationLevel::Sequence)));
    independent[1].send([at_102]);
    // The sysvar lists the ancestors, too.
    rig.wait_for_slots([103, 102, 100]).await;
    assert_eq!(rig.level(101), Some(VerificationLevel::Agreed));
    let sources = rig.status.proof().summary().sources;
    assert!(sources.iter().all(|source| source.is_connected && source.disagreements == 0));
    let request = &independent[0].requests()[0];
    let accounts = &request.accounts["follow"].account;
    assert_eq!(accounts, &[solana_sdk_ids::sysvar::slot_hashes::ID.to_string()]);
    assert!(request.transactions.is_empty() && request.slots.is_empty());
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_disagrees_is_named_and_two_of_three_are_enough() {
    let (source, independent, rig, mut chain) = agreeing(3).await;
    source.send(chain.chain(101..=101));
    let mut other = chain.clone();
    source.send(chain.chain(102..=102));
    other.bank(102, 77);
    for source in [&independent[0], &independent[2]] {
        source.send([chain.child_slot_hashes()]);
    }
    independent[1].send([other.child_slot_hashes()]);
    rig.wait_for_slots([102, 102, 100]).await;
    let disagrees = |rig: &Rig| rig.status.proof().summary().sources[1].disagreements;
    rig.wait("a disagreement", |rig| disagrees(rig) == 1).await;
    let sources = rig.status.proof().summary().sources;
    assert_eq!(sources[1].first_disagreement, Some((102, other.hash)));
    assert_eq!((sources[0].disagreements, sources[2].disagreements), (0, 0));
    assert_eq!(rig.status.mismatch(), None);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_that_agree_on_another_hash_are_a_mismatch() {
    let (source, independent, rig, mut chain) = agreeing(2).await;
    let mut other = chain.clone();
    source.send(chain.chain(101..=102));
    other.bank(101, 77);
    for source in &independent {
        source.send([other.child_slot_hashes()]);
    }
    rig.wait("a mismatch", |rig| rig.status.mismatch().is_some()).await;
    let summary = rig.status.proof().summary();
    let mismatch = summary.first_mismatch.expect("it is there");
    assert_eq!(
        (mismatch.slot, mismatch.reporter, summary.repairs),
        (101, HashReporter::Sources, 1)
    );
    assert_eq!(rig.slots()[1..], [100, 100]);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_of_hashes_that_sends_nonsense_is_connected_to_again() {
    let (source, independent, rig, mut chain) = agreeing(2).await;
    source.send(chain.chain(101..=102));
    let huge = account(102, WALLET, 1, vec![0; 100_000]);
    independent[0].send([huge]);
    independent[1].send([chain.child_slot_hashes()]);
    rig.wait("another try", |_| independent[0].requests().len() > 1).await;
    independent[0].forget(|_| true);
    independent[0].send([chain.child_slot_hashes()]);
    rig.wait_for_slots([102, 102, 100]).await;
    rig.stop().await;
}
