//! The commands that wait for the executing thread.
//!
//! Bounds: [`COMMANDS_MAX`] commands. With one more the caller gets an error at once.

use std::collections::VecDeque;

use chain_solana::{
    ControlCall, ControlCommand, ControlDone, ControlError, PendingSender, pending,
};

/// Commands that wait at most. Each has up to a request's body of data.
const COMMANDS_MAX: usize = 32;

/// A command, and where its result goes.
pub(crate) struct ControlRequest {
    pub(crate) command: ControlCommand,
    pub(crate) reply: PendingSender<Result<ControlDone, ControlError>>,
}

/// Waiting commands, the oldest first.
#[derive(Default)]
pub(super) struct Commands(VecDeque<ControlRequest>);

impl Commands {
    pub(super) fn push(&mut self, command: ControlCommand) -> Result<ControlCall, ControlError> {
        if self.0.len() >= COMMANDS_MAX {
            return Err(ControlError::QueueFull { limit: COMMANDS_MAX });
        }
        let (call, reply) = pending();
        self.0.push_back(ControlRequest { command, reply });
        Ok(call)
    }

    pub(super) fn pop(&mut self) -> Option<ControlRequest> {
        self.0.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
