//! A subscriber to a set of addresses resumes on another replica, and on one that has jumped to a snapshot.

use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use tungstenite::{Message, WebSocket};

use crate::replicas::faults::jump_by_snapshot;
use crate::replicas::rig::{Rig, call};
use crate::world::WAIT_TIMEOUT;

/// A notification: the account after a block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    slot: u64,
    block: String,
    kind: String,
    lamports: u64,
}

/// A client that is subscribed to one account at `confirmed`.
struct Subscriber {
    socket: WebSocket<TcpStream>,
}

impl Subscriber {
    /// Subscribes to Bob's account. With `resume`, the changes after that block come first.
    fn open(rig: &Rig, server: SocketAddr, resume: Option<&Change>) -> Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
        let handshake = tungstenite::client(format!("ws://{server}"), stream);
        let (socket, _) = handshake.ok().context("a handshake")?;
        let mut subscriber = Self { socket };
        let bob = rig.stage.world.bob.pubkey().to_string();
        let mut options = json!({ "commitment": "confirmed" });
        if let Some(Change { slot, block, .. }) = resume {
            options["resume"] = json!({ "slot": slot, "block": block });
        }
        let params = json!([[bob], options]);
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "addressesSubscribe", "params": params });
        subscriber.socket.send(Message::text(request.to_string()))?;
        let reply = subscriber.receive()?;
        ensure!(reply["result"]["subscription"].is_u64(), "{reply}");
        Ok(subscriber)
    }

    /// Reads the next message in JSON.
    fn receive(&mut self) -> Result<Value> {
        loop {
            if let Message::Text(text) = self.socket.read()? {
                return Ok(serde_json::from_str(text.as_str())?);
            }
        }
    }

    /// Reads the changes up to the one that leaves the account with these lamports.
    fn receive_through(&mut self, lamports: u64) -> Result<Vec<Change>> {
        let mut changes: Vec<Change> = Vec::new();
        while changes.last().is_none_or(|change| change.lamports != lamports) {
            let message = self.receive()?;
            let result = &message["params"]["result"];
            changes.push(Change {
                slot: result["context"]["slot"].as_u64().context("a slot")?,
                block: result["block"].as_str().context("a block")?.to_owned(),
                kind: result["kind"].as_str().context("a kind")?.to_owned(),
                lamports: result["value"][0]["account"]["lamports"].as_u64().context("lamports")?,
            });
        }
        Ok(changes)
    }
}

/// Transfers lamports to Bob's account. Returns its balance.
fn pay(rig: &Rig, lamports: u64) -> Result<u64> {
    let world = &rig.stage.world;
    let bob = world.bob.pubkey();
    world.send(&[transfer(&world.payer.pubkey(), &bob, lamports)], &[])?;
    let params = json!([bob.to_string(), { "commitment": "confirmed" }]);
    call(rig.stage.node.rpc, "getBalance", params)?["value"].as_u64().context("a balance")
}

#[test]
fn a_subscriber_resumes_on_another_replica_without_a_gap() -> Result<()> {
    let rig = Rig::start()?;
    let first = rig.replica(|config| config)?;
    let second = rig.replica(|config| config)?;
    let pubsub = second.addresses().pubsub;
    // A client of the second replica receives everything.
    let mut neighbour = Subscriber::open(&rig, pubsub, None)?;
    let mut subscriber = Subscriber::open(&rig, first.addresses().pubsub, None)?;
    let seen = pay(&rig, 1_000)?;
    rig.mine(1)?;
    let mut received = subscriber.receive_through(seen)?;
    let last = received.last().context("a change")?.clone();
    drop(subscriber);
    first.stop()?;

    pay(&rig, 2_000)?;
    rig.mine(3)?;
    let end = pay(&rig, 3_000)?;
    rig.mine(1)?;
    rig.wait_for(second.addresses().rpc)?;
    let mut resumed = Subscriber::open(&rig, pubsub, Some(&last))?;
    received.extend(resumed.receive_through(end)?);
    let expected = neighbour.receive_through(end)?;
    ensure!(received == expected, "{received:?} instead of {expected:?}");
    ensure!(received.iter().all(|change| change.kind == "update"), "{received:?}");

    // A block that no replica has had is refused by name.
    let other = Change { block: "1".repeat(32), ..last };
    let err = Subscriber::open(&rig, pubsub, Some(&other)).err().context("it is refused")?;
    ensure!(format!("{err:#}").contains("Cannot resume"), "{err:#}");
    Ok(second.stop()?)
}

#[test]
fn a_subscriber_resumes_across_a_jump_and_gets_what_it_changed() -> Result<()> {
    let rig = Rig::start()?;
    let replica = rig.replica_process(&[])?;
    let mut live = Subscriber::open(&rig, replica.ws, None)?;
    let seen = pay(&rig, 1_000)?;
    rig.mine(1)?;
    let before = live.receive_through(seen)?.pop().context("a change")?;
    let mut missed = 0;
    jump_by_snapshot(&rig, &replica, || {
        pay(&rig, 2_000)?;
        missed = pay(&rig, 3_000)?;
        Ok(())
    })?;
    let end = pay(&rig, 4_000)?;
    rig.mine(1)?;
    let expected = live.receive_through(end)?;
    // A jump is one change, at the block of the snapshot, instead of two.
    let lamports: Vec<u64> = expected.iter().map(|change| change.lamports).collect();
    ensure!(lamports == [missed, end], "{expected:?}");
    rig.wait_for(replica.rpc)?;
    let resumed = Subscriber::open(&rig, replica.ws, Some(&before))?.receive_through(end)?;
    ensure!(resumed == expected, "{resumed:?} instead of {expected:?}");
    Ok(())
}
