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
use kaspa::{AddressPayload, Prefix, ScriptPublicKey, TransactionInput, UtxoEntry, encode_hex};
use response_cache::RESULT_CHUNK_BYTES;
use serde::Serialize;

use super::transaction_options::{PreviousOutpoints, TransactionOptions};

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
        loop {
            self.next = match self.next {
                Part::Head => {
                    out.push(b'{');
                    self.write_head(found, &shape.options, out)?;
                    Part::Inputs(0)
                }
                Part::Inputs(at) => self.write_input(at, found, shape, out)?,
                Part::Outputs(at) => self.write_output(at, found, shape, out)?,
                Part::End => return Ok(StreamState::Done),
            };
            if self.next != Part::End && (out.len() >= RESULT_CHUNK_BYTES || slice.is_over()) {
                return Ok(StreamState::More);
            }
        }
    }

    fn write_head(
        &mut self,
        found: &HistoryTransaction<'_>,
        options: &TransactionOptions,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        let accepted = found.accepted;
        let transaction = &accepted.transaction;
        let payload = &transaction.payload;
        let mut members = MemberWriter { options, out, has_members: false };
        members.put("subnetwork_id", || encode_hex(&transaction.subnetwork_id.0))?;
        members.put("transaction_id", || accepted.id.to_string())?;
        members.put("hash", || transaction.hash().to_string())?;
        members.put("mass", || None::<String>)?;
        members.put("payload", || (!payload.is_empty()).then(|| encode_hex(payload)))?;
        members.put("block_hash", || [accepted.block_hash.to_string()])?;
        members.put("block_time", || accepted.block_time_ms)?;
        members.put("is_accepted", || true)?;
        members.put("accepting_block_hash", || found.accepting_block.to_string())?;
        members.put("accepting_block_blue_score", || found.accepting_blue_score)?;
        members.put("accepting_block_time", || found.accepting_time_ms)?;
        self.has_members = members.has_members;
        Ok(())
    }

    /// Appends an input. Returns the part after it.
    fn write_input(
        &mut self,
        at: usize,
        found: &HistoryTransaction<'_>,
        shape: &TransactionShape,
        out: &mut Vec<u8>,
    ) -> Result<Part, RpcError> {
        let TransactionShape { prefix, options } = shape;
        let accepted = found.accepted;
        let inputs = &accepted.transaction.inputs;
        let mut list = ListWriter { name: "inputs", at, len: inputs.len(), out };
        // A coinbase has none.
        let is_null = !options.inputs || inputs.is_empty();
        if !list.write_start(options, is_null, &mut self.has_members)? {
            return Ok(Part::Outputs(0));
        }
        if let (Some(input), Some(spent)) = (inputs.get(at), accepted.spent.get(at)) {
            let id = accepted.id.to_string();
            list.put(&Input::new(&id, at, input, spent, options.previous_outpoints, *prefix))?;
        }
        Ok(if list.end() { Part::Outputs(0) } else { Part::Inputs(at + 1) })
    }

    /// Appends an output. Returns the part after it, and ends the object after the last one.
    fn write_output(
        &mut self,
        at: usize,
        found: &HistoryTransaction<'_>,
        shape: &TransactionShape,
        out: &mut Vec<u8>,
    ) -> Result<Part, RpcError> {
        let TransactionShape { prefix, options } = shape;
        let accepted = found.accepted;
        let outputs = &accepted.transaction.outputs;
        let mut list = ListWriter { name: "outputs", at, len: outputs.len(), out: &mut *out };
        let mut is_end = true;
        if list.write_start(options, !options.outputs, &mut self.has_members)? {
            if let Some(output) = outputs.get(at) {
                let id = accepted.id.to_string();
                let index = u32::try_from(at).unwrap_or(u32::MAX);
                let script = &output.script_public_key;
                list.put(&Output::new(&id, index, output.amount, script, *prefix))?;
            }
            is_end = list.end();
        }
        if !is_end {
            return Ok(Part::Outputs(at + 1));
        }
        out.push(b'}');
        Ok(Part::End)
    }
}

/// Appends the members of an object that the options name.
struct MemberWriter<'a> {
    options: &'a TransactionOptions,
    out: &'a mut Vec<u8>,
    has_members: bool,
}

impl MemberWriter<'_> {
    /// Appends a member, if the options name it.
    fn put<T: Serialize>(&mut self, name: &str, value: impl FnOnce() -> T) -> Result<(), RpcError> {
        if !self.options.has_field(name) {
            return Ok(());
        }
        write_name(name, &mut self.has_members, self.out)?;
        write_json(self.out, &value())
    }
}

/// Appends one element of a list that is a member of an object.
struct ListWriter<'a> {
    name: &'static str,
    /// The index of the element in the list.
    at: usize,
    len: usize,
    out: &'a mut Vec<u8>,
}

impl ListWriter<'_> {
    /// Appends the name of the list, or the comma before the element. False if the list has no elements to write: the
    /// options do not name it, or it is null.
    fn write_start(
        &mut self,
        options: &TransactionOptions,
        is_null: bool,
        has_members: &mut bool,
    ) -> Result<bool, RpcError> {
        if !options.has_field(self.name) {
            return Ok(false);
        }
        if self.at > 0 {
            self.out.push(b',');
            return Ok(true);
        }
        write_name(self.name, has_members, self.out)?;
        self.out.extend_from_slice(if is_null { &b"null"[..] } else { &b"["[..] });
        Ok(!is_null)
    }

    fn put(&mut self, element: &impl Serialize) -> Result<(), RpcError> {
        write_json(self.out, element)
    }

    /// Ends the list after its last element. Returns whether it was the last one.
    fn end(&mut self) -> bool {
        let is_last = self.at + 1 >= self.len;
        if is_last {
            self.out.push(b']');
        }
        is_last
    }
}

/// Appends the name of a member.
fn write_name(name: &str, has_members: &mut bool, out: &mut Vec<u8>) -> Result<(), RpcError> {
    if std::mem::replace(has_members, true) {
        out.push(b',');
    }
    write_json(out, &name)?;
    out.push(b':');
    Ok(())
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

fn find_address(script: &ScriptPublicKey, prefix: Prefix) -> Option<String> {
    script.address(prefix).map(|address| address.to_string())
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
