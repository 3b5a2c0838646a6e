//! Very many clients that connect at once, and disconnect in every possible way.
//!
//! Each subscribes to slots and to a set of its own that overlaps with others'. Of every five clients one closes
//! its connection, one disconnects, one disconnects within a message, one subscribes and unsubscribes a few times
//! first, and one disconnects with unread notifications.
//! Bounds: [`HANDSHAKES_MAX`] handshakes are under way at once; all are connected before the first disconnects.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Client;
use crate::node::Node;

/// Concurrent handshakes.
const HANDSHAKES_MAX: usize = 256;
/// Addresses of a client's set.
const SET_ADDRESSES: u32 = 50;
/// Times that a client of one kind subscribes and unsubscribes.
const LOOPS: usize = 3;

/// The measurements of a storm.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// Time until all were connected and subscribed.
    pub connect_time: Duration,
    /// Resident memory of the node while all were connected.
    pub resident_bytes: u64,
}

impl Storm {
    /// Connects `clients` clients, waits until all are connected, and disconnects them. `now` is the clock.
    pub async fn run(
        node: &Node,
        clients: u32,
        now: impl Fn() -> std::time::Instant,
    ) -> Result<Self> {
        let began = now();
        let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
        let mut connecting = JoinSet::new();
        for number in 0..clients {
            let ws = node.ws;
            let handshakes = Arc::clone(&handshakes);
            connecting.spawn(async move {
                let _permit = handshakes.acquire().await?;
                let mut client = Client::connect(ws).await?;
                client.call("slotSubscribe", json!([])).await?;
                let set = (number..number + SET_ADDRESSES).map(address);
                let (subscription, _) = client.subscribe_set("confirmed", set).await?;
                Ok::<_, anyhow::Error>((number, subscription, client))
            });
        }
        let mut connected = Vec::with_capacity(clients as usize);
        while let Some(client) = connecting.join_next().await {
            connected.push(client??);
        }
        let up = now() - began;
        let resident_bytes = node.resident_bytes()?;
        let mut disconnecting = JoinSet::new();
        for (number, subscription, client) in connected {
            let handshakes = Arc::clone(&handshakes);
            disconnecting.spawn(async move {
                let _permit = handshakes.acquire().await?;
                run_client(number, subscription, client)
                    .await
                    .with_context(|| format!("client {number}"))
            });
        }
        while let Some(result) = disconnecting.join_next().await {
            result??;
        }
        Ok(Self { connect_time: up, resident_bytes })
    }
}

async fn run_client(number: u32, subscription: u64, mut client: Client) -> Result<()> {
    match number % 5 {
        0 => client.close().await,
        1 => client.vanish_within_a_message().await,
        2 => {
            client.call("addressesUnsubscribe", json!([subscription])).await?;
            for _ in 0..LOOPS {
                let set = (number..number + SET_ADDRESSES).map(address);
                let (subscription, _) = client.subscribe_set("finalized", set).await?;
                client.call("addressesUnsubscribe", json!([subscription])).await?;
            }
            Ok(())
        }
        3 => {
            let set = (number..number + SET_ADDRESSES).map(address);
            client.add(subscription, set).await.map(drop)
        }
        _ => Ok(()),
    }
}

fn address(number: u32) -> [u8; 32] {
    let mut address = [3; 32];
    address[..4].copy_from_slice(&number.to_le_bytes());
    address
}
