//! The slots in which a validator makes a fork, and the slots before, in which it receives nothing.
//!
//! Shape: the validator is deaf from [`DEAF_SLOTS`] slots before its own: it receives nothing, but sends
//! (`deaf_socket.c`). It treats blocks that it missed as skipped slots, and makes its own blocks on the last one
//! that it has. The others replay them as a fork, which has only this validator's stake, and continue their own. Once
//! the fork has enough blocks, the validator receives again, and follows the others.
//! Bounds: [`LEADERS`] slots are searched, and [`WAIT_MAX`] for each wait.
//! Not here: switching the reception (`processes`).

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::rig::clock::{now, pause};
use crate::rig::json_rpc::call;
use crate::rig::nodes::processed_slot;

/// Consecutive slots of a leader in Agave. The first one is a multiple of it.
const CONSECUTIVE_SLOTS: u64 = 4;
/// Slots in which the validator is deaf before its own. Others lead them. With only as many as a leader has, it would
/// have a block of the previous leader, and wait for the rest of them. The additional ones give the others time to make
/// and vote for a block of theirs before the fork arrives.
const DEAF_SLOTS: u64 = 2 * CONSECUTIVE_SLOTS;
/// Blocks of the fork that it has voted for. Its own stake is not enough for a vote on a fourth one.
const FORK_BLOCKS: u64 = 3;
/// Slots that are searched for those of the validator.
const LEADERS: u64 = 64;
/// Time limit until the slots before the fork, and for the fork.
const WAIT_MAX: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The slots of a fork, which are not reached yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForkSlots {
    /// The first of the validator's slots.
    pub(crate) first: u64,
    /// The last of the validator's slots.
    pub(crate) last: u64,
}

impl ForkSlots {
    /// Finds the next slots in which a validator can make a fork; `None` if the known leaders have none.
    pub(crate) fn find(node: SocketAddr, validator: &str) -> Result<Option<Self>> {
        let next = processed_slot(node)? + 1;
        let response = call(node, "getSlotLeaders", &json!([next, LEADERS]))?;
        let leaders = response["result"].as_array().context("no leaders")?;
        let is_own: Vec<bool> = leaders.iter().map(|it| it.as_str() == Some(validator)).collect();
        Ok(Self::find_in(next, &is_own))
    }

    /// Finds them in the leaders from the slot `next` on, by whether the validator is the leader.
    fn find_in(next: u64, is_own: &[bool]) -> Option<Self> {
        let others = usize::try_from(DEAF_SLOTS).ok()?;
        let own = usize::try_from(CONSECUTIVE_SLOTS).ok()?;
        let windows = is_own.windows(others + own).zip(next + DEAF_SLOTS..);
        let mut found = windows.filter(|(window, first)| {
            first.is_multiple_of(CONSECUTIVE_SLOTS)
                && window[..others].iter().all(|is_own| !is_own)
                && window[others..].iter().all(|is_own| *is_own)
        });
        found.next().map(|(_, first)| Self { first, last: first + CONSECUTIVE_SLOTS - 1 })
    }

    /// Waits for the slot after which the validator must be deaf. False if that takes too long.
    pub(crate) fn wait_for_start(&self, node: SocketAddr) -> Result<bool> {
        wait(|| Ok(processed_slot(node)? >= self.first - DEAF_SLOTS))
    }

    /// Waits until the validator has made enough blocks, until the others have passed its slots, or until the time is
    /// over. Returns whether the validator has made a block.
    pub(crate) fn wait_for_blocks(&self, validator: SocketAddr, other: SocketAddr) -> Result<bool> {
        let last = self.first + FORK_BLOCKS - 1;
        wait(|| Ok(processed_slot(validator)? >= last || processed_slot(other)? > self.last))?;
        Ok(processed_slot(validator)? >= self.first)
    }
}

fn wait(is_reached: impl Fn() -> Result<bool>) -> Result<bool> {
    let started = now();
    while started.elapsed() < WAIT_MAX {
        if is_reached()? {
            return Ok(true);
        }
        pause(POLL_INTERVAL);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaders(groups: &str) -> Vec<bool> {
        groups.chars().flat_map(|group| [group == 'x'; 4]).collect()
    }

    #[test]
    fn a_fork_needs_two_other_leaders_before_its_own() {
        let slots = |first| Some(ForkSlots { first, last: first + 3 });
        assert_eq!(ForkSlots::find_in(40, &leaders("..x.")), slots(48));
        assert_eq!(ForkSlots::find_in(40, &leaders("x.x..x")), slots(60));
        assert_eq!(ForkSlots::find_in(40, &leaders("..xx")), slots(48));
        assert_eq!(ForkSlots::find_in(40, &leaders(".x.x")), None);
        assert_eq!(ForkSlots::find_in(40, &[]), None);
        // Within the slots of a leader.
        assert_eq!(ForkSlots::find_in(42, &leaders("..x.")[2..]), None);
        assert_eq!(ForkSlots::find_in(42, &leaders("...x.")[2..]), slots(52));
    }
}
