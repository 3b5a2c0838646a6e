//! Random registrations, releases and epochs against plain maps.

use std::collections::BTreeMap;

use address::{AddressTable, Epoch};
use ledger::AddressId;

use crate::address;

const LIMIT: u32 = 3_000;
const WORLD: u32 = 5_000;

/// A reader's knowledge: these addresses have these ids while its epoch lives.
struct Snapshot {
    _epoch: Epoch,
    known: BTreeMap<u32, AddressId>,
}

#[test]
fn the_table_behaves_like_plain_maps() {
    let mut rng = fastrand::Rng::with_seed(1);
    let table = AddressTable::new(LIMIT, 99);
    let mut counts: BTreeMap<u32, (AddressId, u32)> = BTreeMap::new();
    let mut snapshots: Vec<Snapshot> = Vec::new();
    let mut full_tables = 0;
    for step in 0..200_000_u32 {
        let n = rng.u32(..WORLD);
        // The number of addresses rises and falls, so that shards grow, empty and grow again.
        let grows = step / 20_000 % 2 == 0;
        match rng.u32(..if grows { 12 } else { 24 }) {
            ..8 => match table.retain(&address(n)) {
                Ok(id) => {
                    let entry = counts.entry(n).or_insert((id, 0));
                    assert_eq!(entry.0, id);
                    entry.1 += 1;
                }
                Err(_) => full_tables += 1,
            },
            11 if step % 40 == 0 => {
                // As a ledger publishes: every referenced address is known to the snapshot.
                let known = counts.iter().map(|(n, (id, _))| (*n, *id)).collect();
                snapshots.push(Snapshot { _epoch: table.epoch(), known });
                while snapshots.len() > 4 || (rng.u32(..2) == 0 && !snapshots.is_empty()) {
                    snapshots.swap_remove(rng.usize(..snapshots.len()));
                }
            }
            11 => {}
            _ => {
                let Some((n, (id, count))) = counts.range(n..).next().map(|(n, at)| (*n, *at))
                else {
                    continue;
                };
                table.release(id);
                if count == 1 {
                    counts.remove(&n);
                } else {
                    counts.insert(n, (id, count - 1));
                }
            }
        }
        assert_eq!(table.len(), counts.len());
        assert!(table.allocated_ids() <= LIMIT as usize);
        let found = table.lookup(&address(n));
        if let Some((id, _)) = counts.get(&n) {
            assert_eq!(found, Some(*id));
        }
        if let Some(id) = found {
            assert_eq!(table.address(id), Some(address(n)));
        }
        if step % 500 == 0 {
            let referenced = counts.iter().map(|(n, (id, _))| (n, id));
            for (n, id) in referenced.chain(snapshots.iter().flat_map(|snapshot| &snapshot.known)) {
                assert_eq!(table.lookup(&address(*n)), Some(*id));
                assert_eq!(table.address(*id), Some(address(*n)));
            }
        }
    }
    assert!(full_tables > 0, "the table was never full");
    for (id, count) in counts.into_values() {
        (0..count).for_each(|_| table.release(id));
    }
    snapshots.clear();
    (0..3).for_each(|_| drop(table.epoch()));
    assert_eq!((table.len(), table.allocated_ids()), (0, 0));
    for n in 0..LIMIT {
        assert!(table.retain(&address(n)).is_ok(), "every id is free again");
    }
}
