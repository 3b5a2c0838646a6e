//! Single accounts: balance, data, several at once, and what an account must hold.

use std::sync::Arc;

use chain::View;
use solana::{Account, Encoding};
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::{UiAccount, UiAccountEncoding};
use solana_commitment_config::CommitmentConfig;
use solana_feature_set::upgrade_bpf_stake_program_to_v5 as dearer_stake;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{RpcAccountInfoConfig, RpcContextConfig};

use super::{Answer, Class, Method, MethodResult, read, text};
use crate::commitment::{view_of, view_since, with_context};
use crate::error::RpcError;
use crate::node::Node;
use crate::params::Params;

pub(super) const METHODS: &[Method] = &[
    Method { name: "getBalance", class: Class::Inline, run: balance },
    Method { name: "getAccountInfo", class: Class::HeavyIf(large_account), run: account_info },
    Method {
        name: "getMultipleAccounts",
        class: Class::HeavyIf(large_accounts),
        run: multiple_accounts,
    },
    Method {
        name: "getMinimumBalanceForRentExemption",
        class: Class::Inline,
        run: minimum_balance,
    },
    Method { name: "getStakeMinimumDelegation", class: Class::Inline, run: minimum_delegation },
];

/// The most bytes that an account can have: 10 MiB.
const DATA_BYTES_MAX: usize = 10 * 1024 * 1024;

/// The least stake, once the stake program of version 5 is in force: 1 SOL.
const DELEGATION_LAMPORTS_MIN: u64 = 1_000_000_000;

fn balance(node: &Node, params: Params<'_>) -> MethodResult {
    let (pubkey, config): (String, Option<RpcContextConfig>) = params.parse(1)?;
    let pubkey = text::pubkey(&pubkey)?;
    let view = view_of(node, config)?;
    let lamports = read::account(&view, &pubkey).map_or(0, |account| account.0.lamports());
    Answer::of(&with_context(&view, lamports))
}

type AccountParams = (String, Option<RpcAccountInfoConfig>);
type AccountsParams = (Vec<String>, Option<RpcAccountInfoConfig>);

fn account_info(node: &Node, params: Params<'_>) -> MethodResult {
    let (pubkey, config): AccountParams = params.parse(1)?;
    let pubkey = text::pubkey(&pubkey)?;
    let config = config.unwrap_or_default();
    let encoding = encoding(&config, UiAccountEncoding::Binary);
    let view = view_since(node, config.commitment, config.min_context_slot)?;
    let account = encoded(&view, &pubkey, encoding)?;
    Answer::of(&with_context(&view, account))
}

fn multiple_accounts(node: &Node, params: Params<'_>) -> MethodResult {
    let (pubkeys, config): AccountsParams = params.parse(1)?;
    let limit = node.config.multiple_accounts_max;
    if pubkeys.len() > limit {
        let message = format!("Too many inputs provided; max {limit}");
        return Err(RpcError::invalid_params(message));
    }
    let pubkeys = text::pubkeys(&pubkeys)?;
    let config = config.unwrap_or_default();
    let encoding = encoding(&config, UiAccountEncoding::Base64);
    let view = view_since(node, config.commitment, config.min_context_slot)?;
    let accounts: Result<Vec<_>, _> =
        pubkeys.iter().map(|pubkey| encoded(&view, pubkey, encoding)).collect();
    Answer::of(&with_context(&view, accounts?))
}

fn minimum_balance(node: &Node, params: Params<'_>) -> MethodResult {
    let (data_bytes, _): (usize, Option<CommitmentConfig>) = params.parse(1)?;
    if data_bytes > DATA_BYTES_MAX {
        return Err(RpcError::malformed_request());
    }
    Answer::of(&node.cluster.rent.minimum_balance(data_bytes).max(1))
}

fn minimum_delegation(node: &Node, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcContextConfig>,) = params.parse(0)?;
    let view = view_of(node, config)?;
    let lamports = if is_active(&view, &dearer_stake::ID) { DELEGATION_LAMPORTS_MIN } else { 1 };
    Answer::of(&with_context(&view, lamports))
}

/// Whether a feature is in force: its account says since which slot.
fn is_active(view: &View, feature: &Pubkey) -> bool {
    read::account(view, feature).is_some_and(|account| {
        *account.0.owner() == solana_sdk_ids::feature::id() && account.0.data().first() == Some(&1)
    })
}

fn encoding(config: &RpcAccountInfoConfig, default: UiAccountEncoding) -> Encoding {
    Encoding { form: config.encoding.unwrap_or(default), slice: config.data_slice }
}

fn encoded(
    view: &View,
    pubkey: &Pubkey,
    encoding: Encoding,
) -> Result<Option<UiAccount>, RpcError> {
    read::account(view, pubkey)
        .map(|account| read::encode(view, pubkey, &account, encoding))
        .transpose()
}

fn large_account(node: &Node, params: Params<'_>) -> bool {
    let Ok((pubkey, config)) = params.parse::<AccountParams>(1) else { return false };
    let Ok(pubkey) = text::pubkey(&pubkey) else { return false };
    is_large(node, &[pubkey], &config.unwrap_or_default())
}

fn large_accounts(node: &Node, params: Params<'_>) -> bool {
    let Ok((pubkeys, config)) = params.parse::<AccountsParams>(1) else { return false };
    if pubkeys.len() > node.config.multiple_accounts_max {
        return false;
    }
    let Ok(pubkeys) = text::pubkeys(&pubkeys) else { return false };
    is_large(node, &pubkeys, &config.unwrap_or_default())
}

/// Whether encoding these accounts takes more than some ten microseconds.
fn is_large(node: &Node, pubkeys: &[Pubkey], config: &RpcAccountInfoConfig) -> bool {
    let encoding = encoding(config, UiAccountEncoding::Base64);
    if encoding.form == UiAccountEncoding::Base64Zstd {
        return true; // setting up the compressor alone costs as much
    }
    let Ok(view) = view_since(node, config.commitment, config.min_context_slot) else {
        return false;
    };
    let bytes = |account: Arc<Account>| match encoding.form {
        UiAccountEncoding::JsonParsed => account.0.data().len(),
        _ => encoding.encoded_len(&account.0),
    };
    let total: usize =
        pubkeys.iter().filter_map(|pubkey| read::account(&view, pubkey)).map(bytes).sum();
    total > node.config.inline_bytes_max
}
