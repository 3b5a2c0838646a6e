//! Errors of a log: one type for each operation, with one variant for each reaction of the caller.
//!
//! Invariant: an error that retries cannot mend, because the stored bytes cause it, is marked as damage.
//! Not here: damage inside a record (the crates of the chains).

use std::error::Error;
use std::fmt::Display;

/// An operation that failed, with the server or path and the attempted operation in its message.
#[derive(Debug, thiserror::Error)]
#[error("{location}: cannot {problem}")]
pub struct LogError {
    location: String,
    /// Verb with its object, and the reason if it is not `source`.
    problem: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    cause: Cause,
}

/// The cause of an error, as far as callers react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The stored bytes are not those that were appended.
    Damage,
    /// A disk is full, or the servers cannot reserve space.
    NoSpace,
    /// The generation does not exist.
    NoGeneration,
    Other,
}

impl LogError {
    /// Creates the error of an operation that another error stopped. `location` names the log or server, `attempt` is a
    /// verb with its object: `append a batch`.
    pub fn new(
        location: impl Into<String>,
        attempt: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self {
            location: location.into(),
            problem: attempt.into(),
            source: Some(source.into()),
            cause: Cause::Other,
        }
    }

    /// Creates the error of an operation that failed for a reason in words.
    pub fn with_reason(
        location: impl Into<String>,
        attempt: impl Into<String>,
        reason: impl Display,
    ) -> Self {
        let problem = format!("{}: {reason}", attempt.into());
        Self { location: location.into(), problem, source: None, cause: Cause::Other }
    }

    /// Creates the error of an operation that met stored bytes which are not those that were appended.
    pub fn with_damage(
        location: impl Into<String>,
        attempt: impl Into<String>,
        damage: impl Display,
    ) -> Self {
        Self { cause: Cause::Damage, ..Self::with_reason(location, attempt, damage) }
    }

    /// Creates the error of an operation for which the servers or the disk have no space.
    pub fn with_no_space(
        location: impl Into<String>,
        attempt: impl Into<String>,
        reason: impl Display,
    ) -> Self {
        Self { cause: Cause::NoSpace, ..Self::with_reason(location, attempt, reason) }
    }

    /// Returns the same error as one of a generation that does not exist.
    pub(crate) fn of_missing_generation(self) -> Self {
        Self { cause: Cause::NoGeneration, ..self }
    }

    /// Returns whether the generation does not exist. It was removed, or not created yet.
    pub const fn is_missing_generation(&self) -> bool {
        matches!(self.cause, Cause::NoGeneration)
    }

    /// Returns whether the log is damaged: another attempt finds the same. False if the log cannot be reached, and if a
    /// newer version of the program wrote it.
    pub const fn is_damage(&self) -> bool {
        matches!(self.cause, Cause::Damage)
    }

    /// Returns whether the operation needs space that older generations may have.
    pub const fn lacks_space(&self) -> bool {
        matches!(self.cause, Cause::NoSpace)
    }
}

/// Why a batch was not appended, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The log does not end where the caller expected. Nothing of this batch was appended by this call. Read on, or ask
    /// [`tail`](crate::Log::tail): the last messages may be another writer's, or an earlier append of the same caller
    /// that landed late.
    #[error("another writer appended: the log ends at message {last}")]
    Fenced {
        /// Newest sequence of the log, as far as known.
        last: u64,
    },
    /// The log did not reply. The batch is in the log, or not, or will be later. Ask [`tail`](crate::Log::tail).
    #[error("the log did not confirm an append")]
    Unknown(#[source] LogError),
    /// The log accepts no more messages: its disk is full or a limit is reached. Nothing of this batch is in the log.
    #[error("the log is full")]
    Full(#[source] LogError),
    /// The batch is invalid: the message names value and limit. Nothing of it is in the log.
    #[error("the log refused a batch")]
    Refused(#[source] LogError),
}

/// Why a reader has no next message.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Messages were removed before they were read. Load a snapshot that the log still reaches.
    #[error("message {wanted} was removed from the log, which begins at message {first}")]
    Truncated {
        /// The next sequence of the reader.
        wanted: u64,
        /// Oldest sequence that the log still has.
        first: u64,
    },
    /// The log was deleted, created again, or restored from an older backup. Look for a newer generation.
    #[error("the log was deleted or replaced by another one")]
    Gone,
    /// The stored bytes at the reader's position are not those that were appended. Another server may have intact ones.
    /// The next call reads the same position again.
    #[error("message {sequence} of the log is damaged")]
    Damaged {
        /// The next sequence of the reader.
        sequence: u64,
        /// The damage, with the object or the stream in its message.
        #[source]
        error: LogError,
    },
    /// The log has later messages and does not have this one, although it was not removed by a limit. Another server may
    /// have it. The next call looks for it again.
    #[error("message {wanted} is missing from the log, message {found} follows")]
    Missing {
        /// The next sequence of the reader.
        wanted: u64,
        /// The next sequence that the log has.
        found: u64,
    },
    /// The log cannot be read at this position now, or a newer version of the program wrote it.
    #[error(transparent)]
    Log(#[from] LogError),
}
