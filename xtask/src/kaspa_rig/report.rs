//! The table at the end of a run, and its verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, ensure};

use crate::kaspa_rig::comparison::Comparison;
use crate::kaspa_rig::metrics::Counters;
use crate::kaspa_rig::miner::{MinerCounters, describe_load};
use crate::kaspa_rig::notification_times::NotificationTimes;
use crate::kaspa_rig::resources::ComparedResources;
use crate::kaspa_rig::resuming_client::ResumeCounters;
use crate::kaspa_rig::stream_state::{SharedSets, StreamCounters};
use crate::kaspa_rig::subscriber::Server;

/// The largest depth of each group of reorganizations in the table.
const DEPTH_GROUPS: [usize; 4] = [1, 10, 50, usize::MAX];

/// Comparisons for each one that may be left out.
const COMPARISONS_FOR_ONE_SKIPPED: u64 = 20;

/// The results of a run.
pub(crate) struct Report {
    /// Why the run ended.
    pub(crate) end: String,
    pub(crate) miner: MinerCounters,
    pub(crate) hydrant: Counters,
    /// The number of quiet times at which the nodes were compared.
    pub(crate) comparisons: u64,
    /// Comparisons after a reorganization that were left out, because Hydrant was not level in time.
    pub(crate) skipped_comparisons: u64,
    /// Blocks that were mined because Hydrant's virtual set did not become complete without them.
    pub(crate) completing_blocks: u64,
    pub(crate) faults: u64,
    /// Faults that were requested and not made.
    pub(crate) missing_faults: u64,
    /// The reorganizations that the rig made, by their depth.
    pub(crate) reorganizations: BTreeMap<usize, u64>,
    pub(crate) streams: Vec<StreamReport>,
    pub(crate) resuming_client: ResumeCounters,
    pub(crate) notification_times: NotificationTimes,
    pub(crate) resources: ComparedResources,
}

/// The results of a subscriber.
pub(crate) struct StreamReport {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) counters: StreamCounters,
    pub(crate) examples: Vec<String>,
    /// Its sets of UTXOs, compared with those of kaspad's subscriber to the same addresses.
    pub(crate) sets: SharedSets,
}

impl Report {
    /// Returns the tables of the run.
    pub(crate) fn tables(&self, comparison: &Comparison) -> String {
        let totals = comparison.totals();
        let mut text = format!("\nThe run ended: {}.\n\n{}\n", self.end, describe_load());
        text.push_str("\n| what | number |\n|---|---|\n");
        let rows = [
            ("blocks mined", self.miner.blocks),
            ("siblings among them", self.miner.siblings),
            ("transactions accepted by a mempool", self.miner.transactions),
            ("transactions refused by a mempool", self.miner.refused_transactions),
            ("transactions in proven chain blocks", self.hydrant.transactions),
            ("commitments of chain blocks checked", self.hydrant.proven_blocks),
            ("blocks refused (false alarms)", self.hydrant.refused_blocks),
            ("virtual sets equal to a template's commitment", self.hydrant.template_matches),
            ("virtual sets that differ from it", self.hydrant.template_mismatches),
            ("virtual sets that were not complete yet", self.hydrant.template_incomplete),
            ("lost messages found", self.hydrant.lost_messages),
            ("sessions with kaspad", self.hydrant.sessions),
            ("faults", self.faults),
            ("quiet times compared", self.comparisons),
            ("comparisons left out: Hydrant was not level", self.skipped_comparisons),
            ("blocks mined to complete the virtual set", self.completing_blocks),
            ("replies equal", totals.equal),
            ("replies equal when repeated", totals.repeated),
            ("differences", totals.different),
            ("reorganizations in Hydrant", self.hydrant.reorganizations),
            ("chain blocks that they removed", self.hydrant.removed_blocks),
            ("reorganizations too deep for Hydrant", self.hydrant.too_deep_reorganizations),
            ("addressesSubscribe: starts with all UTXOs", self.resuming_client.snapshots),
            ("addressesSubscribe: resumed", self.resuming_client.resumes),
            ("addressesSubscribe: notifications", self.resuming_client.notifications),
            ("addressesSubscribe: blocks that left the chain", self.resuming_client.rollbacks),
            ("addressesSubscribe: contradictions", self.resuming_client.contradictions),
        ];
        for (name, number) in rows {
            // Writing to a string does not fail.
            let _ = writeln!(text, "| {name} | {number} |");
        }
        text.push_str(&self.depth_table());
        text.push_str(&self.stream_table());
        text.push_str(&comparison.table());
        text.push_str(&self.time_tables(comparison));
        text
    }

    /// Returns an error if anything differs.
    pub(crate) fn check(&self, comparison: &Comparison) -> Result<()> {
        let totals = comparison.totals();
        ensure!(totals.equal > 0, "nothing was compared");
        ensure!(totals.different == 0, "{} replies or states differ", totals.different);
        let Counters { refused_blocks, too_deep_reorganizations, proven_blocks, .. } = self.hydrant;
        ensure!(refused_blocks == 0, "Hydrant refused {refused_blocks} blocks of a real kaspad");
        ensure!(
            too_deep_reorganizations == 0,
            "{too_deep_reorganizations} reorganizations too deep"
        );
        ensure!(proven_blocks > 0, "no commitment was checked");
        // A single template may be of another virtual block with the same score. Three in a row are a lost message.
        let lost = self.hydrant.lost_messages;
        ensure!(lost == 0, "the virtual set of Hydrant was wrong {lost} times");
        ensure!(self.hydrant.template_matches > 0, "no virtual set was compared with a template");
        let missing_faults = self.missing_faults;
        ensure!(missing_faults == 0, "{missing_faults} faults were not made (--minutes)");
        let skipped = self.skipped_comparisons;
        ensure!(
            skipped * COMPARISONS_FOR_ONE_SKIPPED <= self.comparisons,
            "{skipped} comparisons were left out, {} were made",
            self.comparisons
        );
        let ResumeCounters { notifications, contradictions, .. } = self.resuming_client;
        ensure!(contradictions == 0, "addressesSubscribe: {contradictions} contradictions");
        ensure!(notifications > 0, "addressesSubscribe: no notification");
        for stream in self.streams.iter().filter(|stream| stream.server == Server::Hydrant) {
            let contradictions = stream.counters.contradictions;
            ensure!(contradictions == 0, "{}: {contradictions} contradictions", stream.name);
            ensure!(stream.counters.utxo_notifications > 0, "{}: no notification", stream.name);
        }
        Ok(())
    }

    /// Returns the contradictions of the streams.
    pub(crate) fn examples(&self) -> String {
        let mut text = String::new();
        for stream in &self.streams {
            for example in &stream.examples {
                let _ = writeln!(text, "{}: {example}", stream.name);
            }
        }
        text
    }

    /// Returns the tables of measured times and resources.
    fn time_tables(&self, comparison: &Comparison) -> String {
        let mut text = "\nTimes and resources of kaspad and of Hydrant. A ratio is that of Hydrant to kaspad, which \
                        also validates, mines and stores blocks: docs/kaspa_rig.md names the other differences.\n"
            .to_owned();
        text.push_str(&comparison.times.table());
        text.push_str(&self.notification_times.tables());
        text.push_str(&self.resources.table());
        text
    }

    fn depth_table(&self) -> String {
        let deepest = self.reorganizations.keys().next_back().copied().unwrap_or_default();
        let distinct = self.reorganizations.len();
        let mut text = format!(
            "\nReorganizations: {distinct} different depths, at most {deepest} chain blocks.\n\n\
             | depth | made |"
        );
        for stream in &self.streams {
            let _ = write!(text, " {} |", stream.name);
        }
        text.push_str("\n|---|---|");
        text.push_str(&"---|".repeat(self.streams.len()));
        text.push('\n');
        let mut start = 1;
        for end in DEPTH_GROUPS {
            let label = match end {
                usize::MAX => format!("{start} and more"),
                end if end == start => format!("{start}"),
                end => format!("{start} to {end}"),
            };
            let count = |depths: &BTreeMap<usize, u64>| -> u64 {
                depths.range(start..=end).map(|(_, count)| count).sum()
            };
            let _ = write!(text, "| {label} | {} |", count(&self.reorganizations));
            for stream in &self.streams {
                let _ = write!(text, " {} |", count(&stream.counters.reorganizations));
            }
            text.push('\n');
            start = end.saturating_add(1);
        }
        text
    }

    fn stream_table(&self) -> String {
        let mut text = "\n| subscriber | notifications of UTXOs | UTXOs | contradictions | sets that kaspad's \
                        subscriber had | other sets |\n|---|---|---|---|---|---|\n"
            .to_owned();
        for StreamReport { name, counters, sets, .. } in &self.streams {
            let StreamCounters { utxo_notifications, utxos, contradictions, .. } = counters;
            let SharedSets { common, own } = sets;
            let _ = writeln!(
                text,
                "| {name} | {utxo_notifications} | {utxos} | {contradictions} | {common} | {own} |"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let counters = StreamCounters {
            utxo_notifications: 5,
            reorganizations: BTreeMap::from([(1, 3), (10, 1)]),
            ..StreamCounters::default()
        };
        Report {
            end: "the blocks are mined".to_owned(),
            miner: MinerCounters { blocks: 10, ..MinerCounters::default() },
            hydrant: Counters { proven_blocks: 9, template_matches: 3, ..Counters::default() },
            comparisons: 40,
            skipped_comparisons: 1,
            completing_blocks: 2,
            faults: 0,
            missing_faults: 0,
            reorganizations: BTreeMap::from([(1, 2), (2, 1), (100, 1)]),
            streams: vec![StreamReport {
                name: "Hydrant, Borsh, all".to_owned(),
                server: Server::Hydrant,
                counters,
                examples: Vec::new(),
                sets: SharedSets { common: 4, own: 0 },
            }],
            resuming_client: ResumeCounters { notifications: 3, ..ResumeCounters::default() },
            notification_times: NotificationTimes::default(),
            resources: ComparedResources { kaspad: None, hydrant: None },
        }
    }

    fn equal() -> Comparison {
        let mut comparison = Comparison::default();
        comparison.check("getSink", &1, &1);
        comparison
    }

    #[test]
    fn the_table_groups_reorganizations_by_depth() {
        let tables = report().tables(&equal());
        for row in [
            "| blocks mined | 10 |",
            "| commitments of chain blocks checked | 9 |",
            "| differences | 0 |",
            "3 different depths, at most 100 chain blocks",
            "| 1 | 2 | 3 |",
            "| 2 to 10 | 1 | 1 |",
            "| 11 to 50 | 0 | 0 |",
            "| 51 and more | 1 | 0 |",
            "| Hydrant, Borsh, all | 5 | 0 | 0 | 4 | 0 |",
            "| getSink | 1 | 0 | 0 |",
            "Load: up to 4 transactions before each block",
            "| resource | kaspad | Hydrant | ratio |",
        ] {
            assert!(tables.contains(row), "{row}\n{tables}");
        }
    }

    #[test]
    fn a_difference_or_a_false_alarm_fails_the_run() {
        let check = |change: fn(&mut Report)| {
            let mut report = report();
            change(&mut report);
            report.check(&equal())
        };
        check(|_| {}).unwrap();
        assert!(check(|report| report.hydrant.refused_blocks = 1).is_err());
        assert!(check(|report| report.hydrant.too_deep_reorganizations = 1).is_err());
        assert!(check(|report| report.hydrant.proven_blocks = 0).is_err());
        assert!(check(|report| report.missing_faults = 1).is_err());
        assert!(check(|report| report.skipped_comparisons = 3).is_err());
        assert!(check(|report| report.hydrant.lost_messages = 1).is_err());
        assert!(check(|report| report.hydrant.template_matches = 0).is_err());
        check(|report| report.hydrant.template_incomplete = 11).unwrap();
        assert!(check(|report| report.streams[0].counters.contradictions = 1).is_err());
        assert!(check(|report| report.resuming_client.contradictions = 1).is_err());
        assert!(check(|report| report.resuming_client.notifications = 0).is_err());
        // A kaspad may swap two notifications.
        check(|report| {
            report.streams[0].server = Server::Kaspad;
            report.streams[0].counters.contradictions = 1;
        })
        .unwrap();
        assert!(report().check(&Comparison::default()).is_err());
        let mut comparison = equal();
        comparison.check("getSink", &1, &2);
        assert!(report().check(&comparison).is_err());
    }
}
