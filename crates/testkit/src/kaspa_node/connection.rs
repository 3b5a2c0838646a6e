//! The sockets of a model node: one task for each connection.
//!
//! Requests of a connection run one after another, as in kaspad; notifications are written meanwhile. A message
//! without a known operation ends the connection without a close frame.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::{SinkExt, Stream, StreamExt};
use kaspa::{Method, Operation};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::listener::{Listener, Outbox, Outgoing};
use super::state::NodeState;
use super::wire::{Encoding, Frame, Request};

/// The longest message of a client, as in kaspad.
const REQUEST_BYTES_MAX: usize = 128 << 20;

/// State that all connections of a node share.
pub(crate) struct Shared {
    pub(crate) state: Mutex<NodeState>,
    /// Methods that are not answered until they are removed.
    pub(crate) held: watch::Sender<BTreeSet<Method>>,
    /// Whether new connections are served.
    pub(crate) is_accepting: watch::Sender<bool>,
}

/// Serves the connections of a port.
pub(crate) async fn accept_connections(
    shared: Arc<Shared>,
    listener: TcpListener,
    encoding: Encoding,
) {
    // The connections end with the node.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if *shared.is_accepting.borrow() {
            connections.spawn(serve(Arc::clone(&shared), socket, encoding));
        }
    }
}

async fn serve(shared: Arc<Shared>, socket: TcpStream, encoding: Encoding) {
    let outbox: Arc<Outbox> = Arc::default();
    // Before the handshake, so that a client that has connected is registered.
    let registered = Registered::new(Arc::clone(&shared), encoding, Arc::clone(&outbox));
    let config = message_limit(REQUEST_BYTES_MAX);
    let accepted = tokio_tungstenite::accept_async_with_config(socket, Some(config)).await;
    let Ok(socket) = accepted else { return };
    let (mut sink, stream) = socket.split();
    let write = async {
        loop {
            match outbox.take_first() {
                Some(Outgoing::Frame(frame)) => {
                    let message = match frame {
                        Frame::Binary(bytes) => Message::Binary(bytes.into()),
                        Frame::Text(text) => Message::Text(text.into()),
                    };
                    if sink.send(message).await.is_err() {
                        return;
                    }
                }
                Some(Outgoing::Cut) => return,
                None => outbox.ready.notified().await,
            }
        }
    };
    tokio::select! {
        () = read_requests(&shared, registered.id, stream, encoding) => {}
        () = write => {}
    }
}

/// Limits messages to a number of bytes, in any number of frames. The defaults are lower.
pub(super) fn message_limit(bytes_max: usize) -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(bytes_max)).max_frame_size(Some(bytes_max))
}

async fn read_requests(
    shared: &Shared,
    listener_id: u64,
    mut stream: impl Stream<Item = Result<Message, Error>> + Unpin,
    encoding: Encoding,
) {
    while let Some(Ok(message)) = stream.next().await {
        let request = match (encoding, message) {
            (_, Message::Ping(_) | Message::Pong(_)) => continue,
            (Encoding::Borsh, Message::Binary(bytes)) => Request::from_borsh(&bytes),
            (Encoding::Json, Message::Text(text)) => Request::from_json(&text),
            // kaspad reads bytes as a text, and no text as bytes.
            (Encoding::Json, Message::Binary(bytes)) => {
                std::str::from_utf8(&bytes).ok().and_then(Request::from_json)
            }
            _ => None,
        };
        let Some(request) = request else { return };
        if let Operation::Method(method) = request.operation {
            let mut held = shared.held.subscribe();
            if held.wait_for(|held| !held.contains(&method)).await.is_err() {
                return;
            }
        }
        shared.state.lock().run(listener_id, request);
    }
}

/// Removes the listener of a connection when it is dropped.
struct Registered {
    shared: Arc<Shared>,
    id: u64,
}

impl Registered {
    fn new(shared: Arc<Shared>, encoding: Encoding, outbox: Arc<Outbox>) -> Self {
        let mut state = shared.state.lock();
        let id = state.next_listener;
        state.next_listener += 1;
        state.listeners.push(Listener::new(id, encoding, outbox));
        drop(state);
        Self { shared, id }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.state.lock().listeners.retain(|listener| listener.id != self.id);
    }
}
