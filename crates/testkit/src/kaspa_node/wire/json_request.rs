//! Requests in JSON.
//!
//! A text that is not a message, or without a known operation, has no [`Request`]: kaspad closes its connection.

use kaspa::{
    BlueWork, CovenantBinding, Event, Hash, Header, KaspaAddress, Method, Operation, Outpoint,
    Scope, ScriptPublicKey, SubnetworkId, Transaction, TransactionInput, TransactionOutput,
};
use serde_json::Value;

use super::borsh_request::join_levels;
use super::request::{Call, Request, is_plain};

impl Request {
    /// Reads a message.
    pub(crate) fn from_json(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        let id = match message.get("id") {
            None | Some(Value::Null) => None,
            Some(id) => Some(id.as_u64()?),
        };
        let operation = Operation::from_name(message.get("method")?.as_str()?)?;
        let call = read_call(operation, message.get("params")?);
        Some(Self { id, operation, call })
    }
}

fn read_call(operation: Operation, params: &Value) -> Option<Call> {
    let method = match operation {
        Operation::Method(method) => method,
        Operation::Subscribe => return read_scope(params).map(Call::Subscribe),
        Operation::Unsubscribe => return read_scope(params).map(Call::Unsubscribe),
        Operation::Notification(_) | Operation::Unserved(_) | Operation::Own(_) => return None,
    };
    Some(match method {
        method if is_plain(method) => Call::Plain(method),
        Method::GetUtxosByAddresses
        | Method::GetBalancesByAddresses
        | Method::GetMempoolEntriesByAddresses => {
            Call::Addresses { method, addresses: addresses(params)? }
        }
        Method::GetBalanceByAddress => Call::BalanceByAddress(address(params.get("address")?)?),
        Method::GetBlock => Call::Block {
            hash: hash(params.get("hash")?)?,
            include_transactions: flag(params, "includeTransactions")?,
        },
        Method::GetCurrentBlockColor => Call::BlockColor(hash(params.get("hash")?)?),
        Method::GetBlocks => Call::Blocks {
            low_hash: optional(params, "lowHash", hash)?,
            include_blocks: flag(params, "includeBlocks")?,
            include_transactions: flag(params, "includeTransactions")?,
        },
        Method::GetVirtualChainFromBlock => Call::Chain {
            start: hash(params.get("startHash")?)?,
            include_ids: flag(params, "includeAcceptedTransactionIds")?,
            min_confirmation_count: optional(params, "minConfirmationCount", Value::as_u64)?,
        },
        Method::GetVirtualChainFromBlockV2 => Call::ChainV2 {
            start: hash(params.get("startHash")?)?,
            is_full: optional(params, "dataVerbosityLevel", Value::as_str)?
                .is_none_or(|level| level == "Full"),
            min_confirmation_count: optional(params, "minConfirmationCount", Value::as_u64)?,
        },
        Method::GetBlockTemplate => Call::Template {
            pay_address: address(params.get("payAddress")?)?,
            extra_data: list(params.get("extraData")?, |byte| {
                byte.as_u64().and_then(|byte| u8::try_from(byte).ok())
            })?,
        },
        Method::SubmitBlock => {
            let block = params.get("block")?;
            Call::SubmitBlock {
                header: Box::new(header(block.get("header")?)?),
                transactions: list(block.get("transactions")?, transaction)?,
            }
        }
        Method::SubmitTransaction => {
            Call::SubmitTransaction(Box::new(transaction(params.get("transaction")?)?))
        }
        Method::GetMempoolEntry => Call::MempoolEntry(hash(params.get("transactionId")?)?),
        Method::GetMempoolEntries => {
            Call::MempoolEntries { is_orphans_only: flag(params, "filterTransactionPool")? }
        }
        method => Call::Other(method),
    })
}

fn read_scope(params: &Value) -> Option<Scope> {
    let scopes = params.as_object()?;
    let (name, params) = scopes.iter().next()?;
    let event = *Event::ALL.iter().find(|event| event.scope_name() == name)?;
    Some(match event {
        Event::UtxosChanged => Scope::UtxosChanged { addresses: addresses(params)? },
        Event::VirtualChainChanged => Scope::VirtualChainChanged {
            include_accepted_transaction_ids: flag(params, "include_accepted_transaction_ids")?,
        },
        event => Scope::Other(event),
    })
}

fn header(value: &Value) -> Option<Header> {
    let levels = list(value.get("parentsByLevel")?, |parents| list(parents, hash))?;
    Some(Header {
        version: number(value, "version")?,
        parents: join_levels(levels)?,
        hash_merkle_root: hash(value.get("hashMerkleRoot")?)?,
        accepted_id_merkle_root: hash(value.get("acceptedIdMerkleRoot")?)?,
        utxo_commitment: hash(value.get("utxoCommitment")?)?,
        timestamp_ms: number(value, "timestamp")?,
        bits: number(value, "bits")?,
        nonce: number(value, "nonce")?,
        daa_score: number(value, "daaScore")?,
        blue_work: BlueWork(digits(value.get("blueWork")?)?.try_into().ok()?),
        blue_score: number(value, "blueScore")?,
        pruning_point: hash(value.get("pruningPoint")?)?,
    })
}

fn transaction(value: &Value) -> Option<Transaction> {
    let storage_mass = value.get("storageMass").or_else(|| value.get("mass"));
    Some(Transaction {
        version: number(value, "version")?,
        inputs: list(value.get("inputs")?, input)?,
        outputs: list(value.get("outputs")?, output)?,
        lock_time: number(value, "lockTime")?,
        subnetwork_id: SubnetworkId(digits(value.get("subnetworkId")?)?.try_into().ok()?),
        gas: number(value, "gas")?,
        payload: digits(value.get("payload")?)?,
        storage_mass: storage_mass.and_then(Value::as_u64).unwrap_or(0),
    })
}

fn input(value: &Value) -> Option<TransactionInput> {
    let previous = value.get("previousOutpoint")?;
    Some(TransactionInput {
        previous_outpoint: Outpoint {
            transaction_id: hash(previous.get("transactionId")?)?,
            index: number(previous, "index")?,
        },
        signature_script: digits(value.get("signatureScript")?)?,
        sequence: number(value, "sequence")?,
        sig_op_count: number(value, "sigOpCount")?,
        compute_budget: number(value, "computeBudget").unwrap_or(0),
    })
}

fn output(value: &Value) -> Option<TransactionOutput> {
    Some(TransactionOutput {
        amount: number(value, "value")?,
        script_public_key: script(value.get("scriptPublicKey")?)?,
        covenant: optional(value, "covenant", |covenant| {
            Some(CovenantBinding {
                authorizing_input: number(covenant, "authorizingInput")?,
                covenant_id: hash(covenant.get("covenantId")?)?,
            })
        })?,
    })
}

fn script(value: &Value) -> Option<ScriptPublicKey> {
    let bytes = digits(value)?;
    let (version, script) = bytes.split_first_chunk()?;
    Some(ScriptPublicKey { version: u16::from_be_bytes(*version), script: script.into() })
}

fn addresses(params: &Value) -> Option<Vec<KaspaAddress>> {
    list(params.get("addresses")?, address)
}

fn address(value: &Value) -> Option<KaspaAddress> {
    value.as_str()?.parse().ok()
}

fn hash(value: &Value) -> Option<Hash> {
    Hash::from_hex(value.as_str()?).ok()
}

fn flag(params: &Value, name: &str) -> Option<bool> {
    params.get(name)?.as_bool()
}

fn number<T: TryFrom<u64>>(value: &Value, name: &str) -> Option<T> {
    T::try_from(value.get(name)?.as_u64()?).ok()
}

/// The outer `None` is an error, the inner one a missing value.
fn optional<'a, T>(
    params: &'a Value,
    name: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Option<Option<T>> {
    match params.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => read(value).map(Some),
    }
}

fn list<T>(value: &Value, read: impl FnMut(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(read).collect()
}

fn digits(value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str()?.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if text.len().is_multiple_of(2) { text.chunks(2).map(byte).collect() } else { None }
}
