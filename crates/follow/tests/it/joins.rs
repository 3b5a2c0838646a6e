//! A gap that no source can fill is closed by an archive: when the ledger starts, and when it is cut off for too long.

use std::path::Path;
use std::time::Duration;

use follow::{ArchiveSource, FollowerConfig};
use ledger::{Address, Commitment};
use solana_account::ReadableAccount;
use tempfile::TempDir;
use testkit::archive::copy_as_lz4;
use testkit::archive_server::ArchiveServer;
use testkit::geyser_source::{Source, slot_of};
use yellowstone_grpc_proto::geyser::SlotStatus;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;

use crate::archives::{GONE, State};
use crate::follows::{Rig, config, render_metrics, source_config};
use crate::script::{chain, status};

/// An account that exists only after an incremental archive.
const NEW: [u8; 32] = [22; 32];

/// A follower of a source, with an upstream that serves archives.
struct Joined {
    rig: Rig,
    served: ArchiveServer,
    /// The upstream's directory, and the follower's.
    dirs: [TempDir; 2],
}

impl Joined {
    async fn start(source: &Source, change: impl FnOnce(&mut FollowerConfig)) -> Self {
        let mut config = config(vec![source_config(source).await]);
        let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let served = ArchiveServer::default();
        let own = dirs[1].path().to_owned();
        let archives = ArchiveSource::new(served.start().into(), own, 1);
        let poll_interval = Duration::from_millis(5);
        config.archives = Some(ArchiveSource { poll_interval, ..archives });
        change(&mut config);
        let dir = tempfile::tempdir().expect("a directory");
        let archive = State::base().write_full(dir.path());
        let rig = Rig::start_from(config, Vec::new(), dir, &archive);
        Self { rig, served, dirs }
    }

    fn upstream(&self) -> &Path {
        self.dirs[0].path()
    }

    fn serve_incremental(&self, state: &State, base: u64) {
        let path = state.write_incremental(self.upstream(), base, &[GONE]);
        self.served.set(None, Some(&path));
    }

    fn lamports(&self, address: [u8; 32]) -> Option<u64> {
        let view = self.rig.reader.view(Commitment::Processed);
        view.record(&Address::from(address)).map(|account| account.0.lamports())
    }

    /// Capitalization is the sum of all accounts, at each commitment.
    fn check_lamports(&self) {
        for commitment in Commitment::ALL {
            let view = self.rig.reader.view(commitment);
            let total: u64 = view.all().map(|(_, account)| account.0.lamports()).sum();
            assert_eq!(view.meta().capitalization, total);
            assert_eq!(self.rig.lamports(commitment), view.block().slot * 10);
        }
    }

    /// Cuts the stream, and waits until another one is open that starts at this slot.
    async fn cut(&self, source: &Source, first_available: u64) {
        let sessions = self.rig.status.sessions();
        source.limit_replay(first_available);
        source.cut();
        self.rig.wait("another stream", |rig| rig.status.sessions() > sessions).await;
    }

    fn words(&self) -> Vec<String> {
        self.rig.words.0.lock().clone()
    }

    async fn stop(self) {
        self.rig.stop().await;
        let left = std::fs::read_dir(self.dirs[1].path()).expect("a directory").count();
        assert_eq!(left, 0, "archives that were used are removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_begins_after_the_archive_is_joined_by_an_incremental_one() {
    let source = Source::new(None);
    source.limit_replay(131);
    source.send(chain(101..=140));
    let joined = Joined::start(&source, |_| {}).await;
    let rig = &joined.rig;
    rig.wait("a stream that waits", |rig| rig.status.needs_archive()).await;
    assert_eq!(rig.slots(), [100; 3]);
    assert_eq!(joined.lamports(GONE), Some(700));
    joined.serve_incremental(&State::at(135).with(NEW, 9), 100);
    rig.wait_for_slots([140, 140, 135]).await;
    let sessions = rig.status.sessions();
    source.send(chain(141..=142));
    source.send([status(136, SlotStatus::SlotFinalized)]);
    rig.wait_for_slots([142, 142, 136]).await;
    assert_eq!(rig.status.sessions(), sessions, "the stream that waited is the one that goes on");
    assert_eq!((joined.lamports(GONE), joined.lamports(NEW)), (None, Some(9)));
    joined.check_lamports();
    let words = joined.words();
    let first =
        ["jumped 135 on 100", "tip 135", "confirmed 135", "rooted 135", "created 136 on 135"];
    assert_eq!(words[..5], first);
    let history = rig.history.snapshot();
    let is_found = |slot| history.block(slot, Commitment::Processed).is_some();
    assert!(!is_found(120) && !is_found(135), "their transactions are not known");
    assert!(is_found(136) && is_found(142));
    assert_eq!((rig.status.jumps(), rig.status.needs_archive()), (1, false));
    assert!(render_metrics(&rig.status).contains("hydrant_follow_events_total{event=\"jump\"} 1"));
    joined.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_moves_before_each_request_is_caught_up_with() {
    let source = Source::new(None);
    source.set_newest(190);
    source.limit_replay(131);
    source.move_window(4);
    source.send(chain(101..=190));
    let joined = Joined::start(&source, |_| {}).await;
    let rig = &joined.rig;
    rig.wait("a stream that waits", |rig| rig.status.needs_archive()).await;
    // Margins of 0, 1 and 2 slots are too short.
    let requested = source.requests().first().and_then(|request| request.from_slot);
    assert_eq!(requested, Some(131 + 3 * 4 + 4));
    joined.serve_incremental(&State::at(150), 100);
    rig.wait_for_slots([190, 190, 150]).await;
    joined.check_lamports();
    joined.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_stalls_hides_no_other_that_needs_an_archive() {
    let hung = Source::new(None);
    hung.set_newest(200);
    let hung_config = source_config(&hung).await;
    let source = Source::new(None);
    source.set_newest(200);
    source.limit_replay(131);
    source.send(chain(101..=190));
    let joined = Joined::start(&source, |config| {
        config.sources.insert(0, hung_config);
        config.stream.stall_timeout = Duration::from_secs(1);
    })
    .await;
    let rig = &joined.rig;
    rig.wait("a stream that waits", |rig| rig.status.needs_archive()).await;
    assert_eq!(hung.requests().len(), 1, "it stalled once");
    joined.serve_incremental(&State::at(150), 100);
    rig.wait_for_slots([190, 190, 150]).await;
    joined.check_lamports();
    joined.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cuts_beyond_the_window_are_closed_by_an_incremental_and_then_by_a_full_archive() {
    let source = Source::new(None);
    let joined = Joined::start(&source, |_| {}).await;
    let rig = &joined.rig;
    source.send(chain(101..=110));
    source.send([status(105, SlotStatus::SlotFinalized)]);
    rig.wait_for_slots([110, 110, 105]).await;
    joined.cut(&source, 131).await;
    source.send(chain(111..=140));
    // On top of slot 100, which the ledger has passed.
    joined.serve_incremental(&State::at(133).with(NEW, 9), 100);
    rig.wait_for_slots([140, 140, 133]).await;
    joined.check_lamports();
    let words = joined.words();
    let at = |word: &str| words.iter().position(|it| it == word).expect(word);
    let [jumped, before, root] = ["jumped 133 on 110", "rooted 110", "rooted 133"].map(at);
    assert!(jumped < before && before < root, "{words:?}");
    joined.cut(&source, 171).await;
    source.send(chain(141..=180));
    let full = State::at(175).with(GONE, 5).write_full(joined.upstream());
    joined.served.set(Some(&full), None);
    rig.wait_for_slots([180, 180, 175]).await;
    // Accounts that the full archive lacks are closed.
    assert_eq!((joined.lamports(GONE), joined.lamports(NEW)), (Some(5), None));
    joined.check_lamports();
    assert_eq!(rig.status.jumps(), 2);
    joined.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_archive_is_loaded_with_the_incremental_one_on_top() {
    let source = Source::new(None);
    source.limit_replay(131);
    source.send(chain(101..=140));
    let joined = Joined::start(&source, |_| {}).await;
    let full = State::at(120).with(GONE, 5).write_full(joined.upstream());
    let incremental = State::at(138).with(NEW, 9);
    let incremental = incremental.write_incremental(joined.upstream(), 120, &[GONE]);
    joined.served.set(Some(&full), Some(&incremental));
    joined.rig.wait_for_slots([140, 140, 138]).await;
    assert_eq!((joined.lamports(GONE), joined.lamports(NEW)), (None, Some(9)));
    joined.check_lamports();
    joined.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_is_closed_by_archives_that_are_compressed_with_lz4() {
    let source = Source::new(None);
    source.limit_replay(131);
    source.send(chain(101..=140));
    let joined = Joined::start(&source, |_| {}).await;
    let full = State::at(120).with(GONE, 5).write_full(joined.upstream());
    let incremental = State::at(138).with(NEW, 9);
    let incremental = incremental.write_incremental(joined.upstream(), 120, &[GONE]);
    let as_lz4 = |path| copy_as_lz4(path, joined.upstream()).expect("a copy");
    joined.served.set(Some(&as_lz4(&full)), Some(&as_lz4(&incremental)));
    joined.rig.wait_for_slots([140, 140, 138]).await;
    assert_eq!((joined.lamports(GONE), joined.lamports(NEW)), (None, Some(9)));
    joined.check_lamports();
    joined.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_never_becomes_whole_is_passed_by_an_archive() {
    let source = Source::new(None);
    source.send(chain(101..=110));
    let is_transaction = |update: &yellowstone_grpc_proto::geyser::SubscribeUpdate| {
        matches!(update.update_oneof, Some(UpdateOneof::Transaction(_)))
    };
    source.forget(|update| slot_of(update) == 103 && is_transaction(update));
    let joined = Joined::start(&source, |_| {}).await;
    joined.rig.wait("a stream that waits", |rig| rig.status.needs_archive()).await;
    assert_eq!(joined.rig.slots(), [102, 102, 100]);
    joined.serve_incremental(&State::at(106), 100);
    joined.rig.wait_for_slots([110, 110, 106]).await;
    joined.check_lamports();
    joined.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_archives_are_refused_with_the_reason_and_the_next_one_is_taken() {
    let source = Source::new(None);
    source.limit_replay(131);
    source.send(chain(101..=140));
    let joined = Joined::start(&source, |_| {}).await;
    let rig = &joined.rig;
    let refused = |what: &'static str| {
        rig.wait(what, move |rig| {
            rig.status.last_archive_error().is_some_and(|error| error.contains(what))
        })
    };
    refused("serves no snapshots").await;
    // Of another full archive, which is above the ledger.
    let full = State::at(100).with(GONE, 700).write_full(joined.upstream());
    let other = State::at(138).write_incremental(joined.upstream(), 120, &[GONE]);
    joined.served.set(Some(&full), Some(&other));
    refused("on top of slot 120, above the ledger's slot 100").await;
    // Of another chain: it does not close the account, so the sums differ.
    let other = State::at(138).write_incremental(joined.upstream(), 100, &[]);
    joined.served.set(None, Some(&other));
    refused("the archive was altered").await;
    // Half of one.
    let half = State::at(137).write_incremental(joined.upstream(), 100, &[GONE]);
    let bytes = std::fs::read(&half).expect("the archive");
    std::fs::write(&half, &bytes[..bytes.len() / 2]).expect("half of it");
    joined.served.set(None, Some(&half));
    refused("the archive is cut off here").await;
    assert_eq!((rig.slots(), rig.status.jumps()), ([100; 3], 0));
    assert_eq!(joined.lamports(GONE), Some(700));
    joined.serve_incremental(&State::at(136), 100);
    rig.wait_for_slots([140, 140, 136]).await;
    joined.check_lamports();
    joined.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_changes_too_much_for_the_memory_is_refused() {
    let source = Source::new(None);
    source.limit_replay(131);
    source.send(chain(101..=140));
    let joined = Joined::start(&source, |config| {
        let archives = config.archives.as_mut().expect("archives");
        archives.changes_bytes_max = 2_000;
    })
    .await;
    let many = (30..60).fold(State::at(135), |state, n| state.with([n; 32], 1));
    joined.serve_incremental(&many, 100);
    let rig = &joined.rig;
    rig.wait("the limit", |rig| {
        let error = rig.status.last_archive_error().unwrap_or_default();
        error.contains("at most 2000 (follow.changes_bytes_max)")
    })
    .await;
    assert_eq!((rig.slots(), rig.status.jumps()), ([100; 3], 0));
    joined.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_archive_a_source_that_has_the_banks_again_is_found() {
    let lossy = Source::new(None);
    let other = Source::new(None);
    for source in [&lossy, &other] {
        source.send(chain(101..=110));
    }
    let is_transaction = |update: &yellowstone_grpc_proto::geyser::SubscribeUpdate| {
        matches!(update.update_oneof, Some(UpdateOneof::Transaction(_)))
    };
    lossy.forget(|update| slot_of(update) == 103 && is_transaction(update));
    // It has nothing for now.
    other.limit_replay(1_000);
    let second = source_config(&other).await;
    let joined = Joined::start(&lossy, |config| {
        config.sources.push(second);
        config.stream.archive_timeout = Duration::from_millis(300);
    })
    .await;
    joined.rig.wait("a stream that waits", |rig| rig.status.needs_archive()).await;
    other.limit_replay(0);
    joined.rig.wait_for_slots([110, 110, 100]).await;
    assert_eq!(joined.rig.status.jumps(), 0);
    joined.stop().await;
}
