//! A client of the set-ups: it subscribes to its set and leaves, cycle after cycle, and records all it receives.
//!
//! Exactness: before a client leaves, it subscribes to slots and waits for the next one. It has then received all
//! notifications up to that slot's parent, because one thread sends both.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, ensure};
use serde_json::{Value, json};
use testkit::scenario::{Client, Stop};
use tokio::time::{Instant, sleep_until};

use super::size::Cycle;
use crate::subs::addresses::{address_of, number_of};
use crate::subs::observations::unix_us;

/// The method of notifications about slots.
const SLOT_NOTIFICATION: &str = "slotNotification";

/// A connected client, and the addresses that it subscribes to.
pub(super) struct Subscriber {
    pub(super) client: Client,
    pub(super) set: Range<u32>,
}

/// The cycles of all clients, with their start.
#[derive(Clone)]
pub(super) struct Schedule {
    pub(super) start: Instant,
    pub(super) cycles: Arc<[Cycle]>,
}

/// One period of a subscription, as its client saw it.
pub(super) struct Period {
    pub(super) cycle: usize,
    pub(super) set: Range<u32>,
    /// The slot after which the notifications of the first addresses start.
    pub(super) first_after: u64,
    /// The slot after which those of all addresses have started.
    pub(super) after: u64,
    /// The slot up to which its notifications are complete.
    pub(super) through: u64,
    pub(super) notifications: Vec<Notification>,
    /// From the first request to the response of the last.
    pub(super) subscribing: Interval,
    /// From the request to its response.
    pub(super) leaving: Interval,
}

/// A received notification, with the numbers of its addresses.
pub(super) struct Notification {
    pub(super) slot: u64,
    pub(super) at_us: u64,
    pub(super) numbers: Vec<u32>,
}

/// A period of time, in microseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start_us: u64,
    pub(super) end_us: u64,
}

impl Subscriber {
    /// Runs all cycles. Returns early if the scenario is stopped.
    pub(super) async fn run(
        &mut self,
        schedule: &Schedule,
        stop: &mut Stop,
    ) -> Result<Vec<Period>> {
        let mut periods = Vec::new();
        for (number, cycle) in schedule.cycles.iter().enumerate() {
            tokio::select! {
                () = stop.stopped() => break,
                () = sleep_until(schedule.instant(cycle.subscribe_at)) => {}
                err = self.expect_silence() => return Err(err),
            }
            let leave_at = schedule.instant(cycle.leave_at);
            periods.push(self.run_cycle(number, leave_at, stop).await?);
        }
        Ok(periods)
    }

    /// Reads, so that pings are answered. Returns an error: a notification came, or the connection has ended.
    pub(super) async fn expect_silence(&mut self) -> Error {
        match self.client.notification().await {
            Ok(text) => anyhow!("a notification without a subscription: {text}"),
            Err(err) => err,
        }
    }

    async fn run_cycle(
        &mut self,
        cycle: usize,
        leave_at: Instant,
        stop: &mut Stop,
    ) -> Result<Period> {
        let set = self.set.clone();
        let start_us = unix_us();
        let end_of_first = set.start + self.client.addresses_per_message.min(set.len()) as u32;
        let first = (set.start..end_of_first).map(address_of);
        let (subscription, first_after) = self.client.subscribe_set("confirmed", first).await?;
        let mut after = first_after;
        if end_of_first < set.end {
            let others = (end_of_first..set.end).map(address_of);
            let added = self.client.add(subscription, others).await?;
            after = added["slot"].as_u64().context("no slot")?;
        }
        let mut period = Period {
            cycle,
            set,
            first_after,
            after,
            through: after,
            notifications: Vec::new(),
            subscribing: Interval { start_us, end_us: unix_us() },
            leaving: Interval::default(),
        };
        loop {
            let text = tokio::select! {
                () = stop.stopped() => break,
                () = sleep_until(leave_at) => break,
                text = self.client.notification() => text?,
            };
            period.record(&text)?;
        }
        self.wait_until_complete(&mut period).await?;
        period.leaving.start_us = unix_us();
        let ended = self.client.call("addressesUnsubscribe", json!([subscription])).await?;
        period.leaving.end_us = unix_us();
        ensure!(ended == true, "{ended}");
        for text in self.client.take_early() {
            if Client::parse_method(&text)? != SLOT_NOTIFICATION {
                period.record(&text)?;
            }
        }
        Ok(period)
    }

    /// Reads until all notifications up to some block have been received.
    async fn wait_until_complete(&mut self, period: &mut Period) -> Result<()> {
        let slots = self.client.call("slotSubscribe", json!([])).await?;
        while period.through == period.after {
            let text = self.client.notification().await?;
            if Client::parse_method(&text)? == SLOT_NOTIFICATION {
                let received: Value = serde_json::from_str(&text)?;
                let parent =
                    received["params"]["result"]["parent"].as_u64().context("no parent")?;
                period.through = parent.max(period.through);
            } else {
                period.record(&text)?;
            }
        }
        self.client.call("slotUnsubscribe", json!([slots])).await?;
        Ok(())
    }
}

impl Schedule {
    fn instant(&self, seconds: f64) -> Instant {
        self.start + Duration::from_secs_f64(seconds)
    }
}

impl Period {
    fn record(&mut self, text: &str) -> Result<()> {
        let at_us = unix_us();
        let received = Client::parse_notification(text)?;
        let sequence = self.notifications.len() as u64;
        ensure!(received.sequence == sequence, "message {} for {sequence}", received.sequence);
        let numbers = received.pubkeys.iter().map(|pubkey| number_of(pubkey));
        let numbers = numbers.collect::<Result<_>>()?;
        self.notifications.push(Notification { slot: received.slot, at_us, numbers });
        Ok(())
    }
}

impl Interval {
    /// The smallest interval with both.
    pub(super) fn join(self, other: Self) -> Self {
        Self { start_us: self.start_us.min(other.start_us), end_us: self.end_us.max(other.end_us) }
    }

    pub(super) fn seconds(self) -> f64 {
        self.end_us.saturating_sub(self.start_us) as f64 / 1e6
    }

    pub(super) fn contains(self, at_us: u64) -> bool {
        (self.start_us..=self.end_us).contains(&at_us)
    }
}
