//! Readers on threads while the table grows, shrinks and reuses ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use address::{AddressTable, Epoch};
use arc_swap::ArcSwap;
use ledger::AddressId;

use crate::address;

const ADDRESSES: u32 = 60_000;

#[test]
fn what_was_registered_is_found_while_shards_grow() {
    // A small limit would give small shards: this one makes them grow eight times.
    let table = AddressTable::new(ADDRESSES, 3);
    let registered = AtomicU32::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for seed in 0..2 {
            let table = &table;
            let registered = &registered;
            let is_over = &is_over;
            threads.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                while !is_over.load(Ordering::Relaxed) {
                    let known = registered.load(Ordering::Acquire);
                    if known == 0 {
                        continue;
                    }
                    let n = rng.u32(..known);
                    assert_eq!(table.lookup(&address(n)), Some(AddressId(n)));
                    assert_eq!(table.address(AddressId(n)), Some(address(n)));
                    assert_eq!(table.lookup(&address(ADDRESSES + n)), None);
                }
            });
        }
        for n in 0..ADDRESSES {
            assert_eq!(table.retain(&address(n)), Ok(AddressId(n)));
            registered.store(n + 1, Ordering::Release);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// One published version: the registered addresses, and the pin on their ids.
struct PublishedVersion {
    known: Vec<(u32, AddressId)>,
    _epoch: Epoch,
}

#[test]
fn a_pinned_epoch_retains_its_addresses_while_ids_are_reused() {
    // Half as many ids as addresses.
    let table = AddressTable::new(64, 5);
    let now = ArcSwap::from_pointee(PublishedVersion { known: Vec::new(), _epoch: table.epoch() });
    let is_over = AtomicBool::new(false);
    let reads = AtomicU32::new(0);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            let table = &table;
            let now = &now;
            let is_over = &is_over;
            let reads = &reads;
            threads.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let version = now.load_full();
                    for (n, id) in &version.known {
                        assert_eq!(table.lookup(&address(*n)), Some(*id), "address {n}");
                        assert_eq!(table.address(*id), Some(address(*n)));
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut rng = fastrand::Rng::with_seed(7);
        let mut known: Vec<(u32, AddressId)> = Vec::new();
        let mut published = 0;
        while published < 20_000 || reads.load(Ordering::Relaxed) < 2_000 {
            for _ in 0..3 {
                let n = rng.u32(..128);
                if let Some(at) = known.iter().position(|(other, _)| *other == n) {
                    table.release(known.swap_remove(at).1);
                } else if let Ok(id) = table.retain(&address(n)) {
                    known.push((n, id));
                }
            }
            now.store(Arc::new(PublishedVersion { known: known.clone(), _epoch: table.epoch() }));
            published += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
