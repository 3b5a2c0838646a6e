//! Results of commands for the ledger: a call waits in the pool until the ledger has carried its command out.

use std::task::{Poll, Waker};

use chain_solana::{ControlCall, ControlCommand, ControlOutcome, EditedAccounts};
use chain_solana::{ControlError, CurrentAccounts};
use clients::ClientId;
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::{MethodOutput, MethodResult, StreamState, StreamedResult, write_json};
use solana_epoch_info::EpochInfo;
use solana_rpc_client_types::response::{Response, RpcApiVersion, RpcResponseContext};

use crate::cheatcodes::rpc_error;
use crate::solana_api::SolanaApi;

/// Writes the result of a command that was carried out.
type WriteResult = Box<dyn FnOnce(&ControlOutcome, &mut Vec<u8>) -> Result<(), RpcError> + Send>;

/// Edits accounts. The result is null in the context of its slot.
pub(super) fn edit(
    api: &SolanaApi,
    client: ClientId,
    edit: impl FnOnce(&dyn CurrentAccounts) -> Result<EditedAccounts, ControlError> + Send + 'static,
) -> MethodResult {
    null(api, client, ControlCommand::Edit(Box::new(edit)))
}

/// Queues a command whose result is null in the context of its slot.
pub(super) fn null(api: &SolanaApi, client: ClientId, command: ControlCommand) -> MethodResult {
    run(api, client, command, Box::new(|done, out| write_json(out, &in_context(done.slot, ()))))
}

/// Queues a command like [`null`], and runs `then` once it was carried out.
pub(super) fn null_then(
    api: &SolanaApi,
    client: ClientId,
    command: ControlCommand,
    then: impl FnOnce() + Send + 'static,
) -> MethodResult {
    let write: WriteResult = Box::new(move |done, out| {
        then();
        write_json(out, &in_context(done.slot, ()))
    });
    run(api, client, command, write)
}

/// Queues a command whose result is the epoch's information.
pub(super) fn epoch_info(
    api: &SolanaApi,
    client: ClientId,
    command: ControlCommand,
) -> MethodResult {
    let schedule = api.cluster_info.epoch_schedule.clone();
    let write: WriteResult = Box::new(move |done, out| {
        let (epoch, slot_index) = schedule.get_epoch_and_slot_index(done.slot);
        let info = EpochInfo {
            epoch,
            slot_index,
            slots_in_epoch: schedule.get_slots_in_epoch(epoch),
            absolute_slot: done.slot,
            block_height: done.block_height,
            transaction_count: Some(done.transaction_count),
        };
        write_json(out, &info)
    });
    run(api, client, command, write)
}

/// Wraps a value in the context of a slot.
pub(super) fn in_context<T>(slot: u64, value: T) -> Response<T> {
    let context = RpcResponseContext { slot, api_version: Some(RpcApiVersion::default()) };
    Response { context, value }
}

fn run(
    api: &SolanaApi,
    client: ClientId,
    command: ControlCommand,
    write: WriteResult,
) -> MethodResult {
    let call = api.cheatcodes.control(client, command)?;
    Ok(MethodOutput::streamed(None, PendingCommand(Some((call, write)))))
}

/// A command that waits for the ledger, and the writer of its result.
struct PendingCommand(Option<(ControlCall, WriteResult)>);

impl StreamedResult for PendingCommand {
    fn poll_ready(&mut self, waker: &dyn Fn() -> Waker) -> Poll<()> {
        self.0.as_ref().map_or(Poll::Ready(()), |(call, _)| call.poll(waker))
    }

    fn write(&mut self, _: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if let Some((call, write)) = self.0.take() {
            let done = call.wait().unwrap_or(Err(ControlError::Closed)).map_err(rpc_error)?;
            write(&done, out)?;
        }
        Ok(StreamState::Done)
    }
}
