//! Times of blocks: when the node confirmed each, and when its notifications arrived at clients.
//!
//! Shape: the time of confirmation comes from the node (`slotsUpdatesSubscribe`), which truncates it to whole
//! milliseconds. A dedicated thread records the arrival times.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::scenario::{Client, Scenario, Task, task};

use super::addresses::address_of;

/// A notification that a client received.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) slot: u64,
    /// Microseconds since 1970.
    pub(crate) at_us: u64,
    pub(crate) accounts: usize,
}

/// The shared observations of a run's clients.
#[derive(Clone, Default)]
pub(crate) struct Observations {
    pub(crate) arrivals: Arc<Mutex<Vec<Arrival>>>,
    /// Confirmation time of each slot, in milliseconds since 1970.
    pub(crate) confirmed: Arc<Mutex<HashMap<u64, u64>>>,
}

/// Clients that listen on a thread of their own. Dropping it ends them, and prints their errors.
pub(crate) struct ListenerThread {
    over: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Result<()>>>,
}

impl ListenerThread {
    /// Starts a client for each set, and one for the confirmations. Returns once all are subscribed.
    pub(crate) fn start(
        ws: SocketAddr,
        sets: Vec<Range<u32>>,
        observations: &Observations,
    ) -> Result<Self> {
        let observations = observations.clone();
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let (over, is_over) = tokio::sync::oneshot::channel::<()>();
        let run = async move {
            let mut scenario = Scenario::default();
            let subscribed = async {
                let mut slots = Client::connect(ws).await?;
                slots.call("slotsUpdatesSubscribe", json!([])).await?;
                scenario.add(record_confirmations(slots, observations.clone()));
                for set in sets {
                    let mut client = Client::connect(ws).await?;
                    client.subscribe_set("confirmed", set.map(address_of)).await?;
                    scenario.add(record_arrivals(client, observations.clone()));
                }
                Ok::<_, anyhow::Error>(())
            };
            // The receiver is dropped only after an earlier error.
            let _ = ready.send(subscribed.await);
            scenario.run(async { drop(is_over.await) }).await
        };
        let thread = std::thread::Builder::new().name("clients".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(run)
        })?;
        is_ready.recv().context("no clients")??;
        Ok(Self { over: Some(over), thread: Some(thread) })
    }
}

impl Drop for ListenerThread {
    fn drop(&mut self) {
        drop(self.over.take());
        match self.thread.take().map(std::thread::JoinHandle::join) {
            Some(Ok(Err(err))) => println!("  a client ended early: {err:#}"),
            Some(Err(_)) => println!("  a client panicked"),
            Some(Ok(Ok(()))) | None => {}
        }
    }
}

fn record_arrivals(mut client: Client, observations: Observations) -> Task {
    task(async move |mut stop| {
        loop {
            let text = tokio::select! {
                () = stop.stopped() => return Ok(()),
                text = client.notification() => text?,
            };
            let at_us = unix_us();
            let seen = Client::parse_notification(&text)?;
            let arrival = Arrival { slot: seen.slot, at_us, accounts: seen.pubkeys.len() };
            observations.arrivals.lock().push(arrival);
        }
    })
}

fn record_confirmations(mut client: Client, observations: Observations) -> Task {
    task(async move |mut stop| {
        loop {
            let text = tokio::select! {
                () = stop.stopped() => return Ok(()),
                text = client.notification() => text?,
            };
            let message: Value = serde_json::from_str(&text)?;
            let update = &message["params"]["result"];
            if update["type"] == "optimisticConfirmation" {
                let slot = update["slot"].as_u64().context("no slot")?;
                let at_ms = update["timestamp"].as_u64().context("no timestamp")?;
                observations.confirmed.lock().insert(slot, at_ms);
            }
        }
    })
}

/// Returns the time of day in microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the node reports times of day")]
pub(crate) fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros() as u64)
}
