//! One server that is killed, and a network that holds and cuts connections: appended exactly once.

use std::time::Duration;

use replicated_log::{AppendError, LogSpace};
use testkit::eventually::eventually;
use testkit::nats_servers::NatsServers;
use testkit::tcp_proxy::{Direction, Flow, TcpProxy};

use crate::world::{World, append_surely, check_reader, record, within};

/// Longer than a reply takes on the slowest machine, and shorter than the client takes to give a silent server up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_killed_server_loses_nothing() {
    let mut world = World::start(1).await;
    let log = world.open_log().await;
    let mut reader = log.read(0).await.expect("a reader");
    let records: Vec<_> = (0..6).map(|number| record(number, 4, 20_000)).collect();
    let mut last = 0;
    for record in &records[..3] {
        last = log.append(last, record.clone()).await.expect("appended");
    }
    world.servers.kill(0);
    match log.append(last, records[3].clone()).await {
        Err(AppendError::Unknown(_)) => {}
        other => panic!("{other:?}"),
    }
    world.servers.spawn(0);
    world.servers.wait_until_healthy(0).await;
    for record in &records[3..] {
        last = append_surely(&*log, last, record).await;
    }
    check_reader(&mut *reader, 0, &records).await;
    assert_eq!(log.tail().await.expect("a tail").last, last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn an_append_with_a_lost_reply_is_in_the_log_once() {
    let world = World::start(1).await;
    world.open_log().await;
    let proxy = TcpProxy::start(world.servers.client_address(0)).await;
    let url = NatsServers::server_url(proxy.address());
    let space = world.connect(|config| {
        config.url = url;
        config.request_timeout = REQUEST_TIMEOUT;
    });
    let log = space.await.open_generation(1).await.expect("the stream");
    let records: Vec<_> = (0..3).map(|number| record(number, 2, 1_000)).collect();
    assert_eq!(log.append(0, records[0].clone()).await.expect("appended"), 3);
    proxy.set_flow(Direction::ToClient, Flow::Hold);
    let append = log.append(3, records[1].clone()).await;
    assert!(matches!(append, Err(AppendError::Unknown(_))), "{append:?}");
    proxy.close_connections();
    proxy.set_flows(Flow::Pass);
    assert_eq!(append_surely(&*log, 3, &records[1]).await, 6);
    assert_eq!(append_surely(&*log, 6, &records[2]).await, 9);
    let mut reader = log.read(0).await.expect("a reader");
    check_reader(&mut *reader, 0, &records).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn an_append_that_lands_late_fences_its_writer() {
    let world = World::start(1).await;
    let direct = world.open_log().await;
    let proxy = TcpProxy::start(world.servers.client_address(0)).await;
    let url = NatsServers::server_url(proxy.address());
    let space = world.connect(|config| {
        config.url = url;
        config.request_timeout = REQUEST_TIMEOUT;
    });
    let log = space.await.open_generation(1).await.expect("the stream");
    proxy.set_flow(Direction::ToServer, Flow::Hold);
    let append = log.append(0, record(1, 3, 100)).await;
    assert!(matches!(append, Err(AppendError::Unknown(_))), "{append:?}");
    assert_eq!(direct.tail().await.expect("a tail").last, 0);
    proxy.set_flows(Flow::Pass);
    within(async { while direct.tail().await.expect("a tail").last != 4 {} }).await;
    match direct.append(0, record(2, 3, 100)).await {
        Err(AppendError::Fenced { last: 4 }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn a_reader_goes_on_after_each_cut() {
    let world = World::start(1).await;
    let direct = world.open_log().await;
    let proxy = TcpProxy::start(world.servers.client_address(0)).await;
    let url = NatsServers::server_url(proxy.address());
    let log = world.connect(|config| config.url = url).await;
    let log = log.open_generation(1).await.expect("the stream");
    let mut reader = log.read(0).await.expect("a reader");
    let mut last = 0;
    for number in 0..5 {
        let record = record(number, 30, 50_000);
        let after = last;
        last = direct.append(after, record.clone()).await.expect("appended");
        check_reader(&mut *reader, after, &[record]).await;
        proxy.close_connections();
    }
    // Cut while messages are on their way.
    let records: Vec<_> = (5..8).map(|number| record(number, 60, 50_000)).collect();
    let after = last;
    for record in &records {
        last = direct.append(last, record.clone()).await.expect("appended");
    }
    proxy.set_flow(Direction::ToClient, Flow::Hold);
    let waiting = tokio::spawn(async move {
        check_reader(&mut *reader, after, &records).await;
    });
    let is_waiting = || proxy.waiting_bytes(Direction::ToClient) > 0;
    eventually(is_waiting, || "waiting bytes".to_owned()).await;
    proxy.close_connections();
    proxy.set_flows(Flow::Pass);
    within(waiting).await.expect("the records");
}
