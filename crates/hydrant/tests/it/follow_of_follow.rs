//! Hydrants behind Hydrants: a ledger, a follower of it, and a follower of that one's Yellowstone gRPC.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use follow::VerifyMode;
use ledger::Commitment;
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::{CommitmentLevel, SubscribeReplayInfoRequest};

use crate::followed_ledger::{
    Following, SLOTS_PER_EPOCH, Source, assert_equal, config, wait, write_snapshot,
};
use crate::grpc;

/// Whether a server can replay from a slot on.
async fn has_slot(url: &str, slot: u64) -> bool {
    let Ok(mut client) = GeyserClient::connect(url.to_owned()).await else { return false };
    let info = client.subscribe_replay_info(SubscribeReplayInfoRequest {}).await;
    let first = info.ok().and_then(|info| info.into_inner().first_available);
    first.is_some_and(|first| first <= slot)
}

#[test]
fn a_follower_of_a_follower_verifies_every_bank_and_is_equal() {
    let source = Source::start();
    source.run_to(20);
    let dir = tempfile::tempdir().expect("a directory");
    let rooted = source.reader.view(Commitment::Finalized);
    let root = rooted.block().slot;
    let archive = write_snapshot(&rooted, dir.path());
    source.run_to(30);
    let first = Following::start(&source, &archive, VerifyMode::Sequence);
    let address = first.grpc.address();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let url = format!("http://{address}");
    wait("the first bank", || runtime.block_on(has_slot(&url, root + 1)));
    let second = Following::start_with(config(address), &archive, Vec::new());
    let levels =
        [CommitmentLevel::Processed, CommitmentLevel::Confirmed, CommitmentLevel::Finalized];
    let streams = runtime.block_on(async {
        let mut streams = Vec::new();
        for level in levels {
            let updates = grpc::subscribe(address, level, root + 1).await;
            streams.push((level, updates.expect("a stream")));
        }
        streams
    });
    // The streams are read from now on: the log has fewer slots than the source makes.
    let wanted = Arc::new(OnceLock::new());
    let streams = streams.into_iter().map(|(level, updates)| {
        (level, runtime.spawn(grpc::follow(updates, level, grpc::SLOTS, Arc::clone(&wanted))))
    });
    let streams: Vec<_> = streams.collect();
    source.run_to(3 * SLOTS_PER_EPOCH);
    let end = source.slot(Commitment::Confirmed);
    for following in [&first, &second] {
        following.wait_for(end);
        assert_equal(&source, following, root);
    }
    let history = source.history.snapshot();
    let final_slots = root + 1..=root + grpc::SLOTS as u64;
    let signatures: HashSet<Vec<u8>> = final_slots
        .filter_map(|slot| history.block(slot, Commitment::Processed))
        .flat_map(|block| block.transactions.clone())
        .map(|executed| executed.signature().as_ref().to_vec())
        .collect();
    assert!(signatures.len() >= grpc::SLOTS);
    wanted.set(signatures).expect("it is set once");
    for (level, task) in streams {
        let checked = runtime.block_on(task).expect("no panic");
        checked.unwrap_or_else(|err| panic!("{level:?}: {err:#}"));
    }
    second.stop();
    first.stop();
    source.stop();
}
