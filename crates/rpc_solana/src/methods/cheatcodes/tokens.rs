//! surfnet_setTokenAccount: a wallet's associated token account, of either token program.
//!
//! The supply of the mint does not change, as in surfpool.

use std::sync::Arc;

use chain_solana::{ControlError, CurrentAccounts, EditedAccounts};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodResult, MethodSpec};
use serde::Deserialize;
use solana::{Account, JsonU64};
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use spl_generic_token::associated_token_account;
use spl_token_2022_interface::extension::default_account_state::DefaultAccountState;
use spl_token_2022_interface::extension::{
    BaseStateWithExtensions, BaseStateWithExtensionsMut, ExtensionType, StateWithExtensions,
    StateWithExtensionsMut, account_len,
};
use spl_token_2022_interface::state::{Account as Token2022, Mint as Mint2022};
use spl_token_interface::state::{Account as Token, AccountState, Mint};

use super::super::parse_key;
use super::control_result;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] =
    &[gated!("surfnet_setTokenAccount", Execution::Light, set_token_account)];

/// The rent epoch of an account that the runtime creates.
const RENT_EXEMPT_EPOCH: u64 = u64::MAX;

/// The fields of a token account to set. Absent fields do not change.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TokenUpdate {
    amount: Option<JsonU64>,
    /// An address, or the text `null`.
    delegate: Option<String>,
    state: Option<TokenState>,
    delegated_amount: Option<JsonU64>,
    /// An address, or the text `null`.
    close_authority: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum TokenState {
    Uninitialized,
    Initialized,
    Frozen,
}

impl From<TokenState> for AccountState {
    fn from(state: TokenState) -> Self {
        match state {
            TokenState::Uninitialized => Self::Uninitialized,
            TokenState::Initialized => Self::Initialized,
            TokenState::Frozen => Self::Frozen,
        }
    }
}

/// The parsed fields of a [`TokenUpdate`].
struct TokenChange {
    amount: Option<u64>,
    delegate: Option<Option<Pubkey>>,
    state: Option<AccountState>,
    delegated_amount: Option<u64>,
    close_authority: Option<Option<Pubkey>>,
}

impl TokenChange {
    fn new(update: TokenUpdate) -> Result<Self, RpcError> {
        let key = |text: String| match text.as_str() {
            "null" => Ok(None),
            text => parse_key::pubkey(text).map(Some),
        };
        Ok(Self {
            amount: update.amount.map(u64::from),
            delegate: update.delegate.map(key).transpose()?,
            state: update.state.map(AccountState::from),
            delegated_amount: update.delegated_amount.map(u64::from),
            close_authority: update.close_authority.map(key).transpose()?,
        })
    }

    fn apply(&self, token: &mut Token) {
        token.amount = self.amount.unwrap_or(token.amount);
        token.state = self.state.unwrap_or(token.state);
        token.delegated_amount = self.delegated_amount.unwrap_or(token.delegated_amount);
        if let Some(delegate) = self.delegate {
            token.delegate = delegate.into();
        }
        if let Some(authority) = self.close_authority {
            token.close_authority = authority.into();
        }
    }
}

fn set_token_account(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    type TokenParams = (String, String, TokenUpdate, Option<String>);
    let (owner, mint, update, program): TokenParams = params.parse(3)?;
    let owner = parse_key::pubkey(&owner)?;
    let mint = parse_key::pubkey(&mint)?;
    let program = program.map(|program| parse_key::pubkey(&program)).transpose()?;
    let change = TokenChange::new(update)?;
    control_result::edit(api, params.client(), move |now| edit(now, owner, mint, program, &change))
}

fn edit(
    now: &dyn CurrentAccounts,
    owner: Pubkey,
    mint: Pubkey,
    program: Option<Pubkey>,
    change: &TokenChange,
) -> Result<EditedAccounts, ControlError> {
    let invalid = |what: String| Err(ControlError::Invalid(what));
    let Some(mint_account) = now.account(&mint) else {
        return invalid(format!("mint {mint} does not exist"));
    };
    let mint_program = *mint_account.0.owner();
    let program = program.unwrap_or(mint_program);
    let is_2022 = program == spl_token_2022_interface::id();
    if !is_2022 && program != spl_token_interface::id() {
        return invalid(format!("{program} is no token program"));
    }
    if mint_program != program {
        return invalid(format!("mint {mint} belongs to {mint_program}, not to {program}"));
    }
    let seeds = [owner.as_ref(), program.as_ref(), mint.as_ref()];
    let (key, _) = Pubkey::find_program_address(&seeds, &associated_token_account::id());
    let mut account = match now.account(&key) {
        Some(account) if account.0.owner() == &program && account.0.data().len() >= Token::LEN => {
            account.0.clone()
        }
        Some(account) if account.0.owner() == &program || !account.0.data().is_empty() => {
            return invalid(format!("account {key} is no token account"));
        }
        // The address may have received lamports before.
        other => {
            let data = if is_2022 { data_2022(&mint_account) } else { data(&mint_account) };
            let Some(data) = data else { return invalid(format!("{mint} is no mint")) };
            let lamports = other.map_or(0, |account| account.0.lamports());
            let mut account =
                AccountSharedData::new(lamports.max(now.minimum_balance(data.len())), 0, &program);
            account.set_data_from_slice(&data);
            account.set_rent_epoch(RENT_EXEMPT_EPOCH);
            account
        }
    };
    let mut data = account.data().to_vec();
    let (base, _) = data.split_at_mut(Token::LEN);
    let unpacked = Token::unpack_from_slice(base);
    let Ok(mut token) = unpacked else {
        return invalid(format!("account {key} is no token account"));
    };
    if token.state == AccountState::Uninitialized {
        token = Token { mint, owner, state: default_state(&mint_account), ..Token::default() };
    }
    change.apply(&mut token);
    if solana::is_native_mint(&mint) {
        // The lamports beyond the reserve are the amount.
        let reserve = now.minimum_balance(data.len());
        let Some(lamports) = reserve.checked_add(token.amount) else {
            return invalid(format!("amount {}: more lamports than a u64", token.amount));
        };
        token.is_native = Some(reserve).into();
        account.set_lamports(lamports);
    }
    let (base, _) = data.split_at_mut(Token::LEN);
    token.pack_into_slice(base);
    account.set_data_from_slice(&data);
    Ok(vec![(key, account)])
}

/// Returns the state of a new account of a mint: initialized unless the mint has the extension that sets another one.
fn default_state(mint: &Account) -> AccountState {
    let state = StateWithExtensions::<Mint2022>::unpack(mint.0.data()).ok().and_then(|mint| {
        let extension = mint.get_extension::<DefaultAccountState>().ok()?;
        AccountState::try_from(extension.state).ok()
    });
    // The token programs refuse a default of `Uninitialized`.
    state.filter(|state| *state != AccountState::Uninitialized).unwrap_or(AccountState::Initialized)
}

/// Returns the data of a new account of the older program; `None` if the mint is invalid.
fn data(mint: &Arc<Account>) -> Option<Vec<u8>> {
    Mint::unpack(mint.0.data()).ok()?;
    Some(vec![0; Token::LEN])
}

/// Returns the data of a new account of Token-2022, with the extensions that the mint requires, as the associated token
/// program creates it; `None` if the mint is invalid.
fn data_2022(mint: &Arc<Account>) -> Option<Vec<u8>> {
    let mint = StateWithExtensions::<Mint2022>::unpack(mint.0.data()).ok()?;
    let mut required = Vec::new();
    let collect = |extension| {
        required.push(extension);
        Ok(())
    };
    account_len::try_for_each_required_init_account_extension(mint.get_tlv_data(), collect).ok()?;
    required.push(ExtensionType::ImmutableOwner);
    let bytes = ExtensionType::try_calculate_account_len::<Token2022>(&required).ok()?;
    let mut data = vec![0; bytes];
    let mut state = StateWithExtensionsMut::<Token2022>::unpack_uninitialized(&mut data).ok()?;
    for extension in required {
        state.init_account_extension_from_type(extension).ok()?;
    }
    state.init_account_type().ok()?;
    Some(data)
}
