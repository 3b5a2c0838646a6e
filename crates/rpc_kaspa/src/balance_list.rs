//! getBalancesByAddresses: the balance of each requested address, in parts.
//!
//! Shape: the first steps read the addresses, so that the length of the reply is known and all of them are valid. In
//! protobuf the length depends on the balances, which are looked up twice. The later steps read the addresses again and
//! encode their balances. All of them read one view.
//! Rules of kaspad: each address has an entry, also one that is requested twice, with the prefix of the request.
//! Memory: one part.

use chain_kaspa::{View, script_totals};
use kaspa::{
    AddressBalance, BorshBalancesReply, KaspaAddress, Method, ReplyTooLong, ServerError,
    encode_json_balances_head,
};

use crate::address_cursor::AddressCursor;
use crate::call::{Call, StepOutput};
use crate::entry_totals::EntryTotals;
use crate::list_writer::ListWriter;
use crate::message_format::MessageFormat;
use crate::read_deadline::ReadDeadline;

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
    Sum { start: AddressCursor, cursor: AddressCursor, reply: ReplyLength },
    Write { cursor: AddressCursor, writer: ListWriter },
}

/// The length of the reply so far, in the formats that need it.
#[derive(Default)]
struct ReplyLength {
    borsh: BorshBalancesReply,
    protobuf: EntryTotals,
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
                    let reply = ReplyLength::default();
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
                    reply.add(&call, &view, &addresses);
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

impl ReplyLength {
    fn add(&mut self, call: &Call, view: &View, addresses: &[KaspaAddress]) {
        for address in addresses {
            match call.format() {
                MessageFormat::Borsh => self.borsh.add_address(&address.payload),
                MessageFormat::Json => {}
                MessageFormat::Protobuf => {
                    let entry = find_balance(view, address);
                    self.protobuf.add(|out| entry.encode_protobuf_into(out));
                }
            }
        }
    }
}

fn find_balance(view: &View, address: &KaspaAddress) -> AddressBalance {
    let balance = script_totals(view, &address.payload.ledger_address()).amount;
    AddressBalance { address: *address, balance }
}

fn start_writing(call: &Call, reply: &ReplyLength) -> Result<ListWriter, ReplyTooLong> {
    let head = match call.format() {
        MessageFormat::Borsh => reply.borsh.encode_head(call.id)?,
        MessageFormat::Json => encode_json_balances_head(call.id),
        MessageFormat::Protobuf => {
            reply.protobuf.encode_head(call.id, Method::GetBalancesByAddresses)?
        }
    };
    let deadline = ReadDeadline::start(call);
    Ok(ListWriter::new(call.format(), head, deadline))
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
    let format = call.format();
    for address in &addresses {
        let entry = find_balance(view, address);
        writer.push(|out| match format {
            MessageFormat::Borsh => entry.encode_borsh_into(out),
            MessageFormat::Json => entry.encode_json_into(out),
            MessageFormat::Protobuf => entry.encode_protobuf_into(out),
        });
    }
    Ok(!addresses.is_empty())
}
