//! The block of an archive is confirmed, final and stored only once the chain proves it. A lying archive is refused.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::PreSnapshotStatuses;
use follow::{
    AgreementConfig, ArchiveSource, FollowerConfig, SourceConfig, TrustedBank, VerifyMode,
};
use ledger::{Address, Commitment};
use solana_hash::Hash;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;
use tempfile::TempDir;
use testkit::archive_server::ArchiveServer;
use testkit::eventually::eventually;
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::SubscribeUpdate;

use crate::archives::State;
use crate::follows::render_metrics;
use crate::proofs::{config, source_config};
use crate::proven::Proven;
use crate::stored::Rig;
use crate::votes::{Validators, bank};

/// The newest bank before the gap, and the block of the archive.
const BEFORE: u64 = 110;
pub(crate) const ARCHIVED: u64 = 130;
/// The account that a lying archive has.
const VICTIM: [u8; 32] = [77; 32];

/// A follower of a source, with an upstream that serves archives, and what proves banks in its mode.
pub(crate) struct World {
    mode: VerifyMode,
    pub(crate) source: Source,
    independent: Vec<Source>,
    validators: Validators,
    archives: ArchiveServer,
    config: FollowerConfig,
    pub(crate) rig: Rig,
    pub(crate) chain: Proven,
    dir: TempDir,
    served: TempDir,
}

impl World {
    async fn start(mode: VerifyMode) -> Self {
        Self::start_with(mode, |_| {}).await
    }

    async fn start_with(mode: VerifyMode, change: impl FnOnce(&mut FollowerConfig)) -> Self {
        let source = Source::new(None);
        let is_agree = mode == VerifyMode::Agree;
        let independent: Vec<Source> =
            (0..if is_agree { 2 } else { 0 }).map(|_| Source::new(None)).collect();
        let mut sources: Vec<SourceConfig> = Vec::new();
        for source in &independent {
            sources.push(source_config(source).await);
        }
        let required = sources.len();
        let [dir, served] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let archives = ArchiveServer::default();
        let downloads = dir.path().join("archives");
        std::fs::create_dir_all(&downloads).expect("a directory");
        let from = ArchiveSource::new(archives.start().into(), downloads, 1);
        let poll_interval = Duration::from_millis(5);
        let validators = Validators::new();
        let mut config = FollowerConfig {
            agreement: AgreementConfig { sources, required },
            epoch_stakes: vec![validators.stakes(1_000)],
            archives: Some(ArchiveSource { poll_interval, ..from }),
            ..config(vec![source_config(&source).await], mode)
        };
        change(&mut config);
        let rig = Rig::start(config.clone(), dir.path());
        let chain = Proven::new(&rig.fields, rig.base.clone().into_iter().collect());
        Self { mode, source, independent, validators, archives, config, rig, chain, dir, served }
    }

    /// A bank that proves nothing of its parent but that its SlotHashes lists it.
    pub(crate) fn bank(&mut self, slot: u64) -> Vec<SubscribeUpdate> {
        bank(&mut self.chain, slot, Vec::new())
    }

    /// Sends a bank that proves the one before it in this mode.
    pub(crate) fn prove(&mut self, slot: u64) {
        let voted = (self.chain.slot, self.chain.hash);
        for source in &self.independent {
            source.send([self.chain.child_slot_hashes()]);
        }
        let votes = self.validators.votes(slot, voted);
        let votes = if self.mode == VerifyMode::Votes { votes } else { Vec::new() };
        let bank = bank(&mut self.chain, slot, votes);
        self.source.send(bank);
    }

    /// Follows up to the gap. All banks except the last one are proven.
    async fn follow(&mut self) {
        (101..=BEFORE).for_each(|slot| self.prove(slot));
        let confirmed = if self.mode == VerifyMode::Off { BEFORE } else { BEFORE - 1 };
        self.wait_for_slots([BEFORE, confirmed, 100]).await;
    }

    /// Follows, and then is cut off beyond the replay window. The source has the banks from the archive's on.
    pub(crate) async fn cut_off(mode: VerifyMode) -> Self {
        let mut world = Self::start(mode).await;
        world.open_gap().await;
        world
    }

    async fn open_gap(&mut self) {
        self.follow().await;
        // A lost bank has no child that the follower gets.
        (BEFORE + 1..ARCHIVED).for_each(|slot| drop(self.bank(slot)));
        let before = self.source.requests().len();
        self.source.limit_replay(ARCHIVED);
        self.source.cut();
        let has_another = || self.source.requests().len() != before;
        eventually(has_another, || "another stream".to_owned()).await;
    }

    pub(crate) fn serve(&self, state: &State) {
        self.archives.set(Some(&state.write_full(self.served.path())), None);
    }

    /// Slots at processed, confirmed and finalized.
    fn slots(&self) -> [u64; 3] {
        Commitment::ALL.map(|commitment| self.rig.reader.view(commitment).block().slot)
    }

    pub(crate) async fn wait_for_slots(&self, slots: [u64; 3]) {
        let describe = || {
            let status = &self.rig.status;
            let error = status.last_archive_error();
            format!("{:?} {slots:?}: {:?}, {error:?}", self.mode, self.slots())
        };
        eventually(|| self.slots() == slots, describe).await;
    }

    /// Waits until the votes of all banks up to the processed tip are counted. The tip was sent after the others were
    /// shown, so none of them is missing in the number of unproven banks. Votes are counted before the result of their
    /// bank's checks.
    pub(crate) async fn wait_for_votes(&self, tip: u64) {
        let is_proven = "hydrant_follow_check_queue{of=\"unproven_banks\"} 0\n";
        let status = &self.rig.status;
        let are_counted =
            || status.processed() == tip && render_metrics(status).contains(is_proven);
        eventually(are_counted, || render_metrics(status)).await;
    }

    fn has_victim(&self, commitment: Commitment) -> bool {
        self.rig.reader.view(commitment).record(&Address::from(VICTIM)).is_some()
    }

    /// The confirmed slot before the gap.
    pub(crate) fn confirmed_slot(&self) -> u64 {
        if self.mode == VerifyMode::Off { BEFORE } else { BEFORE - 1 }
    }

    pub(crate) async fn wait_for_refusal(&self, text: &str) {
        let limitation = || self.rig.status.proof().limitation();
        let is_it = || limitation().is_some_and(|limitation| limitation.contains(text));
        eventually(is_it, || format!("{:?}, {text}: {:?}", self.mode, limitation())).await;
    }

    /// Restarts from the directory. The servers and directories are retained.
    async fn restart(self) -> (Rig, impl Sized) {
        let Self { source, independent, archives, config, rig, dir, served, .. } = self;
        rig.stop().await;
        let rig = Rig::start(config, dir.path());
        (rig, (source, independent, archives, dir, served))
    }
}

fn words(rig: &Rig) -> Vec<String> {
    rig.words.0.lock().clone()
}

const VERIFYING: [VerifyMode; 3] = [VerifyMode::Sequence, VerifyMode::Agree, VerifyMode::Votes];

#[tokio::test(flavor = "multi_thread")]
async fn the_block_of_an_archive_is_confirmed_and_final_once_it_is_proven() {
    for mode in VERIFYING {
        let mut world = World::cut_off(mode).await;
        let archived = world.bank(ARCHIVED);
        world.source.send(archived);
        world.serve(&world.chain.state());
        let confirmed = world.confirmed_slot();
        world.wait_for_slots([ARCHIVED, confirmed, 100]).await;
        assert_eq!(world.rig.status.unproven_jump(), Some(ARCHIVED));
        assert_eq!(world.rig.status.jumps(), 0);
        if mode != VerifyMode::Sequence {
            // The proof of another mode.
            let child = world.bank(ARCHIVED + 1);
            world.source.send(child);
            world.wait_for_slots([ARCHIVED + 1, confirmed, 100]).await;
        }
        world.prove(ARCHIVED + 2);
        eventually(|| world.slots()[2] == ARCHIVED, || format!("{mode:?}: {:?}", world.slots()))
            .await;
        assert_eq!((world.rig.status.unproven_jump(), world.rig.status.jumps()), (None, 1));
        assert_eq!(world.rig.status.proof().limitation(), None);
        let words = words(&world.rig);
        let at = |word: &str| words.iter().position(|it| it == word).expect(word);
        let jumped = format!("jumped {ARCHIVED} on {confirmed}");
        let confirmed = at(&format!("confirmed {ARCHIVED}"));
        assert!(at(&jumped) < confirmed && confirmed < at(&format!("rooted {ARCHIVED}")));
        world.rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_archive_with_right_sums_is_refused_and_never_confirmed() {
    for mode in VERIFYING {
        let mut world = World::cut_off(mode).await;
        let archived = world.bank(ARCHIVED);
        world.source.send(archived);
        // Its bank hash, its sum and its capitalization are those of the altered accounts.
        world.serve(&world.chain.state().with(VICTIM, 123));
        let confirmed = world.confirmed_slot();
        world.wait_for_slots([ARCHIVED, confirmed, 100]).await;
        assert!(world.has_victim(Commitment::Processed));
        world.prove(ARCHIVED + 1);
        world.wait_for_refusal(&format!("the bank hash of slot {ARCHIVED} is")).await;
        world.wait_for_slots([confirmed, confirmed, 100]).await;
        assert!(!Commitment::ALL.iter().any(|it| world.has_victim(*it)), "{mode:?}");
        let status = &world.rig.status;
        assert_eq!((status.unproven_jump(), status.jumps(), status.mismatch()), (None, 0, None));
        let refused = "hydrant_follow_events_total{event=\"refused_jump\"} 1";
        assert!(render_metrics(status).contains(refused));
        // The node continues with an archive of the chain.
        world.prove(ARCHIVED + 2);
        world.serve(&world.chain.state());
        world.prove(ARCHIVED + 3);
        eventually(|| world.slots()[2] >= ARCHIVED + 2, || format!("{:?}", world.slots())).await;
        assert_eq!(world.rig.status.proof().limitation(), None);
        assert!(!Commitment::ALL.iter().any(|it| world.has_victim(*it)), "{mode:?}");
        let words = words(&world.rig);
        for level in ["confirmed", "rooted"] {
            assert!(!words.contains(&format!("{level} {ARCHIVED}")), "{words:?}");
        }
        world.rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_a_gap_are_known_once_the_archive_is_proven() {
    let succeeded = Signature::from([1; 64]);
    let failed = Signature::from([2; 64]);
    let err = TransactionError::AccountNotFound;
    let with_statuses = |state: State| {
        let state = state.with_status(BEFORE + 3, &succeeded, Ok(()));
        state.with_status(BEFORE + 4, &failed, Err(err.clone()))
    };
    for mode in VERIFYING {
        let mut world = World::cut_off(mode).await;
        let find = |world: &World| {
            [succeeded, failed].map(|signature| world.rig.older_statuses.find(&signature))
        };
        let archived = world.bank(ARCHIVED);
        world.source.send(archived);
        // Refused: its status cache never counts.
        world.serve(&with_statuses(world.chain.state().with(VICTIM, 123)));
        let confirmed = world.confirmed_slot();
        world.wait_for_slots([ARCHIVED, confirmed, 100]).await;
        world.prove(ARCHIVED + 1);
        world.wait_for_refusal(&format!("the bank hash of slot {ARCHIVED} is")).await;
        assert_eq!(find(&world), [None, None], "{mode:?}");
        world.prove(ARCHIVED + 2);
        world.serve(&with_statuses(world.chain.state()));
        let unproven = Some(ARCHIVED + 2);
        let is_there = || world.rig.status.unproven_jump() == unproven;
        eventually(is_there, || format!("{mode:?}: {:?}", world.slots())).await;
        assert_eq!(find(&world), [None, None], "{mode:?}");
        world.prove(ARCHIVED + 3);
        eventually(|| world.rig.status.jumps() == 1, || format!("{:?}", world.slots())).await;
        let known = [Some((BEFORE + 3, Ok(()))), Some((BEFORE + 4, Err(err.clone())))];
        assert_eq!(find(&world), known, "{mode:?}");
        world.rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_of_another_chain_is_refused_in_every_mode_and_after_a_restart() {
    for mode in [VERIFYING.as_slice(), &[VerifyMode::Off]].concat() {
        let mut world = World::start(mode).await;
        let mut other = world.chain.clone();
        // Not even the snapshot's slot is the same there.
        other.hash = Hash::new_from_array([9; 32]);
        world.open_gap().await;
        let archived = world.bank(ARCHIVED);
        world.source.send(archived);
        world.prove(ARCHIVED + 1);
        // Without verification no hash is known, but the slots are.
        let first = if mode == VerifyMode::Off { BEFORE + 1 } else { 101 };
        (first..=ARCHIVED).for_each(|slot| drop(other.bank(slot, slot)));
        world.serve(&other.state().with(VICTIM, 123));
        world.wait_for_refusal("of another chain or fork").await;
        let confirmed = world.confirmed_slot();
        assert_eq!(world.slots()[1..], [confirmed, 100], "{mode:?}");
        assert_eq!(world.rig.status.jumps(), 0);
        assert!(!words(&world.rig).iter().any(|word| word.starts_with("jumped")), "{mode:?}");
        let (rig, _connected) = world.restart().await;
        assert_eq!(rig.fields.slot, 100, "{mode:?}");
        let limitation = || rig.status.proof().limitation();
        let is_refused = || limitation().is_some_and(|text| text.contains("of another chain"));
        eventually(is_refused, || format!("{mode:?}: {:?}", limitation())).await;
        rig.stop().await;
    }
}

/// A source and an archive that are in league: the chain continues on the altered state.
async fn in_league(mode: VerifyMode, lie: impl FnOnce(State) -> State) -> World {
    let mut world = World::cut_off(mode).await;
    let archived = world.bank(ARCHIVED);
    world.source.send(archived);
    let honest = world.chain.clone();
    world.chain.add_account(VICTIM, 123);
    world.serve(&lie(world.chain.state()));
    let child = world.bank(ARCHIVED + 1);
    world.source.send(child);
    if mode == VerifyMode::Agree {
        for source in &world.independent {
            source.send([honest.child_slot_hashes()]);
        }
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_in_league_with_the_archive_is_not_enough_to_agree() {
    let world = in_league(VerifyMode::Agree, |state| state).await;
    world.wait_for_refusal("by its sources").await;
    assert_eq!(world.slots()[1..], [world.confirmed_slot(), 100]);
    assert!(!world.has_victim(Commitment::Confirmed));
    world.rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn votes_of_stakes_that_the_archive_brings_do_not_prove_it() {
    let liars = Validators::new();
    let lie = |state: State| state.with_stakes(0, liars.archived_voters([100; 3]));
    let mut world = in_league(VerifyMode::Votes, lie).await;
    let send = |world: &mut World, slot| {
        let voted = (world.chain.slot, world.chain.hash);
        let bank = bank(&mut world.chain, slot, liars.votes(slot, voted));
        world.source.send(bank);
    };
    let last = ARCHIVED + 9;
    (ARCHIVED + 2..=last).for_each(|slot| send(&mut world, slot));
    let confirmed = world.confirmed_slot();
    world.wait_for_slots([last, confirmed, 100]).await;
    send(&mut world, last + 1);
    world.wait_for_votes(last + 1).await;
    world.wait_for_slots([last + 1, confirmed, 100]).await;
    assert_eq!(world.rig.status.unproven_jump(), Some(ARCHIVED));
    assert!(world.has_victim(Commitment::Processed) && !world.has_victim(Commitment::Confirmed));
    // Nothing of it was stored.
    let (rig, _connected) = world.restart().await;
    assert_eq!(rig.fields.slot, 100);
    assert!(!rig.base.keys().any(|pubkey| pubkey.to_bytes() == VICTIM));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_not_proven_in_time_is_dropped() {
    let shorten = |config: &mut FollowerConfig| {
        let archives = config.archives.as_mut().expect("archives");
        archives.proof_wait_max = Duration::from_millis(500);
    };
    let mut world = World::start_with(VerifyMode::Votes, shorten).await;
    world.open_gap().await;
    let archived = world.bank(ARCHIVED);
    world.source.send(archived);
    world.serve(&world.chain.state());
    // It lists the hash, and no validator votes for it.
    let child = world.bank(ARCHIVED + 1);
    world.source.send(child);
    let status = Arc::clone(&world.rig.status);
    let is_late = || {
        let error = status.last_archive_error();
        error.is_some_and(|text| text.contains("did not get the level of --verify within 500ms"))
    };
    eventually(is_late, || format!("{:?}", status.last_archive_error())).await;
    assert_eq!((world.slots()[1], world.slots()[2], status.jumps()), (BEFORE - 1, 100, 0));
    assert!(!render_metrics(&status).contains("events_total{event=\"refused_jump\"} 0\n"));
    // The node continues with an archive that is proven.
    world.prove(ARCHIVED + 2);
    world.serve(&world.chain.state());
    world.prove(ARCHIVED + 3);
    eventually(|| world.slots()[2] >= ARCHIVED, || format!("{:?}", world.slots())).await;
    assert_eq!(status.unproven_jump(), None);
    world.rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_the_start_is_proven_by_the_first_bank_with_the_level() {
    for mode in VERIFYING {
        let mut world = World::start(mode).await;
        let is_proven = |world: &World| world.rig.status.proof().is_state_proven();
        assert_eq!(is_proven(&world), mode == VerifyMode::Sequence, "its own word");
        let first = world.bank(101);
        world.source.send(first);
        let second = world.bank(102);
        world.source.send(second);
        eventually(|| world.slots()[0] == 102, || format!("{:?}", world.slots())).await;
        assert_eq!(is_proven(&world), mode == VerifyMode::Sequence, "{mode:?}");
        world.prove(103);
        eventually(|| is_proven(&world), || format!("{mode:?}: {:?}", world.slots())).await;
        world.rig.stop().await;
    }
}

fn trust_bank(slot: u64, bank_hash: Hash) -> Vec<TrustedBank> {
    vec![TrustedBank { slot, bank_hash }]
}

/// The chain above the snapshot, whose hashes depend on nothing random.
async fn scripted_chain() -> Proven {
    let world = World::start(VerifyMode::Sequence).await;
    let chain = world.chain.clone();
    world.rig.stop().await;
    chain
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_without_the_trusted_bank_is_not_confirmed() {
    let mut chain = scripted_chain().await;
    (101..=103).for_each(|slot| drop(bank(&mut chain, slot, Vec::new())));
    let right = chain.hash;
    let wrong = Hash::new_from_array([1; 32]);
    for (hash, confirmed) in [(right, 104), (wrong, 102)] {
        let trust = |config: &mut FollowerConfig| config.trusted_banks = trust_bank(103, hash);
        let mut world = World::start_with(VerifyMode::Sequence, trust).await;
        (101..=105).for_each(|slot| world.prove(slot));
        world.wait_for_slots([105, confirmed, 100]).await;
        if hash == wrong {
            world.wait_for_refusal("slot 103 has the bank hash").await;
        }
        assert_eq!(world.rig.status.proof().limitation().is_some(), hash == wrong);
        world.rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_without_the_trusted_bank_is_refused() {
    let mut chain = scripted_chain().await;
    (101..=120).for_each(|slot| drop(bank(&mut chain, slot, Vec::new())));
    let right = chain.hash;
    let wrong = Hash::new_from_array([1; 32]);
    for (hash, is_right) in [(right, true), (wrong, false)] {
        let trust = |config: &mut FollowerConfig| config.trusted_banks = trust_bank(120, hash);
        let mut world = World::start_with(VerifyMode::Sequence, trust).await;
        world.open_gap().await;
        let archived = world.bank(ARCHIVED);
        world.source.send(archived);
        let state = world.chain.state();
        world.prove(ARCHIVED + 1);
        world.serve(&state);
        if is_right {
            eventually(|| world.slots()[2] == ARCHIVED, || format!("{:?}", world.slots())).await;
            assert_eq!(world.rig.status.proof().limitation(), None);
        } else {
            world.wait_for_refusal("slot 120 has the bank hash").await;
            assert_eq!(world.slots()[1..], [world.confirmed_slot(), 100]);
        }
        world.rig.stop().await;
    }
}

/// Why a start from the snapshot is refused.
fn start_error(dir: &Path, mode: VerifyMode, trusted_banks: Vec<TrustedBank>) -> Option<String> {
    let source = SourceConfig { url: "http://127.0.0.1:1".into(), x_token: None };
    let config = FollowerConfig { trusted_banks, ..config(vec![source], mode) };
    let follower = follow::Follower::new(config, crate::stored::snapshot_base(dir));
    let err = follower.err()?;
    let source = std::error::Error::source(&err).map(ToString::to_string);
    Some(source.unwrap_or_else(|| err.to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_contradicts_the_trusted_bank_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let right = scripted_chain().await.hash;
    let wrong = Hash::new_from_array([1; 32]);
    let mode = VerifyMode::Votes;
    assert_eq!(start_error(dir.path(), mode, trust_bank(100, right)), None);
    let text = start_error(dir.path(), mode, trust_bank(100, wrong)).expect("it is refused");
    assert!(text.contains("slot 100 has the bank hash"), "{text}");
    // Nothing names an older one: the node says so, and is not healthy.
    let trust = |config: &mut FollowerConfig| config.trusted_banks = trust_bank(50, wrong);
    let world = World::start_with(mode, trust).await;
    world.wait_for_refusal("the trusted slot 50 cannot be compared").await;
    world.rig.stop().await;
    let off = start_error(dir.path(), VerifyMode::Off, trust_bank(100, right));
    assert!(off.is_some_and(|text| text.contains("--verify")));
}
