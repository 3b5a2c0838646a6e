//! Calls over WebSocket, and the subscription `heightSubscribe` to new blocks.
//!
//! Bounds: a message has at most [`MESSAGE_BYTES_MAX`]; a client has one subscription; a client that does not read gets the
//! newest height when it reads again.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use http_server::{Socket, WebSocketHandler};
use jsonrpc::envelope::{self, Call, Request};
use jsonrpc::{Server, handle_blocking};
use pool::ClientId;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::ToyApi;

/// Bytes of a message.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// The toy ledger over WebSocket.
pub struct ToySocket(pub Arc<Server<ToyApi>>);

impl WebSocketHandler for ToySocket {
    fn handle(
        self: Arc<Self>,
        socket: Socket,
        _: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX));
            let mut socket =
                WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await;
            let mut blocks = self.0.api.counters.blocks.subscribe();
            let mut is_subscribed = false;
            loop {
                let text = tokio::select! {
                    message = socket.next() => match message {
                        Some(Ok(Message::Text(text))) => self.reply(&text, &mut is_subscribed),
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => None,
                        _ => return,
                    },
                    changed = blocks.changed(), if is_subscribed => match changed {
                        Ok(()) => Some(notification(*blocks.borrow_and_update())),
                        Err(_) => return,
                    },
                };
                if let Some(text) = text
                    && socket.send(Message::text(text)).await.is_err()
                {
                    return;
                }
            }
        })
    }
}

impl ToySocket {
    fn reply(&self, text: &str, is_subscribed: &mut bool) -> Option<String> {
        if let Ok(Request::Single(Call::Method { id, method, .. })) = envelope::read(text)
            && method == "heightSubscribe"
        {
            *is_subscribed = true;
            let mut bytes = br#"{"jsonrpc":"2.0","result":0,"id":"#.to_vec();
            id.write(&mut bytes);
            bytes.push(b'}');
            return String::from_utf8(bytes).ok();
        }
        String::from_utf8(handle_blocking(&self.0, text)?).ok()
    }
}

fn notification(height: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"heightNotification","params":{{"result":{height},"subscription":0}}}}"#
    )
}
