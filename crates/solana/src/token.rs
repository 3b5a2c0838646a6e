//! Accounts of the two token programs: mints, balances, holders.

use solana_account::{AccountSharedData, ReadableAccount};
use solana_account_decoder::parse_account_data::SplTokenAdditionalDataV2;
use solana_account_decoder::parse_token::{get_token_account_mint, token_amount_to_ui_amount_v3};
use solana_account_decoder_client_types::token::UiTokenAmount;
use solana_pubkey::Pubkey;
use spl_generic_token::token::GenericTokenAccount;
use spl_generic_token::{generic_token, is_known_spl_token_id, token_2022};
use spl_token_2022_interface::extension::interest_bearing_mint::InterestBearingConfig;
use spl_token_2022_interface::extension::scaled_ui_amount::ScaledUiAmountConfig;
use spl_token_2022_interface::extension::{BaseStateWithExtensions, StateWithExtensions};
use spl_token_2022_interface::state::{Account as TokenAccount, Mint};

/// The properties of a mint that are needed to format an amount of its tokens.
#[derive(Clone, Copy)]
pub struct MintInfo(pub(crate) SplTokenAdditionalDataV2);

impl MintInfo {
    /// Reads the mint in `data`, at a time: amounts of some mints grow with it. `None` if it is not
    /// a mint.
    pub fn from_data(data: &[u8], unix_timestamp: i64) -> Option<Self> {
        let mint = StateWithExtensions::<Mint>::unpack(data).ok()?;
        let interest = mint.get_extension::<InterestBearingConfig>().ok();
        let scale = mint.get_extension::<ScaledUiAmountConfig>().ok();
        Some(Self(SplTokenAdditionalDataV2 {
            decimals: mint.base.decimals,
            interest_bearing_config: interest.map(|config| (*config, unix_timestamp)),
            scaled_ui_amount_config: scale.map(|config| (*config, unix_timestamp)),
        }))
    }

    /// The info of wrapped SOL, which needs no account.
    pub fn native() -> Self {
        Self::with_decimals(spl_token_interface::native_mint::DECIMALS)
    }

    fn with_decimals(decimals: u8) -> Self {
        Self(SplTokenAdditionalDataV2::with_decimals(decimals))
    }

    /// Formats an amount.
    pub fn amount(&self, amount: u64) -> UiTokenAmount {
        token_amount_to_ui_amount_v3(amount, &self.0)
    }
}

/// Whether this is the mint of wrapped SOL. Responses need no account for it.
pub fn is_native_mint(mint: &Pubkey) -> bool {
    *mint == spl_token_interface::native_mint::id()
}

/// The mint of an account's tokens, whatever program it belongs to; `None` if it does not have the
/// form of an initialized token account.
pub fn mint_of(account: &AccountSharedData) -> Option<Pubkey> {
    get_token_account_mint(account.data())
}

/// The mint and the amount of a token account; `None` for other accounts.
pub fn holding(account: &AccountSharedData) -> Option<(Pubkey, u64)> {
    let token = StateWithExtensions::<TokenAccount>::unpack(account.data()).ok()?;
    is_known_spl_token_id(account.owner()).then_some((token.base.mint, token.base.amount))
}

/// The data of a valid token account of either token program.
pub(crate) fn token_data(account: &AccountSharedData) -> Option<&[u8]> {
    let data = account.data();
    let is_token =
        is_known_spl_token_id(account.owner()) && token_2022::Account::valid_account_data(data);
    is_token.then_some(data)
}

/// The supply of a mint; `None` if it is not a mint.
pub fn supply(data: &[u8]) -> Option<u64> {
    Some(StateWithExtensions::<Mint>::unpack(data).ok()?.base.supply)
}

/// One token account's balance, as the status of a transaction has it.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBalance {
    /// The mint of the tokens.
    pub mint: Pubkey,
    /// The wallet that owns the token account.
    pub owner: Pubkey,
    /// The token program.
    pub program_id: Pubkey,
    /// The amount. Only decimals apply: interest and scale do not count here, as on Agave.
    pub amount: UiTokenAmount,
}

impl TokenBalance {
    /// The balance in `account`. `mint` looks up the account of a mint.
    ///
    /// `None` if it is not a token account, or its mint does not exist or belongs to another
    /// program.
    pub fn from_account(
        account: &AccountSharedData,
        mint: impl FnOnce(&Pubkey) -> Option<AccountSharedData>,
    ) -> Option<Self> {
        let program_id = *account.owner();
        if !is_known_spl_token_id(&program_id) {
            return None;
        }
        let token = generic_token::Account::unpack(account.data(), &program_id)?;
        let mint_account = mint(&token.mint)?;
        if *mint_account.owner() != program_id {
            return None;
        }
        let decimals = generic_token::Mint::unpack(mint_account.data(), &program_id)?.decimals;
        let amount = MintInfo::with_decimals(decimals).amount(token.amount);
        Some(Self { mint: token.mint, owner: token.owner, program_id, amount })
    }
}

#[cfg(test)]
mod tests {
    use solana_program_pack::Pack;
    use spl_token_interface::state::{Account as Token, AccountState, Mint as PlainMint};

    use super::*;

    fn account(owner: Pubkey, data: &[u8]) -> AccountSharedData {
        let mut account = AccountSharedData::new(7, 0, &owner);
        account.set_data_from_slice(data);
        account
    }

    fn mint() -> AccountSharedData {
        let mut data = vec![0; PlainMint::LEN];
        let mint = PlainMint { decimals: 2, is_initialized: true, supply: 9, ..Default::default() };
        PlainMint::pack(mint, &mut data).expect("it fits");
        account(spl_token_interface::id(), &data)
    }

    fn token() -> AccountSharedData {
        let mut data = vec![0; Token::LEN];
        let token = Token {
            mint: Pubkey::new_from_array([1; 32]),
            owner: Pubkey::new_from_array([2; 32]),
            amount: 150,
            state: AccountState::Initialized,
            ..Default::default()
        };
        Token::pack(token, &mut data).expect("it fits");
        account(spl_token_interface::id(), &data)
    }

    #[test]
    fn a_balance_has_mint_owner_and_program() {
        let balance = TokenBalance::from_account(&token(), |_| Some(mint())).expect("it is one");
        assert_eq!(balance.mint, Pubkey::new_from_array([1; 32]));
        assert_eq!(balance.owner, Pubkey::new_from_array([2; 32]));
        assert_eq!(balance.program_id, spl_token_interface::id());
        assert_eq!(balance.amount.ui_amount_string, "1.5");
    }

    #[test]
    fn no_balance_without_the_mint_of_the_same_program() {
        assert_eq!(TokenBalance::from_account(&token(), |_| None), None);
        let elsewhere = account(spl_token_2022_interface::id(), mint().data());
        assert_eq!(TokenBalance::from_account(&token(), |_| Some(elsewhere)), None);
        assert_eq!(TokenBalance::from_account(&mint(), |_| Some(mint())), None);
    }

    #[test]
    fn a_mint_is_not_a_holding() {
        assert_eq!(holding(&token()).map(|(_, amount)| amount), Some(150));
        assert_eq!(holding(&mint()), None);
        assert_eq!(supply(mint().data()), Some(9));
        assert_eq!(supply(token().data()), None);
    }
}
