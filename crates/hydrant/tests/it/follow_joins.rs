//! A follower whose snapshot is older than what its source can replay joins by archives of an upstream, and every bank
//! hash is correct afterwards.

use std::path::Path;
use std::time::Duration;

use follow::{ArchiveSource, FollowerConfig, LedgerDirectory};
use ledger::Commitment;
use solana_hash::Hash;
use testkit::archive_server::ArchiveServer;
use tokio::sync::watch;
use tonic::Code;
use yellowstone_grpc_proto::geyser::CommitmentLevel;

use crate::followed_ledger::{
    Following, SLOTS_PER_EPOCH, Source, assert_equal, config, limits, snapshot_base, wait,
    write_archive, write_snapshot,
};
use crate::grpc;
use crate::resuming_subscriber::ResumingSubscriber;

/// Slots that the source can replay.
const WINDOW: u64 = 16;

fn joining(source: &Source, upstream: &ArchiveServer, dir: &Path) -> FollowerConfig {
    let archives = ArchiveSource::new(upstream.start().into(), dir.to_owned(), 1);
    let poll_interval = Duration::from_millis(5);
    let archives = Some(ArchiveSource { poll_interval, ..archives });
    FollowerConfig { archives, ..config(source.grpc.address()) }
}

fn start(source: &Source, archive: &Path, upstream: &ArchiveServer, dir: &Path) -> Following {
    Following::start_with(joining(source, upstream, dir), archive, Vec::new())
}

/// Waits until all banks up to the source's last one are verified, and compares those after `slot`.
fn check(source: &Source, following: &Following, slot: u64) {
    let end = source.slot(Commitment::Confirmed);
    let status = &following.status;
    wait("the last bank", || status.processed() >= end || status.mismatch().is_some());
    wait("its parent is verified", || status.verified() + 1 >= end || status.mismatch().is_some());
    assert_eq!(status.mismatch(), None);
    assert_equal(source, following, slot);
}

/// Closes the gap by archives of the source's root, and checks what follows. Returns the slot of the jump.
fn join(with_full: bool) {
    let limits = ::grpc::Config { replay_slots_max: WINDOW, ..::grpc::Config::default() };
    let source = Source::start_with(limits);
    source.run_to(20);
    let [dir, own] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let base = source.reader.view(Commitment::Finalized);
    let root = base.block().slot;
    let archive = write_snapshot(&base, dir.path());
    // Beyond the window, and beyond the end of an epoch.
    source.run_to(root + 2 * SLOTS_PER_EPOCH);
    let upstream = ArchiveServer::default();
    let following = start(&source, &archive, &upstream, own.path());
    let status = &following.status;
    wait("a stream that waits", || status.needs_archive());
    assert_eq!((status.processed(), status.jumps()), (root, 0));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let address = following.grpc.address();
    let level = CommitmentLevel::Processed;
    let mut client = runtime.block_on(grpc::subscribe(address, level, None)).expect("a stream");
    let view = source.reader.view(Commitment::Finalized);
    let slot = view.block().slot;
    if with_full {
        upstream.set(Some(&write_archive(&view, None, dir.path())), None);
    } else {
        upstream.set(None, Some(&write_archive(&view, Some(&base), dir.path())));
    }
    wait("the jump", || status.jumps() == 1 || status.mismatch().is_some());
    let history = following.history.snapshot();
    assert!((root + 1..=slot).all(|slot| history.block(slot, Commitment::Processed).is_none()));
    // Over the ends of two more epochs: stakes and leaders are right too.
    source.run_to(slot + 2 * SLOTS_PER_EPOCH);
    check(&source, &following, slot);
    let ended = runtime.block_on(async {
        loop {
            if let Err(status) = client.message().await {
                return status.code();
            }
        }
    });
    assert_eq!(ended, Code::DataLoss);
    let early = runtime.block_on(grpc::subscribe(address, level, root + 1));
    let early = early.map(|mut stream| runtime.block_on(stream.message()));
    assert!(!matches!(early, Ok(Ok(_))), "what is before the jump cannot be replayed");
    assert_eq!(std::fs::read_dir(own.path()).expect("a directory").count(), 0);
    following.stop();
    source.stop();
}

#[test]
fn a_follower_joins_by_an_incremental_archive_and_verifies_every_bank_from_there() {
    join(false);
}

#[test]
fn a_follower_joins_by_a_full_archive_and_verifies_every_bank_from_there() {
    join(true);
}

/// Slots of the window of the next test: more than a follower has not stored.
const LONG_WINDOW: u64 = 96;

#[test]
fn clients_resume_at_a_follower_that_starts_again_from_the_state_after_a_jump() {
    let limit = ::grpc::Config { replay_slots_max: LONG_WINDOW, ..::grpc::Config::default() };
    let source = Source::start_with(limit);
    source.run_to(20);
    let [dir, own] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let base = source.reader.view(Commitment::Finalized);
    let archive = write_snapshot(&base, dir.path());
    source.run_to(base.block().slot + LONG_WINDOW + SLOTS_PER_EPOCH);
    let upstream = ArchiveServer::default();
    let view = source.reader.view(Commitment::Finalized);
    let jumped = view.block().slot;
    upstream.set(None, Some(&write_archive(&view, Some(&base), dir.path())));
    let config = joining(&source, &upstream, own.path());
    let directory = LedgerDirectory::new(&dir.path().join("ledger")).expect("a directory");
    let directory = directory.with_delay(Duration::ZERO);
    let first = directory.create(snapshot_base(&archive), Hash::default()).expect("it is created");
    let following = Following::start_from(config.clone(), first, Vec::new());
    wait("the jump", || following.status.root() >= jumped || following.status.mismatch().is_some());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (server, servers) = watch::channel(Some(following.grpc.address()));
    let (end, ends) = watch::channel(None);
    let subscribers =
        [CommitmentLevel::Processed, CommitmentLevel::Confirmed, CommitmentLevel::Finalized];
    let subscribers = subscribers.map(|level| {
        let server = servers.clone();
        let end = ends.clone();
        let subscriber =
            ResumingSubscriber { level, server, end, newest: jumped, is_deduplicated: true };
        runtime.spawn(subscriber.run())
    });
    // Until the jump is stored, and banks after it: the follower's root is 31 slots behind, and 16 more are not stored.
    source.run_to(jumped + 2 * SLOTS_PER_EPOCH);
    wait("the jump is stored", || following.status.stored() >= jumped);
    server.send_replace(None);
    following.stop();
    let stored = directory.open().expect("undamaged").expect("a state");
    let started = stored.slot();
    assert!(started >= jumped, "{started}, {jumped}");
    let stored = stored.into_base(Hash::default(), &limits()).expect("a base");
    let following = Following::start_from(config, stored, Vec::new());
    server.send_replace(Some(following.grpc.address()));
    source.run_to(jumped + 3 * SLOTS_PER_EPOCH);
    let last = jumped + 2 * SLOTS_PER_EPOCH - 4;
    check(&source, &following, started);
    assert_eq!(following.status.jumps(), 0);
    end.send_replace(Some(last));
    for subscriber in subscribers {
        let received = runtime.block_on(subscriber).expect("it runs").expect("nothing is missing");
        assert!(received.resumed >= 1, "it never resumed");
        let slots: Vec<u64> = received.slots.keys().copied().filter(|slot| *slot <= last).collect();
        assert_eq!(slots, (jumped + 1..=last).collect::<Vec<_>>());
    }
    following.stop();
    source.stop();
}
