//! Reports of replicas that cannot continue: objects in the cluster's store, which the leading ingester looks for.
//!
//! | object | holds |
//! |--------|-------|
//! | `faults/<cluster>/<generation>-<sequence>` | lines `key=value`: the fields of [`FaultReport`] |
//!
//! Numbers in the name have leading zeros. Replicas that stop at the same message write one object. A reader ignores
//! keys that it does not know. The key of the generation is `epoch`. A report is of no more interest once a newer
//! generation of the log has its first record.
//! Not here: when a replica reports (`replica`), and the reaction of the leader (`ingest`): it opens a generation from
//! a snapshot of its own root, once that is above [`FaultReport::slot`].

use std::collections::HashMap;

/// Directory of all reports.
const ROOT: &str = "faults";
/// The version of the format. A reader refuses others.
const VERSION: u64 = 1;
/// Maximum bytes of a report.
pub const FAULT_REPORT_BYTES_MAX: usize = 1_024;

/// A fault of the log after which a replica found no way to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultReport {
    /// Name of the cluster.
    pub cluster: String,
    /// The generation of the log that cannot be continued.
    pub generation: u64,
    /// Sequence of the last message of the newest whole record that was read; 0 if none of the generation was.
    pub sequence: u64,
    /// Number of that record.
    pub record: u64,
    /// The newest slot whose record was read. The fault is in a record up to the one of the next block.
    pub slot: u64,
    /// The confirmed slot of the replica. It can jump only to a snapshot above it.
    pub confirmed: u64,
    /// Name of the fault, as in `hydrant_log_faults_total{fault}`.
    pub what: String,
    /// Milliseconds since 1970 when the report was made.
    pub made_at_ms: u64,
}

/// Returns the directory of a cluster's reports.
pub fn fault_report_dir(cluster: &str) -> String {
    format!("{ROOT}/{cluster}")
}

/// Parses the generation and the sequence in the key of a report. Returns `None` for any other object.
pub fn parse_fault_report_key(key: &str) -> Option<(u64, u64)> {
    let (dir, name) = key.rsplit_once('/')?;
    let (root, cluster) = dir.split_once('/')?;
    let (generation, sequence) = name.split_once('-')?;
    let numbers = (generation.parse().ok()?, sequence.parse().ok()?);
    let is_report = root == ROOT && format_key(cluster, numbers.0, numbers.1) == key;
    is_report.then_some(numbers)
}

fn format_key(cluster: &str, generation: u64, sequence: u64) -> String {
    format!("{}/{generation:010}-{sequence:020}", fault_report_dir(cluster))
}

impl FaultReport {
    /// Returns the key of the object.
    pub fn key(&self) -> String {
        format_key(&self.cluster, self.generation, self.sequence)
    }

    /// Returns the content of the object.
    pub fn to_text(&self) -> String {
        let Self { cluster, generation, sequence, record, slot, confirmed, what, made_at_ms } =
            self;
        format!(
            "version={VERSION}\ncluster={cluster}\nepoch={generation}\nsequence={sequence}\nrecord={record}\n\
             slot={slot}\nconfirmed={confirmed}\nwhat={what}\nmade_at_ms={made_at_ms}\n"
        )
    }

    /// Parses the content of an object. Returns `None` for another version, and if a value is missing.
    pub fn parse(text: &str) -> Option<Self> {
        let values: HashMap<&str, &str> =
            text.lines().filter_map(|line| line.split_once('=')).collect();
        let number = |key: &str| values.get(key)?.parse::<u64>().ok();
        let word = |key: &str| values.get(key).map(|value| (*value).to_owned());
        (number("version")? == VERSION).then_some(())?;
        Some(Self {
            cluster: word("cluster")?,
            generation: number("epoch")?,
            sequence: number("sequence")?,
            record: number("record")?,
            slot: number("slot")?,
            confirmed: number("confirmed")?,
            what: word("what")?,
            made_at_ms: number("made_at_ms")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> FaultReport {
        FaultReport {
            cluster: "main".to_owned(),
            generation: 3,
            sequence: 700,
            record: 41,
            slot: 1_000,
            confirmed: 990,
            what: "sum".to_owned(),
            made_at_ms: 17,
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = report();
        let text = report.to_text();
        assert!(text.starts_with("version=1\ncluster=main\nepoch=3\n"), "{text}");
        assert!(text.len() <= FAULT_REPORT_BYTES_MAX);
        assert_eq!(FaultReport::parse(&text), Some(report.clone()));
        let with_more = format!("{text}later=1\n");
        assert_eq!(FaultReport::parse(&with_more), Some(report));
    }

    #[test]
    fn damaged_and_newer_reports_are_refused() {
        let text = report().to_text();
        let newer = text.replace("version=1", "version=2");
        let without_slot = text.replace("\nslot=1000", "");
        let no_number = text.replace("epoch=3", "epoch=x");
        for other in ["", &newer, &without_slot, &no_number] {
            assert_eq!(FaultReport::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_key_has_the_generation_and_the_sequence() {
        let key = report().key();
        assert_eq!(key, "faults/main/0000000003-00000000000000000700");
        assert_eq!(parse_fault_report_key(&key), Some((3, 700)));
        let cut = key.replace("00000000000000000700", "700");
        let elsewhere = key.replace("faults", "snap");
        for other in [cut, elsewhere, "faults/main".to_owned(), format!("{key}/x")] {
            assert_eq!(parse_fault_report_key(&other), None, "{other}");
        }
    }
}
