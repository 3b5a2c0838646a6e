//! The states of a replica, and their names.
//!
//! Not here: how a state follows from the progress (`status`).

/// The state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It loads a snapshot, at the start or to jump to it.
    Loading,
    /// It reads the log, and was not near its end since the snapshot.
    CatchingUp,
    /// It is near the end of the log.
    Ready,
    /// It was near the end of the log, and is no longer.
    Behind,
    /// It cannot reach the log.
    Unreachable,
    /// The log is wrong. It serves the state before the fault, and waits for a snapshot to jump to.
    Broken,
}

impl ReplicaState {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Loading,
        Self::CatchingUp,
        Self::Ready,
        Self::Behind,
        Self::Unreachable,
        Self::Broken,
    ];

    /// Returns the name of the state, as in `hydrant_replica_state`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::CatchingUp => "catching_up",
            Self::Ready => "ready",
            Self::Behind => "behind",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
        }
    }
}
