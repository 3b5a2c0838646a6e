//! The lines "bank frozen" of the validators' logs, compared part by part with those of a follower's log, or with the
//! final banks of a replica.
//!
//! Shape: each log is read from where it was left. A bank is named by its slot and its hash's parts; a slot that was
//! frozen several times counts with each of its banks.
//! Bounds: memory grows with the slots of a run, some 300 bytes each.
//! Not here: the parts (`bank_parts`), the requests to a replica (`replica_banks`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::rig::bank_parts::BankParts;
use crate::rig::replica_banks::{BankLevels, ReplicaBanks};

/// Differing banks that are shown.
const EXAMPLES_MAX: usize = 5;

/// The source of a follower's banks.
pub(crate) enum FollowerBanks {
    Log(BankLog),
    Replica(ReplicaBanks),
}

/// A log that is read while it grows.
pub(crate) struct BankLog {
    path: PathBuf,
    /// Which file that was at the last reading.
    target: PathBuf,
    at: u64,
    /// Start of a line that is not yet written to its end.
    rest: String,
    banks: BTreeMap<u64, BTreeSet<BankParts>>,
}

/// Banks from the validators' logs and of a follower.
pub(crate) struct FrozenBanks {
    validators: Vec<BankLog>,
    follower: FollowerBanks,
}

/// Banks on forks that were not rooted.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Forks {
    pub(crate) banks: usize,
    /// The most of them without a rooted one between them.
    pub(crate) longest: usize,
}

impl FollowerBanks {
    /// Reads the banks of a node that logs them.
    pub(crate) fn from_log(path: &Path) -> Self {
        Self::Log(BankLog::new(path))
    }

    /// Requests the final banks of a replica.
    pub(crate) fn from_replica(node: SocketAddr) -> Self {
        Self::Replica(ReplicaBanks::new(node))
    }

    fn read(&mut self) -> Result<()> {
        match self {
            Self::Log(log) => log.read(),
            Self::Replica(banks) => {
                banks.read();
                Ok(())
            }
        }
    }

    fn by_slot(&self) -> &BTreeMap<u64, BTreeSet<BankParts>> {
        match self {
            Self::Log(log) => &log.banks,
            Self::Replica(banks) => banks.banks(),
        }
    }
}

impl BankLog {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            target: PathBuf::new(),
            at: 0,
            rest: String::new(),
            banks: BTreeMap::new(),
        }
    }

    fn read(&mut self) -> Result<()> {
        // The validator's is a link to the log of its last start.
        let Ok(target) = self.path.canonicalize() else { return Ok(()) };
        if target != self.target {
            let last = std::mem::replace(&mut self.target, target);
            self.read_from(&last)?;
            (self.at, self.rest) = (0, String::new());
        }
        let target = self.target.clone();
        self.read_from(&target)
    }

    fn read_from(&mut self, path: &Path) -> Result<()> {
        let Ok(mut file) = File::open(path) else { return Ok(()) };
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        self.at += file.read_to_end(&mut bytes).context("read a log")? as u64;
        self.rest.push_str(&String::from_utf8_lossy(&bytes));
        let text = std::mem::take(&mut self.rest);
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        for (slot, parts) in text[..whole].lines().filter_map(BankParts::parse_line) {
            self.banks.entry(slot).or_default().insert(parts);
        }
        self.rest = text[whole..].to_owned();
        Ok(())
    }
}

impl FrozenBanks {
    pub(crate) fn new(validators: &[PathBuf], follower: FollowerBanks) -> Self {
        let validators = validators.iter().map(|path| BankLog::new(path)).collect();
        Self { validators, follower }
    }

    /// Reads the banks that were added since the last call.
    pub(crate) fn read(&mut self) -> Result<()> {
        // The follower first: the validators' lines of its bank are older, and there.
        self.follower.read()?;
        self.validators.iter_mut().try_for_each(BankLog::read)
    }

    /// Returns the banks of a slot that validators have. Each fork may have one.
    fn find_banks(&self, slot: u64) -> Option<BTreeSet<&BankParts>> {
        let known: BTreeSet<&BankParts> =
            self.validators.iter().filter_map(|log| log.banks.get(&slot)).flatten().collect();
        (!known.is_empty()).then_some(known)
    }

    /// Counts banks of the follower. `is_counted` gets `None` if the validators' logs lack the slot, otherwise whether
    /// the parts are equal.
    fn count(&self, is_counted: impl Fn(Option<bool>) -> bool) -> usize {
        let banks = self.follower.by_slot().iter().flat_map(|(slot, all)| {
            let known = self.find_banks(*slot);
            all.iter().map(move |parts| known.as_ref().map(|known| has_bank(known, parts)))
        });
        banks.filter(|outcome| is_counted(*outcome)).count()
    }

    pub(crate) fn equal(&self) -> usize {
        self.count(|outcome| outcome == Some(true))
    }

    pub(crate) fn different(&self) -> usize {
        self.count(|outcome| outcome == Some(false))
    }

    pub(crate) fn unknown(&self) -> usize {
        self.count(|outcome| outcome.is_none())
    }

    /// Counts the slots of the first log's validator between the follower's first and last for which the follower has no bank.
    pub(crate) fn count_missed(&self) -> usize {
        let banks = self.follower.by_slot();
        let (Some((first, _)), Some((last, _))) = (banks.first_key_value(), banks.last_key_value())
        else {
            return 0;
        };
        let theirs = self.validators.iter().take(1).flat_map(|log| log.banks.range(first..=last));
        theirs.filter(|(slot, _)| !banks.contains_key(slot)).count()
    }

    /// Counts the follower's banks that are not among the rooted slots, up to the last one of these.
    pub(crate) fn forks(&self, rooted: &[u64]) -> Forks {
        let mut forks = Forks::default();
        let (Some(first), Some(last)) = (rooted.first(), rooted.last()) else { return forks };
        let mut neighbours = 0;
        for (slot, banks) in self.follower.by_slot().range(first..=last) {
            if rooted.binary_search(slot).is_ok() {
                neighbours = 0;
            } else {
                neighbours += 1;
                forks.banks += banks.len();
            }
            forks.longest = forks.longest.max(neighbours);
        }
        forks
    }

    /// Returns the number of epochs with a compared first slot.
    pub(crate) fn epochs(&self, slots_per_epoch: u64) -> usize {
        let slots = self.follower.by_slot().keys().map(|slot| slot / slots_per_epoch);
        slots.collect::<BTreeSet<_>>().len().saturating_sub(1)
    }

    /// Returns the levels of a replica's banks; `None` of a node that follows the validators itself.
    pub(crate) fn levels(&self) -> Option<BankLevels> {
        match &self.follower {
            FollowerBanks::Log(_) => None,
            FollowerBanks::Replica(banks) => Some(banks.levels()),
        }
    }

    /// Formats the state as one line.
    pub(crate) fn line(&self) -> String {
        let newest = |banks: &BTreeMap<u64, BTreeSet<BankParts>>| {
            banks.last_key_value().map_or(0, |(slot, _)| *slot)
        };
        format!(
            "banks: {} equal, {} differ, {} missed; validator at slot {}, follower at {}",
            self.equal(),
            self.different(),
            self.count_missed(),
            self.validators.iter().map(|log| newest(&log.banks)).max().unwrap_or_default(),
            newest(self.follower.by_slot())
        )
    }

    /// Formats the first banks that differ.
    pub(crate) fn examples(&self) -> String {
        let mut text = String::new();
        let banks = self.follower.by_slot().iter().filter_map(|(slot, ours)| {
            let theirs = self.find_banks(*slot)?;
            let differs = ours.iter().any(|parts| !has_bank(&theirs, parts));
            differs.then_some((slot, ours, theirs))
        });
        for (slot, ours, theirs) in banks.take(EXAMPLES_MAX) {
            // Writing to a String does not fail.
            let _ = writeln!(text, "slot {slot}\n  validators {theirs:?}\n  follower  {ours:?}");
        }
        text
    }
}

fn has_bank(known: &BTreeSet<&BankParts>, parts: &BankParts) -> bool {
    known.iter().any(|known| known.matches(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "[2026-11-23T00:00:00Z INFO  solana_runtime::bank] bank frozen: 7 hash: AAA \
                        signature_count: 3 last_blockhash: BBB capitalization: 99, accounts_lt_hash \
                        checksum: CCC, stats: BankHashStats { num_updated_accounts: 1 }\n";

    fn compare(validator: &str, follower: &str) -> FrozenBanks {
        let write = |name: &str, text: &str| {
            let path = std::env::temp_dir().join(format!("rig-{}-{name}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            path
        };
        let name = follower.len();
        let one = write(&format!("v{name}"), validator);
        let two = write(&format!("f{name}"), follower);
        let follower = FollowerBanks::from_log(&two);
        let mut banks = FrozenBanks::new(std::slice::from_ref(&one), follower);
        banks.read().unwrap();
        [one, two].iter().for_each(|path| std::fs::remove_file(path).unwrap());
        banks
    }

    #[test]
    fn all_parts_are_compared() {
        let same = compare(LINE, LINE);
        assert_eq!((same.equal(), same.different(), same.unknown()), (1, 0, 0));
        for (part, other) in
            [("AAA", "XAA"), (": 3 ", ": 14 "), ("BBB", "BXBB"), ("99", "9999"), ("CCC", "CCCCCC")]
        {
            let banks = compare(LINE, &LINE.replace(part, other));
            assert_eq!((banks.equal(), banks.different()), (0, 1), "{part}");
        }
    }

    #[test]
    fn banks_beside_the_rooted_slots_are_on_forks() {
        let lines: String =
            [3, 4, 5, 7, 8, 12].map(|slot| LINE.replace(": 7 ", &format!(": {slot} "))).concat();
        let banks = compare(LINE, &lines);
        assert_eq!(banks.forks(&[2, 3, 6, 8, 9]), Forks { banks: 3, longest: 3 });
        assert_eq!(banks.forks(&[]), Forks::default());
    }

    #[test]
    fn a_line_without_its_end_waits() {
        let banks = compare(LINE, LINE.trim_end());
        assert_eq!(banks.equal() + banks.different(), 0);
    }
}
