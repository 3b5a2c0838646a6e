//! What of the process is resident, and which parts of a ledger it is.

use std::fs;
use std::sync::Arc;

use address::AddressTable;
use anyhow::{Context, Result};
use index::Index;
use ledger::{Key, Record};
use testkit::synthetic::Synthetic;

use crate::figure;

/// Bytes of the whole process that are resident.
pub(crate) fn resident() -> Result<u64> {
    of_status("VmRSS:")
}

/// The most that ever were.
pub(crate) fn resident_max() -> Result<u64> {
    of_status("VmHWM:")
}

fn of_status(field: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()).context("not in the status")?;
    Ok(kib.parse::<u64>()? * 1024)
}

/// Addresses alone, then the four indices over them, as a ledger keeps both: what they add to resident memory.
pub(crate) fn parts(ledger: &Synthetic) -> Result<()> {
    let empty = resident()?;
    let addresses = Arc::new(AddressTable::new(ledger.addresses_max(), 42));
    for change in ledger.changes() {
        addresses.retain(&change.address)?;
        let mut keys = Vec::new();
        if let Some(record) = &change.record {
            record.keys(&mut |_, key| keys.push(key));
        }
        for key in keys {
            addresses.retain(&key)?;
        }
    }
    let with_addresses = resident()?;
    let mut index = Index::new(ledger.addresses_max(), 42);
    for change in ledger.changes() {
        let record = addresses.lookup(&change.address).context("it is in the table")?;
        let mut keys = Vec::new();
        if let Some(change) = &change.record {
            change.keys(&mut |facet, key| keys.push((facet, key)));
        }
        for (facet, key) in keys {
            let id = addresses.lookup(&key).context("it is in the table")?;
            index.insert(Key { facet, id }, record);
        }
    }
    let with_index = resident()?;
    figure("addresses_bytes", with_addresses as f64 - empty as f64);
    figure("index_bytes", with_index as f64 - with_addresses as f64);
    figure("addresses", addresses.len() as f64);
    figure("index_entries", index.len() as f64);
    Ok(())
}
