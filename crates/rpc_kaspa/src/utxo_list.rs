//! getUtxosByAddresses: the UTXOs of addresses, in parts.
//!
//! Shape: the first steps read the addresses and sum up the totals of their scripts, so that the length of the reply is
//! known; the later ones encode the UTXOs. In protobuf the length depends on the UTXOs: each is encoded twice, first to be
//! measured. All steps read one view.
//! Rules of kaspad: an address counts once, whatever its prefix; the address of an entry has the node's prefix.
//! Cost: two lookups for each address, and some 0.2 µs for each UTXO.
//! Memory: 34 bytes for each address that has UTXOs, and one part.

use std::collections::hash_set;
use std::vec;

use chain_kaspa::{View, script_totals};
use foldhash::HashSet;
use kaspa::{
    AddressPayload, BorshUtxosReply, Method, ReplyTooLong, UtxoList, encode_json_utxos_head,
};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use websocket::SessionOutput;

use crate::address_cursor::AddressCursor;
use crate::address_scan::AddressScan;
use crate::call::{Call, StepOutput};
use crate::entry_totals::EntryTotals;
use crate::kaspa_rpc::NoItems;
use crate::list_writer::ListWriter;
use crate::message_format::MessageFormat;
use crate::read_deadline::ReadDeadline;

/// Addresses that a step reads.
const STEP_ADDRESSES: usize = 128;
/// UTXOs that a step reads at most: 20 KB in Borsh, 50 KB in JSON.
const STEP_UTXOS: usize = 128;

/// A request that is being answered.
pub(crate) struct UtxoListTask {
    call: Call,
    view: View,
    phase: Phase,
}

enum Phase {
    Start,
    Sum(Summing),
    Measure(Measuring),
    Write(Writing),
}

/// The addresses so far, and the length of their UTXOs.
struct Summing {
    cursor: AddressCursor,
    payloads: HashSet<AddressPayload>,
    reply: BorshUtxosReply,
    utxos: u64,
}

/// The UTXOs of the addresses while they are measured.
struct Measuring {
    summing: Summing,
    /// The addresses whose UTXOs were not measured.
    payloads: vec::IntoIter<AddressPayload>,
    current: Option<AddressScan>,
    entries: EntryTotals,
}

struct Writing {
    writer: ListWriter,
    /// The UTXOs of all addresses.
    utxos: u64,
    /// The addresses whose UTXOs were not written.
    payloads: hash_set::IntoIter<AddressPayload>,
    current: Option<AddressScan>,
}

impl UtxoListTask {
    pub(crate) fn new(call: Call) -> Self {
        let view = call.server.virtual_view();
        Self { call, view, phase: Phase::Start }
    }

    pub(crate) fn step(mut self: Box<Self>) -> StepOutput<Self> {
        match self.phase {
            Phase::Start => match AddressCursor::find(&self.call.request) {
                Ok(cursor) => {
                    self.phase = Phase::Sum(Summing {
                        cursor,
                        payloads: HashSet::default(),
                        reply: BorshUtxosReply::default(),
                        utxos: 0,
                    });
                    (Vec::new(), Some(self))
                }
                Err(error) => self.call.reject(&error),
            },
            Phase::Sum(mut summing) => {
                let addresses = summing.cursor.read(&self.call.request, STEP_ADDRESSES);
                let addresses = match addresses {
                    Ok(addresses) => addresses,
                    Err(error) => return self.call.reject(&error),
                };
                if addresses.is_empty() {
                    let next = match self.call.format() {
                        MessageFormat::Protobuf => Ok(Phase::Measure(Measuring::new(summing))),
                        MessageFormat::Borsh | MessageFormat::Json => {
                            Writing::new(&self.call, summing, &EntryTotals::default())
                                .map(Phase::Write)
                        }
                    };
                    match next {
                        Ok(phase) => self.phase = phase,
                        Err(error) => return self.call.fail(error.to_string()),
                    }
                    return (Vec::new(), Some(self));
                }
                for address in addresses {
                    summing.add(&self.view, address.payload);
                }
                self.phase = Phase::Sum(summing);
                (Vec::new(), Some(self))
            }
            Phase::Measure(mut measuring) => {
                if measuring.step(&self.call, &self.view) {
                    self.phase = Phase::Measure(measuring);
                    return (Vec::new(), Some(self));
                }
                let Measuring { summing, entries, .. } = measuring;
                match Writing::new(&self.call, summing, &entries) {
                    Ok(writing) => self.phase = Phase::Write(writing),
                    Err(error) => return self.call.fail(error.to_string()),
                }
                (Vec::new(), Some(self))
            }
            Phase::Write(mut writing) => {
                while !writing.writer.is_full() {
                    if !writing.step(&self.call, &self.view) {
                        return (vec![writing.finish()], None);
                    }
                }
                let part = writing.writer.take_part(self.call.server.pool.now());
                self.phase = Phase::Write(writing);
                (vec![part], Some(self))
            }
        }
    }
}

impl Measuring {
    fn new(summing: Summing) -> Self {
        let payloads: Vec<AddressPayload> = summing.payloads.iter().copied().collect();
        let payloads = payloads.into_iter();
        Self { summing, payloads, current: None, entries: EntryTotals::default() }
    }

    /// Measures the next UTXOs. Returns false if there are no more.
    fn step(&mut self, call: &Call, view: &View) -> bool {
        let payloads = &mut self.payloads;
        let prefix = call.server.prefix();
        let next = || payloads.next().map(|payload| AddressScan::new(payload, prefix));
        let Some(mut current) = self.current.take().or_else(next) else { return false };
        let entries = &mut self.entries;
        let has_more = current.step(view, STEP_UTXOS, |utxo| {
            entries.add(|out| utxo.encode_protobuf_into(UtxoList::Entries, out));
        });
        self.current = has_more.then_some(current);
        true
    }
}

impl Summing {
    fn add(&mut self, view: &View, payload: AddressPayload) {
        if self.payloads.contains(&payload) {
            return;
        }
        let totals = script_totals(view, &payload.ledger_address());
        if totals.count > 0 {
            self.payloads.insert(payload);
            self.reply.add_address(&payload, &totals);
            self.utxos += totals.count;
        }
    }
}

impl Writing {
    fn new(call: &Call, summing: Summing, entries: &EntryTotals) -> Result<Self, ReplyTooLong> {
        let Summing { payloads, reply, utxos, .. } = summing;
        let head = match call.format() {
            MessageFormat::Borsh => reply.encode_head(call.id)?,
            MessageFormat::Json => encode_json_utxos_head(call.id),
            MessageFormat::Protobuf => entries.encode_head(call.id, Method::GetUtxosByAddresses)?,
        };
        let deadline = ReadDeadline::start(call);
        let writer = ListWriter::new(call.format(), head, deadline);
        Ok(Self { writer, utxos, payloads: payloads.into_iter(), current: None })
    }

    /// Writes the next UTXOs. Returns false if there are no more.
    fn step(&mut self, call: &Call, view: &View) -> bool {
        let payloads = &mut self.payloads;
        let prefix = call.server.prefix();
        let next = || payloads.next().map(|payload| AddressScan::new(payload, prefix));
        let Some(mut current) = self.current.take().or_else(next) else { return false };
        let format = call.format();
        let writer = &mut self.writer;
        let has_more = current.step(view, STEP_UTXOS, |utxo| {
            writer.push(|out| match format {
                MessageFormat::Borsh => utxo.encode_borsh_into(out),
                MessageFormat::Json => utxo.encode_json_into(out),
                MessageFormat::Protobuf => utxo.encode_protobuf_into(UtxoList::Entries, out),
            });
        });
        self.current = has_more.then_some(current);
        true
    }

    fn finish(self) -> SessionOutput<NoItems> {
        if self.writer.entries() == self.utxos {
            return self.writer.finish();
        }
        // The length in the reply's head is wrong, so the client could not read what follows.
        tracing::error!(
            counted = self.utxos,
            written = self.writer.entries(),
            "the totals of a script are not those of its UTXOs; a connection is closed"
        );
        SessionOutput::Close(CloseCode::Error, "internal error".to_owned())
    }
}
