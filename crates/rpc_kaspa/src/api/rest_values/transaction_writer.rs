//! Writes a transaction of the history as JSON.
//!
//! `mass` is null: the messages that the chain is made from have the storage mass only. `block_hash` is a list of one:
//! other blocks that contain the transaction are not in the history.

use chain_kaspa::HistoryTransaction;
use jsonrpc::error::RpcError;
use jsonrpc::write_json;
use kaspa::{
    AddressPayload, Prefix, ScriptPublicKey, TransactionInput, TransactionOutput, UtxoEntry,
    encode_hex,
};
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

/// Appends the members of an object that the options name.
struct MemberWriter<'a> {
    options: &'a TransactionOptions,
    out: &'a mut Vec<u8>,
    has_members: bool,
}

/// Appends a transaction.
pub(super) fn write_transaction(
    found: &HistoryTransaction<'_>,
    prefix: Prefix,
    options: &TransactionOptions,
    out: &mut Vec<u8>,
) -> Result<(), RpcError> {
    let accepted = found.accepted;
    let transaction = &accepted.transaction;
    let id = accepted.id.to_string();
    let payload = &transaction.payload;
    out.push(b'{');
    let mut members = MemberWriter { options, out, has_members: false };
    members.put("subnetwork_id", || encode_hex(&transaction.subnetwork_id.0))?;
    members.put("transaction_id", || &id)?;
    members.put("hash", || transaction.hash().to_string())?;
    members.put("mass", || None::<String>)?;
    members.put("payload", || (!payload.is_empty()).then(|| encode_hex(payload)))?;
    members.put("block_hash", || [accepted.block_hash.to_string()])?;
    members.put("block_time", || accepted.block_time_ms)?;
    members.put("is_accepted", || true)?;
    members.put("accepting_block_hash", || found.accepting_block.to_string())?;
    members.put("accepting_block_blue_score", || found.accepting_blue_score)?;
    members.put("accepting_block_time", || found.accepting_time_ms)?;
    members.put("inputs", || {
        let inputs = transaction.inputs.iter().zip(&accepted.spent).enumerate();
        let to_json = |(index, (input, spent)): (usize, (&TransactionInput, &UtxoEntry))| {
            Input::new(&id, index, input, spent, options.previous_outpoints, prefix)
        };
        // A coinbase has none.
        (options.inputs && !transaction.inputs.is_empty())
            .then(|| inputs.map(to_json).collect::<Vec<_>>())
    })?;
    members.put("outputs", || {
        let outputs = (0..).zip(&transaction.outputs);
        let to_json = |(index, output): (u32, &TransactionOutput)| {
            Output::new(&id, index, output.amount, &output.script_public_key, prefix)
        };
        options.outputs.then(|| outputs.map(to_json).collect::<Vec<_>>())
    })?;
    members.out.push(b'}');
    Ok(())
}

impl MemberWriter<'_> {
    /// Appends a member, if the options name it.
    fn put<T: Serialize>(&mut self, name: &str, value: impl FnOnce() -> T) -> Result<(), RpcError> {
        if !self.options.has_field(name) {
            return Ok(());
        }
        if std::mem::replace(&mut self.has_members, true) {
            self.out.push(b',');
        }
        write_json(self.out, &name)?;
        self.out.push(b':');
        write_json(self.out, &value())
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
