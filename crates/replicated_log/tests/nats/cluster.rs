//! Three servers that store each message: servers are killed under load, and nothing acknowledged is lost.

use std::sync::Arc;

use replicated_log::{Log, LogMessage, LogSpace};

use crate::world::{World, append_surely, check_reader, record, stream_name, within};

/// Length of the body messages.
const BODY_BYTES: usize = 50_000;

/// Returns the index of the server that leads the stream of generation 1.
async fn find_leader(world: &World) -> usize {
    let admin = world.admin().await;
    within(async {
        loop {
            let Ok(stream) = admin.get_stream(stream_name(1)).await else { continue };
            let cluster = stream.cached_info().cluster.as_ref();
            let leader = cluster.and_then(|cluster| cluster.leader.as_deref());
            if let Some(index) = leader.and_then(|name| world.servers.find(name)) {
                return index;
            }
        }
    })
    .await
}

/// Appends records one after another. Returns the last sequence.
async fn append_all(log: &dyn Log, after: u64, records: &[Vec<LogMessage>]) -> u64 {
    let mut last = after;
    for record in records {
        last = append_surely(log, last, record).await;
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_cluster_survives_its_leader_and_then_two_servers() {
    let mut world = World::start(3).await;
    let space = world.connect(|_| {}).await;
    assert!(space.create_generation(1).await.expect("a stream"));
    let faults = space.durability_faults().await.expect("faults");
    assert_eq!(faults, [""; 0]);
    let log = space.open_generation(1).await.expect("the stream");
    let records: Vec<_> = (0..18).map(|number| record(number, 9, BODY_BYTES)).collect();
    let mut reader = log.read(0).await.expect("a reader");
    let all = records.clone();
    let reading = tokio::spawn(async move { check_reader(&mut *reader, 0, &all).await });

    let last = append_all(&*log, 0, &records[..6]).await;
    let leader = find_leader(&world).await;
    world.servers.kill(leader);
    let last = append_all(&*log, last, &records[6..12]).await;
    world.servers.spawn(leader);
    world.servers.wait_until_healthy(leader).await;

    // Without a majority no append is acknowledged.
    world.servers.kill(0);
    world.servers.kill(1);
    let appending = tokio::spawn({
        let log = Arc::clone(&log);
        let records = records[12..].to_vec();
        async move { append_all(&*log, last, &records).await }
    });
    world.servers.spawn(0);
    world.servers.spawn(1);
    world.servers.wait_until_healthy(0).await;
    world.servers.wait_until_healthy(1).await;
    let last = within(appending).await.expect("appended");
    assert_eq!(last, 180);
    within(reading).await.expect("read");
    let tail = log.tail().await.expect("a tail");
    assert_eq!((tail.first, tail.last), (1, 180));
}
