//! Reading the UTXOs of one script from a view: their totals, all of them in steps, and pages.
//!
//! A script's record has its totals and its first UTXOs. The others have records of their own, which are found by the
//! script as key.
//! Invariant: a UTXO of a chain block stays inside or outside of the script's record until it is spent or its block
//! leaves the chain. So one that is final when the first page is read, and not spent before the last one, is on one of
//! the pages exactly, whatever is created and spent meanwhile. One that is not final may be on two pages or on none:
//! the virtual block, and each branch, place it as if it were their own.

use kaspa::{KaspaRecord, Outpoint, SCRIPT_KEY, ScriptPublicKey, StoredUtxo, Totals, UtxoEntry};
use ledger::{Address, AddressId};
use query::{Cursor, PageLimits, StaleCursor};

use crate::block_info::View;

/// Reads all UTXOs of a script in steps, on one view.
#[derive(Clone, Copy, Debug)]
pub struct UtxoScan {
    script: Address,
    next: ScanPosition,
}

#[derive(Clone, Copy, Debug)]
enum ScanPosition {
    Inside,
    Outside(AddressId),
    Finished,
}

/// A page of a script's UTXOs.
#[derive(Debug)]
pub struct UtxoPage {
    /// The UTXOs, in no order.
    pub utxos: Vec<StoredUtxo>,
    /// The position of the next page. `None` if this is the last one.
    pub next: Option<UtxoCursor>,
}

/// The position of a page, after the UTXOs of the page before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UtxoCursor {
    /// After those inside of the script's record.
    Inside,
    /// After a UTXO that has a record of its own.
    Outside(Cursor),
}

/// The page size that is too small for the UTXOs of a script's record is raised to this number.
pub const PAGE_UTXOS_MIN: usize = kaspa::INSIDE_MAX;

/// Returns the totals of a script. They are zero if it has no UTXO. Cost: two lookups, whatever the number of UTXOs.
pub fn script_totals(view: &View, script: &Address) -> Totals {
    let record = view.record(script);
    record
        .as_deref()
        .and_then(KaspaRecord::as_script)
        .map_or_else(Totals::default, |record| record.totals())
}

/// Returns a page of a script's UTXOs, which has at most `utxos_max` of them, at least [`PAGE_UTXOS_MIN`].
///
/// Pages of the finalized set have each UTXO once. To read a newer set exactly, read all pages from one view.
///
/// Cost: O(UTXOs of the page), however far into the list the page is.
pub fn page_script_utxos(
    view: &View,
    script: &Address,
    after: Option<UtxoCursor>,
    utxos_max: usize,
) -> Result<UtxoPage, StaleCursor> {
    let utxos_max = utxos_max.max(PAGE_UTXOS_MIN);
    let mut utxos = Vec::new();
    let outside_after = match after {
        Some(UtxoCursor::Outside(cursor)) => Some(cursor),
        Some(UtxoCursor::Inside) => None,
        None => {
            let record = view.record(script);
            let Some(record) = record.as_deref().and_then(KaspaRecord::as_script) else {
                return Ok(UtxoPage { utxos, next: None });
            };
            utxos.extend(record.inside());
            if record.outside().count == 0 {
                return Ok(UtxoPage { utxos, next: None });
            }
            if utxos.len() == utxos_max {
                return Ok(UtxoPage { utxos, next: Some(UtxoCursor::Inside) });
            }
            None
        }
    };
    let limits = PageLimits {
        after: outside_after,
        changed_since: None,
        records_max: utxos_max - utxos.len(),
        weight_max: usize::MAX,
        visits_max: usize::MAX,
    };
    let page = view.page(&[(SCRIPT_KEY, *script)], limits, |_| Some(1))?;
    let outside = page.records.iter().filter_map(|(_, record)| record.as_overflow());
    utxos.extend(outside.map(|overflow| overflow.utxo));
    Ok(UtxoPage { utxos, next: page.next.map(UtxoCursor::Outside) })
}

/// Returns all UTXOs of a view, with their scripts: for a snapshot of a chain block. They are in no order.
///
/// Cost: a lookup more for each UTXO that is outside of the record of a script without an address.
pub fn all_utxos(view: &View) -> impl Iterator<Item = (Outpoint, UtxoEntry)> {
    view.all().flat_map(move |(address, record)| {
        let mut utxos = Vec::new();
        let script = match record.as_ref() {
            KaspaRecord::Script(record) => {
                utxos.extend(record.inside());
                record.script(&address)
            }
            KaspaRecord::Overflow(overflow) => {
                utxos.push(overflow.utxo);
                find_script(view, &overflow.script)
            }
        };
        // Each record of the ledger has its script.
        let Some(script) = script else { return Vec::new() };
        let to_entry = |utxo: &StoredUtxo| (utxo.outpoint, utxo.to_entry(script.clone()));
        utxos.iter().map(to_entry).collect()
    })
}

/// Returns the script of an address that has a record.
fn find_script(view: &View, address: &Address) -> Option<ScriptPublicKey> {
    ScriptPublicKey::from_ledger_address(address)
        .or_else(|| view.record(address)?.as_script()?.script(address))
}

impl UtxoScan {
    /// Starts to read the UTXOs of a script.
    pub fn new(script: Address) -> Self {
        Self { script, next: ScanPosition::Inside }
    }

    /// Calls `visit` for the next UTXOs: for those inside of the script's record, or for up to `visits_max` others.
    /// Returns whether there may be more. Each call must have the same view.
    pub fn step(
        &mut self,
        view: &View,
        visits_max: usize,
        mut visit: impl FnMut(&StoredUtxo),
    ) -> bool {
        let next = match self.next {
            ScanPosition::Inside => {
                let record = view.record(&self.script);
                let record = record.as_deref().and_then(KaspaRecord::as_script);
                record.into_iter().flat_map(|record| record.inside()).for_each(|utxo| visit(&utxo));
                record.filter(|record| record.outside().count > 0).map(|_| AddressId(0))
            }
            ScanPosition::Outside(first) => {
                let keys = [(SCRIPT_KEY, self.script)];
                view.scan(&keys, first, visits_max, |_, record| {
                    if let Some(overflow) = record().as_overflow() {
                        visit(&overflow.utxo);
                    }
                })
            }
            ScanPosition::Finished => None,
        };
        self.next = next.map_or(ScanPosition::Finished, ScanPosition::Outside);
        next.is_some()
    }
}
