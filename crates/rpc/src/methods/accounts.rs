//! Single accounts: balance, data, several at once, and what an account must hold.

use std::sync::Arc;

use chain::View;
use pool::TimeSlice;
use solana::{Account, Encoding, LONG_BYTES_MIN, Rest};
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_commitment_config::CommitmentConfig;
use solana_feature_set::upgrade_bpf_stake_program_to_v5 as dearer_stake;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{RpcAccountInfoConfig, RpcContextConfig};

use super::answer::{Frame, write_number};
use super::sizes::{Touches, inline_cost};
use super::{
    Answer, Budget, Class, Method, MethodResult, PIECE_BYTES, Pieces, Progress, read, text,
};
use crate::cached::Reads;
use crate::commitment::{level, view_of, view_since, with_context};
use crate::configs;
use crate::error::RpcError;
use crate::node::Node;
use crate::params::Params;

pub(super) const METHODS: &[Method] = &[
    Method { name: "getBalance", class: Class::Inline, run: balance },
    Method { name: "getAccountInfo", class: Class::Try(small_account_info), run: account_info },
    Method {
        name: "getMultipleAccounts",
        class: Class::Try(small_multiple_accounts),
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
    let (pubkey, config) = configs::key_and_context(params)?;
    let pubkey = text::pubkey(&pubkey)?;
    let view = view_of(node, config)?;
    let lamports = read::lamports(&view, &pubkey).unwrap_or(0);
    Answer::in_context(&view, |out| {
        write_number(out, lamports);
        Ok(())
    })
}

/// What a call for accounts asks: `K` is one pubkey, or several.
struct Asked<K> {
    view: View,
    keys: K,
    encoding: Encoding,
}

fn account_info(node: &Node, params: Params<'_>) -> MethodResult {
    let asked = asked_one(node, params)?;
    let account = read::account(&asked.view, &asked.keys);
    let is_long = |account: &Account| asked.encoding.encoded_len(&account.0) >= LONG_BYTES_MIN;
    if !account.as_deref().is_some_and(is_long) {
        return one(&asked, account.as_deref());
    }
    let mut frame = Frame::around(&with_context(&asked.view, [(); 0]))?;
    // The account is in the place of the list.
    frame.head.pop();
    frame.tail.remove(0);
    let asked = Asked { view: asked.view, keys: vec![asked.keys], encoding: asked.encoding };
    Ok(Answer::in_pieces(Several::new(asked, frame)))
}

/// The same for an account that is encoded in some ten microseconds.
fn small_account_info(
    node: &Node,
    params: Params<'_>,
    budget: &mut Budget,
) -> Result<MethodResult, pool::Class> {
    let asked = match asked_one(node, params) {
        Ok(asked) => asked,
        Err(err) => return Ok(Err(err)),
    };
    let account = read::account(&asked.view, &asked.keys);
    if budget.take(cost_bytes(account.as_deref(), asked.encoding)) {
        return Ok(one(&asked, account.as_deref()));
    }
    Err(Touches::of(account.as_deref(), asked.encoding).class())
}

fn asked_one(node: &Node, params: Params<'_>) -> Result<Asked<Pubkey>, RpcError> {
    let (pubkey, config) = configs::keys_and_account_config::<String>(params)?;
    let keys = text::pubkey(&pubkey)?;
    let config = config.unwrap_or_default();
    let encoding = encoding(&config, UiAccountEncoding::Binary);
    let view = view_since(node, config.commitment, config.min_context_slot)?;
    Ok(Asked { view, keys, encoding })
}

/// What an account that is long is read from.
pub(super) fn reads_of_one(params: Params<'_>) -> Option<Reads> {
    let (pubkey, config) = configs::keys_and_account_config::<String>(params).ok()?;
    reads([pubkey], config)
}

/// The same for several.
pub(super) fn reads_of_several(params: Params<'_>) -> Option<Reads> {
    let (pubkeys, config) = configs::keys_and_account_config::<Vec<String>>(params).ok()?;
    reads(pubkeys, config)
}

fn reads(
    pubkeys: impl IntoIterator<Item = String>,
    config: Option<RpcAccountInfoConfig>,
) -> Option<Reads> {
    let config = config.unwrap_or_default();
    let keys = pubkeys.into_iter().map(|pubkey| Some(read::address(&text::pubkey(&pubkey).ok()?)));
    let reads = Reads::nothing(level(config.commitment), config.min_context_slot);
    let is_parsed = config.encoding == Some(UiAccountEncoding::JsonParsed);
    Some(reads.block_if(is_parsed).records_or_block(keys.collect::<Option<Vec<_>>>()?))
}

fn one(asked: &Asked<Pubkey>, account: Option<&Account>) -> MethodResult {
    let Asked { view, keys, encoding } = asked;
    Answer::in_context(view, |out| read::write(out, view, keys, account, *encoding))
}

fn multiple_accounts(node: &Node, params: Params<'_>) -> MethodResult {
    let asked = asked_several(node, params)?;
    let frame = Frame::around(&with_context(&asked.view, [(); 0]))?;
    Ok(Answer::in_pieces(Several::new(asked, frame)))
}

/// The same for accounts that are encoded in some ten microseconds.
fn small_multiple_accounts(
    node: &Node,
    params: Params<'_>,
    budget: &mut Budget,
) -> Result<MethodResult, pool::Class> {
    let asked = match asked_several(node, params) {
        Ok(asked) => asked,
        Err(err) => return Ok(Err(err)),
    };
    let Asked { view, keys, encoding } = &asked;
    let mut cost = Some(0_u64);
    let mut accounts = Vec::with_capacity(keys.len());
    for key in keys {
        let account = read::account(view, key);
        cost = cost.and_then(|cost| cost.checked_add(cost_bytes(account.as_deref(), *encoding)?));
        accounts.push(account);
    }
    if !budget.take(cost) {
        return Err(Touches::of(accounts.iter().flatten().map(|it| &**it), *encoding).class());
    }
    Ok(Answer::in_context(view, |out| {
        out.push(b'[');
        for (nth, (key, account)) in keys.iter().zip(&accounts).enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            read::write(out, view, key, account.as_deref(), *encoding)?;
        }
        out.push(b']');
        Ok(())
    }))
}

fn asked_several(node: &Node, params: Params<'_>) -> Result<Asked<Vec<Pubkey>>, RpcError> {
    let (pubkeys, config) = configs::keys_and_account_config::<Vec<String>>(params)?;
    let limit = node.config.multiple_accounts_max;
    if pubkeys.len() > limit {
        let message = format!("Too many inputs provided; max {limit}");
        return Err(RpcError::invalid_params(message));
    }
    let keys = text::pubkeys(&pubkeys)?;
    let config = config.unwrap_or_default();
    let encoding = encoding(&config, UiAccountEncoding::Base64);
    let view = view_since(node, config.commitment, config.min_context_slot)?;
    Ok(Asked { view, keys, encoding })
}

/// Several accounts, one a step, or a piece of a long one: first whether each can be had as it is asked for, then each.
struct Several {
    asked: Asked<Vec<Pubkey>>,
    frame: Frame,
    checked: usize,
    written: usize,
    /// The one that is being written, if it is long.
    long: Option<(Rest, Arc<Account>)>,
}

impl Several {
    fn new(asked: Asked<Vec<Pubkey>>, frame: Frame) -> Self {
        Self { asked, frame, checked: 0, written: 0, long: None }
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<Progress, RpcError> {
        if let Some((mut rest, account)) = self.long.take() {
            if read::write_rest(&mut rest, &account, out)? == Progress::More {
                self.long = Some((rest, account));
            }
            return Ok(Progress::More);
        }
        let Asked { view, keys, encoding } = &self.asked;
        if let Some(key) = keys.get(self.checked) {
            self.checked += 1;
            if let Some(account) = read::account(view, key) {
                read::check(&account, *encoding)?;
            }
            return Ok(Progress::More);
        }
        out.append(&mut self.frame.head);
        let Some(key) = keys.get(self.written) else {
            out.append(&mut self.frame.tail);
            return Ok(Progress::Done);
        };
        if self.written > 0 {
            out.push(b',');
        }
        self.written += 1;
        let account = read::account(view, key);
        let rest = read::begin(out, view, key, account.as_deref(), *encoding)?;
        self.long = rest.zip(account);
        Ok(Progress::More)
    }
}

impl Pieces for Several {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<Progress, RpcError> {
        while self.step(out)? == Progress::More {
            if out.len() >= PIECE_BYTES || slice.is_over() {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }

    fn touched(&self) -> u64 {
        self.written as u64
    }
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

/// What encoding an account costs ([`inline_cost`]).
fn cost_bytes(account: Option<&Account>, encoding: Encoding) -> Option<u64> {
    let Some(account) = account else { return Some(0) };
    // What is parsed is parsed whole, whatever part is asked for.
    let bytes = match encoding.form {
        UiAccountEncoding::JsonParsed => account.0.data().len(),
        _ => encoding.encoded_len(&account.0),
    };
    inline_cost(bytes as u64, encoding.form)
}
