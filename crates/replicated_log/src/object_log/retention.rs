//! Removal of old batches, by size and by age.
//!
//! Invariant: the newest batch stays, so the log always knows its end. Batches are removed from the oldest on, so the
//! rest has no gap if a removal fails. A batch stays for [`BATCH_AGE_MIN`] although the log is too large: a writer
//! trusts its knowledge of the end for half that time. The ages of batches come from wall clocks, which may be wrong. So
//! a batch is removed only if a list showed that long before that another batch followed it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::generation_files::{GenerationFiles, ListedBatch};
use crate::error::LogError;

/// Age below which no batch is removed. At 10 MB a second, a log exceeds its size limit by up to 200 MB.
pub(super) const BATCH_AGE_MIN: Duration = Duration::from_secs(20);

/// Limits of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    /// Size at which the oldest batches are removed.
    pub(super) bytes_max: u64,
    /// Age at which batches are removed.
    pub(super) age_max: Duration,
}

/// The end of the log in an earlier list. The batches before it were followed by another one even then.
#[derive(Debug, Default)]
pub(super) struct EarlierEnd(Mutex<Option<ListedEnd>>);

/// The newest batch of a list.
#[derive(Clone, Copy, Debug)]
struct ListedEnd {
    /// First sequence of the newest batch.
    first: u64,
    listed_at: Instant,
}

impl EarlierEnd {
    /// Takes the end of a new list. Returns the first sequence of the newest batch in a list that is older than
    /// [`BATCH_AGE_MIN`], or `None` if there was no such list.
    fn advance(&self, newest: u64, listed_at: Instant) -> Option<u64> {
        let mut earlier = self.0.lock();
        let old = earlier.filter(|end| listed_at.duration_since(end.listed_at) >= BATCH_AGE_MIN);
        if old.is_some() || earlier.is_none() {
            *earlier = Some(ListedEnd { first: newest, listed_at });
        }
        old.map(|end| end.first)
    }
}

/// Removes the batches before `needed_from` that a limit no longer covers, and that are not the newest for
/// [`BATCH_AGE_MIN`]. Returns their number. `now_ms` is the wall clock in milliseconds.
pub(super) async fn remove_aged(
    files: &GenerationFiles,
    retention: Retention,
    earlier: &EarlierEnd,
    now_ms: u64,
    needed_from: u64,
) -> Result<usize, LogError> {
    let listed_at = Instant::now();
    let listed = files.list_all().await?;
    let newest = listed.last().map_or(0, |batch| batch.first);
    match earlier.advance(newest, listed_at) {
        Some(first) => remove_old(files, &listed, retention, now_ms, needed_from.min(first)).await,
        None => Ok(0),
    }
}

/// Removes the listed batches before `needed_from` that a limit no longer covers at `now_ms`, the wall clock in
/// milliseconds. Returns their number.
pub(super) async fn remove_old(
    files: &GenerationFiles,
    listed: &[ListedBatch],
    retention: Retention,
    now_ms: u64,
    needed_from: u64,
) -> Result<usize, LogError> {
    let removable = &listed[..count_removable(listed, needed_from)];
    let surplus = count_surplus(listed, retention.bytes_max).min(removable.len());
    let newest_ms = subtract_age(now_ms, BATCH_AGE_MIN);
    let too_large = count_older(files, &removable[..surplus], newest_ms).await?;
    let oldest_ms = subtract_age(now_ms, retention.age_max.max(BATCH_AGE_MIN));
    let too_old = count_older(files, removable, oldest_ms).await?;
    let removed = too_large.max(too_old);
    for batch in &listed[..removed] {
        files.delete_batch(batch.first).await?;
    }
    Ok(removed)
}

fn subtract_age(now_ms: u64, age: Duration) -> u64 {
    now_ms.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the number of batches that are not the newest and have no message from `needed_from` on.
fn count_removable(listed: &[ListedBatch], needed_from: u64) -> usize {
    listed.iter().skip(1).take_while(|next| next.first <= needed_from).count()
}

/// Returns the number of the oldest batches without which the size is at most `bytes_max`.
fn count_surplus(listed: &[ListedBatch], bytes_max: u64) -> usize {
    let mut bytes: u64 = listed.iter().map(|batch| batch.bytes).sum();
    let is_surplus = |batch: &&ListedBatch| {
        let is_surplus = bytes > bytes_max;
        bytes -= batch.bytes;
        is_surplus
    };
    listed.iter().take_while(is_surplus).count()
}

/// Returns the number of batches that were created before `oldest_ms`. Batches are in the order of their creation, so a
/// binary search reads few of them.
async fn count_older(
    files: &GenerationFiles,
    listed: &[ListedBatch],
    oldest_ms: u64,
) -> Result<usize, LogError> {
    let mut older = 0;
    let mut end = listed.len();
    while older < end {
        let middle = older + (end - older) / 2;
        // A batch that another writer removed meanwhile was old enough.
        let created = files.read_created_at_ms(listed[middle].first).await?;
        if created.is_none_or(|created_ms| created_ms < oldest_ms) {
            older = middle + 1;
        } else {
            end = middle;
        }
    }
    Ok(older)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(sizes: &[u64]) -> Vec<ListedBatch> {
        let batch = |(index, bytes): (usize, &u64)| ListedBatch {
            first: 10 * index as u64 + 1,
            bytes: *bytes,
        };
        sizes.iter().enumerate().map(batch).collect()
    }

    #[test]
    fn the_oldest_batches_exceed_the_size() {
        let listed = list(&[5, 5, 5]);
        let counts = [15, 14, 10, 9, 5, 4, 0].map(|bytes_max| count_surplus(&listed, bytes_max));
        assert_eq!(counts, [0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn a_needed_batch_and_the_newest_stay() {
        let listed = list(&[5, 5, 5]);
        let counts = [0, 10, 11, 20, 21, 99].map(|needed| count_removable(&listed, needed));
        assert_eq!(counts, [0, 0, 1, 1, 2, 2]);
        assert_eq!(count_removable(&[], 99), 0);
    }
}
