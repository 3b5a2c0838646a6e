//! Reports of replicas that cannot continue, and of ingesters with other blocks: objects in the cluster's store, which
//! the leading ingester looks for.
//!
//! | object | holds |
//! |--------|-------|
//! | `faults/<cluster>/<generation>-<sequence>` | lines `key=value`: the fields of [`FaultReport`] |
//!
//! Numbers in the name have leading zeros. Replicas that stop at the same message write one object. A reader ignores
//! keys that it does not know. A report is of no more interest once a newer generation of the log has its first record.
//! Invariant: a report is the word of one node. Only its position counts, which the leader checks in the log, or
//! compares with its own blocks.
//! Not here: when a replica reports (`replica`), and the reaction of the leader (`ingest`): it writes a snapshot of a
//! block behind the fault.

use std::collections::HashMap;

/// Directory of all reports.
const ROOT: &str = "faults";
/// The version of the format. A reader refuses others.
const VERSION: u64 = 1;
/// Maximum bytes of a report.
pub const FAULT_REPORT_BYTES_MAX: usize = 1_024;
/// Maximum bytes of the name of a fault.
const FAULT_NAME_BYTES_MAX: usize = 32;

/// The part of a log that has a mendable fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultScope {
    /// The stored messages, or their chain. Each reader of the log can find the fault.
    Messages,
    /// The blocks and marks that the records describe. Only a replica, which has the state, can find the fault.
    Chain,
}

/// The faults that a snapshot of a block behind them mends, by their names in `hydrant_log_faults_total{fault}`.
/// Replicas report only these, and the leader reacts only to these. Any other fault would recur in the records behind a
/// snapshot, or is a loss of the log, which the leader finds itself.
pub const MENDABLE_FAULTS: [(&str, FaultScope); 20] = [
    ("damaged", FaultScope::Messages),
    ("missing", FaultScope::Messages),
    ("body", FaultScope::Messages),
    ("digest", FaultScope::Messages),
    ("value", FaultScope::Messages),
    ("order", FaultScope::Messages),
    ("length", FaultScope::Messages),
    ("number", FaultScope::Messages),
    ("chain", FaultScope::Messages),
    ("term", FaultScope::Messages),
    ("first_record", FaultScope::Chain),
    ("parent", FaultScope::Chain),
    ("sum", FaultScope::Chain),
    ("bank_hash", FaultScope::Chain),
    ("mark", FaultScope::Chain),
    ("final_reverted", FaultScope::Chain),
    ("other_chain", FaultScope::Chain),
    ("tips", FaultScope::Chain),
    ("jump", FaultScope::Chain),
    ("unrooted", FaultScope::Chain),
];

/// The name in the report of an ingester that does not lead: a block of the log differs from its own one. The position
/// is the message before the last one of the record, where no replica stops.
pub const DIFFERENT_BLOCK: &str = "different_block";

impl FaultScope {
    /// Returns the scope of the fault with this name, or `None` if no snapshot mends it.
    pub fn from_fault(name: &str) -> Option<Self> {
        let found = MENDABLE_FAULTS.iter().find(|(mendable, _)| *mendable == name);
        found.map(|(_, scope)| *scope)
    }
}

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
    let is_report = root == ROOT && fault_report_key(cluster, numbers.0, numbers.1) == key;
    is_report.then_some(numbers)
}

/// Returns the key of the report of a position. Keys of a generation are in the order of their sequences.
pub fn fault_report_key(cluster: &str, generation: u64, sequence: u64) -> String {
    format!("{}/{generation:010}-{sequence:020}", fault_report_dir(cluster))
}

impl FaultReport {
    /// Returns the key of the object.
    pub fn key(&self) -> String {
        fault_report_key(&self.cluster, self.generation, self.sequence)
    }

    /// Returns the content of the object.
    pub fn to_text(&self) -> String {
        let Self { cluster, generation, sequence, record, slot, confirmed, what, made_at_ms } =
            self;
        format!(
            "version={VERSION}\ncluster={cluster}\ngeneration={generation}\nsequence={sequence}\nrecord={record}\n\
             slot={slot}\nconfirmed={confirmed}\nwhat={what}\nmade_at_ms={made_at_ms}\n"
        )
    }

    /// Parses the object with this key. Returns `None` for another version, if a value is missing, and if the report
    /// belongs to another key.
    pub fn from_object(key: &str, body: &[u8]) -> Option<Self> {
        let report = Self::parse(std::str::from_utf8(body).ok()?)?;
        (report.key() == key).then_some(report)
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
            generation: number("generation")?,
            sequence: number("sequence")?,
            record: number("record")?,
            slot: number("slot")?,
            confirmed: number("confirmed")?,
            what: word("what").filter(|name| is_fault_name(name))?,
            made_at_ms: number("made_at_ms")?,
        })
    }
}

/// Whether a text has the form of a fault's name. The programs' logs repeat no other text of a report.
fn is_fault_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    !text.is_empty() && text.len() <= FAULT_NAME_BYTES_MAX && text.bytes().all(is_allowed)
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
        assert!(text.starts_with("version=1\ncluster=main\ngeneration=3\n"), "{text}");
        assert!(text.len() <= FAULT_REPORT_BYTES_MAX);
        assert_eq!(FaultReport::parse(&text), Some(report.clone()));
        let difference = FaultReport { what: DIFFERENT_BLOCK.to_owned(), ..report.clone() };
        assert_eq!(FaultReport::parse(&difference.to_text()), Some(difference));
        let with_more = format!("{text}later=1\n");
        assert_eq!(FaultReport::parse(&with_more), Some(report));
    }

    #[test]
    fn damaged_and_newer_reports_are_refused() {
        let text = report().to_text();
        let newer = text.replace("version=1", "version=2");
        let without_slot = text.replace("\nslot=1000", "");
        let no_number = text.replace("generation=3", "generation=x");
        let no_name = text.replace("what=sum", "what=sum\u{1b}[2J");
        let long_name = text.replace("what=sum", &format!("what={}", "s".repeat(33)));
        for other in ["", &newer, &without_slot, &no_number, &no_name, &long_name] {
            assert_eq!(FaultReport::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_report_belongs_to_its_key() {
        let report = report();
        let body = report.to_text();
        let key = report.key();
        assert_eq!(FaultReport::from_object(&key, body.as_bytes()), Some(report));
        let other = key.replace("0700", "0701");
        assert_eq!(FaultReport::from_object(&other, body.as_bytes()), None);
        assert_eq!(FaultReport::from_object(&key, &[0xff; 9]), None);
    }

    #[test]
    fn faults_of_a_release_or_a_setting_are_not_mendable() {
        let lasting = ["version", "level", "no_sum", "write_versions", "truncated", "unknown"];
        for lasting in lasting.into_iter().chain([DIFFERENT_BLOCK]) {
            assert_eq!(FaultScope::from_fault(lasting), None, "{lasting}");
        }
        assert_eq!(FaultScope::from_fault("body"), Some(FaultScope::Messages));
        assert_eq!(FaultScope::from_fault("sum"), Some(FaultScope::Chain));
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
