//! The calls that wait for the executing thread: commands, and calls that control forks.
//!
//! In: a call of a client, with where its result goes. Out: the next one. Clients take turns of one call; the calls of
//! one client leave in the order of arrival.
//! Bounds: those of [`CallKind::waiting_max`]. Each kind has its own share, so that neither can fill the share of the
//! other. Within it the calls of a client may take as much as remains free, so one client gets half and the next one
//! always finds space.
//! `clients::ClientShares` is not used: it gives a client nine tenths, and one client's calls must leave half. The queue
//! counts the calls of a client in any case.
//! Invariant: each caller gets a result, or a refusal at once. A call that is dropped tells its caller that the ledger
//! ends (`chain_solana::pending`).
//! Not here: what a call does (`control`, `forks`).

use std::collections::{HashMap, VecDeque};

use chain_solana::{
    ControlCommand, ControlError, ControlOutcome, ForkControlError, ForkReply, ForkTransactions,
    PendingSender, Reorganization,
};
use clients::ClientId;
use foldhash::quality::RandomState;
use ledger::Slot;

/// Commands that wait at most, half of them of one client. Each has up to a request's body of data.
const COMMANDS_MAX: usize = 64;
/// Calls that control forks and wait at most, half of them of one client. Each is small, except the transactions of a
/// reorganization: up to 1.2 MB.
const FORK_CALLS_MAX: usize = 128;

/// A kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A command for the ledger.
    Command,
    /// A call that controls forks.
    Fork,
}

impl CallKind {
    /// All kinds, each at the index of its value.
    pub const ALL: [Self; 2] = [Self::Command, Self::Fork];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Fork => "fork",
        }
    }

    /// Calls of this kind that wait at most.
    pub fn waiting_max(self) -> usize {
        match self {
            Self::Command => COMMANDS_MAX,
            Self::Fork => FORK_CALLS_MAX,
        }
    }
}

/// The calls of each kind, by [`CallKind::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Those that wait.
    pub waiting: [usize; CallKind::ALL.len()],
    /// Those that were refused because too many of the kind waited, since the start.
    pub refused: [u64; CallKind::ALL.len()],
}

/// A call, and where its result goes.
pub(crate) enum ControlRequest {
    /// Carries out a command.
    Command(CommandRequest),
    /// Controls forks.
    Fork(ForkRequest),
}

pub(crate) struct CommandRequest {
    pub(crate) command: ControlCommand,
    pub(crate) reply: PendingSender<Result<ControlOutcome, ControlError>>,
}

/// A call that controls forks.
pub(crate) enum ForkRequest {
    /// Makes blocks.
    Mine { blocks: u64, reply: ForkReply<Slot> },
    /// Makes a snapshot.
    Snapshot { reply: ForkReply<u64> },
    /// Goes back to a snapshot.
    Revert { snapshot: u64, reply: ForkReply<()> },
    /// Leaves the newest blocks.
    Reorg { depth: u64, transactions: ForkTransactions, reply: ForkReply<Reorganization> },
}

/// Why a call does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRefusal {
    /// The maximum number of calls of this kind, or the client's share of it, waits already.
    Full { limit: usize },
    /// The ledger ends.
    Closed,
}

impl ControlRequest {
    fn kind(&self) -> CallKind {
        match self {
            Self::Command(_) => CallKind::Command,
            Self::Fork(_) => CallKind::Fork,
        }
    }

    /// Sends the refusal as its result.
    pub(super) fn refuse(self, refusal: CallRefusal) {
        match self {
            Self::Command(CommandRequest { reply, .. }) => reply.send(Err(refusal.into())),
            Self::Fork(ForkRequest::Mine { reply, .. }) => reply.send(Err(refusal.into())),
            Self::Fork(ForkRequest::Snapshot { reply }) => reply.send(Err(refusal.into())),
            Self::Fork(ForkRequest::Revert { reply, .. }) => reply.send(Err(refusal.into())),
            Self::Fork(ForkRequest::Reorg { reply, .. }) => reply.send(Err(refusal.into())),
        }
    }
}

impl From<CallRefusal> for ControlError {
    fn from(refusal: CallRefusal) -> Self {
        match refusal {
            CallRefusal::Full { limit } => Self::QueueFull { limit },
            CallRefusal::Closed => Self::Closed,
        }
    }
}

impl From<CallRefusal> for ForkControlError {
    fn from(refusal: CallRefusal) -> Self {
        match refusal {
            CallRefusal::Full { limit } => Self::TooMany { limit },
            CallRefusal::Closed => Self::Closed,
        }
    }
}

/// Waiting calls, by client.
#[derive(Default)]
pub(super) struct ControlQueue {
    /// Clients with waiting calls, in round-robin order.
    circle: VecDeque<ClientId>,
    /// The waiting calls of each client, the oldest first. None is empty.
    waiting: HashMap<ClientId, VecDeque<ControlRequest>, RandomState>,
    stats: CallStats,
}

impl ControlQueue {
    /// Appends a call to those of its client, or gives it back with the client's limit of its kind.
    pub(super) fn push(
        &mut self,
        client: ClientId,
        call: ControlRequest,
    ) -> Result<(), (ControlRequest, CallRefusal)> {
        let kind = call.kind();
        let is_same_kind = |other: &&ControlRequest| other.kind() == kind;
        let by_client =
            self.waiting.get(&client).map_or(0, |calls| calls.iter().filter(is_same_kind).count());
        let free = kind.waiting_max().saturating_sub(self.stats.waiting[kind as usize]);
        if by_client >= free {
            self.stats.refused[kind as usize] += 1;
            let limit = if free == 0 { kind.waiting_max() } else { by_client };
            return Err((call, CallRefusal::Full { limit }));
        }
        self.stats.waiting[kind as usize] += 1;
        let calls = self.waiting.entry(client).or_default();
        if calls.is_empty() {
            self.circle.push_back(client);
        }
        calls.push_back(call);
        Ok(())
    }

    /// Removes the next call: the oldest one of the client whose turn it is.
    pub(super) fn pop(&mut self) -> Option<ControlRequest> {
        let client = self.circle.pop_front()?;
        let calls = self.waiting.get_mut(&client)?;
        let call = calls.pop_front()?;
        if calls.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.circle.push_back(client);
        }
        self.stats.waiting[call.kind() as usize] -= 1;
        Some(call)
    }

    pub(super) fn stats(&self) -> CallStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use chain_solana::{ForkCall, pending};

    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);

    fn command() -> ControlRequest {
        let (_, reply) = pending();
        ControlRequest::Command(CommandRequest { command: ControlCommand::PauseClock, reply })
    }

    fn snapshot() -> (ForkCall<u64>, ControlRequest) {
        let (call, reply) = ForkCall::new();
        (call, ControlRequest::Fork(ForkRequest::Snapshot { reply }))
    }

    #[test]
    fn calls_of_a_client_are_taken_in_the_order_of_arrival() {
        let mut calls = ControlQueue::default();
        let mut sent = Vec::new();
        for number in 0..20 {
            let call = if number % 3 == 0 { snapshot().1 } else { command() };
            sent.push(call.kind());
            assert!(calls.push(A, call).is_ok());
        }
        let taken: Vec<_> = std::iter::from_fn(|| calls.pop()).map(|call| call.kind()).collect();
        assert_eq!(taken, sent);
        assert_eq!(calls.stats(), CallStats::default());
    }

    #[test]
    fn a_kind_at_its_bound_leaves_the_share_of_the_other() {
        let mut calls = ControlQueue::default();
        while calls.push(A, command()).is_ok() {}
        let commands = COMMANDS_MAX / 2;
        let forks = FORK_CALLS_MAX / 2;
        assert_eq!(calls.stats(), CallStats { waiting: [commands, 0], refused: [1, 0] });
        for _ in 0..forks {
            assert!(calls.push(A, snapshot().1).is_ok());
        }
        let (waits, call) = snapshot();
        let (call, refusal) = calls.push(A, call).expect_err("a full queue");
        assert_eq!(refusal, CallRefusal::Full { limit: forks });
        call.refuse(refusal);
        assert_eq!(waits.wait(), Err(ForkControlError::TooMany { limit: forks }));
        assert_eq!(calls.stats(), CallStats { waiting: [commands, forks], refused: [1, 1] });
        // The oldest one is a command: its share has space again.
        assert!(calls.pop().is_some());
        assert!(calls.push(A, command()).is_ok() && calls.push(A, snapshot().1).is_err());
    }

    #[test]
    fn a_client_that_floods_leaves_space_and_turns_to_another() {
        let mut calls = ControlQueue::default();
        while calls.push(A, command()).is_ok() {}
        for _ in 0..10 {
            assert!(calls.push(B, snapshot().1).is_ok());
            assert!(calls.push(B, command()).is_ok());
        }
        let taken: Vec<_> =
            std::iter::from_fn(|| calls.pop()).take(8).map(|call| call.kind()).collect();
        let [command, fork] = CallKind::ALL;
        assert_eq!(taken, [command, fork, command, command, command, fork, command, command]);
    }
}
