//! The relation of a source's chain to ours.
//!
//! A source that differs proves nothing: it may be a moment behind. One that differs for minutes has another chain.
//! Which of both chains has more work is not checked here.
//! Not here: the comparison (`agreement_checks`).

/// The relation of a source's chain to ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Our sink is on the selected chain of the source.
    Same,
    /// The source has our sink, and its selected chain leaves ours below it.
    Fork {
        /// The number of our newest blocks that are not on its chain.
        blocks: usize,
    },
    /// The source does not have our sink.
    Unknown,
    /// The source cannot be connected to, or does not reply.
    Unavailable {
        /// The error of the source.
        reason: String,
    },
}

impl Agreement {
    /// The values of the label `chain` in metrics.
    pub(crate) const LABELS: [&str; 4] = ["same", "fork", "unknown", "unavailable"];

    /// Returns the label in metrics and reports.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Fork { .. } => "fork",
            Self::Unknown => "unknown",
            Self::Unavailable { .. } => "unavailable",
        }
    }
}
