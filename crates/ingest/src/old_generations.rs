//! The generations before the followed one: their removal by age, and when the log has no space for the next.
//!
//! Not here: old messages of the followed generation ([`Log::remove_old`]), the interval (`upkeep`).

use std::time::Duration;

use chain_solana::wire::{RecordKind, read_head};
use replicated_log::{Log, LogError, LogSpace, ReadError};
use tokio::time::timeout;

/// Time limit of the read of a first record. The log may count a message that it lost.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The generations before a followed one, with the results of earlier rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OldGenerations {
    /// The followed generation.
    pub(crate) followed: u64,
    /// Time of its first record in milliseconds since 1970.
    start_ms: Option<u64>,
    are_removed: bool,
}

impl OldGenerations {
    /// The generations before this one, about which nothing is known.
    pub(crate) fn before(followed: u64) -> Self {
        Self { followed, ..Self::default() }
    }

    /// Removes them once the log no longer retains the first record of the followed one, `log`. By then no replica
    /// reads an older one.
    pub(crate) async fn remove_aged(
        mut self,
        space: &dyn LogSpace,
        log: &dyn Log,
        max_age: Duration,
        now_ms: u64,
    ) -> Result<Self, LogError> {
        if self.are_removed {
            return Ok(self);
        }
        if self.start_ms.is_none() {
            self.start_ms = read_start_ms(log).await?;
        }
        let age_ms = self.start_ms.map(|start| now_ms.saturating_sub(start));
        if age_ms.is_some_and(|age| u128::from(age) >= max_age.as_millis()) {
            let removed = space.remove_generations_below(self.followed).await?;
            self.are_removed = true;
            if removed > 0 {
                let generation = self.followed;
                tracing::info!(generation, removed, "old generations of the log were removed");
            }
        }
        Ok(self)
    }
}

/// Returns the time at which the first record of a generation was made, in milliseconds since 1970: 0 if the limits of
/// the log have removed it already, and `None` if it cannot be read.
async fn read_start_ms(log: &dyn Log) -> Result<Option<u64>, LogError> {
    let mut reader = log.read(0).await?;
    let Ok(read) = timeout(READ_TIMEOUT, reader.next()).await else { return Ok(None) };
    match read {
        Ok(message) => Ok(match read_head(&message.payload).map(|head| head.kind) {
            Ok(RecordKind::Snapshot(first)) => Some(first.made_at_ms),
            _ => None,
        }),
        Err(ReadError::Truncated { .. }) => Ok(Some(0)),
        Err(ReadError::Log(err)) => Err(err),
        Err(_) => Ok(None),
    }
}

/// Creates a generation. If the log has no space for it, removes the generations that are older than the newest one
/// first.
///
/// # Errors
///
/// Those of the log. If older generations do not help, the error of the creation.
pub(crate) async fn create_generation(
    space: &dyn LogSpace,
    generation: u64,
) -> Result<(), LogError> {
    let err = match space.create_generation(generation).await {
        Ok(_) => return Ok(()),
        Err(err) if err.lacks_space() => err,
        Err(err) => return Err(err),
    };
    // Replicas still serve from the newest one.
    let newest = space.newest_generation().await?.unwrap_or(0).min(generation);
    let removed = space.remove_generations_below(newest).await?;
    if removed == 0 {
        return Err(err);
    }
    tracing::warn!(
        generation,
        removed,
        "old generations of the log were removed to make space for a new one"
    );
    space.create_generation(generation).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chain_solana::wire::{
        BlockName, RecordDigest, RecordLink, SnapshotRecord, WriterId, encode_snapshot,
    };
    use depot::{Depot, DepotConfig};
    use futures_util::future::{BoxFuture, ready};
    use replicated_log::memory::MemoryLogSpace;
    use replicated_log::object_log::ObjectLogSpace;
    use replicated_log::{LogConfig, LogMessage};

    use super::*;

    /// A log on servers that have space for some generations.
    struct SmallSpace {
        space: MemoryLogSpace,
        generations_max: usize,
    }

    impl SmallSpace {
        fn has_generation(&self, generation: u64) -> BoxFuture<'_, bool> {
            Box::pin(async move { self.space.open_generation(generation).await.is_ok() })
        }
    }

    impl LogSpace for SmallSpace {
        fn newest_generation(&self) -> BoxFuture<'_, Result<Option<u64>, LogError>> {
            self.space.newest_generation()
        }

        fn create_generation(&self, generation: u64) -> BoxFuture<'_, Result<bool, LogError>> {
            Box::pin(async move {
                let mut generations = 0;
                for other in 0..generation {
                    generations += usize::from(self.has_generation(other).await);
                }
                if generations == self.generations_max {
                    return Err(LogError::with_no_space("log", "create a generation", "no space"));
                }
                self.space.create_generation(generation).await
            })
        }

        fn remove_generations_below(
            &self,
            generation: u64,
        ) -> BoxFuture<'_, Result<usize, LogError>> {
            self.space.remove_generations_below(generation)
        }

        fn open_generation(
            &self,
            generation: u64,
        ) -> BoxFuture<'_, Result<Arc<dyn Log>, LogError>> {
            self.space.open_generation(generation)
        }

        fn durability_faults(&self) -> BoxFuture<'_, Result<Vec<String>, LogError>> {
            Box::pin(ready(Ok(Vec::new())))
        }
    }

    #[tokio::test]
    async fn old_generations_make_space_for_a_new_one() {
        let space = SmallSpace { space: MemoryLogSpace::new(), generations_max: 2 };
        for generation in 0..=2 {
            create_generation(&space, generation).await.expect("the oldest one is removed");
        }
        assert!(!space.has_generation(0).await);
        assert!(space.has_generation(1).await && space.has_generation(2).await);
    }

    #[tokio::test]
    async fn the_newest_generation_stays_without_space() {
        let space = SmallSpace { space: MemoryLogSpace::new(), generations_max: 1 };
        create_generation(&space, 0).await.expect("there is space for one");
        let err = create_generation(&space, 1).await.expect_err("replicas read generation 0");
        assert!(err.lacks_space() && space.has_generation(0).await, "{err}");
    }

    fn first_record(made_at_ms: u64) -> Vec<LogMessage> {
        let block_digest = RecordDigest([3; 32]);
        let record = SnapshotRecord {
            link: RecordLink { number: 6, previous: block_digest },
            writer: WriterId { term: 1, ingester: [1; 16], level: None },
            made_at_ms,
            manifest_key: "manifest".to_owned(),
            manifest_digest: [0; 32],
            block: BlockName { slot: 0, number: 5 },
            block_digest,
        };
        vec![LogMessage::head(encode_snapshot(&record).head)]
    }

    /// Opens generation 1 after generation 0, and checks when generation 0 is removed.
    async fn check_removal(space: &dyn LogSpace) -> Arc<dyn Log> {
        for generation in 0..=1 {
            space.create_generation(generation).await.expect("a new generation");
        }
        let log = space.open_generation(1).await.expect("it exists");
        log.append(0, first_record(1_000)).await.expect("it is empty");
        let old = OldGenerations::before(1);
        let max_age = Duration::from_secs(60);
        let known = old.remove_aged(space, &*log, max_age, 60_999).await.expect("the log responds");
        assert_eq!(known, OldGenerations { start_ms: Some(1_000), ..old });
        assert!(space.open_generation(0).await.is_ok());
        let known =
            known.remove_aged(space, &*log, max_age, 61_000).await.expect("the log responds");
        assert!(known.are_removed && space.open_generation(0).await.is_err());
        assert_eq!(space.newest_generation().await.expect("a list"), Some(1));
        log
    }

    #[tokio::test]
    async fn an_old_generation_is_removed_after_the_age_limit() {
        let depot = Depot::open("memory:", &DepotConfig::default()).expect("a store in memory");
        let config = LogConfig {
            url: "memory:".to_owned(),
            cluster: "test".to_owned(),
            replicas: 1,
            max_age: Duration::from_secs(60),
            max_bytes: 1 << 20,
            in_flight_bytes: 1 << 20,
            request_timeout: Duration::from_secs(5),
        };
        check_removal(&ObjectLogSpace::with_depot(depot, &config)).await;
        let space = MemoryLogSpace::new();
        let log = check_removal(&space).await;
        // The limits have removed the first record.
        space.empty_generation(1);
        assert_eq!(read_start_ms(&*log).await.expect("the log responds"), Some(0));
    }
}
