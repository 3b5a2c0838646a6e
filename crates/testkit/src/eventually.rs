//! Waiting for a value with a time limit, in place of a sleep.
//!
//! Bounds: [`TIMEOUT`]. Not here: other processes, whose tests choose their own limits (`hydrant/tests/it/world.rs`).

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// Much longer than any test waits. Only a bug reaches it.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two looks of a waiting task. A shorter one takes more of a core from the threads under test.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Waits on this thread until the value holds. Panics with the value after [`TIMEOUT`].
#[expect(clippy::disallowed_methods, reason = "a timeout needs a clock")]
pub fn wait_until<T: Debug>(value: impl Fn() -> T, holds: impl Fn(&T) -> bool) {
    let started = Instant::now();
    loop {
        let now = value();
        if holds(&now) {
            return;
        }
        assert!(started.elapsed() < TIMEOUT, "it stays {now:?}");
        thread::yield_now();
    }
}

/// Waits in a task until the condition holds. Panics with the description after [`TIMEOUT`].
pub async fn eventually(is_met: impl Fn() -> bool, describe: impl FnOnce() -> String) {
    let is_in_time = is_met_within(TIMEOUT, is_met).await;
    assert!(is_in_time, "not within {TIMEOUT:?}: {}", describe());
}

async fn is_met_within(timeout: Duration, is_met: impl Fn() -> bool) -> bool {
    let met = async {
        while !is_met() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(timeout, met).await.is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_value_is_looked_at_until_it_holds() {
        let looks = AtomicU32::new(0);
        wait_until(|| looks.fetch_add(1, Ordering::SeqCst), |looks| *looks == 9);
        assert_eq!(looks.into_inner(), 10);
    }

    #[tokio::test]
    async fn a_task_waits_with_a_limit() {
        let looks = AtomicU32::new(0);
        eventually(|| looks.fetch_add(1, Ordering::SeqCst) == 9, String::new).await;
        assert_eq!(looks.into_inner(), 10);
        assert!(!is_met_within(Duration::from_millis(10), || false).await);
    }
}
