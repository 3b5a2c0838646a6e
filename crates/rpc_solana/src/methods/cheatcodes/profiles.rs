//! surfnet_profileTransaction, surfnet_getTransactionProfile and surfnet_getProfileResultsByTag.
//!
//! The effect of an instruction is the difference between the transaction up to it and up to the one before: each of
//! these prefixes is run on the same state. An executed transaction is not run again: the consumption of its
//! instructions is read from its log (`executed_profile`).
//! Bounds: one run for each instruction, with a pause in between; [`TAG_BYTES_MAX`]; retained profiles by `Profiles`.

use std::sync::Arc;

use chain_solana::{Simulation, SimulationRequest, View};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{
    Execution, IncrementalQuery, MethodOutput, MethodResult, MethodSpec, OutputBody,
    run_incremental,
};
use ledger::Commitment;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use solana::{Encoding, MintInfo};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_account_decoder_client_types::{UiAccount, UiAccountEncoding};
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::TransactionBinaryEncoding;

use super::super::{accounts_reader, parse_key, simulate, transaction_codec};
use super::executed_profile;
use crate::cheatcodes::{AccountChange, Profile, ProfilePart, ProfiledAccount};
use crate::commitment::context;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("surfnet_profileTransaction", Execution::Medium, profile_transaction),
    gated!("surfnet_getTransactionProfile", Execution::Medium, transaction_profile),
    gated!("surfnet_getProfileResultsByTag", Execution::Medium, profiles_by_tag),
];

const TAG_BYTES_MAX: usize = 256;
const UUID_LEN: usize = 36;

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ProfileConfig {
    encoding: Option<UiAccountEncoding>,
    depth: Option<Depth>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum Depth {
    Transaction,
    #[default]
    Instruction,
}

impl ProfileConfig {
    fn encoding(&self) -> Encoding {
        Encoding { form: self.encoding.unwrap_or(UiAccountEncoding::JsonParsed), slice: None }
    }

    fn has_instructions(&self) -> bool {
        self.depth.unwrap_or_default() == Depth::Instruction
    }
}

fn profile_transaction(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    type ProfileParams = (String, Option<String>, Option<ProfileConfig>);
    let (text, tag, config): ProfileParams = params.parse(1)?;
    let config = config.unwrap_or_default();
    if let Some(bytes) = tag.as_ref().map(String::len).filter(|bytes| *bytes > TAG_BYTES_MAX) {
        let message = format!("tag has {bytes} bytes, at most {TAG_BYTES_MAX}");
        return Err(RpcError::invalid_params(message));
    }
    let transaction: VersionedTransaction =
        transaction_codec::decode(&text, TransactionBinaryEncoding::Base64)?;
    let view = api.reader.view(Commitment::Processed);
    let sane = transaction_codec::sanitize(transaction.clone(), &view)?;
    let keys = sane.message().account_keys();
    let keys = keys.iter().enumerate();
    let keys = keys.map(|(index, key)| (*key, sane.message().is_writable(index))).collect();
    let instructions = transaction.message.instructions().len();
    // The whole transaction runs last; without instructions it is the only run.
    let next = if config.has_instructions() { 1.min(instructions) } else { instructions };
    let context = context(&view);
    let query = ProfileQuery {
        api: api.clone(),
        view,
        transaction,
        keys,
        tag,
        config,
        next,
        runs: Vec::new(),
    };
    run_incremental(Some(context), query)
}

/// Runs a transaction up to each of its instructions, one run a step.
struct ProfileQuery {
    api: SolanaApi,
    view: View,
    transaction: VersionedTransaction,
    /// Each key with whether the account is writable.
    keys: Vec<(Pubkey, bool)>,
    tag: Option<String>,
    config: ProfileConfig,
    /// The number of instructions of the next run.
    next: usize,
    runs: Vec<Simulation>,
}

impl IncrementalQuery for ProfileQuery {
    fn step(&mut self) -> Result<Option<OutputBody>, RpcError> {
        let all = self.transaction.message.instructions().len();
        let request = SimulationRequest {
            transaction: first_instructions(&self.transaction, self.next),
            replace_recent_blockhash: true,
            inner_instructions: false,
        };
        let run = simulate::run(&self.api, &self.view, request)?;
        self.runs.push(run);
        if self.next < all {
            self.next += 1;
            return Ok(None);
        }
        let profile = Arc::new(self.profile());
        self.api.cheatcodes.profiles.insert(Arc::clone(&profile));
        OutputBody::json(&self.config.encode(&profile, &self.view)).map(Some)
    }

    fn records_visited(&self) -> u64 {
        self.runs.len() as u64
    }
}

impl ProfileQuery {
    fn profile(&mut self) -> Profile {
        let before = self.keys.iter().map(|(key, _)| {
            accounts_reader::account(&self.view, key).map(|account| account.0.clone())
        });
        let before: Vec<Option<AccountSharedData>> = before.collect();
        let runs = std::mem::take(&mut self.runs);
        let readonly = self.keys.iter().zip(&before).filter(|((_, is_writable), _)| !is_writable);
        let readonly = readonly.filter_map(|((key, _), account)| Some((*key, account.clone()?)));
        let readonly = readonly.collect();
        let transaction =
            runs.last().map(|run| self.build_part(&before, None, run)).unwrap_or_default();
        let instructions = self.config.has_instructions().then(|| {
            let mut parts = Vec::new();
            let mut state = before;
            let mut previous = None;
            for run in &runs {
                parts.push(self.build_part(&state, previous, run));
                state = self.accounts_after(&state, run);
                previous = Some(run);
            }
            // A run that fails ends the transaction there.
            let failed = parts.iter().position(|part| part.error.is_some());
            parts.truncate(failed.map_or(parts.len(), |index| index + 1));
            parts
        });
        // A prefix has a lower default limit of compute units. It may fail where the whole transaction does not.
        let instructions = instructions.filter(|parts| {
            transaction.error.is_some() || parts.iter().all(|part| part.error.is_none())
        });
        Profile {
            slot: self.view.block().slot,
            key: self.api.cheatcodes.profiles.new_key(),
            tag: self.tag.take(),
            transaction,
            instructions,
            readonly,
        }
    }

    /// Returns the effects of a run beyond the `previous` one, which ended with the accounts `before`.
    fn build_part(
        &self,
        before: &[Option<AccountSharedData>],
        previous: Option<&Simulation>,
        run: &Simulation,
    ) -> ProfilePart {
        let after = self.accounts_after(before, run);
        let accounts = self.keys.iter().zip(before).zip(after);
        let accounts = accounts.map(|(((pubkey, is_writable), before), after)| {
            let change = is_writable.then(|| AccountChange { before: before.clone(), after });
            ProfiledAccount { pubkey: *pubkey, change }
        });
        let (units, lines) =
            previous.map_or((0, 0), |previous| (previous.units_consumed, previous.logs.len()));
        ProfilePart {
            accounts: accounts.collect(),
            compute_units: run.units_consumed.saturating_sub(units),
            logs: run.logs.get(lines..).unwrap_or_default().to_vec(),
            error: run.err.as_ref().map(TransactionError::to_string),
        }
    }

    /// Returns the accounts after a run, or those before it if it failed.
    fn accounts_after(
        &self,
        before: &[Option<AccountSharedData>],
        run: &Simulation,
    ) -> Vec<Option<AccountSharedData>> {
        if run.err.is_some() {
            return before.to_vec();
        }
        let account = |key: &Pubkey| {
            let found = run.post_accounts.iter().find(|(pubkey, _)| pubkey == key);
            found.map(|(_, account)| account.clone()).filter(|account| account.lamports() > 0)
        };
        self.keys.iter().map(|(key, _)| account(key)).collect()
    }
}

/// Returns the transaction with only its first instructions, and all its accounts.
fn first_instructions(transaction: &VersionedTransaction, count: usize) -> VersionedTransaction {
    let mut transaction = transaction.clone();
    match &mut transaction.message {
        VersionedMessage::Legacy(message) => message.instructions.truncate(count),
        VersionedMessage::V0(message) => message.instructions.truncate(count),
        VersionedMessage::V1(message) => message.instructions.truncate(count),
    }
    transaction
}

/// Returns the profile of a UUID, or of the signature of an executed transaction; null for an unknown one.
fn transaction_profile(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (key, config): (String, Option<ProfileConfig>) = params.parse(1)?;
    let config = config.unwrap_or_default();
    let view = api.reader.view(Commitment::Processed);
    let profile = if key.len() == UUID_LEN {
        api.cheatcodes.profiles.find_by_key(&key)
    } else {
        let signature = parse_key::signature(&key)?;
        let history = api.history.snapshot();
        let executed = history.transaction(&signature, Commitment::Processed);
        executed.map(|executed| Arc::new(executed_profile::profile(executed)))
    };
    let profile = profile.map(|profile| config.encode(&profile, &view));
    MethodOutput::json_in(context(&view), &profile)
}

fn profiles_by_tag(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (tag, config): (String, Option<ProfileConfig>) = params.parse(1)?;
    let config = config.unwrap_or_default();
    let view = api.reader.view(Commitment::Processed);
    let profiles = api.cheatcodes.profiles.list_by_tag(&tag);
    let profiles = profiles.iter().map(|profile| config.encode(profile, &view));
    let profiles: Vec<Value> = profiles.collect();
    MethodOutput::json_in(context(&view), &(!profiles.is_empty()).then_some(profiles))
}

impl ProfileConfig {
    /// Encodes a profile as JSON. Amounts of tokens are shown with the mints of `view`.
    fn encode(&self, profile: &Profile, view: &View) -> Value {
        let part = |part: &ProfilePart| self.encode_part(part, view);
        let readonly = profile.readonly.iter();
        let readonly = readonly
            .map(|(key, account)| (key.to_string(), json!(self.account(key, account, view))));
        let mut value = json!({
            "slot": profile.slot,
            "key": profile.key,
            "transactionProfile": part(&profile.transaction),
            "readonlyAccountStates": readonly.collect::<Map<_, _>>(),
        });
        let instructions = profile.instructions.as_ref().filter(|_| self.has_instructions());
        if let Some(instructions) = instructions {
            let instructions = instructions.iter().map(part).collect::<Vec<_>>();
            value["instructionProfiles"] = instructions.into();
        }
        value
    }

    fn encode_part(&self, part: &ProfilePart, view: &View) -> Value {
        let states = part.accounts.iter().map(|ProfiledAccount { pubkey, change }| {
            let state = match change {
                None => json!({ "type": "readonly" }),
                Some(change) => {
                    let change = self.encode_change(pubkey, change, view);
                    json!({ "type": "writable", "accountChange": change })
                }
            };
            (pubkey.to_string(), state)
        });
        json!({
            "accountStates": states.collect::<Map<_, _>>(),
            "computeUnitsConsumed": part.compute_units,
            "logMessages": part.logs,
            "errorMessage": part.error,
        })
    }

    fn encode_change(&self, key: &Pubkey, change: &AccountChange, view: &View) -> Value {
        let account = |account: &AccountSharedData| json!(self.account(key, account, view));
        match (&change.before, &change.after) {
            (None, None) => json!({ "type": "unchanged", "data": null }),
            (None, Some(after)) => json!({ "type": "create", "data": account(after) }),
            (Some(before), None) => json!({ "type": "delete", "data": account(before) }),
            (Some(before), Some(after)) if before == after => {
                json!({ "type": "unchanged", "data": account(before) })
            }
            (Some(before), Some(after)) => {
                json!({ "type": "update", "data": [account(before), account(after)] })
            }
        }
    }

    fn account(&self, key: &Pubkey, account: &AccountSharedData, view: &View) -> UiAccount {
        let mint = |mint: &Pubkey| -> Option<MintInfo> { accounts_reader::mint_info(view, mint) };
        self.encoding().encode(key, account, mint)
    }
}
