//! Silence of the log: operations that fail or have no outcome yet, since the last response.
//!
//! Invariant: a refusal is a response. Appends can fail while the log responds to everything else, so only an append or
//! a message ends the silence of appends.
//! Not here: the time limit of an operation (`time_limit`), attempts after a failure (`plan`).

use std::time::Duration;

/// Time without a response after which the log is silent. A smaller value reports elections of NATS, which take 4 to
/// 9 s.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The responses of the log.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Start of the first operation that failed since the last response.
    failed_since: Option<Duration>,
    /// Start of the first append that failed since the last one with a response.
    append_failed_since: Option<Duration>,
    /// Start of the operation that has no outcome yet.
    pending_since: Option<Duration>,
    is_reported: bool,
}

/// A change that an operator is informed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SilenceChange {
    Started,
    Ended { after: Duration },
}

impl Silence {
    /// Notes the start of an operation on the log.
    pub(super) fn start_operation(&mut self, now: Duration) {
        self.pending_since = Some(now);
    }

    /// Notes the end of an operation that says nothing about the log.
    pub(super) fn end_operation(&mut self) {
        self.pending_since = None;
    }

    /// Notes an operation that failed, or a reader.
    pub(super) fn note_failure(&mut self, now: Duration) -> Option<SilenceChange> {
        let started = self.pending_since.take().unwrap_or(now);
        self.failed_since = self.failed_since.or(Some(started));
        self.find_start(now)
    }

    /// Notes an append without a response.
    pub(super) fn note_append_failure(&mut self, now: Duration) -> Option<SilenceChange> {
        let started = self.pending_since.take().unwrap_or(now);
        self.append_failed_since = self.append_failed_since.or(Some(started));
        self.find_start(now)
    }

    /// Notes a response to an operation other than an append.
    pub(super) fn note_response(&mut self, now: Duration) -> Option<SilenceChange> {
        let since = self.oldest_failure()?;
        self.failed_since = None;
        self.find_end(since, now)
    }

    /// Notes a response to an append, or a message.
    pub(super) fn note_progress(&mut self, now: Duration) -> Option<SilenceChange> {
        let since = self.oldest_failure()?;
        self.failed_since = None;
        self.append_failed_since = None;
        self.find_end(since, now)
    }

    /// Returns the start of the oldest operation without a response.
    pub(super) fn unanswered_since(&self) -> Option<Duration> {
        [self.oldest_failure(), self.pending_since].into_iter().flatten().min()
    }

    fn oldest_failure(&self) -> Option<Duration> {
        [self.failed_since, self.append_failed_since].into_iter().flatten().min()
    }

    fn find_start(&mut self, now: Duration) -> Option<SilenceChange> {
        let since = self.oldest_failure()?;
        let is_new = !self.is_reported && now >= since + SILENCE_MAX;
        self.is_reported |= is_new;
        is_new.then_some(SilenceChange::Started)
    }

    fn find_end(&mut self, since: Duration, now: Duration) -> Option<SilenceChange> {
        if self.oldest_failure().is_some() {
            return None;
        }
        let is_reported = std::mem::take(&mut self.is_reported);
        is_reported.then(|| SilenceChange::Ended { after: now.saturating_sub(since) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_starts_with_the_first_failed_operation_and_is_reported_once() {
        let mut silence = Silence::default();
        silence.start_operation(SECOND);
        assert_eq!(silence.unanswered_since(), Some(SECOND));
        assert_eq!(silence.note_failure(SECOND * 6), None);
        silence.start_operation(SECOND * 7);
        assert_eq!(silence.unanswered_since(), Some(SECOND));
        assert_eq!(silence.note_failure(SECOND * 12), Some(SilenceChange::Started));
        assert_eq!(silence.note_failure(SECOND * 13), None);
        let ended = SilenceChange::Ended { after: SECOND * 19 };
        assert_eq!(silence.note_response(SECOND * 20), Some(ended));
        assert_eq!(silence.unanswered_since(), None);
        assert_eq!(silence.note_response(SECOND * 21), None);
    }

    #[test]
    fn failures_between_responses_are_not_silence() {
        let mut silence = Silence::default();
        for second in 0..60 {
            assert_eq!(silence.note_failure(SECOND * second), None);
            assert_eq!(silence.note_response(SECOND * second), None);
        }
    }

    #[test]
    fn appends_without_a_response_are_silence_although_the_log_is_read() {
        let mut silence = Silence::default();
        for second in 0..10 {
            assert_eq!(silence.note_append_failure(SECOND * second), None);
            assert_eq!(silence.note_response(SECOND * second), None);
        }
        let started = Some(SilenceChange::Started);
        assert_eq!(silence.note_append_failure(SECOND * 10), started);
        assert_eq!(silence.note_response(SECOND * 11), None);
        assert_eq!(silence.unanswered_since(), Some(Duration::ZERO));
        let ended = Some(SilenceChange::Ended { after: SECOND * 12 });
        assert_eq!(silence.note_progress(SECOND * 12), ended);
        assert_eq!(silence.unanswered_since(), None);
    }
}
