//! The leaders of an epoch's slots.
//!
//! In: the leader of each window; a leader window is a number of adjacent slots. Out: the leader of a slot, and the
//! slots of a leader. Slots are counted from the first of the epoch.
//! Memory: 8 bytes for each window, 36 for each leader. On mainnet that is 1 MB an epoch, on a localnet some bytes.
//! Not here: the choice of leaders by stake (`solana-leader-schedule`), the definition of epochs
//! (`solana-epoch-schedule`).

use std::num::NonZeroU64;
use std::ops::Range;

use solana_pubkey::Pubkey;

/// The leaders of an epoch's slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderSchedule {
    slots: u64,
    slots_per_window: NonZeroU64,
    /// Each leader once, in the order of addresses.
    leaders: Vec<Pubkey>,
    /// For each window, the index of its leader.
    windows: Vec<u32>,
    /// The indices of the windows, by leader.
    by_leader: Vec<u32>,
    /// For each leader, the end of its windows in `by_leader`.
    ends: Vec<u32>,
}

impl LeaderSchedule {
    /// Creates the schedule of an epoch of `slots`, in which the leader of each of `windows` leads `slots_per_window`
    /// slots. Windows beyond the epoch are ignored, and so are slots beyond the windows.
    pub fn new(windows: &[Pubkey], slots_per_window: NonZeroU64, slots: u64) -> Self {
        let windows_max = usize::try_from(slots.div_ceil(slots_per_window.get()));
        let windows_max = windows_max.unwrap_or(usize::MAX).min(u32::MAX as usize);
        let windows = &windows[..windows.len().min(windows_max)];
        let slots = slots.min((windows.len() as u64).saturating_mul(slots_per_window.get()));
        let mut leaders = windows.to_vec();
        leaders.sort_unstable();
        leaders.dedup();
        let index_of = |leader: &Pubkey| leaders.partition_point(|other| other < leader) as u32;
        let windows: Vec<u32> = windows.iter().map(index_of).collect();
        let mut by_leader: Vec<u32> = (0..windows.len() as u32).collect();
        by_leader.sort_by_key(|window| windows[*window as usize]);
        let ends = (0..leaders.len() as u32).map(|leader| {
            by_leader.partition_point(|window| windows[*window as usize] <= leader) as u32
        });
        Self { slots, slots_per_window, ends: ends.collect(), leaders, windows, by_leader }
    }

    /// Creates the schedule of an epoch in which one node leads every slot.
    pub fn with_one_leader(leader: Pubkey, slots: u64) -> Self {
        Self::new(&[leader], NonZeroU64::new(slots).unwrap_or(NonZeroU64::MIN), slots)
    }

    /// Returns the bytes in use by the schedule.
    pub fn bytes(&self) -> usize {
        self.leaders.capacity() * size_of::<Pubkey>()
            + (self.windows.capacity() + self.by_leader.capacity() + self.ends.capacity())
                * size_of::<u32>()
    }

    /// Returns each leader once, in the order of addresses.
    pub fn leaders(&self) -> &[Pubkey] {
        &self.leaders
    }

    /// Returns the leader of a slot, and the slots of its window. `None` beyond the epoch.
    pub fn find_window(&self, slot: u64) -> Option<(&Pubkey, Range<u64>)> {
        let window = usize::try_from(slot / self.slots_per_window).ok()?;
        let leader = *self.windows.get(window).filter(|_| slot < self.slots)?;
        Some((&self.leaders[leader as usize], self.window_slots(window)))
    }

    /// Returns the slots of a leader's window number `n`. `leader` is an index in [`Self::leaders`].
    pub fn nth_window(&self, leader: usize, n: usize) -> Option<Range<u64>> {
        let end = *self.ends.get(leader)? as usize;
        let start = leader.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let window = self.by_leader[start..end].get(n)?;
        Some(self.window_slots(*window as usize))
    }

    fn window_slots(&self, window: usize) -> Range<u64> {
        let start = window as u64 * self.slots_per_window.get();
        start..self.slots.min(start.saturating_add(self.slots_per_window.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Pubkey {
        Pubkey::new_from_array([n; 32])
    }

    fn list_windows(schedule: &LeaderSchedule, leader: usize) -> Vec<Range<u64>> {
        (0..).map_while(|n| schedule.nth_window(leader, n)).collect()
    }

    #[test]
    fn each_slot_has_the_leader_of_its_window() {
        let windows = [key(3), key(1), key(3), key(2)];
        let four = NonZeroU64::new(4).expect("it is not 0");
        let schedule = LeaderSchedule::new(&windows, four, 14);
        assert_eq!(schedule.leaders(), [key(1), key(2), key(3)]);
        for slot in 0..14 {
            let (leader, window) = schedule.find_window(slot).expect("it is in the epoch");
            assert_eq!(*leader, windows[slot as usize / 4]);
            assert!(window.contains(&slot) && window.start.is_multiple_of(4));
        }
        assert_eq!(schedule.find_window(14), None);
        assert_eq!(list_windows(&schedule, 0), vec![4..8]);
        assert_eq!(list_windows(&schedule, 1), vec![12..14]);
        assert_eq!(list_windows(&schedule, 2), [0..4, 8..12]);
        assert_eq!(schedule.nth_window(3, 0), None);
    }

    #[test]
    fn windows_and_epoch_may_have_different_lengths() {
        let two = NonZeroU64::new(2).expect("it is not 0");
        let long = LeaderSchedule::new(&[key(1), key(2), key(3)], two, 3);
        assert_eq!(long.leaders(), [key(1), key(2)]);
        assert_eq!(long.find_window(2), Some((&key(2), 2..3)));
        let short = LeaderSchedule::new(&[key(1)], two, 9);
        assert_eq!((short.find_window(1), short.find_window(2)), (Some((&key(1), 0..2)), None));
        assert_eq!(LeaderSchedule::new(&[], two, 9).find_window(0), None);
    }

    #[test]
    fn one_node_may_lead_every_slot() {
        let schedule = LeaderSchedule::with_one_leader(key(1), 432_000);
        assert_eq!(schedule.find_window(431_999), Some((&key(1), 0..432_000)));
        assert_eq!(list_windows(&schedule, 0), vec![0..432_000]);
        assert_eq!(LeaderSchedule::with_one_leader(key(1), 0).find_window(0), None);
    }
}
