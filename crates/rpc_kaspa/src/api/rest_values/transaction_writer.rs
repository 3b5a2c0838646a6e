//! Writes a transaction of the history as JSON, in parts: a miner can make one with thousands of inputs that spend scripts
//! of 10,000 bytes each.
//!
//! Bounds: a part has at most one input or output more than a chunk of a streamed result.
//! `mass` is null: the messages that the chain is made from have the storage mass only. `block_hash` is a list of one:
//! other blocks that contain the transaction are not in the history.

use chain_kaspa::HistoryTransaction;
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::{StreamState, write_json};
use kaspa::{
    AddressPayload, Prefix, ScriptPublicKey, Transaction, TransactionInput, UtxoEntry, encode_hex,
};
use response_cache::RESULT_CHUNK_BYTES;
use serde::Serialize;

use super::transaction_options::{PreviousOutpoints, TransactionOptions};
use crate::api::transactions::find_address;

#[derive(Serialize)]
struct Input<'a> {
    transaction_id: &'a str,
    index: usize,
    previous_outpoint_hash: String,
    previous_outpoint_index: String,
    previous_outpoint_resolved: Option<Output>,
    previous_outpoint_address: Option<String>,
    previous_outpoint_amount: Option<u64>,
    signature_script: String,
    sig_op_count: String,
}

#[derive(Serialize)]
struct Output {
    transaction_id: String,
    index: u32,
    amount: u64,
    /// Without the version.
    script_public_key: String,
    script_public_key_address: Option<String>,
    script_public_key_type: &'static str,
}

/// The shape of written transactions.
pub(super) struct TransactionShape {
    pub(super) prefix: Prefix,
    pub(super) options: TransactionOptions,
}

/// A transaction that is being written.
#[derive(Debug, Default)]
pub(super) struct TransactionWriter {
    next: Part,
    has_members: bool,
    /// The id of the transaction, which each input and output repeats. Empty before the head is written.
    id: String,
}

/// The part that is written next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The members before the two lists.
    #[default]
    Head,
    /// The inputs, from this one on.
    Inputs(usize),
    /// The outputs, from this one on.
    Outputs(usize),
    End,
}

impl TransactionWriter {
    /// Whether nothing was written yet.
    pub(super) fn is_new(&self) -> bool {
        self.next == Part::Head
    }

    /// Appends parts until the transaction is complete, `slice` is over, or `out` has [`RESULT_CHUNK_BYTES`]. Each call
    /// has the same transaction.
    pub(super) fn write(
        &mut self,
        found: &HistoryTransaction<'_>,
        shape: &TransactionShape,
        slice: &TimeSlice<'_>,
        out: &mut Vec<u8>,
    ) -> Result<StreamState, RpcError> {
        while self.next != Part::End {
            self.next = self.write_part(found, shape, out)?;
            if self.next != Part::End && (out.len() >= RESULT_CHUNK_BYTES || slice.is_over()) {
                return Ok(StreamState::More);
            }
        }
        out.push(b'}');
        Ok(StreamState::Done)
    }

    /// Appends the next part. Returns the part after it.
    fn write_part(
        &mut self,
        found: &HistoryTransaction<'_>,
        shape: &TransactionShape,
        out: &mut Vec<u8>,
    ) -> Result<Part, RpcError> {
        let TransactionShape { prefix, options } = shape;
        let accepted = found.accepted;
        let Transaction { inputs, outputs, .. } = &accepted.transaction;
        let mut members = MemberWriter { options, out, has_members: &mut self.has_members };
        match self.next {
            Part::Head => {
                self.id = accepted.id.to_string();
                members.out.push(b'{');
                members.put_head(found, &self.id)?;
                Ok(Part::Inputs(0))
            }
            Part::Inputs(at) => {
                let list = ListPosition { name: "inputs", at, len: inputs.len() };
                // A coinbase has none.
                let is_null = !options.inputs || inputs.is_empty();
                let previous = options.previous_outpoints;
                let input = || {
                    let input = inputs.get(at)?;
                    let spent = accepted.spent.get(at)?;
                    Some(Input::new(&self.id, at, input, spent, previous, *prefix))
                };
                let has_more = members.put_element(&list, is_null, input)?;
                Ok(if has_more { Part::Inputs(at + 1) } else { Part::Outputs(0) })
            }
            Part::Outputs(at) => {
                let list = ListPosition { name: "outputs", at, len: outputs.len() };
                let output = || {
                    let output = outputs.get(at)?;
                    let index = u32::try_from(at).unwrap_or(u32::MAX);
                    let script = &output.script_public_key;
                    Some(Output::new(&self.id, index, output.amount, script, *prefix))
                };
                let has_more = members.put_element(&list, !options.outputs, output)?;
                Ok(if has_more { Part::Outputs(at + 1) } else { Part::End })
            }
            Part::End => Ok(Part::End),
        }
    }
}

/// An element of a list that is a member of an object.
struct ListPosition {
    name: &'static str,
    /// The index of the element.
    at: usize,
    len: usize,
}

/// Appends the members of an object that the options name.
struct MemberWriter<'a> {
    options: &'a TransactionOptions,
    out: &'a mut Vec<u8>,
    has_members: &'a mut bool,
}

impl MemberWriter<'_> {
    /// Appends the members before the two lists.
    fn put_head(&mut self, found: &HistoryTransaction<'_>, id: &str) -> Result<(), RpcError> {
        let accepted = found.accepted;
        let transaction = &accepted.transaction;
        let payload = &transaction.payload;
        self.put("subnetwork_id", || encode_hex(&transaction.subnetwork_id.0))?;
        self.put("transaction_id", || id)?;
        self.put("hash", || transaction.hash().to_string())?;
        self.put("mass", || None::<String>)?;
        self.put("payload", || (!payload.is_empty()).then(|| encode_hex(payload)))?;
        self.put("block_hash", || [accepted.block_hash.to_string()])?;
        self.put("block_time", || accepted.block_time_ms)?;
        self.put("is_accepted", || true)?;
        self.put("accepting_block_hash", || found.accepting_block.to_string())?;
        self.put("accepting_block_blue_score", || found.accepting_blue_score)?;
        self.put("accepting_block_time", || found.accepting_time_ms)
    }

    /// Appends a member, if the options name it.
    fn put<T: Serialize>(&mut self, name: &str, value: impl FnOnce() -> T) -> Result<(), RpcError> {
        if !self.options.has_field(name) {
            return Ok(());
        }
        self.put_name(name)?;
        write_json(self.out, &value())
    }

    /// Appends an element of a list, after the name of the list if it is the first one. An empty list has no element.
    /// Returns whether more elements follow: not after the last one, nor if the options do not name the list, or if
    /// it is null.
    fn put_element<T: Serialize>(
        &mut self,
        list: &ListPosition,
        is_null: bool,
        element: impl FnOnce() -> Option<T>,
    ) -> Result<bool, RpcError> {
        if !self.options.has_field(list.name) {
            return Ok(false);
        }
        if list.at == 0 {
            self.put_name(list.name)?;
            self.out.extend_from_slice(if is_null { &b"null"[..] } else { &b"["[..] });
        } else {
            self.out.push(b',');
        }
        if is_null {
            return Ok(false);
        }
        if let Some(element) = element() {
            write_json(self.out, &element)?;
        }
        let has_more = list.at + 1 < list.len;
        if !has_more {
            self.out.push(b']');
        }
        Ok(has_more)
    }

    fn put_name(&mut self, name: &str) -> Result<(), RpcError> {
        if std::mem::replace(self.has_members, true) {
            self.out.push(b',');
        }
        write_json(self.out, &name)?;
        self.out.push(b':');
        Ok(())
    }
}

impl<'a> Input<'a> {
    fn new(
        id: &'a str,
        index: usize,
        input: &TransactionInput,
        spent: &UtxoEntry,
        previous: PreviousOutpoints,
        prefix: Prefix,
    ) -> Self {
        let outpoint = input.previous_outpoint;
        let previous_id = outpoint.transaction_id.to_string();
        let script = &spent.script_public_key;
        let is_resolved = previous != PreviousOutpoints::No;
        let output = || Output::new(&previous_id, outpoint.index, spent.amount, script, prefix);
        Self {
            transaction_id: id,
            index,
            previous_outpoint_index: outpoint.index.to_string(),
            previous_outpoint_resolved: (previous == PreviousOutpoints::Full).then(output),
            previous_outpoint_address: is_resolved.then(|| find_address(script, prefix)).flatten(),
            previous_outpoint_amount: is_resolved.then_some(spent.amount),
            previous_outpoint_hash: previous_id,
            signature_script: encode_hex(&input.signature_script),
            sig_op_count: input.sig_op_count.to_string(),
        }
    }
}

impl Output {
    fn new(id: &str, index: u32, amount: u64, script: &ScriptPublicKey, prefix: Prefix) -> Self {
        Self {
            transaction_id: id.to_owned(),
            index,
            amount,
            script_public_key: encode_hex(&script.script),
            script_public_key_address: find_address(script, prefix),
            script_public_key_type: script_type(script),
        }
    }
}

/// The name that kaspad has for the kind of a script.
fn script_type(script: &ScriptPublicKey) -> &'static str {
    match script.payload() {
        Some(AddressPayload::PublicKey(_)) => "pubkey",
        Some(AddressPayload::EcdsaPublicKey(_)) => "pubkeyecdsa",
        Some(AddressPayload::ScriptHash(_)) => "scripthash",
        None => "nonstandard",
    }
}
