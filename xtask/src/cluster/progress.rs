//! The time that a run has left.

use std::time::Duration;

/// Returns the time for the items that are left, at the rate so far, within the limit of the run.
pub(crate) fn time_left(elapsed: Duration, done: u64, total: u64, limit: Duration) -> Duration {
    let until_limit = limit.saturating_sub(elapsed);
    if done == 0 {
        return until_limit;
    }
    let left = total.saturating_sub(done) as f64;
    let time = Duration::try_from_secs_f64(elapsed.as_secs_f64() / done as f64 * left);
    time.map_or(until_limit, |time| time.min(until_limit))
}

/// Formats the time so far, and the estimated rest.
pub(crate) fn format_progress(elapsed: Duration, left: Duration) -> String {
    let minutes = |time: Duration| time.as_secs_f64() / 60.0;
    format!("{:.1} min, about {:.1} min left", minutes(elapsed), minutes(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_rate_and_ends_at_the_limit() {
        let seconds = Duration::from_secs;
        assert_eq!(time_left(seconds(60), 10, 50, seconds(3_600)), seconds(240));
        assert_eq!(time_left(seconds(60), 10, 50, seconds(100)), seconds(40));
        assert_eq!(time_left(seconds(60), 0, 50, seconds(100)), seconds(40));
        assert_eq!(time_left(seconds(60), 1, u64::MAX, seconds(100)), seconds(40));
        assert_eq!(time_left(seconds(60), 50, 50, seconds(100)), Duration::ZERO);
        assert_eq!(time_left(seconds(160), 0, 50, seconds(100)), Duration::ZERO);
        let text = format_progress(seconds(90), seconds(240));
        assert_eq!(text, "1.5 min, about 4.0 min left");
    }
}
