//! The ledger's control: commands that wait in the queue of the executing thread.

use std::sync::Arc;

use chain_solana::{
    ControlCall, ControlCommand, ControlError, ControlStats, LedgerControl, pending,
};
use clients::ClientId;

use crate::queue::{CommandRequest, ControlRequest, TransactionQueue};

/// The control of a local ledger.
pub(crate) struct LocalControl {
    queue: Arc<TransactionQueue>,
    baseline_bytes: u64,
}

impl LocalControl {
    /// `baseline_bytes` are those of the accounts that are retained for a reset.
    pub(crate) fn new(queue: Arc<TransactionQueue>, baseline_bytes: u64) -> Self {
        Self { queue, baseline_bytes }
    }
}

impl LedgerControl for LocalControl {
    fn control(
        &self,
        client: ClientId,
        command: ControlCommand,
    ) -> Result<ControlCall, ControlError> {
        let (call, reply) = pending();
        self.queue.push_call(client, ControlRequest::Command(CommandRequest { command, reply }))?;
        Ok(call)
    }

    fn stats(&self) -> ControlStats {
        ControlStats { baseline_bytes: self.baseline_bytes }
    }
}
