//! The leaders of an epoch's slots.
//!
//! In: the leader of each turn; a turn is a number of adjacent slots. Out: the leader of a slot, and the slots of a
//! leader. Slots are counted from the first of the epoch.
//! Memory: 8 bytes for each turn, 36 for each leader. On mainnet that is 1 MB an epoch, on a localnet some bytes.
//! Not here: how leaders follow from stakes (`solana-leader-schedule`), what an epoch is (`solana-epoch-schedule`).

use std::num::NonZeroU64;
use std::ops::Range;

use solana_pubkey::Pubkey;

/// The leaders of an epoch's slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderSchedule {
    slots: u64,
    slots_per_turn: NonZeroU64,
    /// Each leader once, in the order of addresses.
    leaders: Vec<Pubkey>,
    /// For each turn, the index of its leader.
    turns: Vec<u32>,
    /// The turns, by leader.
    by_leader: Vec<u32>,
    /// For each leader, the end of its turns in `by_leader`.
    ends: Vec<u32>,
}

impl LeaderSchedule {
    /// The schedule of an epoch of `slots`, in which each leader of `turns` leads `slots_per_turn` slots. Turns beyond
    /// the epoch are ignored, and so are slots beyond the turns.
    pub fn new(turns: &[Pubkey], slots_per_turn: NonZeroU64, slots: u64) -> Self {
        let turns_max = usize::try_from(slots.div_ceil(slots_per_turn.get()));
        let turns_max = turns_max.unwrap_or(usize::MAX).min(u32::MAX as usize);
        let turns = &turns[..turns.len().min(turns_max)];
        let slots = slots.min((turns.len() as u64).saturating_mul(slots_per_turn.get()));
        let mut leaders = turns.to_vec();
        leaders.sort_unstable();
        leaders.dedup();
        let index_of = |leader: &Pubkey| leaders.partition_point(|other| other < leader) as u32;
        let turns: Vec<u32> = turns.iter().map(index_of).collect();
        let mut by_leader: Vec<u32> = (0..turns.len() as u32).collect();
        by_leader.sort_by_key(|turn| turns[*turn as usize]);
        let ends = (0..leaders.len() as u32)
            .map(|leader| by_leader.partition_point(|turn| turns[*turn as usize] <= leader) as u32);
        Self { slots, slots_per_turn, ends: ends.collect(), leaders, turns, by_leader }
    }

    /// The schedule of an epoch in which one node leads every slot.
    pub fn of_one(leader: Pubkey, slots: u64) -> Self {
        Self::new(&[leader], NonZeroU64::new(slots).unwrap_or(NonZeroU64::MIN), slots)
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.leaders.capacity() * size_of::<Pubkey>()
            + (self.turns.capacity() + self.by_leader.capacity() + self.ends.capacity())
                * size_of::<u32>()
    }

    /// Each leader once, in the order of addresses.
    pub fn leaders(&self) -> &[Pubkey] {
        &self.leaders
    }

    /// The leader of a slot, and the slots of its turn. `None` beyond the epoch.
    pub fn turn_of(&self, slot: u64) -> Option<(&Pubkey, Range<u64>)> {
        let turn = usize::try_from(slot / self.slots_per_turn).ok()?;
        let leader = *self.turns.get(turn).filter(|_| slot < self.slots)?;
        Some((&self.leaders[leader as usize], self.slots_of_turn(turn)))
    }

    /// The slots of a leader's turn number `n`. The leader is given by its index in [`Self::leaders`].
    pub fn nth_turn(&self, leader: usize, n: usize) -> Option<Range<u64>> {
        let end = *self.ends.get(leader)? as usize;
        let start = leader.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let turn = self.by_leader[start..end].get(n)?;
        Some(self.slots_of_turn(*turn as usize))
    }

    fn slots_of_turn(&self, turn: usize) -> Range<u64> {
        let start = turn as u64 * self.slots_per_turn.get();
        start..self.slots.min(start.saturating_add(self.slots_per_turn.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Pubkey {
        Pubkey::new_from_array([n; 32])
    }

    fn all_turns(schedule: &LeaderSchedule, leader: usize) -> Vec<Range<u64>> {
        (0..).map_while(|n| schedule.nth_turn(leader, n)).collect()
    }

    #[test]
    fn each_slot_has_the_leader_of_its_turn() {
        let turns = [key(3), key(1), key(3), key(2)];
        let four = NonZeroU64::new(4).expect("it is not 0");
        let schedule = LeaderSchedule::new(&turns, four, 14);
        assert_eq!(schedule.leaders(), [key(1), key(2), key(3)]);
        for slot in 0..14 {
            let (leader, turn) = schedule.turn_of(slot).expect("it is in the epoch");
            assert_eq!(*leader, turns[slot as usize / 4]);
            assert!(turn.contains(&slot) && turn.start.is_multiple_of(4));
        }
        assert_eq!(schedule.turn_of(14), None);
        assert_eq!(all_turns(&schedule, 0), vec![4..8]);
        assert_eq!(all_turns(&schedule, 1), vec![12..14]);
        assert_eq!(all_turns(&schedule, 2), [0..4, 8..12]);
        assert_eq!(schedule.nth_turn(3, 0), None);
    }

    #[test]
    fn turns_and_epoch_may_have_different_lengths() {
        let two = NonZeroU64::new(2).expect("it is not 0");
        let long = LeaderSchedule::new(&[key(1), key(2), key(3)], two, 3);
        assert_eq!(long.leaders(), [key(1), key(2)]);
        assert_eq!(long.turn_of(2), Some((&key(2), 2..3)));
        let short = LeaderSchedule::new(&[key(1)], two, 9);
        assert_eq!((short.turn_of(1), short.turn_of(2)), (Some((&key(1), 0..2)), None));
        assert_eq!(LeaderSchedule::new(&[], two, 9).turn_of(0), None);
    }

    #[test]
    fn one_node_may_lead_every_slot() {
        let schedule = LeaderSchedule::of_one(key(1), 432_000);
        assert_eq!(schedule.turn_of(431_999), Some((&key(1), 0..432_000)));
        assert_eq!(all_turns(&schedule, 0), vec![0..432_000]);
        assert_eq!(LeaderSchedule::of_one(key(1), 0).turn_of(0), None);
    }
}
