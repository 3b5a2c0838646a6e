//! getBalancesByAddresses: the balance of each requested address, in parts.
//!
//! Shape: the first steps read the addresses, so that the length of the reply is known and all of them are valid; the
//! later ones read them again and encode their balances. All of them read one view.
//! Rules of kaspad: each address has an entry, also one that is requested twice, with the prefix of the request.
//! Memory: one part.

use std::time::Duration;

use chain_kaspa::{View, script_totals};
use kaspa::{
    AddressBalance, BorshBalancesReply, Encoding, ReplyTooLong, ServerError,
    encode_json_balances_head,
};

use crate::address_cursor::AddressCursor;
use crate::call::{Call, StepOutput};
use crate::list_writer::ListWriter;

/// Addresses that a step reads.
const STEP_ADDRESSES: usize = 128;

/// A request that is being answered.
pub(crate) struct BalanceListTask {
    call: Call,
    view: View,
    phase: Phase,
}

enum Phase {
    Start,
    Sum { start: AddressCursor, cursor: AddressCursor, reply: BorshBalancesReply },
    Write { cursor: AddressCursor, writer: ListWriter },
}

impl BalanceListTask {
    pub(crate) fn new(call: Call) -> Self {
        let view = call.server.virtual_view();
        Self { call, view, phase: Phase::Start }
    }

    pub(crate) fn step(self) -> StepOutput<Self> {
        let Self { call, view, phase } = self;
        let next =
            |call, phase| (Vec::new(), Some(Box::new(Self { call, view: view.clone(), phase })));
        match phase {
            Phase::Start => match AddressCursor::find(&call.request) {
                Ok(start) => {
                    let reply = BorshBalancesReply::default();
                    next(call, Phase::Sum { start, cursor: start, reply })
                }
                Err(error) => call.reject(&error),
            },
            Phase::Sum { start, mut cursor, mut reply } => {
                let addresses = match cursor.read(&call.request, STEP_ADDRESSES) {
                    Ok(addresses) => addresses,
                    Err(error) => return call.reject(&error),
                };
                if !addresses.is_empty() {
                    addresses.iter().for_each(|address| reply.add_address(&address.payload));
                    return next(call, Phase::Sum { start, cursor, reply });
                }
                match start_writing(&call, &reply) {
                    Ok(writer) => next(call, Phase::Write { cursor: start, writer }),
                    Err(error) => call.fail(error.to_string()),
                }
            }
            Phase::Write { mut cursor, mut writer } => {
                while !writer.is_full() {
                    match write_balances(&call, &view, &mut cursor, &mut writer) {
                        Ok(true) => {}
                        Ok(false) => return (vec![writer.finish()], None),
                        Err(error) => return call.reject(&error),
                    }
                }
                let part = writer.take_part(call.server.pool.now());
                let rest = Self { call, view, phase: Phase::Write { cursor, writer } };
                (vec![part], Some(Box::new(rest)))
            }
        }
    }
}

fn start_writing(call: &Call, reply: &BorshBalancesReply) -> Result<ListWriter, ReplyTooLong> {
    let head = match call.encoding() {
        Encoding::Borsh => reply.encode_head(call.id)?,
        Encoding::Json => encode_json_balances_head(call.id),
    };
    let limit = Duration::from_millis(call.server.settings.list_timeout_ms);
    let deadline = call.server.pool.now().saturating_add(limit);
    Ok(ListWriter::new(call.encoding(), head, deadline))
}

/// Writes the next balances. Returns false if there are no more. The addresses were read before, so it does not
/// fail.
fn write_balances(
    call: &Call,
    view: &View,
    cursor: &mut AddressCursor,
    writer: &mut ListWriter,
) -> Result<bool, ServerError> {
    let addresses = cursor.read(&call.request, STEP_ADDRESSES)?;
    let encoding = call.encoding();
    for address in &addresses {
        let balance = script_totals(view, &address.payload.ledger_address()).amount;
        let entry = AddressBalance { address: *address, balance };
        writer.push(|out| match encoding {
            Encoding::Borsh => entry.encode_borsh_into(out),
            Encoding::Json => entry.encode_json_into(out),
        });
    }
    Ok(!addresses.is_empty())
}
