//! Objects that are damaged, missing, of another version, or that no writer makes.

use depot::DepotError;

use super::*;
use crate::ManifestError;
use crate::final_digest::append_digest;

#[tokio::test]
async fn every_damage_is_named_and_the_snapshot_before_stays_loadable() {
    let depot = memory();
    let before = source(1, 4, 200);
    write(&depot, &before).await.expect("it is written");
    let source = source(2, 5, 400);
    let manifest = write(&depot, &source).await.expect("it is written");
    let manifest_key = manifest.key();
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        let is_manifest = random.u8(..4) == 0;
        let part = random.usize(..manifest.parts.len());
        let key = if is_manifest { &manifest_key } else { &manifest.parts[part].key };
        let intact = depot.get(key, 1 << 30).await.expect("it exists");
        let mut body = intact.to_vec();
        match random.u8(..5) {
            0 => body.truncate(random.usize(..body.len())),
            1 => body.push(0),
            2 => {
                let other = &manifest.parts[(part + 1) % manifest.parts.len()].key;
                body = depot.get(other, 1 << 30).await.expect("it exists").to_vec();
            }
            _ => {
                let at = random.usize(..body.len());
                body[at] ^= 1 << random.u8(..8);
            }
        }
        put(&depot, key, body.into()).await;
        match load(&depot, &manifest_key).await {
            Err(err) => {
                let err = err.to_string();
                assert!(err.contains(key.as_str()), "seed {seed}, {key}: {err}");
            }
            // A decoder of zstd ignores some bits of a frame.
            Ok(found) => assert!(!is_manifest && found == source.accounts, "seed {seed}, {key}"),
        }
        depot.delete(key).await.expect("a store in memory");
        let err = load(&depot, &manifest_key).await.expect_err("it is missing").to_string();
        assert!(err.contains(key.as_str()), "seed {seed}, {key}: {err}");
        let keys = newest_snapshots(&depot, CLUSTER).await.expect("a store in memory");
        assert_eq!(keys.len(), if is_manifest { 1 } else { 2 });
        put(&depot, key, intact).await;
    }
    let keys = newest_snapshots(&depot, CLUSTER).await.expect("a store in memory");
    let found = load(&depot, &keys[1].key).await.expect("it is intact");
    assert!(found == before.accounts);
}

#[tokio::test]
async fn a_manifest_of_another_version_cluster_or_block_is_named() {
    let depot = memory();
    let source = source(2, 5, 40);
    let manifest = write(&depot, &source).await.expect("it is written");
    let seal = |mut bytes: Vec<u8>| {
        bytes.truncate(bytes.len() - 32);
        append_digest(&mut bytes);
        bytes
    };
    let mut newer = manifest.to_bytes();
    newer[4] += 1;
    let err = Manifest::from_bytes(&seal(newer)).expect_err("it is newer");
    assert!(err.to_string().contains("upgrade readers"), "{err}");
    let mut long = manifest.clone();
    long.parts[0].unpacked_bytes = (1 << 30) + 1;
    let err = Manifest::from_bytes(&long.to_bytes()).expect_err("a part is too long");
    assert!(matches!(err, ManifestError::Contradiction("unpacked length of a part")), "{err}");
    let other_cluster = manifest.key().replace("/test/", "/other/");
    put(&depot, &other_cluster, manifest.to_bytes().into()).await;
    let err = load_manifest(&depot, &other_cluster, None).await.expect_err("another cluster");
    assert!(err.to_string().contains("another cluster"), "{err}");
    let other_block = manifest.key().replace("/00000000000000000005-", "/00000000000000000006-");
    put(&depot, &other_block, manifest.to_bytes().into()).await;
    let err = load_manifest(&depot, &other_block, None).await.expect_err("another block");
    assert!(err.to_string().contains("another block"), "{err}");
}

#[tokio::test]
async fn a_manifest_with_parts_that_no_writer_makes_is_refused() {
    let depot = memory();
    let manifest = write(&depot, &source(2, 5, 400)).await.expect("it is written");
    let change = |change: &dyn Fn(&mut Manifest)| {
        let mut changed = manifest.clone();
        change(&mut changed);
        match Manifest::from_bytes(&changed.to_bytes()) {
            Err(ManifestError::Contradiction(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(change(&|it| it.parts[0].bytes = u64::MAX), "length of a part");
    // An object of another snapshot, which a copy would replace.
    assert_eq!(change(&|it| it.parts[0].key = "snap/test/other/manifest".into()), "key of a part");
    assert_eq!(change(&|it| it.parts[1].key = it.parts[0].key.clone()), "key of a part");
    assert_eq!(change(&|it| it.parts[1].first = it.parts[0].last), "order of parts");
    assert_eq!(change(&|it| it.parts[1] = it.parts[0].clone()), "order of parts");
    assert_eq!(change(&|it| it.parts[0].accounts = u64::MAX), "number of accounts");
    assert_eq!(change(&|it| it.parts[0].lamports = u64::MAX), "lamports");
    // A list of leaders as long as an epoch would be allocated.
    for slots in [0, 31, 10_000_001, u64::MAX] {
        let set = |it: &mut Manifest| it.fields.chain.epoch_schedule.slots_per_epoch = slots;
        assert_eq!(change(&set), "epoch schedule");
    }
    let set = |it: &mut Manifest| it.fields.chain.epoch_schedule.first_normal_epoch = 60;
    assert_eq!(change(&set), "epoch schedule");
}

#[tokio::test]
async fn an_object_that_is_longer_than_its_entry_is_not_read() {
    let depot = memory();
    let manifest = write(&depot, &source(2, 5, 40)).await.expect("it is written");
    let key = &manifest.parts[0].key;
    put(&depot, key, vec![0; 1 << 20].into()).await;
    let err = load(&depot, &manifest.key()).await.expect_err("it is another object");
    assert!(matches!(err, SnapshotLoadError::Depot(DepotError::TooLong { .. })), "{err}");
    assert!(err.to_string().contains(key.as_str()), "{err}");
}
