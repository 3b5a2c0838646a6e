//! The newest generations of the log that have records, the newest one first.
//!
//! A generation without a record is still being opened, or its opener has died. A generation that was removed is left
//! out.
//! Bounds: the records of at most [`GENERATIONS_MAX`] generations are requested.
//! Not here: which generation a caller uses (`snapshots`, `generation_spans`).

use std::iter::Rev;
use std::ops::RangeInclusive;
use std::sync::Arc;

use replicated_log::{Log, LogError, LogSpace, Tail};

/// Number of the newest generations whose records are requested. A smaller value does not find the records behind as
/// many openers that died.
const GENERATIONS_MAX: u64 = 8;

/// A generation that has records.
pub(crate) struct OpenGeneration {
    pub(crate) generation: u64,
    pub(crate) log: Arc<dyn Log>,
    /// The extent of the log. `None` if the log is damaged.
    pub(crate) tail: Option<Tail>,
}

/// The newest generations that were not requested yet.
pub(crate) struct NewestGenerations<'a> {
    space: &'a dyn LogSpace,
    newest: u64,
    remaining: Rev<RangeInclusive<u64>>,
}

impl<'a> NewestGenerations<'a> {
    /// Creates the list of the generations from `oldest` to `newest`, which is the newest one that exists.
    pub(crate) fn new(space: &'a dyn LogSpace, oldest: u64, newest: u64) -> Self {
        let oldest = oldest.max(newest.saturating_sub(GENERATIONS_MAX - 1));
        Self { space, newest, remaining: (oldest..=newest).rev() }
    }

    /// Opens the next older generation that has records. Returns `None` if there is none. After an error, the next call
    /// continues with the generation before it.
    ///
    /// # Errors
    ///
    /// The log cannot be reached.
    pub(crate) async fn open_next(&mut self) -> Result<Option<OpenGeneration>, LogError> {
        for generation in self.remaining.by_ref() {
            let log = match self.space.open_generation(generation).await {
                Ok(log) => log,
                // It was removed.
                Err(err) if err.is_missing_generation() && generation != self.newest => continue,
                Err(err) => return Err(err),
            };
            let tail = match log.tail().await {
                Ok(tail) if tail.last == 0 => continue,
                Ok(tail) => Some(tail),
                Err(err) if err.is_damage() => None,
                Err(err) => return Err(err),
            };
            return Ok(Some(OpenGeneration { generation, log, tail }));
        }
        Ok(None)
    }
}

/// Returns the newest generation that has records, or `None` if none has. Searches the newest 8 generations only.
///
/// # Errors
///
/// The log cannot be reached.
pub async fn find_newest_generation(space: &dyn LogSpace) -> Result<Option<u64>, LogError> {
    let Some(newest) = space.newest_generation().await? else { return Ok(None) };
    let opened = NewestGenerations::new(space, 0, newest).open_next().await?;
    Ok(opened.map(|opened| opened.generation))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use replicated_log::LogMessage;
    use replicated_log::memory::MemoryLogSpace;

    use super::*;

    async fn append_message(space: &MemoryLogSpace, generation: u64) {
        let log = space.open_generation(generation).await.expect("it exists");
        let message = LogMessage::head(Bytes::from_static(b"a record"));
        log.append(0, vec![message]).await.expect("no fault");
    }

    async fn list_generations(space: &MemoryLogSpace, oldest: u64, newest: u64) -> Vec<u64> {
        let mut generations = NewestGenerations::new(space, oldest, newest);
        let mut listed = Vec::new();
        while let Some(opened) = generations.open_next().await.expect("the log responds") {
            assert_eq!(opened.tail, Some(Tail { first: 1, last: 1 }));
            listed.push(opened.generation);
        }
        listed
    }

    #[tokio::test]
    async fn generations_with_records_are_opened_up_to_the_bound_the_newest_first() {
        let space = MemoryLogSpace::new();
        for generation in 0..=GENERATIONS_MAX {
            space.create_generation(generation).await.expect("a new generation");
        }
        for generation in [0, 1, 3, 5] {
            append_message(&space, generation).await;
        }
        space.delete_generation(3);
        assert_eq!(list_generations(&space, 0, GENERATIONS_MAX).await, [5, 1]);
        assert_eq!(list_generations(&space, 2, GENERATIONS_MAX).await, [5]);
        assert_eq!(list_generations(&space, 0, GENERATIONS_MAX - 1).await, [5, 1, 0]);
    }
}
