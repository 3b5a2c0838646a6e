//! The times from the submission of a block to the notifications about it.
//!
//! kaspad replies to submitBlock when its virtual block has changed, and may send UtxosChanged before that. So all
//! times start when the block is sent, and the time of the reply has a row of its own.
//! Not here: the arrival times of each subscriber (`arrivals`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kaspa_rig::statistics::Samples;
use crate::kaspa_rig::time_tables::{ComparedTimes, render_compared_times, render_times};

/// A kind of block that is measured. Nothing else has been mined since both nodes were level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MeasuredBlock {
    /// A block whose only parent is the sink.
    OneParent,
    /// A block that merges both branches after a reorganization.
    Merging,
}

/// The times of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotificationTimes {
    /// The times until kaspad replied to submitBlock.
    submissions: BTreeMap<MeasuredBlock, Samples>,
    /// The times until UtxosChanged arrived, by block and subscription.
    changes: BTreeMap<String, ComparedTimes>,
    /// The times from UtxosChanged of kaspad to that of Hydrant with the same set, by subscription.
    delays: BTreeMap<String, Samples>,
}

impl MeasuredBlock {
    fn label(self) -> &'static str {
        match self {
            Self::OneParent => "block with one parent",
            Self::Merging => "block that merges two branches",
        }
    }
}

impl NotificationTimes {
    /// Adds the time until kaspad replied to submitBlock.
    pub(crate) fn add_submission(&mut self, block: MeasuredBlock, time: Duration) {
        self.submissions.entry(block).or_default().add(time);
    }

    /// Adds the times until subscribers with the same subscription got UtxosChanged.
    pub(crate) fn add_change(
        &mut self,
        block: MeasuredBlock,
        subscription: &str,
        kaspad: Duration,
        hydrant: Duration,
    ) {
        let name = format!("{}, {subscription}", block.label());
        self.changes.entry(name).or_default().add(kaspad, hydrant);
    }

    /// Sets the delays of Hydrant's notifications of a subscription.
    pub(crate) fn set_delays(&mut self, subscription: String, delays: Samples) {
        self.delays.insert(subscription, delays);
    }

    /// Returns the tables of all times.
    pub(crate) fn tables(&self) -> String {
        let changes = self.changes.iter().map(|(name, times)| (name.clone(), times));
        let mut text = render_compared_times("submitBlock to UtxosChanged", changes);
        let submissions = self.submissions.iter().map(|(block, samples)| {
            (format!("submitBlock to the reply of kaspad, {}", block.label()), samples)
        });
        let delays = self.delays.iter().map(|(subscription, samples)| {
            (format!("UtxosChanged of kaspad to that of Hydrant, {subscription}"), samples)
        });
        text.push_str(&render_times("time", submissions.chain(delays)));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_subscriptions_have_rows_of_their_own() {
        let ms = Duration::from_millis;
        let mut times = NotificationTimes::default();
        times.add_submission(MeasuredBlock::OneParent, ms(3));
        times.add_change(MeasuredBlock::OneParent, "Borsh, all", ms(4), ms(6));
        times.add_change(MeasuredBlock::OneParent, "Json, all", ms(4), ms(8));
        times.add_change(MeasuredBlock::Merging, "Borsh, all", ms(10), ms(5));
        let mut delays = Samples::default();
        delays.add_ms(2.5);
        times.set_delays("Borsh, addresses".to_owned(), delays);
        let tables = times.tables();
        for row in [
            "| block with one parent, Borsh, all | 1 | 4.000 | 6.000 | 1.500 | 4.000 |",
            "| block with one parent, Json, all | 1 | 4.000 | 8.000 | 2.000 |",
            "| block that merges two branches, Borsh, all | 1 | 10.000 | 5.000 | 0.500 |",
            "| submitBlock to the reply of kaspad, block with one parent | 1 | 3.000 | 3.000 |",
            "| UtxosChanged of kaspad to that of Hydrant, Borsh, addresses | 1 | 2.500 | 2.500 |",
        ] {
            assert!(tables.contains(row), "{row}\n{tables}");
        }
    }
}
