//! The decision to open a new generation: the log cannot be continued, or an ingester has created a generation without
//! records.
//!
//! Causes: the log was deleted, replaced or emptied; own blocks have a gap; a record that this ingester needs is
//! damaged for all readers, and no other ingester appends; the log stores no more whole records. A damage alone is not
//! a cause: the leader appends behind it, and others recover the generation from behind it.
//! Cost: nothing is appended by this ingester until the snapshot of the new generation is written.
//! Not here: the steps of an opening (`opening`), damages behind which the log continues (`reports`).

use std::sync::Arc;
use std::time::Duration;

use super::phase::{GenerationRejoin, Opening, OpeningStep, Phase};
use super::{Now, Plan};

/// Leases in which another ingester may open the generation.
const WAIT_LEASES: u32 = 4;
/// Times that an ingester recovers a generation behind a damage. Each takes [`WAIT_LEASES`], and the root passes the
/// damage after some 13 s on a healthy chain.
const REJOINS_MAX: u32 = 20;

impl Plan {
    /// Opens this generation or a later one without delay.
    pub(super) fn open_generation(&mut self, generation: u64, reason: Arc<str>) {
        self.start_opening(generation, reason, OpeningStep::Searching, false);
    }

    /// Opens a generation after one that cannot be read. If another ingester leads, it gets the time to do so.
    pub(super) fn replace_generation(&mut self, generation: u64, reason: Arc<str>, now: Now) {
        let wait = if self.is_leader() { Duration::ZERO } else { self.config.lease * WAIT_LEASES };
        let until = now.elapsed + wait;
        self.start_opening(generation + 1, reason, OpeningStep::Waiting { until }, false);
    }

    /// Abandons a generation at a damaged message. If another ingester appends to it, this one recovers the generation
    /// from behind the damage once the root is there. Otherwise it opens a new generation.
    pub(super) fn abandon_generation(
        &mut self,
        generation: u64,
        damaged: u64,
        reason: Arc<str>,
        now: Now,
    ) {
        let last = match &self.phase {
            Phase::Following(following) => following.known_last,
            Phase::Recovering(recovering) => recovering.tail.last,
            _ => 0,
        };
        let earlier = self.rejoin.take().filter(|it| it.generation == generation);
        let times = earlier.as_ref().map_or(0, |it| it.times) + 1;
        let damaged = earlier.map_or(0, |it| it.damaged).max(damaged);
        if !self.is_leader() && last > 0 && times <= REJOINS_MAX {
            let reason = Arc::clone(&reason);
            let rejoin =
                GenerationRejoin { generation, damaged, last, times, needs_growth: true, reason };
            self.rejoin = Some(rejoin);
        }
        self.damages = 0;
        self.replace_generation(generation, reason, now);
    }

    /// Returns the generation to recover again instead of a new one after it, if it still is the newest one.
    pub(super) fn find_rejoin(&self, newest: Option<u64>) -> Option<u64> {
        let rejoin = self.rejoin.as_ref()?;
        newest.filter(|newest| *newest == rejoin.generation)
    }

    /// Returns the reason of a new generation if an abandoned log has not grown: no other ingester appends to it.
    pub(super) fn end_rejoin(&mut self, generation: u64, last: u64) -> Option<Arc<str>> {
        let rejoin = self.rejoin.as_mut()?;
        if rejoin.generation == generation {
            if !std::mem::take(&mut rejoin.needs_growth) || last > rejoin.last {
                return None;
            }
            return self.rejoin.take().map(|it| it.reason);
        }
        self.rejoin = None;
        None
    }

    /// Opens a generation after one that has no whole record behind a reported message.
    pub(super) fn end_unreadable_generation(&mut self, sequence: u64, now: Now) {
        let Phase::Following(following) = &self.phase else { return };
        let generation = following.generation;
        let reason = format!("the log stores no whole record after message {sequence}");
        self.replace_generation(generation, reason.into(), now);
    }

    /// Waits for the first record of a generation that another ingester has created, and appends it otherwise.
    pub(super) fn await_first_record(&mut self, generation: u64, now: Now) {
        let until = now.elapsed + self.config.lease * WAIT_LEASES;
        let reason = "the generation has no records".into();
        self.start_opening(generation, reason, OpeningStep::Waiting { until }, true);
    }

    /// Starts to open a generation, or a later one, so that the number of a deleted generation is not used again.
    fn start_opening(
        &mut self,
        generation: u64,
        reason: Arc<str>,
        step: OpeningStep,
        exists: bool,
    ) {
        self.note_numbers();
        let unused = self.snapshots.map_or(0, |it| it.newest_generation + 1);
        let generation = if exists { generation } else { generation.max(unused) };
        let phase = std::mem::replace(&mut self.phase, Phase::Seeking);
        let earlier = match phase {
            Phase::Following(following) => Some(following.chain),
            _ => None,
        };
        let opening = Opening { generation, reason, step, exists, earlier };
        self.phase = Phase::Opening(Box::new(opening));
    }
}
