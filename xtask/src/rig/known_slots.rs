//! The slots that both nodes have blocks of. The others are not compared, and counted.
//!
//! Shape: a follower has no blocks of slots that it jumped over: it responds as Agave does after a ledger jump (-32007).
//! That counts as a gap only if the follower's counter of jumps has grown, in slots below its tip at that moment, and
//! once for each jump. The history of a replica that was killed begins after the snapshot that it loaded then. A
//! validator that was killed lacks blocks of the time before, and their fees.
//! Not here: the calls (`response_comparison`).

use serde_json::Value;

/// Code of "Slot was skipped, or missing due to ledger jump to recent snapshot".
const SKIPPED_OR_MISSING: i64 = -32_007;
/// Slots before a block's that calls about the block reach back to.
pub(crate) const REACH: u64 = 3;

/// Code of "Rewards cannot be found because slot ... is not the epoch boundary".
const NOT_BOUNDARY: i64 = -32_018;

/// The slots that both nodes have.
#[derive(Default)]
pub(crate) struct KnownSlots {
    /// The first slot after the follower's archive, or after the jump that its history begins with since a restart; 0
    /// until it is known.
    first: u64,
    /// The newest slot of the follower's last gap.
    gap_end: Option<u64>,
    is_in_gap: bool,
    /// Jumps that the follower has counted.
    jumps: u64,
    /// Whether the follower is a replica that was killed and started again.
    is_replica_restarted: bool,
    pending: Option<PendingJumps>,
    /// The first slot after those that were not compared last. A gap among them is not found by its slots.
    skipped_to: u64,
    /// The first final slot of the validator after its last restart.
    restarted_at: Option<u64>,
}

/// Jumps whose gaps were not found yet.
struct PendingJumps {
    gaps: u64,
    /// The follower's tip when the counter had grown: the gaps are below it.
    below: u64,
}

impl KnownSlots {
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Sets the first slot of the follower's history. It is later after a jump and a restart: what the follower stores
    /// begins at its last jump.
    pub(crate) fn start_at(&mut self, first: u64) {
        self.first = self.first.max(first);
    }

    /// Notes that the follower is a replica that was killed and started again.
    pub(crate) fn restart_replica(&mut self) {
        self.is_replica_restarted = true;
    }

    /// Whether the follower's history may begin later than at its first start, or have a gap.
    pub(crate) fn may_lack_blocks(&self) -> bool {
        self.jumps > 0 || self.is_replica_restarted
    }

    /// Notes that the slots below this one are not compared.
    pub(crate) fn skip_to(&mut self, slot: u64) {
        self.skipped_to = self.skipped_to.max(slot);
    }

    /// Takes the follower's counter of jumps. `tip` is called if it has grown, after the counter was read.
    pub(crate) fn record_jumps<E>(
        &mut self,
        jumps: u64,
        tip: impl FnOnce() -> Result<u64, E>,
    ) -> Result<(), E> {
        if jumps > self.jumps {
            let below = tip()?;
            let gaps = self.pending.as_ref().map_or(0, |pending| pending.gaps);
            self.pending = Some(PendingJumps { gaps: gaps + jumps - self.jumps, below });
            self.jumps = jumps;
        }
        Ok(())
    }

    /// Notes the first final slot after a restart of the validator.
    pub(crate) fn restart_validator(&mut self, slot: u64) {
        self.restarted_at = self.restarted_at.max(Some(slot));
    }

    /// Returns the first slot that a restarted validator has a block of.
    pub(crate) fn first_after_restart(&self) -> u64 {
        self.restarted_at.map_or(0, |slot| slot + 1)
    }

    /// Returns whether a slot is in a gap of the follower, by both responses to getBlock. Slots are compared in order.
    pub(crate) fn is_in_gap(&mut self, slot: u64, validator: &Value, follower: &Value) -> bool {
        if let Some(pending) = self.pending.take_if(|pending| slot > pending.below)
            && pending.gaps > 0
        {
            // None of the compared slots was in it.
            self.gap_end = self.gap_end.max(self.skipped_to.checked_sub(1));
        }
        let is_missing = follower["error"]["code"] == SKIPPED_OR_MISSING;
        // A slot that both call skipped does not start a gap.
        if is_missing
            && !self.is_in_gap
            && !validator["result"].is_null()
            && let Some(pending) = self.pending.as_mut().filter(|pending| pending.gaps > 0)
        {
            pending.gaps -= 1;
            self.is_in_gap = true;
        }
        self.is_in_gap &= is_missing;
        if self.is_in_gap {
            self.gap_end = Some(slot);
        }
        self.is_in_gap
    }

    /// Returns whether a response to a call about a block of `slot` is about slots that a node lacks: below the block,
    /// or, while a gap is still ahead, above it.
    pub(crate) fn reaches_missing(&self, slot: u64, method: &str, validator: &Value) -> bool {
        match method {
            "getBlocks" => slot.saturating_sub(REACH) < self.first_known(),
            "getBlocksWithLimit" => {
                let newest = validator["result"].as_array().and_then(|all| all.last()?.as_u64());
                slot.saturating_sub(REACH) < self.first_known()
                    || (self.has_gap_ahead() && newest.is_some_and(|newest| newest > slot))
            }
            _ => false,
        }
    }

    /// Returns whether the follower refuses the rewards of an epoch that begins in a gap or before its history, as
    /// Agave does. The refusal names the first slot of the epoch that the follower has.
    pub(crate) fn is_missing_boundary(&self, follower: &Value) -> bool {
        let slot = follower["error"]["data"]["slot"].as_u64();
        let unfound = self.pending.as_ref().filter(|pending| pending.gaps > 0);
        let first = unfound.map_or(0, |pending| pending.below).max(self.first_in_history());
        follower["error"]["code"] == NOT_BOUNDARY
            && self.may_lack_blocks()
            && slot.is_some_and(|slot| slot <= first)
    }

    /// Returns whether a call about now is about slots of a gap that was not found yet.
    pub(crate) fn needs_gap(&self, method: &str) -> bool {
        self.has_gap_ahead()
            && ["getRecentPrioritizationFees", "getSignaturesForAddress"].contains(&method)
    }

    fn has_gap_ahead(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.gaps > 0)
    }

    /// Returns the first slot from which on the follower's history has all blocks.
    pub(crate) fn first_in_history(&self) -> u64 {
        self.gap_end.map_or(self.first, |end| self.first.max(end + 1))
    }

    /// Returns the first slot from which on both nodes have all blocks, and fees of them.
    pub(crate) fn first_known(&self) -> u64 {
        self.first_in_history().max(self.first_after_restart())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;

    fn known_slots() -> KnownSlots {
        let mut known = KnownSlots::default();
        known.start_at(10);
        known
    }

    fn jump(known: &mut KnownSlots, jumps: u64, tip: u64) {
        known.record_jumps(jumps, || Ok::<u64, Infallible>(tip)).unwrap();
    }

    fn block() -> Value {
        json!({"result": {"blockhash": "x"}})
    }

    fn missing() -> Value {
        json!({"error": {"code": SKIPPED_OR_MISSING}})
    }

    #[test]
    fn a_gap_of_a_jump_lasts_until_the_follower_has_a_block() {
        let mut known = known_slots();
        jump(&mut known, 1, 50);
        assert!(!known.is_in_gap(20, &block(), &block()));
        assert!(!known.is_in_gap(21, &missing(), &missing()), "skipped by the chain");
        assert!(known.is_in_gap(22, &block(), &missing()));
        assert!(known.is_in_gap(23, &missing(), &missing()), "skipped, within the gap");
        assert!(known.is_in_gap(24, &block(), &missing()));
        assert!(!known.is_in_gap(25, &block(), &block()));
        assert_eq!((known.first_in_history(), known.first_known()), (25, 25));
        assert!(!known.is_in_gap(30, &block(), &missing()), "one gap for each jump");
    }

    #[test]
    fn a_missing_block_without_a_jump_is_a_difference() {
        let mut known = known_slots();
        assert!(!known.is_in_gap(20, &block(), &missing()));
        jump(&mut known, 1, 30);
        assert!(!known.is_in_gap(31, &block(), &missing()), "above the jump");
        assert!(!known.is_in_gap(32, &block(), &missing()));
        // Another error is not a gap either.
        jump(&mut known, 2, 50);
        assert!(!known.is_in_gap(33, &block(), &json!({"error": {"code": -32_004}})));
        assert!(known.is_in_gap(34, &block(), &missing()));
        jump(&mut known, 2, 90);
        assert!(!known.is_in_gap(35, &block(), &block()));
        assert!(!known.is_in_gap(60, &block(), &missing()), "the counter has not grown");
    }

    #[test]
    fn a_gap_among_slots_that_are_not_compared_ends_with_them() {
        let mut known = known_slots();
        known.skip_to(30);
        jump(&mut known, 1, 50);
        for slot in 30..=50 {
            assert!(!known.is_in_gap(slot, &block(), &block()));
        }
        assert_eq!(known.first_in_history(), 10, "it may come still");
        assert!(!known.is_in_gap(51, &block(), &block()));
        assert_eq!(known.first_in_history(), 30);
        let mut known = known_slots();
        jump(&mut known, 1, 50);
        assert!(!known.is_in_gap(51, &block(), &block()));
        assert_eq!(known.first_in_history(), 10, "all slots were compared");
    }

    #[test]
    fn rewards_are_refused_for_an_epoch_that_begins_in_a_gap() {
        let refusal = |slot: u64| json!({"error": {"code": NOT_BOUNDARY, "data": {"slot": slot}}});
        let mut known = known_slots();
        assert!(!known.is_missing_boundary(&refusal(10)), "no jump");
        jump(&mut known, 1, 50);
        assert!(known.is_missing_boundary(&refusal(50)), "the gap is still ahead");
        assert!(known.is_in_gap(22, &block(), &missing()));
        assert!(!known.is_in_gap(23, &block(), &block()));
        assert!(known.is_missing_boundary(&refusal(23)));
        assert!(!known.is_missing_boundary(&refusal(24)));
        assert!(!known.is_missing_boundary(&json!({"result": [null]})));
    }

    #[test]
    fn a_history_that_begins_later_stays_so() {
        let mut known = known_slots();
        known.start_at(40);
        known.start_at(10);
        assert_eq!((known.first(), known.first_known()), (40, 40));
    }

    #[test]
    fn the_history_of_a_restarted_replica_may_begin_later() {
        let refusal = json!({"error": {"code": NOT_BOUNDARY, "data": {"slot": 40}}});
        let mut known = known_slots();
        assert!(!known.may_lack_blocks());
        known.restart_replica();
        assert!(known.may_lack_blocks());
        known.start_at(40);
        assert!(known.is_missing_boundary(&refusal));
        assert!(!known.is_in_gap(41, &block(), &missing()), "it has not jumped");
    }

    #[test]
    fn calls_that_reach_into_a_gap_are_left_out() {
        let mut known = known_slots();
        let blocks = |slots: [u64; 3]| json!({"result": slots});
        let reaches = |known: &KnownSlots, slot| {
            let limited = blocks([slot - 3, slot - 2, slot - 1]);
            let methods = ["getBlocks", "getBlocksWithLimit"];
            methods.map(|method| known.reaches_missing(slot, method, &limited))
        };
        assert_eq!(reaches(&known, 13), [false; 2]);
        assert!(!known.reaches_missing(19, "getBlocksWithLimit", &blocks([19, 22, 23])));
        assert!(!known.needs_gap("getRecentPrioritizationFees"));
        jump(&mut known, 1, 50);
        assert!(known.needs_gap("getRecentPrioritizationFees"));
        assert!(!known.needs_gap("getSupply"));
        assert_eq!(reaches(&known, 19), [false; 2]);
        assert!(known.reaches_missing(19, "getBlocksWithLimit", &blocks([19, 22, 23])));
        assert!(known.is_in_gap(22, &block(), &missing()));
        assert!(!known.is_in_gap(23, &block(), &block()));
        assert!(!known.needs_gap("getRecentPrioritizationFees"));
        for slot in 23..26 {
            assert_eq!(reaches(&known, slot), [true; 2]);
            assert!(!known.reaches_missing(slot, "getBlock", &block()));
        }
        assert_eq!(reaches(&known, 26), [false; 2]);
    }

    #[test]
    fn a_restarted_validator_is_known_above_its_first_final_slot() {
        let mut known = known_slots();
        assert_eq!((known.first_after_restart(), known.first_known()), (0, 10));
        known.restart_validator(40);
        known.restart_validator(30);
        assert_eq!((known.first_after_restart(), known.first_known()), (41, 41));
        assert_eq!(known.first_in_history(), 10);
        let blocks = json!({"result": [40, 41, 42]});
        assert!(known.reaches_missing(43, "getBlocks", &blocks));
        assert!(!known.reaches_missing(44, "getBlocks", &blocks));
    }
}
