//! The consecutive slots of a leader, and how long it must be stopped in them so that the chain may fork.
//!
//! Shape: the leader is stopped once its first block exists, while it makes the second one. The next leader waits for the
//! rest of these slots and for [`LATE_BLOCK_SLOTS`] more, and then builds on the first block. The stopped leader must
//! continue just before that: it makes its second and third block until it has seen votes for the other fork. If it
//! continues later, it sees the other block and abandons its own; if earlier, the next leader builds on its. On a busy
//! machine the right moment is usually missed, and nothing forks.
//! Not here: a fork that does not depend on time (`fork_slots`).
//! Bounds: [`WAIT_MAX`] until the slots of a leader start, and [`STOP_MAX`] for a stop.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::rig::clock::{now, pause};
use crate::rig::json_rpc::call;
use crate::rig::nodes::processed_slot;

/// Consecutive slots of a leader in Agave. The first one is a multiple of it.
pub(crate) const CONSECUTIVE_SLOTS: u64 = 4;
/// Slots that the next leader waits for late blocks (`MAX_GRACE_SLOTS` in Agave's PoH recorder).
const LATE_BLOCK_SLOTS: u64 = 2;
/// The part of a slot by which the leader continues before the next one makes a block, in percent.
const EARLY_PERCENT: u64 = 50;
/// Slots whose time is measured before the leader's.
const MEASURED_SLOTS: u64 = 4;
/// Leaders that are requested: a validator may be the leader several times in a row.
const LEADERS: u64 = 64;
/// Time limit until a leader's first block.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time limit of a stop: on a machine that is this slow, the leader continues before the others skip it.
const STOP_MAX: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The slots of a leader that has made its first block.
pub(crate) struct LeaderSlots {
    pub(crate) leader: String,
    /// The slot of the first block.
    pub(crate) made: u64,
    /// The last slot of the leader, also if it is the leader several times in a row.
    pub(crate) last: u64,
    slot_time: Duration,
}

impl LeaderSlots {
    /// Waits for the first block of a leader, and measures the time of slots meanwhile.
    pub(crate) fn wait(node: SocketAddr) -> Result<Self> {
        let started = now();
        let first = processed_slot(node)?;
        let mut last_slot = first;
        loop {
            ensure!(
                started.elapsed() < WAIT_MAX,
                "no leader made its first block within {WAIT_MAX:?}"
            );
            let slot = processed_slot(node)?;
            let is_measured = slot >= first + MEASURED_SLOTS;
            if slot > last_slot && is_measured && slot.is_multiple_of(CONSECUTIVE_SLOTS) {
                return Self::at(node, slot, measured_slot_time(started, slot - first));
            }
            last_slot = slot;
            pause(POLL_INTERVAL);
        }
    }

    fn at(node: SocketAddr, slot: u64, slot_time: Duration) -> Result<Self> {
        let response = call(node, "getSlotLeaders", &json!([slot, LEADERS]))?;
        let leaders = response["result"].as_array().context("no leaders")?;
        let leader = leaders.first().and_then(Value::as_str).context("no leader")?.to_owned();
        let slots = leaders.iter().take_while(|it| it.as_str() == Some(&leader)).count() as u64;
        Ok(Self { leader, made: slot, last: slot + slots - 1, slot_time })
    }

    /// Returns the time for which the leader is stopped.
    pub(crate) fn stop_time(&self) -> Duration {
        let percent = (self.last - self.made + LATE_BLOCK_SLOTS) * 100 - EARLY_PERCENT;
        self.slot_time.mul_f64(percent as f64 / 100.0).min(STOP_MAX)
    }
}

fn measured_slot_time(started: Instant, slots: u64) -> Duration {
    started.elapsed().div_f64(slots as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_stopped_until_just_before_the_next_one_skips_it() {
        let slots_to = |last| LeaderSlots {
            leader: String::new(),
            made: 8,
            last,
            slot_time: Duration::from_millis(400),
        };
        // Three more slots and two for late blocks, without half a slot.
        assert_eq!(slots_to(11).stop_time(), Duration::from_millis(1_800));
        assert_eq!(slots_to(15).stop_time(), Duration::from_millis(3_400));
        assert_eq!(slots_to(71).stop_time(), STOP_MAX);
    }
}
