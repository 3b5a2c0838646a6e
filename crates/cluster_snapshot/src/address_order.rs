//! The accounts of a view in the order of their addresses, in bounded memory.
//!
//! A ledger numbers addresses in the order of their arrival. Sorting all of them would take 16 bytes each, 18 GB for
//! mainnet. So the ids are taken in groups by the first bytes of their addresses, and each group is one pass over the
//! address table, which is read in order: some seconds for a billion addresses.

use chain_solana::View;
use ledger::{Address, AddressId};

/// Number of ranges of addresses, by their first two bytes.
const PREFIXES: usize = 1 << 16;

/// Ids that are read before other threads get the core.
const IDS_YIELD: usize = 1 << 14;

/// Groups of the ids of a view, by address.
pub(crate) struct AddressOrder<'a> {
    view: &'a View,
    /// Number of ids by prefix.
    counts: Vec<u32>,
    next_prefix: usize,
    ids_max: usize,
}

/// An id and the first bytes of its address, in their order.
struct OrderedId {
    start: u64,
    id: AddressId,
}

impl<'a> AddressOrder<'a> {
    /// Counts the ids of each prefix: a pass over the address table.
    pub(crate) fn new(view: &'a View, ids_max: usize) -> Self {
        let mut counts = vec![0_u32; PREFIXES];
        visit_ids(view, |_, address| counts[prefix(start(address))] += 1);
        Self { view, counts, next_prefix: 0, ids_max }
    }

    /// Returns the next ids in the order of their addresses: at most `ids_max`, unless a single prefix has more. Returns
    /// `None` at the end.
    pub(crate) fn next_group(&mut self) -> Option<Vec<AddressId>> {
        let first = self.next_prefix;
        let mut len = 0;
        while let Some(count) = self.counts.get(self.next_prefix) {
            let with_next = len + *count as usize;
            if len > 0 && with_next > self.ids_max {
                break;
            }
            len = with_next;
            self.next_prefix += 1;
        }
        if len == 0 {
            return None;
        }
        let range = first..self.next_prefix;
        let mut group = Vec::with_capacity(len);
        visit_ids(self.view, |id, address| {
            let start = start(address);
            if range.contains(&prefix(start)) {
                group.push(OrderedId { start, id });
            }
        });
        let address = |id| self.view.address(id);
        group.sort_unstable_by(|a, b| {
            a.start.cmp(&b.start).then_with(|| address(a.id).cmp(&address(b.id)))
        });
        Some(group.into_iter().map(|ordered| ordered.id).collect())
    }
}

/// Visits the ids of a view in their order, and lets other threads run in between.
fn visit_ids(view: &View, mut visit: impl FnMut(AddressId, &Address)) {
    let mut visited = 0;
    for id in view.ids_from(AddressId(0)) {
        if let Some(address) = view.address(id) {
            visit(id, &address);
        }
        visited += 1;
        if visited >= IDS_YIELD {
            visited = 0;
            std::thread::yield_now();
        }
    }
}

/// The first bytes of an address as a number of the same order.
fn start(address: &Address) -> u64 {
    let mut start = [0; 8];
    for (to, from) in start.iter_mut().zip(address.as_bytes()) {
        *to = *from;
    }
    u64::from_be_bytes(start)
}

fn prefix(start: u64) -> usize {
    (start >> 48) as usize
}
