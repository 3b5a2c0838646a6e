//! Old snapshots that are removed, and those that stay.

use super::*;
use crate::{MANIFEST_BYTES_MAX, ManifestError, RemovalRules, remove_old_snapshots};

/// Rules of generation 1, to which the age of the snapshots does not matter.
fn rules(keep: usize, needed: Option<u64>) -> RemovalRules {
    let younger_than = Duration::from_secs(60);
    RemovalRules { keep, newest_generation: 1, needed, younger_than, now_ms: MADE_AT_MS + 60_000 }
}

/// Creates a part of a snapshot without a manifest.
async fn put_part(depot: &Depot, slot: Slot, generation: u64) -> String {
    let key = format!("snap/{CLUSTER}/{slot:020}-{generation:010}-{}/part-x", Hash::default());
    depot.put_new(&key, Bytes::new()).await.expect("a store in memory");
    key
}

#[tokio::test]
async fn old_snapshots_are_removed_and_needed_ones_stay() {
    let depot = memory();
    for slot in 1..=8 {
        write(&depot, &source(slot, slot, 30)).await.expect("it is written");
    }
    assert_eq!(list_slots(&depot).await, [8, 7, 6, 5, 4, 3, 2, 1]);
    // The log starts after the block of slot 3, whose position is 30.
    let remove =
        async |keep, needed| remove_old_snapshots(&depot, CLUSTER, &rules(keep, needed)).await;
    let removed = remove(3, Some(35)).await.expect("a store in memory");
    assert!(removed >= 8, "two objects of each of four snapshots: {removed}");
    assert_eq!(list_slots(&depot).await, [8, 7, 6, 3]);
    // Parts without a manifest, older and newer than the snapshots that stay.
    for slot in [2, 9] {
        put_part(&depot, slot, 1).await;
    }
    assert_eq!(remove(3, Some(35)).await, Ok(1));
    // A damaged one does not count, and is left while it is new.
    let newest = newest_snapshots(&depot, CLUSTER).await.expect("a store in memory").remove(0);
    put(&depot, &newest.key, Bytes::from_static(b"HYSM")).await;
    remove(2, None).await.expect("a store in memory");
    assert_eq!(list_slots(&depot).await, [8, 7, 6]);
    remove(1, None).await.expect("a store in memory");
    assert_eq!(list_slots(&depot).await, [8, 7]);
    assert_eq!(remove(1, None).await, Ok(0));
}

#[tokio::test]
async fn a_manifest_that_is_too_long_counts_as_a_damaged_one() {
    let depot = memory();
    for slot in 1..=5 {
        write(&depot, &source(slot, slot, 30)).await.expect("it is written");
    }
    let newest = newest_snapshots(&depot, CLUSTER).await.expect("a store in memory").remove(0);
    put(&depot, &newest.key, vec![0; MANIFEST_BYTES_MAX + 1].into()).await;
    let err = load_manifest(&depot, &newest.key, None).await.expect_err("it is too long");
    let length = |source: &ManifestError| matches!(source, ManifestError::Length { .. });
    assert!(matches!(&err, SnapshotLoadError::Manifest { source, .. } if length(source)), "{err}");
    let removed = remove_old_snapshots(&depot, CLUSTER, &rules(2, None)).await;
    assert!(removed.is_ok_and(|removed| removed >= 4), "two objects of each of two snapshots");
    assert_eq!(list_slots(&depot).await, [5, 4, 3]);
}

#[tokio::test]
async fn a_snapshot_that_opens_a_generation_is_not_crowded_out() {
    let depot = memory();
    for slot in [110, 120, 130, 140] {
        write_at(&depot, slot, |_| {}).await;
    }
    let opening = put_part(&depot, 100, 2).await;
    // While the generation is not created, and afterwards.
    for newest_generation in [1, 2] {
        let rules = RemovalRules { newest_generation, ..rules(3, Some(1)) };
        remove_old_snapshots(&depot, CLUSTER, &rules).await.expect("a store in memory");
        assert!(depot.get(&opening, 0).await.is_ok(), "its writer is not ready");
    }
    assert_eq!(list_slots(&depot).await, [140, 130, 120]);
    depot.delete(&opening).await.expect("a store in memory");
    let open_generation = |facts: &mut SnapshotFacts| {
        facts.generation = 2;
        facts.position = 0;
    };
    write_at(&depot, 100, open_generation).await;
    let remove = async |keep, needed| {
        let rules = RemovalRules { newest_generation: 2, ..rules(keep, Some(needed)) };
        remove_old_snapshots(&depot, CLUSTER, &rules).await.expect("a store in memory")
    };
    assert_eq!(remove(3, 1).await, 0);
    // Another opener was late. The first message of the log names one of both.
    write_at(&depot, 105, open_generation).await;
    for slot in [111, 112] {
        write_at(&depot, slot, |facts| facts.generation = 2).await;
    }
    assert!(remove(2, 1).await > 0);
    assert_eq!(list_slots(&depot).await, [112, 111, 105, 100]);
    // The log was truncated.
    assert!(remove(2, 1_111).await > 0);
    assert_eq!(list_slots(&depot).await, [112, 111]);
}

#[tokio::test]
async fn a_young_snapshot_stays_for_those_who_load_it() {
    let depot = memory();
    for slot in 1..=5 {
        write_at(&depot, slot, |facts| facts.made_at_ms = MADE_AT_MS + slot * 1_000).await;
    }
    // One of the generation before.
    write_at(&depot, 6, |facts| facts.generation = 0).await;
    // A writer that is slower than those of slots 4 and 5.
    let part = put_part(&depot, 4, 1).await;
    let remove = async |now_ms| {
        let rules = RemovalRules { now_ms, ..rules(1, None) };
        remove_old_snapshots(&depot, CLUSTER, &rules).await.expect("a store in memory")
    };
    assert_eq!(remove(MADE_AT_MS + 59_000).await, 0);
    assert!(remove(MADE_AT_MS + 62_000).await > 0);
    assert_eq!(list_slots(&depot).await, [5, 4, 3]);
    assert!(depot.get(&part, 0).await.is_ok(), "an older one is kept");
    assert!(remove(MADE_AT_MS + 65_000).await > 0);
    assert_eq!(list_slots(&depot).await, [5]);
    assert!(depot.get(&part, 0).await.is_err());
}
