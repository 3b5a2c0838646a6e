//! Upstreams that send what no kaspad sends: each ends its session with a clear error, and is connected to again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use follow_kaspa::{FollowerConfig, SourceConfig};
use futures_util::{SinkExt, StreamExt};
use kaspa::{
    BorshRequest, Event, Method, Network, Notification, Operation, RPC_API_VERSION, ServerError,
    ServerInfo, encode_borsh_failure,
};
use testkit::eventually::eventually;
use testkit::kaspa_node::KaspaNode;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use crate::world::{World, chain_config, config, source};

/// The replies to a request, by its id and operation.
type Script = fn(u64, Operation) -> Vec<Message>;

/// A server that does not speak wRPC.
struct HostileServer {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl HostileServer {
    /// Starts a server that replies by a script. It ends with the runtime.
    async fn start(script: Script) -> Self {
        Self::serve(move |socket| async move {
            let Ok(mut socket) = tokio_tungstenite::accept_async(socket).await else { return };
            while let Some(Ok(Message::Binary(bytes))) = socket.next().await {
                let request = BorshRequest::parse(&bytes).expect("a request");
                let id = request.id.expect("an id");
                for message in script(id, request.operation) {
                    if socket.send(message).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    async fn serve<F: Future<Output = ()> + Send + 'static>(
        handle: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(handle(socket));
            }
        });
        Self { address, connections }
    }

    /// Follows the server until it was connected to again after an error with this text.
    async fn assert_left(&self, change: impl FnOnce(&mut FollowerConfig), text: &str) {
        let source = SourceConfig::new(format!("ws://{}", self.address));
        let mut config = config(vec![source]);
        change(&mut config);
        let world = World::start(config, chain_config());
        let ends_with_text = |end: Option<String>| end.is_some_and(|end| end.contains(text));
        let is_left = || {
            ends_with_text(world.status.last_session_end())
                && self.connections.load(Ordering::Relaxed) > 2
        };
        eventually(is_left, || format!("{text}: {:?}", world.status.last_session_end())).await;
        assert!(!world.status.is_connected() || world.status.problem().is_some());
        assert_eq!(world.status.proven().hash, Network::Simnet.genesis().hash());
        world.stop().await;
    }
}

fn info(network: Network, version: &str) -> ServerInfo {
    ServerInfo {
        rpc_api_version: RPC_API_VERSION,
        rpc_api_revision: 0,
        server_version: version.to_owned(),
        network,
        has_utxo_index: true,
        is_synced: true,
        virtual_daa_score: 0,
    }
}

fn binary(bytes: Vec<u8>) -> Vec<Message> {
    vec![Message::Binary(bytes.into())]
}

/// A successful reply with this structure.
fn reply(id: u64, operation: Operation, structure: &[u8]) -> Vec<Message> {
    let head = [&[1_u8][..], &id.to_le_bytes(), &[0, 1, operation.code(), 1]].concat();
    let len = u32::try_from(structure.len()).expect("below 4 GiB").to_le_bytes();
    binary([&head[..], &len, structure].concat())
}

async fn assert_reply_is_refused(script: Script, text: &str) {
    HostileServer::start(script).await.assert_left(|_| {}, text).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_not_wrpc_are_refused() {
    assert_reply_is_refused(|_, _| vec![Message::Text("{}".into())], "wRPC in Borsh").await;
    assert_reply_is_refused(|_, _| binary(Vec::new()), "malformed").await;
    assert_reply_is_refused(|_, _| binary(vec![1, 2, 3]), "malformed").await;
    // A reply of an operation that does not exist.
    let unknown = |id: u64, _: Operation| {
        let head = [&[1_u8][..], &id.to_le_bytes(), &[0, 1, 200, 1, 0, 0, 0, 0]].concat();
        binary(head)
    };
    assert_reply_is_refused(unknown, "malformed").await;
    // A structure of 4 GiB that is not there.
    let huge = |id: u64, operation: Operation| {
        let code = operation.code();
        let head = [&[1_u8][..], &id.to_le_bytes(), &[0, 1, code, 1, 255, 255, 255, 255]].concat();
        binary(head)
    };
    assert_reply_is_refused(huge, "malformed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_to_other_requests_are_refused() {
    let other_id =
        |id: u64, _: Operation| binary(info(Network::Simnet, "2.1.0").encode_borsh(id + 1));
    assert_reply_is_refused(other_id, "does not belong").await;
    let other_method = |id: u64, _: Operation| {
        let error = ServerError::Text("none".to_owned());
        binary(encode_borsh_failure(id, Operation::Method(Method::GetInfo), &error))
    };
    assert_reply_is_refused(other_method, "does not belong").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_networks_and_old_nodes_are_refused() {
    let network = |id: u64, _: Operation| binary(info(Network::Mainnet, "2.1.0").encode_borsh(id));
    assert_reply_is_refused(network, "of mainnet, and simnet is followed").await;
    let old = |id: u64, _: Operation| binary(info(Network::Simnet, "2.0.1").encode_borsh(id));
    assert_reply_is_refused(old, "has the version 2.0.1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_calls_end_the_session() {
    let refuse = |id: u64, operation: Operation| match operation {
        Operation::Method(Method::GetServerInfo) => {
            binary(info(Network::Simnet, "2.1.0").encode_borsh(id))
        }
        operation => {
            let error = ServerError::Text("not today".to_owned());
            binary(encode_borsh_failure(id, operation, &error))
        }
    };
    assert_reply_is_refused(refuse, "not today").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_source_is_left() {
    let server = HostileServer::start(|_, _| Vec::new()).await;
    let timeout = Duration::from_millis(50);
    server.assert_left(|config| config.connection.call_timeout = timeout, "no reply within").await;
    // It accepts and never completes the handshake.
    let server = HostileServer::serve(|socket| async move {
        std::future::pending::<()>().await;
        drop(socket);
    });
    let server = server.await;
    let change = |config: &mut FollowerConfig| config.connection.connect_timeout = timeout;
    server.assert_left(change, "no connection within").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_above_the_limits_are_refused() {
    let server = HostileServer::start(|_, _| binary(vec![0; 1 << 16])).await;
    let change = |config: &mut FollowerConfig| config.connection.message_bytes_max = 1 << 15;
    server.assert_left(change, "at most 32768 are read").await;
    let notifications = |_: u64, _: Operation| {
        let notification = Notification::BlockAdded(vec![0; 1_000]).encode_borsh();
        vec![Message::Binary(notification.into()); 20]
    };
    let server = HostileServer::start(notifications).await;
    let change = |config: &mut FollowerConfig| config.connection.notification_bytes_max = 10_000;
    server.assert_left(change, "notification_bytes_max").await;
    // Without payloads: no id, a notification, and its event.
    let empty = |_: u64, _: Operation| {
        let head = vec![0, 255, 1, Operation::Notification(Event::BlockAdded).code()];
        vec![Message::Binary(head.into()); 1_000]
    };
    let server = HostileServer::start(empty).await;
    server.assert_left(change, "notification_bytes_max").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_above_a_gibibyte_is_refused_by_its_head() {
    let server = HostileServer::serve(|socket| async move {
        let Ok(mut socket) = tokio_tungstenite::accept_async(socket).await else { return };
        // The head of a binary frame without its content.
        let head = [&[0x82, 127][..], &((1_u64 << 30) + 1).to_be_bytes()].concat();
        // The follower may have closed it.
        let _ = socket.get_mut().write_all(&head).await;
        std::future::pending::<()>().await;
    });
    server.await.assert_left(|_| {}, "message_bytes_max").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_no_network_allows_is_not_decoded() {
    // The chain cannot be sent in a page. Its only block has 8 MiB and a byte.
    let script = |id: u64, operation: Operation| match operation {
        Operation::Method(Method::GetServerInfo) => {
            binary(info(Network::Simnet, "2.1.0").encode_borsh(id))
        }
        Operation::Method(Method::GetVirtualChainFromBlock) => {
            let one = 1_u32.to_le_bytes();
            let block = [7_u8; 32];
            // Nothing left the chain, a block joined it, and it accepted nothing.
            let change = [&[1_u8, 0][..], &[0; 4], &one, &block, &one, &block, &[0; 4]].concat();
            reply(id, operation, &change)
        }
        Operation::Method(Method::GetBlock) => reply(id, operation, &vec![0; (8 << 20) + 1]),
        operation => {
            let error = ServerError::Text("the address is invalid".to_owned());
            binary(encode_borsh_failure(id, operation, &error))
        }
    };
    assert_reply_is_refused(script, "longer than any network allows").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_sends_too_long_messages_only_is_left() {
    let server = HostileServer::start(|_, _| binary(vec![0; 1 << 18])).await;
    let node = KaspaNode::start().await;
    node.mine(5);
    let hostile = SourceConfig::new(format!("ws://{}", server.address));
    let mut config = config(vec![hostile, source(&node)]);
    config.connection.message_bytes_max = 1 << 17;
    let world = World::start(config, chain_config());
    world.reach_sink(&node).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_not_websockets_are_refused() {
    let server = HostileServer::serve(|mut socket: TcpStream| async move {
        // The follower may have closed it.
        let _ = socket.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
        std::future::pending::<()>().await;
    });
    server.await.assert_left(|_| {}, "handshake failed").await;
    let server = HostileServer::serve(|socket| async move { drop(socket) });
    server.await.assert_left(|_| {}, "handshake failed").await;
}
