//! The notifications of a client compared with the blocks.
//!
//! Up to the last slot for which a period is complete, a client must have one notification for each of its addresses
//! that a block has a transfer to; of each later block until the end of the subscription, none or all. A large set is
//! subscribed in several messages, each from a block of its own: after the first one's block and up to the last one's
//! any part may be notified.

use std::collections::BTreeMap;

use super::block_reader::Block;
use super::client::{Notification, Period};

/// Numbers of account notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) expected: usize,
    /// The expected ones that were received.
    pub(super) received: usize,
    /// Received twice, of a block without such a transfer or before the subscription, or out of order.
    pub(super) wrong: usize,
}

impl Comparison {
    /// Adds the period of a client to the comparison. The blocks are in the order of their slots.
    pub(super) fn add(&mut self, period: &Period, blocks: &[Block]) {
        let slots = period.notifications.iter().map(|it| it.slot);
        self.wrong += slots.clone().zip(slots.skip(1)).filter(|(one, next)| one > next).count();
        let mut received: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for Notification { slot, numbers, .. } in &period.notifications {
            received.entry(*slot).or_default().extend(numbers);
        }
        let last = received.keys().last().copied().unwrap_or_default();
        // Blocks are in order: one that was notified completes those before it.
        let through = last.max(period.through);
        let from = blocks.partition_point(|block| block.slot <= period.first_after);
        let to = blocks.partition_point(|block| block.slot <= through);
        for block in &blocks[from..to.max(from)] {
            let mut expected: Vec<u32> =
                block.recipients.iter().copied().filter(|it| period.set.contains(it)).collect();
            expected.sort_unstable();
            expected.dedup();
            let mut got = received.remove(&block.slot).unwrap_or_default();
            let all = got.len();
            got.sort_unstable();
            got.dedup();
            got.retain(|number| expected.binary_search(number).is_ok());
            self.wrong += all - got.len();
            if block.slot > period.after {
                self.expected += expected.len();
                self.received += got.len();
            }
        }
        // Notifications of blocks that do not exist, or from before the subscription.
        self.wrong += received.values().map(Vec::len).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::Interval;
    use super::*;

    fn period(notifications: &[(u64, &[u32])]) -> Period {
        let notification = |(slot, numbers): &(u64, &[u32])| Notification {
            slot: *slot,
            at_us: 0,
            numbers: numbers.to_vec(),
        };
        Period {
            cycle: 0,
            set: 10..20,
            first_after: 4,
            after: 5,
            through: 8,
            notifications: notifications.iter().map(notification).collect(),
            subscribing: Interval::default(),
            leaving: Interval::default(),
        }
    }

    fn compare(notifications: &[(u64, &[u32])]) -> Comparison {
        let block = |slot, recipients: &[u32]| Block { slot, recipients: recipients.to_vec() };
        let blocks = [
            block(4, &[11]),
            block(5, &[12, 13]),
            block(6, &[10, 25, 10, 19]),
            block(7, &[30]),
            block(8, &[15]),
            block(9, &[16, 17]),
            block(10, &[18]),
        ];
        let mut comparison = Comparison::default();
        comparison.add(&period(notifications), &blocks);
        comparison
    }

    #[test]
    fn a_complete_period_has_nothing_missing_and_nothing_wrong() {
        let exact = Comparison { expected: 3, received: 3, wrong: 0 };
        assert_eq!(compare(&[(6, &[19, 10]), (8, &[15])]), exact);
        // The first blocks may be notified in part.
        assert_eq!(compare(&[(5, &[12]), (6, &[10, 19]), (8, &[15])]), exact);
        // A later block, whole.
        let more = Comparison { expected: 5, received: 5, wrong: 0 };
        assert_eq!(compare(&[(6, &[10, 19]), (8, &[15]), (9, &[16, 17])]), more);
    }

    #[test]
    fn missing_doubled_foreign_and_late_notifications_are_counted() {
        let counts = |expected, received, wrong| Comparison { expected, received, wrong };
        assert_eq!(compare(&[]), counts(3, 0, 0));
        assert_eq!(compare(&[(6, &[10])]), counts(3, 1, 0));
        assert_eq!(compare(&[(6, &[10, 19, 10]), (8, &[15])]), counts(3, 3, 1));
        assert_eq!(compare(&[(6, &[10, 19, 14]), (8, &[15])]), counts(3, 3, 1));
        assert_eq!(compare(&[(6, &[10, 19]), (8, &[15]), (12, &[11])]), counts(6, 3, 1));
        assert_eq!(compare(&[(8, &[15]), (6, &[10, 19])]), counts(3, 3, 1));
        // A block before the client subscribed.
        assert_eq!(compare(&[(4, &[11])]), counts(3, 0, 1));
        assert_eq!(compare(&[(4, &[11]), (6, &[10, 19]), (8, &[15])]), counts(3, 3, 1));
        // A part of a later block.
        assert_eq!(compare(&[(6, &[10, 19]), (8, &[15]), (9, &[17])]), counts(5, 4, 0));
    }
}
