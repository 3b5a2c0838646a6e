//! The data of the accounts of each kind.

use std::sync::Arc;

use solana::Account;
use solana_account::{AccountSharedData, WritableAccount};
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use solana_stake_interface::stake_flags::StakeFlags;
use solana_stake_interface::state::{Authorized, Delegation, Lockup, Meta, Stake, StakeStateV2};
use spl_token_interface::state::{Account as Token, AccountState, Mint};

use super::shuffle::mixed;
use super::{Holding, Kind, NATIVE_MINT, Named, Synthetic};
use crate::zipf::Zipf;

/// Bytes of a token account of the older program, and of either kind in Token-2022 without extensions.
const BASE_BYTES: usize = 165;

/// At `BASE_BYTES`, in Token-2022.
const KIND_MINT: u8 = 1;
const KIND_TOKEN: u8 = 2;

/// Token-2022's numbers of extensions.
const TRANSFER_FEE_CONFIG: u16 = 1;
const TRANSFER_FEE_AMOUNT: u16 = 2;
const IMMUTABLE_OWNER: u16 = 7;
const METADATA_POINTER: u16 = 18;
const TOKEN_METADATA: u16 = 19;

/// The fields of a token account that do not follow from its mint.
#[derive(Clone, Debug)]
pub(super) struct TokenFields {
    pub(super) mint: u64,
    pub(super) owner: Pubkey,
    pub(super) amount: u64,
    pub(super) delegate: Option<(Pubkey, u64)>,
    pub(super) was_delegate: Option<Pubkey>,
    pub(super) close_authority: Option<Pubkey>,
    pub(super) is_frozen: bool,
    /// Lamports above the rent minimum.
    pub(super) lamports: u64,
}

/// The extensions that mints of Token-2022 require of their accounts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extensions {
    TransferFee,
    None,
    ImmutableOwner,
}

impl Synthetic {
    /// An account.
    pub fn account(&self, kind: Kind) -> Account {
        Account(match kind {
            Kind::Token(n) => return self.token(&self.token_fields(n)),
            Kind::Mint(n) => self.mint(n),
            Kind::Wallet(n) => {
                let lamports = rent(0) + self.wallets.share(n);
                shared(lamports, &solana_sdk_ids::system_program::id(), Vec::new())
            }
            Kind::Program(n) => self.program(n),
            Kind::Stake(n) => self.stake(n),
            Kind::Other(n) => self.other(n),
        })
    }

    /// The supply of a mint, by its rank. The holders' balances add up to it, except for wrapped SOL: its supply
    /// is 0.
    pub fn supply(&self, mint: u64) -> u64 {
        match mint {
            NATIVE_MINT => 0,
            _ => self.total_balance(mint),
        }
    }

    /// The sum of all balances of a mint.
    fn total_balance(&self, mint: u64) -> u64 {
        if self.holders(mint) == 0 {
            return 0;
        }
        if self.is_one_of_a_kind(mint) {
            return 1;
        }
        let tokens = 1_000 * (1 + mixed(self.config.seed, mint) % 1_000_000);
        tokens * 10_u64.pow(self.decimals(mint).into())
    }

    /// Three of four mints with one holder.
    fn is_one_of_a_kind(&self, mint: u64) -> bool {
        mint != NATIVE_MINT && self.holders(mint) <= 1 && !mint.is_multiple_of(4)
    }

    fn decimals(&self, mint: u64) -> u8 {
        match mint {
            NATIVE_MINT => 9,
            mint if self.is_one_of_a_kind(mint) => 0,
            mint if mint.is_multiple_of(3) => 9,
            _ => 6,
        }
    }

    pub(super) fn is_token_2022(mint: u64) -> bool {
        mint % 10 == 7
    }

    fn extensions(mint: u64) -> Extensions {
        match mint / 10 % 8 {
            0 => Extensions::TransferFee,
            1 => Extensions::None,
            _ => Extensions::ImmutableOwner,
        }
    }

    fn amount(&self, Holding { mint, holder }: Holding) -> u64 {
        let holders = self.holders(mint);
        let funded = holders - holders / 3;
        if holder < funded { Zipf::new(self.total_balance(mint), funded).share(holder) } else { 0 }
    }

    pub(super) fn token_fields(&self, token: u64) -> TokenFields {
        let holding = self.holding(token);
        let owner = self.owner(token);
        let random = mixed(self.config.seed ^ 0x70, token);
        let amount = self.amount(holding);
        // Each fact has digits of its own.
        let digits = |at: u32| random / 1_000_u64.pow(at) % 1_000;
        let delegate = || {
            let delegates = Zipf::new(1 << 32, (self.counts.tokens / 200).max(1));
            self.pubkey(Named::Delegate, delegates.rank(mixed(random, 1) >> 32))
        };
        TokenFields {
            mint: holding.mint,
            owner,
            amount,
            delegate: (digits(0) < 25).then(|| (delegate(), amount.max(1))),
            was_delegate: (25..28).contains(&digits(0)).then(delegate),
            close_authority: (digits(1) < 10).then(|| self.pubkey(Named::Authority, token % 64)),
            is_frozen: digits(2) < 30,
            lamports: if digits(3) < 10 { mixed(random, 2) % 10_000_000 } else { 0 },
        }
    }

    /// A token account with these fields.
    pub(super) fn token(&self, fields: &TokenFields) -> Account {
        let is_native = fields.mint == NATIVE_MINT;
        let is_2022 = Self::is_token_2022(fields.mint);
        let extensions = if is_2022 { Self::extensions(fields.mint) } else { Extensions::None };
        let mut data = vec![0; BASE_BYTES];
        let reserve = rent(match extensions {
            Extensions::None => 165,
            Extensions::ImmutableOwner => 170,
            Extensions::TransferFee => 182,
        });
        let token = Token {
            mint: self.address(Kind::Mint(fields.mint)),
            owner: fields.owner,
            amount: fields.amount,
            delegate: fields.delegate.map(|(delegate, _)| delegate).into(),
            state: if fields.is_frozen { AccountState::Frozen } else { AccountState::Initialized },
            is_native: is_native.then_some(reserve).into(),
            delegated_amount: fields.delegate.map_or(0, |(_, amount)| amount),
            close_authority: fields.close_authority.into(),
        };
        token.pack_into_slice(&mut data);
        if let (None, Some(was)) = (fields.delegate, fields.was_delegate) {
            data[76..108].copy_from_slice(was.as_array());
        }
        if extensions != Extensions::None {
            data.push(KIND_TOKEN);
            extend(&mut data, IMMUTABLE_OWNER, &[]);
        }
        if extensions == Extensions::TransferFee {
            extend(&mut data, TRANSFER_FEE_AMOUNT, &(fields.amount / 1_000).to_le_bytes());
        }
        let wrapped = if is_native { fields.amount } else { 0 };
        Account(shared(reserve + fields.lamports + wrapped, &token_program(is_2022), data))
    }

    fn mint(&self, mint: u64) -> AccountSharedData {
        let authority = self.pubkey(Named::Authority, mint % 64);
        let mut data = vec![0; Mint::LEN];
        let has_authority = mint % 4 == 3;
        let packed = Mint {
            mint_authority: has_authority.then_some(authority).into(),
            supply: self.supply(mint),
            decimals: self.decimals(mint),
            is_initialized: true,
            freeze_authority: (mint % 8 == 7).then_some(authority).into(),
        };
        packed.pack_into_slice(&mut data);
        let is_2022 = Self::is_token_2022(mint);
        if is_2022 {
            let address = self.address(Kind::Mint(mint));
            data.resize(BASE_BYTES, 0);
            data.push(KIND_MINT);
            if Self::extensions(mint) == Extensions::TransferFee {
                extend(&mut data, TRANSFER_FEE_CONFIG, &transfer_fee(&authority));
            }
            let pointer = [authority.to_bytes(), address.to_bytes()].concat();
            extend(&mut data, METADATA_POINTER, &pointer);
            extend(&mut data, TOKEN_METADATA, &metadata(&authority, &address, mint));
        }
        shared(rent(data.len()), &token_program(is_2022), data)
    }

    fn program(&self, program: u64) -> AccountSharedData {
        let mut data = vec![2, 0, 0, 0];
        data.extend(self.pubkey(Named::Authority, 1 << 32 | program).as_array());
        let loader = solana_sdk_ids::bpf_loader_upgradeable::id();
        let mut account = shared(rent(data.len()), &loader, data);
        account.set_executable(true);
        account
    }

    fn stake(&self, stake: u64) -> AccountSharedData {
        let reserve = rent(StakeStateV2::size_of());
        let staked = 1_000_000_000 * (1 + mixed(self.config.seed ^ 0x57, stake) % 10_000);
        let wallet = self.pubkey(Named::Authority, 2 << 32 | stake);
        let lockup = match stake % 40 {
            0 => Lockup { unix_timestamp: u32::MAX.into(), epoch: 0, custodian: wallet },
            20 => Lockup { unix_timestamp: 1, epoch: 0, custodian: wallet },
            _ => Lockup::default(),
        };
        let authorized = Authorized { staker: wallet, withdrawer: wallet };
        #[expect(deprecated, reason = "every existing stake account has it")]
        let meta = Meta { rent_exempt_reserve: reserve, authorized, lockup };
        let voter_pubkey = self.pubkey(Named::Authority, stake % 64);
        let delegation = Delegation { voter_pubkey, stake: staked, ..Delegation::default() };
        let state = StakeStateV2::Stake(
            meta,
            Stake { delegation, credits_observed: 1 },
            StakeFlags::empty(),
        );
        let mut data = vec![0; StakeStateV2::size_of()];
        let written = bincode::serialize_into(&mut data[..], &state);
        written.expect("the size is that of the largest state");
        shared(reserve + staked, &solana_sdk_ids::stake::id(), data)
    }

    /// A tag, a wallet, then half random bytes and half zeros, as in real accounts.
    fn other(&self, other: u64) -> AccountSharedData {
        let program = self.programs.rank(other);
        let random = mixed(self.config.seed ^ 0x07, other);
        let form = random % 3;
        let log_uniform = |of: u64| (of & 0xffff_ffff) as f64 / 4_294_967_296.0;
        let bytes = if self.is_large(other) {
            let times = 4_f64.powf(log_uniform(random));
            let is_huge = (random >> 32).is_multiple_of(1_000);
            (f64::from(self.config.large_bytes) * times * if is_huge { 64.0 } else { 1.0 }) as usize
        } else {
            let of_form = mixed(self.config.seed ^ 0x08, program * 3 + form);
            (16.0 * 64_f64.powf(log_uniform(of_form))) as usize
        };
        let mut data = vec![0; bytes];
        let tag = mixed(program, form).to_le_bytes();
        let wallet = self.owner_of_rank(random % self.counts.wallets.max(1));
        for (to, from) in data.iter_mut().zip(tag.iter().chain(wallet.as_array())) {
            *to = *from;
        }
        if bytes > 40 {
            let end = 40 + (bytes - 40) / 2;
            for (at, to) in data[40..end].chunks_mut(8).enumerate() {
                let word = mixed(random, at as u64).to_le_bytes();
                to.copy_from_slice(&word[..to.len()]);
            }
        }
        shared(rent(bytes), &self.address(Kind::Program(program)), data)
    }
}

/// Minimum lamports of an account with `bytes` of data.
pub(super) fn rent(bytes: usize) -> u64 {
    (128 + bytes as u64) * 6_960
}

fn shared(lamports: u64, owner: &Pubkey, mut data: Vec<u8>) -> AccountSharedData {
    data.shrink_to_fit();
    let data = Arc::new(data);
    AccountSharedData::create_from_existing_shared_data(lamports, data, *owner, false, u64::MAX)
}

fn token_program(is_2022: bool) -> Pubkey {
    if is_2022 { spl_token_2022_interface::id() } else { spl_token_interface::id() }
}

fn extend(data: &mut Vec<u8>, extension: u16, value: &[u8]) {
    data.extend(extension.to_le_bytes());
    data.extend((value.len() as u16).to_le_bytes());
    data.extend(value);
}

/// Two authorities, nothing withheld, and half a percent as the older and the newer fee.
fn transfer_fee(authority: &Pubkey) -> Vec<u8> {
    let mut value = [authority.to_bytes(), authority.to_bytes()].concat();
    value.extend(0_u64.to_le_bytes());
    for _ in 0..2 {
        value.extend(0_u64.to_le_bytes());
        value.extend(u64::MAX.to_le_bytes());
        value.extend(50_u16.to_le_bytes());
    }
    value
}

fn metadata(authority: &Pubkey, mint: &Pubkey, rank: u64) -> Vec<u8> {
    let mut value = [authority.to_bytes(), mint.to_bytes()].concat();
    let texts =
        [format!("Token {rank}"), format!("T{rank}"), format!("https://example.com/{rank}.json")];
    for text in texts {
        value.extend((text.len() as u32).to_le_bytes());
        value.extend(text.as_bytes());
    }
    value.extend(0_u32.to_le_bytes());
    value
}
