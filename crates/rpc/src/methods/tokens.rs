//! Token accounts and mints, of both token programs.

use chain::View;
use ledger::{Address, Facet};
use solana::{Encoding, MintFacts, facet};
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_commitment_config::CommitmentConfig;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{RpcAccountInfoConfig, RpcTokenAccountsFilter};
use solana_rpc_client_types::request::NUM_LARGEST_ACCOUNTS;
use solana_rpc_client_types::response::RpcTokenAccountBalance;
use spl_generic_token::is_known_spl_token_id;

use super::read::List;
use super::{Answer, Class, Method, MethodResult, read, text};
use crate::commitment::{level, view, view_since, with_context};
use crate::error::RpcError;
use crate::node::Node;
use crate::params::Params;

pub(super) const METHODS: &[Method] = &[
    Method { name: "getTokenAccountBalance", class: Class::Inline, run: account_balance },
    Method { name: "getTokenSupply", class: Class::Inline, run: supply },
    Method { name: "getTokenLargestAccounts", class: Class::Heavy, run: largest_accounts },
    Method { name: "getTokenAccountsByOwner", class: Class::HeavyIf(many_owned), run: by_owner },
    Method {
        name: "getTokenAccountsByDelegate",
        class: Class::HeavyIf(many_delegated),
        run: by_delegate,
    },
];

type AccountsParams = (String, RpcTokenAccountsFilter, Option<RpcAccountInfoConfig>);

fn account_balance(node: &Node, params: Params<'_>) -> MethodResult {
    let (pubkey, commitment): (String, Option<CommitmentConfig>) = params.parse(1)?;
    let pubkey = text::pubkey(&pubkey)?;
    let view = view(node, commitment);
    let account = read::account(&view, &pubkey).ok_or_else(no_account)?;
    let (mint, amount) = solana::holding(&account.0)
        .ok_or_else(|| RpcError::invalid_params("Invalid param: not a Token account"))?;
    let (_, facts) = read::named_mint(&view, &mint)?;
    Answer::of(&with_context(&view, facts.amount(amount)))
}

fn supply(node: &Node, params: Params<'_>) -> MethodResult {
    let (mint, commitment): (String, Option<CommitmentConfig>) = params.parse(1)?;
    let mint = text::pubkey(&mint)?;
    let view = view(node, commitment);
    let account = read::account(&view, &mint).ok_or_else(no_account)?;
    if !is_known_spl_token_id(account.0.owner()) {
        return Err(not_a_mint());
    }
    let data = account.0.data();
    let facts = MintFacts::of(data, view.meta().unix_timestamp);
    let (Some(facts), Some(supply)) = (facts, solana::supply(data)) else {
        return Err(RpcError::invalid_params("Invalid param: mint could not be unpacked"));
    };
    Answer::of(&with_context(&view, facts.amount(supply)))
}

fn largest_accounts(node: &Node, params: Params<'_>) -> MethodResult {
    let (mint, commitment): (String, Option<CommitmentConfig>) = params.parse(1)?;
    let mint = text::pubkey(&mint)?;
    let view = view(node, commitment);
    let (program, facts) = read::named_mint(&view, &mint)?;
    if !is_known_spl_token_id(&program) {
        return Err(not_a_mint());
    }
    let key = read::address(&mint);
    let holders = view.highest(Some((facet::MINT, &key)), NUM_LARGEST_ACCOUNTS, |_, account| {
        *account.0.owner() == program
    });
    let largest: Vec<_> = holders
        .iter()
        .filter_map(|holder| Some((holder.rank, read::pubkey(&holder.address)?)))
        .map(|(amount, address)| RpcTokenAccountBalance {
            address: address.to_string(),
            amount: facts.amount(amount),
        })
        .collect();
    Answer::of(&with_context(&view, largest))
}

fn by_owner(node: &Node, params: Params<'_>) -> MethodResult {
    by_key(node, params, facet::OWNER)
}

fn by_delegate(node: &Node, params: Params<'_>) -> MethodResult {
    by_key(node, params, facet::DELEGATE)
}

fn by_key(node: &Node, params: Params<'_>, facet: Facet) -> MethodResult {
    let (key, filter, config): AccountsParams = params.parse(2)?;
    let key = text::pubkey(&key)?;
    let (program, mint) = program_or_mint(filter)?;
    let config = config.unwrap_or_default();
    let view = view_since(node, config.commitment, config.min_context_slot)?;
    let program = token_program(&view, program, mint.as_ref())?;
    let keys = keys_of((facet, key), mint);
    let list = List::find(&view, &keys, true, |account| *account.0.owner() == program);
    let encoding = Encoding {
        form: config.encoding.unwrap_or(UiAccountEncoding::Binary),
        slice: config.data_slice,
    };
    Answer::of(&with_context(&view, list.encoded(encoding, true)?))
}

/// Which of the two a filter names.
pub(super) fn program_or_mint(
    filter: RpcTokenAccountsFilter,
) -> Result<(Option<Pubkey>, Option<Pubkey>), RpcError> {
    Ok(match filter {
        RpcTokenAccountsFilter::Mint(mint) => (None, Some(text::pubkey(&mint)?)),
        RpcTokenAccountsFilter::ProgramId(program) => (Some(text::pubkey(&program)?), None),
    })
}

/// The keys of accounts by wallet, and by mint if one is named.
pub(super) fn keys_of(wallet: (Facet, Pubkey), mint: Option<Pubkey>) -> Vec<(Facet, Address)> {
    read::keys([Some(wallet), mint.map(|mint| (facet::MINT, mint))].into_iter().flatten())
}

/// The token program that is named, or whose mint is.
pub(super) fn token_program(
    view: &View,
    program: Option<Pubkey>,
    mint: Option<&Pubkey>,
) -> Result<Pubkey, RpcError> {
    if let Some(mint) = mint {
        let (program, _) = read::named_mint(view, mint)?;
        return is_known_spl_token_id(&program).then_some(program).ok_or_else(not_a_mint);
    }
    program
        .filter(is_known_spl_token_id)
        .ok_or_else(|| RpcError::invalid_params("Invalid param: unrecognized Token program id"))
}

fn many_owned(node: &Node, params: Params<'_>) -> bool {
    many(node, params, facet::OWNER)
}

fn many_delegated(node: &Node, params: Params<'_>) -> bool {
    many(node, params, facet::DELEGATE)
}

/// Whether a wallet has more token accounts than are read in some ten microseconds.
fn many(node: &Node, params: Params<'_>, facet: Facet) -> bool {
    let Ok((key, filter, config)) = params.parse::<AccountsParams>(2) else { return false };
    let Ok(key) = text::pubkey(&key) else { return false };
    let Ok((_, mint)) = program_or_mint(filter) else { return false };
    let config = config.unwrap_or_default();
    let view = node.reader.view(level(config.commitment));
    let accounts = view.keyed_by_all_len(&keys_of((facet, key), mint));
    accounts > node.config.inline_accounts_max
        || (accounts > 0 && config.encoding == Some(UiAccountEncoding::Base64Zstd))
}

fn no_account() -> RpcError {
    RpcError::invalid_params("Invalid param: could not find account")
}

fn not_a_mint() -> RpcError {
    RpcError::invalid_params("Invalid param: not a Token mint")
}
