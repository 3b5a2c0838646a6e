//! A depot against its contract: in memory, in a directory, and over a store that fails by seed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;

use crate::faults::{Faults, FaultyStore};
use crate::metrics::Operation;
use crate::{Depot, DepotConfig, DepotError, ObjectInfo, ObjectStore, Put};

/// Retries without waiting, and a short timeout for a store that does not respond.
fn config() -> DepotConfig {
    DepotConfig {
        request_timeout: Duration::from_millis(20),
        retries_max: 60,
        backoff: Duration::ZERO,
        backoff_max: Duration::ZERO,
        ..DepotConfig::default()
    }
}

fn body(seed: u64, bytes: usize) -> Bytes {
    let mut random = Rng::with_seed(seed);
    (0..bytes).map(|_| random.u8(..)).collect()
}

fn keys(found: &[ObjectInfo]) -> Vec<&str> {
    found.iter().map(|it| it.key.as_str()).collect()
}

async fn check_contract(depot: &Depot) -> Result<(), DepotError> {
    depot.check().await?;
    assert!(depot.list("").await?.is_empty(), "a check leaves nothing");
    let long = body(1, 300_000);
    assert_eq!(depot.put_new("a/2", long.clone()).await?, Put::Created);
    assert_eq!(depot.put_new("a/2", long.clone()).await?, Put::Created, "it has this body");
    assert_eq!(depot.put_new("a/2", body(2, 300_000)).await?, Put::Exists);
    assert_eq!(depot.put_new("a/2", Bytes::new()).await?, Put::Exists);
    assert_eq!(depot.put_new("a/10", Bytes::new()).await?, Put::Created);
    assert_eq!(depot.put_new("a-b", body(3, 5)).await?, Put::Created);
    assert_eq!(depot.put_new("a/2-x/y", body(4, 7)).await?, Put::Created);
    assert_eq!(depot.get("a/2", 300_000).await?, long);
    assert_eq!(depot.get("a/10", 0).await?, Bytes::new());
    assert_eq!(depot.get_range("a/2", 100..250_000).await?, long.slice(100..250_000));
    assert_eq!(depot.get_range("a/2", 5..5).await?, Bytes::new());
    let err = depot.get("a/2", 299_999).await.expect_err("it is longer");
    assert!(matches!(err, DepotError::TooLong { bytes: 300_000, .. }), "{err}");
    depot.get_range("a/2", 299_999..300_001).await.expect_err("it is shorter");
    for key in ["a/3", "a", "a/2/3"] {
        let err = depot.get(key, 10).await.expect_err("it is absent");
        assert!(matches!(err, DepotError::NotFound { .. }), "{err}");
        assert!(err.to_string().contains(&format!("/{key}: ")), "{err}");
    }
    depot.put_new("../x", Bytes::new()).await.expect_err("it is not a key");
    assert_eq!(keys(&depot.list("").await?), ["a-b", "a/10", "a/2", "a/2-x/y"]);
    assert_eq!(keys(&depot.list("a").await?), ["a/10", "a/2", "a/2-x/y"]);
    assert!(depot.list("b/").await?.is_empty());
    assert_eq!(keys(&depot.list_after("a/", "a/10", 1).await?), ["a/2"]);
    assert_eq!(keys(&depot.list_after("a/", "a/2", 9).await?), ["a/2-x/y"]);
    assert!(depot.list_after("a", "a/3", 9).await?.is_empty());
    for key in ["a/2", "a/2", "a/2-x/y"] {
        depot.delete(key).await?;
    }
    assert_eq!(keys(&depot.list("").await?), ["a-b", "a/10"]);
    Ok(())
}

#[tokio::test]
async fn a_store_in_memory_and_a_directory_keep_the_contract() -> Result<(), DepotError> {
    let config = DepotConfig::default();
    check_contract(&Depot::open("memory:", &config)?).await?;
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("file://{}/new/depot", dir.path().display());
    check_contract(&Depot::open(&url, &config)?).await?;
    let again = Depot::open(&url, &config)?;
    assert_eq!(keys(&again.list("").await?), ["a-b", "a/10"]);
    let store = FaultyStore::new(0, Faults::default());
    check_contract(&Depot::with_store(store, "p/q", &config)).await
}

#[tokio::test]
async fn a_list_has_a_limit() -> Result<(), DepotError> {
    let depot = Depot::open("memory:", &DepotConfig { list_max: 2, ..DepotConfig::default() })?;
    for key in ["a", "b", "c"] {
        depot.put_new(key, Bytes::new()).await?;
    }
    let err = depot.list("").await.expect_err("there are three");
    assert!(matches!(err, DepotError::TooMany { max: 2, .. }), "{err}");
    Ok(())
}

#[tokio::test]
async fn a_store_that_replaces_objects_is_found_out() {
    let store = FaultyStore::new(0, Faults { replaces: true, ..Faults::default() });
    let err = Depot::with_store(store, "", &config()).check().await.expect_err("it replaces");
    assert!(matches!(err, DepotError::NotExclusive { .. }), "{err}");
}

#[tokio::test]
async fn a_store_that_stays_away_is_given_up_and_named() {
    let store = FaultyStore::new(0, Faults { unavailable: 1.0, ..Faults::default() });
    let config = DepotConfig { retries_max: 3, ..config() };
    let depot = Depot::with_store(store, "p", &config);
    let err = depot.put_new("k", Bytes::new()).await.expect_err("it is away").to_string();
    assert!(err.starts_with("put faulty:p/k: ") && err.contains("503"), "{err}");
    assert!(err.contains("attempts: 4"), "{err}");
    assert_eq!(depot.inner.context.metrics.retries(Operation::Put), 3);
}

/// Two writers create the same keys with bodies of their own, over a store with all faults.
#[tokio::test]
async fn each_object_is_created_once_whatever_the_store_does() -> Result<(), DepotError> {
    for seed in 0..300 {
        let mut random = Rng::with_seed(seed);
        let faults = Faults {
            unavailable: random.f64() * 0.4,
            lost_answer: random.f64() * 0.4,
            silent: if seed % 10 == 0 { 0.05 } else { 0.0 },
            conflict: random.f64() * 0.4,
            cut_body: random.f64() * 0.4,
            replaces: false,
        };
        let store: Arc<dyn ObjectStore> = FaultyStore::new(seed, faults);
        let writers = [0, 1].map(|_| Depot::with_store(Arc::clone(&store), "p", &config()));
        for number in 0..5 {
            let key = format!("k/{number:020}");
            let bodies = [0, 1].map(|writer| body(seed * 100 + number * 2 + writer, 3_000));
            let [first, second] = &writers;
            let (first, second) = tokio::join!(
                first.put_new(&key, bodies[0].clone()),
                second.put_new(&key, bodies[1].clone()),
            );
            let found = writers[0].get(&key, 3_000).await?;
            let results = [first?, second?];
            for (body, result) in bodies.iter().zip(results) {
                let expected = if *body == found { Put::Created } else { Put::Exists };
                assert_eq!(result, expected, "seed {seed}, {key}");
            }
            assert_eq!(results.iter().filter(|it| **it == Put::Created).count(), 1);
            let part = writers[1].get_range(&key, 7..2_900).await?;
            assert_eq!(part, found.slice(7..2_900), "seed {seed}, {key}");
        }
        assert_eq!(writers[0].list("k").await?.len(), 5, "seed {seed}");
    }
    Ok(())
}
