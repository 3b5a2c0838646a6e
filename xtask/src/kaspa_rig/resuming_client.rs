//! A client of `addressesSubscribe` that resumes after each disconnection.
//!
//! Input: the ports of Hydrant at a quiet time. The client reads everything up to the position that it requests. Output:
//! comparisons of its UTXOs with those of `getUtxos` at the sink, whose commitment Hydrant has checked, and the number
//! of contradictions: a UTXO that is added twice, or removed and not known, or a number that is left out.
//! Not here: subscriptions in kaspad's shape (`subscriber`).

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kaspa::{Hash, KaspaAddress};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::kaspa_rig::comparison::Comparison;
use crate::kaspa_rig::hydrant::Endpoints;
use crate::kaspa_rig::own_methods::{UtxosAt, read_pages};
use crate::kaspa_rig::wrpc_client::open_socket;
use crate::rig::clock::{now, pause};

/// Time limit until the client has the sink's position.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A client with one subscription.
pub(crate) struct ResumingClient {
    addresses: Vec<KaspaAddress>,
    connection: Option<Box<Connection>>,
    /// The position of the last notification that ended a change.
    position: Option<Value>,
    /// Outpoints and entries, as they are in JSON.
    utxos: BTreeMap<String, Value>,
    pub(crate) counters: ResumeCounters,
}

struct Connection {
    socket: WebSocket<TcpStream>,
    subscription: Value,
    /// The number of the next notification.
    sequence: u64,
}

/// Counters of the client since the start of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResumeCounters {
    /// Subscriptions that started with all UTXOs: the first one, and those whose position was too old.
    pub(crate) snapshots: u64,
    /// Subscriptions that started after the client's position.
    pub(crate) resumes: u64,
    pub(crate) notifications: u64,
    /// Notifications of blocks that left the chain.
    pub(crate) rollbacks: u64,
    pub(crate) contradictions: u64,
}

/// The result of an attempt to subscribe.
enum Subscribed {
    Done(Box<Connection>),
    TryAgainLater,
    /// The node cannot resume from the position.
    Refused,
}

impl ResumingClient {
    /// Creates a client that is not connected.
    pub(crate) fn new(addresses: Vec<KaspaAddress>) -> Self {
        Self {
            addresses,
            connection: None,
            position: None,
            utxos: BTreeMap::new(),
            counters: ResumeCounters::default(),
        }
    }

    /// Reads everything up to the sink of a quiet node, and compares the UTXOs.
    pub(crate) fn compare(
        &mut self,
        comparison: &mut Comparison,
        endpoints: Endpoints,
        sink: Hash,
    ) -> Result<()> {
        self.read_to(endpoints.wrpc_json, sink)?;
        let mut expected = BTreeMap::new();
        for address in &self.addresses {
            expected.extend(read_pages(endpoints.rpc, address, UtxosAt::Sink)?);
        }
        comparison.check("addressesSubscribe, own", &expected, &self.utxos);
        Ok(())
    }

    /// Connects if necessary, and applies notifications until the client's position is that of the sink.
    fn read_to(&mut self, address: SocketAddr, sink: Hash) -> Result<()> {
        let started = now();
        loop {
            ensure!(
                started.elapsed() < ARRIVAL_TIMEOUT,
                "a client of addressesSubscribe has not the sink {sink} but {:?}",
                self.position
            );
            if self.connection.is_none() {
                self.connect(address)?;
            }
            let position = self.request_position();
            match position {
                Ok(position) if position["chainBlock"] == sink.to_string() => {
                    self.position = Some(position);
                    return Ok(());
                }
                Ok(_) => {}
                // The node was killed, or the client has been closed.
                Err(_) => self.connection = None,
            }
            pause(POLL_INTERVAL);
        }
    }

    fn connect(&mut self, address: SocketAddr) -> Result<()> {
        match self.subscribe(address)? {
            Subscribed::TryAgainLater => {}
            Subscribed::Refused => {
                self.position = None;
                self.utxos.clear();
            }
            Subscribed::Done(connection) => {
                self.connection = Some(connection);
                match self.position {
                    Some(_) => self.counters.resumes += 1,
                    None => self.counters.snapshots += 1,
                }
            }
        }
        Ok(())
    }

    fn subscribe(&self, address: SocketAddr) -> Result<Subscribed> {
        let mut socket = open_socket(address)?;
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let mut params = json!({ "addresses": addresses });
        match &self.position {
            Some(position) => params["resume"] = position.clone(),
            None => params["snapshot"] = true.into(),
        }
        send(&mut socket, "addressesSubscribe", &params)?;
        let reply = read_json(&mut socket)?;
        if let Some(error) = reply["error"]["message"].as_str() {
            ensure!(self.position.is_some(), "addressesSubscribe: {error}");
            let is_temporary = error.contains("try again later");
            return Ok(if is_temporary { Subscribed::TryAgainLater } else { Subscribed::Refused });
        }
        let subscription = reply["params"]["subscription"].clone();
        ensure!(subscription.is_u64(), "a reply without a subscription: {reply}");
        Ok(Subscribed::Done(Box::new(Connection { socket, subscription, sequence: 0 })))
    }

    /// Requests the position, and applies the notifications before the reply.
    fn request_position(&mut self) -> Result<Value> {
        let connection = self.connection.as_mut().context("not connected")?;
        let params = json!({ "subscription": connection.subscription });
        send(&mut connection.socket, "addressesPosition", &params)?;
        loop {
            let connection = self.connection.as_mut().context("not connected")?;
            let message = read_json(&mut connection.socket)?;
            let params = &message["params"];
            match message["method"].as_str() {
                Some("addressesPosition") if message["error"].is_null() => {
                    return Ok(params["position"].clone());
                }
                Some("addressesNotification") => self.apply(params),
                _ => bail!("not expected: {message}"),
            }
        }
    }

    fn apply(&mut self, params: &Value) {
        self.counters.notifications += 1;
        self.counters.rollbacks += u64::from(params["kind"] == "rollback");
        let mut contradictions = 0;
        if let Some(connection) = &mut self.connection {
            contradictions += u64::from(params["sequence"] != connection.sequence);
            connection.sequence += 1;
        }
        for utxo in params["removed"].as_array().into_iter().flatten() {
            let removed = self.utxos.remove(&utxo["outpoint"].to_string());
            contradictions += u64::from(removed.as_ref() != Some(&utxo["utxoEntry"]));
        }
        for utxo in params["added"].as_array().into_iter().flatten() {
            let outpoint = utxo["outpoint"].to_string();
            let former = self.utxos.insert(outpoint, utxo["utxoEntry"].clone());
            contradictions += u64::from(former.is_some());
        }
        self.counters.contradictions += contradictions;
        if params["more"] == false {
            self.position = Some(params["position"].clone());
        }
    }
}

fn send(socket: &mut WebSocket<TcpStream>, method: &str, params: &Value) -> Result<()> {
    let request = json!({ "id": 1, "method": method, "params": params });
    Ok(socket.send(Message::text(request.to_string()))?)
}

/// Reads the next message in JSON.
fn read_json(socket: &mut WebSocket<TcpStream>) -> Result<Value> {
    loop {
        match socket.read()? {
            Message::Text(text) => return Ok(serde_json::from_str(text.as_str())?),
            Message::Close(frame) => bail!("the node closed the connection: {frame:?}"),
            Message::Binary(_) => bail!("a binary message"),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(sequence: u64, kind: &str, added: &[u32], removed: &[u32]) -> Value {
        let utxo = |index: &u32| json!({ "outpoint": { "index": index }, "utxoEntry": { "amount": index } });
        let [added, removed] =
            [added, removed].map(|indices| indices.iter().map(utxo).collect::<Vec<Value>>());
        json!({ "added": added, "removed": removed, "kind": kind, "more": false, "sequence": sequence,
            "position": { "daaScore": sequence } })
    }

    #[test]
    fn what_is_doubled_or_missed_is_a_contradiction() {
        let mut client = ResumingClient::new(Vec::new());
        client.apply(&notification(0, "snapshot", &[1, 2], &[]));
        client.apply(&notification(1, "update", &[3], &[1]));
        client.apply(&notification(2, "rollback", &[1], &[3]));
        assert_eq!(client.utxos.len(), 2);
        assert_eq!(client.position, Some(json!({ "daaScore": 2 })));
        assert_eq!((client.counters.rollbacks, client.counters.contradictions), (1, 0));
        client.apply(&notification(3, "update", &[1], &[]));
        client.apply(&notification(4, "update", &[], &[9]));
        assert_eq!(client.counters.contradictions, 2);
    }
}
