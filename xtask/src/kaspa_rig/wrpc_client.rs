//! A connection to a port of wRPC, in either encoding: one call at a time, and the notifications between replies.
//!
//! Replies and notifications have the time at which they were read, before they are parsed.
//! Bounds: [`CALL_TIMEOUT`] for a reply. Messages may have any length: all nodes are the rig's own.
//! Not here: the content of replies (`comparison`), reconnecting.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use kaspa::{BorshServerMessage, Encoding, JsonServerMessage, Notification};
use serde_json::Value;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

use crate::kaspa_rig::requests::Request;
use crate::rig::clock::now;

/// Time limit for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the reply to a call. A kaspad that reorganizes 100 blocks replies late.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// A connection to a node.
pub(crate) struct WrpcClient {
    socket: WebSocket<TcpStream>,
    encoding: Encoding,
    last_id: u64,
    /// Notifications that came before a reply.
    notifications: VecDeque<ReceivedNotification>,
}

/// The content of a successful reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// The structure, without its length.
    Borsh(Vec<u8>),
    /// The parameters.
    Json(Value),
}

/// The reply to a request: its content, or the text of its error.
pub(crate) type Reply = Result<Content, String>;

/// The reply to a request, with its time.
pub(crate) struct TimedReply {
    pub(crate) reply: Reply,
    /// The time at which the client began to send the request.
    pub(crate) sent: Instant,
    /// The time from then until the whole reply was read.
    pub(crate) time: Duration,
}

/// A notification, with its time.
pub(crate) struct ReceivedNotification {
    pub(crate) notification: Notification,
    /// The time at which the whole notification was read.
    pub(crate) at: Instant,
}

/// A message of a node, with the time at which it was read.
struct ReceivedMessage {
    incoming: Incoming,
    at: Instant,
}

/// A message of a node.
enum Incoming {
    Reply(u64, Reply),
    Notification(Notification),
}

impl WrpcClient {
    /// Connects to the port of a node for this encoding.
    pub(crate) fn connect(address: SocketAddr, encoding: Encoding) -> Result<Self> {
        let socket = open_socket(address)?;
        Ok(Self { socket, encoding, last_id: 0, notifications: VecDeque::new() })
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn call(&mut self, request: &Request<'_>) -> Result<TimedReply> {
        self.last_id += 1;
        let id = self.last_id;
        let message = request.encode(self.encoding, id)?;
        let sent = now();
        self.socket.send(message)?;
        loop {
            let Some(ReceivedMessage { incoming, at }) = self.read()? else {
                bail!("no reply to {} within {CALL_TIMEOUT:?}", request.name())
            };
            match incoming {
                Incoming::Reply(other, reply) if other == id => {
                    return Ok(TimedReply { reply, sent, time: at.duration_since(sent) });
                }
                Incoming::Reply(other, _) => bail!("a reply to {other} and not to {id}"),
                Incoming::Notification(notification) => {
                    self.notifications.push_back(ReceivedNotification { notification, at });
                }
            }
        }
    }

    /// Sends a request, and returns the content of its reply. An error of the method is an error.
    pub(crate) fn call_successfully(&mut self, request: &Request<'_>) -> Result<Content> {
        self.call(request)?.reply.map_err(|error| anyhow!("{}: {error}", request.name()))
    }

    /// Sets the time that [`Self::next_notification`] waits.
    pub(crate) fn set_notification_timeout(&self, timeout: Duration) -> Result<()> {
        Ok(self.socket.get_ref().set_read_timeout(Some(timeout))?)
    }

    /// Waits for the next notification. Returns `None` at the timeout.
    pub(crate) fn next_notification(&mut self) -> Result<Option<ReceivedNotification>> {
        if let Some(notification) = self.notifications.pop_front() {
            return Ok(Some(notification));
        }
        let Some(ReceivedMessage { incoming, at }) = self.read()? else { return Ok(None) };
        match incoming {
            Incoming::Notification(notification) => {
                Ok(Some(ReceivedNotification { notification, at }))
            }
            Incoming::Reply(id, _) => bail!("a reply to {id} without a request"),
        }
    }

    /// Reads the next message. Returns `None` at the timeout.
    fn read(&mut self) -> Result<Option<ReceivedMessage>> {
        loop {
            let message = match self.socket.read() {
                Ok(message) => message,
                Err(Error::Io(error)) if is_timeout(error.kind()) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let at = now();
            let incoming = match message {
                Message::Binary(frame) => parse_borsh(&frame)?,
                Message::Text(text) => parse_json(text.as_str())?,
                Message::Close(_) => bail!("the node closed the connection"),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            };
            return Ok(Some(ReceivedMessage { incoming, at }));
        }
    }
}

impl Content {
    /// Returns the parameters in JSON.
    pub(crate) fn into_json(self) -> Result<Value> {
        match self {
            Self::Json(params) => Ok(params),
            Self::Borsh(_) => bail!("a reply in Borsh and not in JSON"),
        }
    }

    /// Returns the structure in Borsh.
    pub(crate) fn into_borsh(self) -> Result<Vec<u8>> {
        match self {
            Self::Borsh(structure) => Ok(structure),
            Self::Json(_) => bail!("a reply in JSON and not in Borsh"),
        }
    }
}

/// Opens a WebSocket whose reads and writes take [`CALL_TIMEOUT`] at most.
pub(crate) fn open_socket(address: SocketAddr) -> Result<WebSocket<TcpStream>> {
    let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
        .with_context(|| format!("connect to {address}"))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(CALL_TIMEOUT))?;
    socket.set_write_timeout(Some(CALL_TIMEOUT))?;
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let url = format!("ws://{address}/");
    let handshake = tungstenite::client::client_with_config(url, socket, Some(config));
    let (socket, _response) = handshake.map_err(|error| anyhow!("{address}: {error}"))?;
    Ok(socket)
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn parse_borsh(frame: &[u8]) -> Result<Incoming> {
    Ok(match BorshServerMessage::parse(frame)? {
        BorshServerMessage::Reply(reply) => {
            let result = reply.result.map(|structure| Content::Borsh(structure.to_vec()));
            Incoming::Reply(reply.id, result.map_err(|error| error.to_string()))
        }
        BorshServerMessage::Notification { event, payload } => {
            Incoming::Notification(Notification::decode_borsh(event, payload)?)
        }
    })
}

fn parse_json(text: &str) -> Result<Incoming> {
    let message = JsonServerMessage::parse(text)?;
    let params = match message.result() {
        Ok(params) => params.context("a message without parameters")?.get(),
        Err(error) => {
            let id = message.id.with_context(|| format!("an error without an id: {error}"))?;
            return Ok(Incoming::Reply(id, Err(error.to_string())));
        }
    };
    Ok(match message.id {
        Some(id) => Incoming::Reply(id, Ok(Content::Json(serde_json::from_str(params)?))),
        None => Incoming::Notification(Notification::decode_json(params)?),
    })
}

#[cfg(test)]
mod tests {
    use kaspa::{Method, encode_borsh_balance, encode_json_balance};
    use kaspa::{Operation, ServerError, encode_borsh_failure, encode_json_failure};
    use serde_json::json;

    use super::*;

    #[test]
    fn replies_and_errors_are_read_in_both_encodings() {
        let Incoming::Reply(id, Ok(Content::Borsh(structure))) =
            parse_borsh(&encode_borsh_balance(5, 9)).unwrap()
        else {
            panic!("not a balance");
        };
        assert_eq!((id, &structure[2..]), (5, &9_u64.to_le_bytes()[..]));
        let text = String::from_utf8(encode_json_balance(5, 9)).unwrap();
        let Incoming::Reply(id, reply) = parse_json(&text).unwrap() else { panic!("not a reply") };
        assert_eq!((id, reply), (5, Ok(Content::Json(json!({ "balance": 9 })))));

        let operation = Operation::Method(Method::GetBlock);
        let error = ServerError::Text("no such block".to_owned());
        let frame = encode_borsh_failure(6, operation, &error);
        let text = String::from_utf8(encode_json_failure(6, operation, &error)).unwrap();
        for incoming in [parse_borsh(&frame).unwrap(), parse_json(&text).unwrap()] {
            let Incoming::Reply(6, Err(error)) = incoming else { panic!("not an error") };
            assert_eq!(error, "no such block");
        }
    }

    #[test]
    fn notifications_are_read_in_both_encodings() {
        let sent = Notification::VirtualDaaScoreChanged { virtual_daa_score: 12 };
        let text = String::from_utf8(sent.encode_json()).unwrap();
        for incoming in [parse_borsh(&sent.encode_borsh()).unwrap(), parse_json(&text).unwrap()] {
            let Incoming::Notification(received) = incoming else { panic!("not a notification") };
            assert_eq!(received, sent);
        }
    }
}
