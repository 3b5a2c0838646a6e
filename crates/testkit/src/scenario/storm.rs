//! Very many clients that come at once, and go in every way that there is.
//!
//! Each subscribes to slots and to a set of its own that overlaps with others'. Then, by turns: one says
//! goodbye, one is gone, one is gone in the middle of a message, one subscribes and unsubscribes a few
//! times first, one leaves what it was told unread.
//! Bounds: [`HANDSHAKES_MAX`] handshakes are under way at once; all are connected before the first goes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Client, Node};

/// Handshakes under way.
const HANDSHAKES_MAX: usize = 256;
/// Addresses of a client's set.
const SET_ADDRESSES: u32 = 50;
/// Times that some subscribe and unsubscribe.
const LOOPS: usize = 3;

/// What a storm was like.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// Until all were connected and subscribed.
    pub connect_time: Duration,
    /// Resident memory of the node while all were there.
    pub resident_bytes: u64,
}

impl Storm {
    /// So many clients come, are all there at once, and go. `now` is the time.
    pub async fn run(
        node: &Node,
        clients: u32,
        now: impl Fn() -> std::time::Instant,
    ) -> Result<Self> {
        let began = now();
        let places = Arc::new(Semaphore::new(HANDSHAKES_MAX));
        let mut coming = JoinSet::new();
        for number in 0..clients {
            let (ws, places) = (node.ws, Arc::clone(&places));
            coming.spawn(async move {
                let _place = places.acquire().await?;
                let mut client = Client::connect(ws).await?;
                client.call("slotSubscribe", json!([])).await?;
                let set = (number..number + SET_ADDRESSES).map(address);
                let (subscription, _) = client.subscribe_set("confirmed", set).await?;
                Ok::<_, anyhow::Error>((number, subscription, client))
            });
        }
        let mut there = Vec::with_capacity(clients as usize);
        while let Some(came) = coming.join_next().await {
            there.push(came??);
        }
        let (up, resident_bytes) = (now() - began, node.resident_bytes()?);
        let mut going = JoinSet::new();
        for (number, subscription, client) in there {
            let places = Arc::clone(&places);
            going.spawn(async move {
                let _place = places.acquire().await?;
                run_client(number, subscription, client)
                    .await
                    .with_context(|| format!("client {number}"))
            });
        }
        while let Some(gone) = going.join_next().await {
            gone??;
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
