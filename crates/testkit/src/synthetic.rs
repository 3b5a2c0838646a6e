//! A synthetic Solana ledger of mainnet's shape, of any size, made from a seed without stored accounts: an account
//! is computed from its number, in any order.
//!
//! Shape, in shares of all accounts:
//! - 70 % token accounts. Their owners follow Zipf's law over 18 wallets for every 100 accounts, their
//!   mints the same law over all mints, but exactly 15 % of them are of the first mint: more than
//!   a million at 10 M accounts. The second mint is wrapped SOL. A third of a mint's holders have a balance of
//!   0, the others' balances follow Zipf's law, and all balances add up to the mint's supply.
//!   25 of 1,000 have a delegate, 3 of 1,000 the bytes of one that was revoked, 30 are frozen, 10 have
//!   a close authority, 10 have more lamports than rent requires.
//! - 4 % mints, each tenth of Token-2022 with its metadata in it, each eightieth with a transfer fee as well.
//!   Accounts of Token-2022: 165 bytes, 170 (immutable owner) or 182 (a fee withheld too), as the mint has it.
//!   The older token program owns more than 60 % of all accounts.
//! - 12 % wallets: of three owners of token accounts two are accounts. Lamports after Zipf's law.
//! - 10 % large: data of [`SyntheticConfig::large_bytes`] to four times that, log-uniform; of one in a
//!   thousand 64 times as much. At 10 M accounts and the default, 2.4 GB of data.
//! - the rest small: programs (36 bytes), stake accounts (200 bytes, one of 20 with a lockup, of those half
//!   in force), and 16 to 1,024 bytes of other programs, in three sizes for each. Large and small ones
//!   belong to one program for every 5,000 accounts, after Zipf's law.
//!
//! [`Shape::Tokens`] is the token accounts and the mints alone, in the same proportion; their owners
//! and delegates are addresses without accounts.
//!
//! Bounds: no memory but the caller's; about a microsecond an account. The same seed gives the same
//! ledger on the same platform (logarithms may differ in their last digit on another).
//! Not here: sysvars, votes, blocks, transactions, measurements (`benchmarks`).

mod data;
mod shuffle;
#[cfg(test)]
mod tests;
mod updates;

use std::sync::Arc;

use ledger::{Address, Change};
use shuffle::{Shuffle, mixed};
use solana::Account;
use solana_pubkey::Pubkey;
pub use updates::Updates;

use crate::zipf::Zipf;

/// The fewest accounts that have the shape.
pub const ACCOUNTS_MIN: u32 = 20_000;

/// The rank of wrapped SOL among mints.
const NATIVE_MINT: u64 = 1;

/// The seed, size and shape of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticConfig {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of accounts, at least [`ACCOUNTS_MIN`].
    pub accounts: u32,
    /// The kinds of accounts.
    pub shape: Shape,
    /// Bytes of data of the smallest large account.
    pub large_bytes: u32,
}

impl SyntheticConfig {
    /// `accounts` accounts of mainnet's shape.
    pub fn mainnet(seed: u64, accounts: u32) -> Self {
        Self { seed, accounts, shape: Shape::Mainnet, large_bytes: 1_024 }
    }

    /// `accounts` token accounts and mints.
    pub fn tokens(seed: u64, accounts: u32) -> Self {
        Self { shape: Shape::Tokens, ..Self::mainnet(seed, accounts) }
    }
}

/// The kinds of accounts that a ledger has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All kinds.
    Mainnet,
    /// Token accounts and mints.
    Tokens,
}

/// An owner with a fixed number of token accounts at every size of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownOwner {
    /// Of one token account. There are 16, by number.
    OfOne(u8),
    /// Of a hundred. There are 4.
    OfHundred(u8),
    /// Of ten thousand. There is one.
    OfTenThousand,
}

impl KnownOwner {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let hundreds = (0..4).map(Self::OfHundred);
        std::iter::once(Self::OfTenThousand).chain(hundreds).chain((0..16).map(Self::OfOne))
    }

    /// How many token accounts it owns.
    pub fn accounts(self) -> u64 {
        match self {
            Self::OfOne(_) => 1,
            Self::OfHundred(_) => 100,
            Self::OfTenThousand => 10_000,
        }
    }
}

/// The kind of an account, with its number within the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A token account.
    Token(u64),
    /// A mint; its rank by holders.
    Mint(u64),
    /// A wallet; its rank by lamports.
    Wallet(u64),
    /// A program; its rank by accounts.
    Program(u64),
    /// A stake account.
    Stake(u64),
    /// An account of another program.
    Other(u64),
}

/// Number of accounts of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Token accounts.
    pub tokens: u64,
    /// Mints.
    pub mints: u64,
    /// Wallets with an account.
    pub wallets: u64,
    /// Programs, without those that every ledger has.
    pub programs: u64,
    /// Stake accounts.
    pub stakes: u64,
    /// Accounts of other programs.
    pub others: u64,
    /// Of those, the large ones.
    pub large: u64,
}

/// The domain of an address, so that no two are the same.
#[derive(Clone, Copy)]
enum Named {
    Token,
    Mint,
    Wallet,
    /// An owner that is not an account.
    Owner,
    KnownOwner,
    Delegate,
    Program,
    Stake,
    Other,
    Created,
    Authority,
}

/// The ledger.
#[derive(Clone, Debug)]
pub struct Synthetic {
    config: SyntheticConfig,
    counts: Counts,
    /// Order of all accounts.
    order: Shuffle,
    /// Order of token accounts, mint by mint.
    by_mint: Shuffle,
    /// Order of token accounts, owner by owner.
    by_owner: Shuffle,
    /// Token accounts among mints, without the first one's.
    mints: Zipf,
    /// Token accounts among owners, without the known ones'.
    owners: Zipf,
    wallets: Zipf,
    programs: Zipf,
}

/// A token account's rank among the holders of its mint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holding {
    /// The mint's rank.
    mint: u64,
    /// The holder's rank, the richest first.
    holder: u64,
}

impl Synthetic {
    /// The ledger of that seed and size.
    ///
    /// Panics: fewer than [`ACCOUNTS_MIN`] accounts.
    pub fn new(config: SyntheticConfig) -> Self {
        let SyntheticConfig { seed, accounts, shape, .. } = config;
        assert!(accounts >= ACCOUNTS_MIN, "{accounts} accounts: too few for the shape");
        let counts = Counts::from_shape(shape, accounts.into());
        let of_known: u64 = KnownOwner::all().map(KnownOwner::accounts).sum();
        let first_mint = counts.first_mint();
        // 18 for every 70 token accounts, and a multiple of three.
        let owners = counts.tokens * 6 / 70 * 3;
        const LAMPORTS: u64 = 500_000_000 * 1_000_000_000;
        Self {
            config,
            counts,
            order: Shuffle::new(mixed(seed, 1), accounts.into()),
            by_mint: Shuffle::new(mixed(seed, 2), counts.tokens),
            by_owner: Shuffle::new(mixed(seed, 3), counts.tokens),
            mints: Zipf::new(counts.tokens - first_mint, counts.mints - 1),
            owners: Zipf::new(counts.tokens - of_known, owners),
            wallets: Zipf::new(LAMPORTS, counts.wallets),
            programs: Zipf::new(counts.others, counts.programs),
        }
    }

    /// Its configuration.
    pub fn config(&self) -> SyntheticConfig {
        self.config
    }

    /// Number of accounts of each kind.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// An upper bound of the addresses: of accounts, of their keys, and of accounts that updates may create.
    pub fn addresses_max(&self) -> u32 {
        self.config.accounts + self.config.accounts / 2
    }

    /// All accounts, in a random order.
    pub fn changes(&self) -> impl Iterator<Item = Change<Account>> + use<'_> {
        (0..u64::from(self.config.accounts)).map(|n| self.change(self.order.position(n)))
    }

    /// The account of a number below the count of accounts, kind by kind.
    pub fn change(&self, n: u64) -> Change<Account> {
        let kind = self.kind(n);
        let address = Address::from(self.address(kind).to_bytes());
        Change { address, record: Some(Arc::new(self.account(kind))) }
    }

    /// The kind of the account with a number.
    pub fn kind(&self, n: u64) -> Kind {
        let Counts { tokens, mints, wallets, programs, stakes, .. } = self.counts;
        let mut left = n;
        for (count, kind) in [
            (tokens, Kind::Token as fn(u64) -> Kind),
            (mints, Kind::Mint),
            (wallets, Kind::Wallet),
            (programs, Kind::Program),
            (stakes, Kind::Stake),
        ] {
            if left < count {
                return kind(left);
            }
            left -= count;
        }
        Kind::Other(left)
    }

    /// The address of an account.
    pub fn address(&self, kind: Kind) -> Pubkey {
        match kind {
            Kind::Token(n) => self.pubkey(Named::Token, n),
            Kind::Mint(NATIVE_MINT) => spl_token_interface::native_mint::id(),
            Kind::Mint(n) => self.pubkey(Named::Mint, n),
            Kind::Wallet(n) => self.pubkey(Named::Wallet, n),
            Kind::Program(n) => self.pubkey(Named::Program, n),
            Kind::Stake(n) => self.pubkey(Named::Stake, n),
            Kind::Other(n) => self.pubkey(Named::Other, n),
        }
    }

    /// The wallet of a known owner. It is not an account.
    pub fn known_owner(&self, owner: KnownOwner) -> Pubkey {
        let number = KnownOwner::all().position(|known| known == owner);
        self.pubkey(Named::KnownOwner, number.map_or(u64::MAX, |number| number as u64))
    }

    /// The mint that most token accounts are of: 15 % of them.
    pub fn largest_mint(&self) -> Pubkey {
        self.address(Kind::Mint(0))
    }

    /// Number of token accounts of a mint, by its rank.
    pub fn holders(&self, mint: u64) -> u64 {
        if mint == 0 { self.counts.first_mint() } else { self.mints.share(mint - 1) }
    }

    /// Whether an account of another program is large.
    pub fn is_large(&self, other: u64) -> bool {
        let Counts { large, others, .. } = self.counts;
        (other + 1) * large / others > other * large / others
    }

    /// The token account of a holder.
    fn token_of(&self, holding: Holding) -> u64 {
        let before = match holding.mint {
            0 => 0,
            mint => self.counts.first_mint() + self.mints.before(mint - 1),
        };
        self.by_mint.at_position(before + holding.holder)
    }

    /// Mint and holder's rank of a token account.
    fn holding(&self, token: u64) -> Holding {
        let position = self.by_mint.position(token);
        let first_mint = self.counts.first_mint();
        if position < first_mint {
            return Holding { mint: 0, holder: position };
        }
        let position = position - first_mint;
        let rank = self.mints.rank(position);
        Holding { mint: rank + 1, holder: position - self.mints.before(rank) }
    }

    /// The owner of a token account.
    fn owner(&self, token: u64) -> Pubkey {
        let mut position = self.by_owner.position(token);
        for known in KnownOwner::all() {
            if position < known.accounts() {
                return self.known_owner(known);
            }
            position -= known.accounts();
        }
        self.owner_of_rank(self.owners.rank(position))
    }

    /// Of three owners two are accounts, if the ledger has any.
    fn owner_of_rank(&self, rank: u64) -> Pubkey {
        let (of_three, nth) = (rank / 3, rank % 3);
        let wallet = 2 * of_three + nth;
        if nth < 2 && wallet < self.counts.wallets {
            return self.address(Kind::Wallet(wallet));
        }
        self.pubkey(Named::Owner, rank)
    }

    /// Random bytes that are always the same.
    fn pubkey(&self, named: Named, n: u64) -> Pubkey {
        let seed = mixed(self.config.seed, 1 << 32 | named as u64);
        let mut bytes = [0; 32];
        for (at, part) in bytes.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&mixed(seed, n << 2 | at as u64).to_le_bytes());
        }
        Pubkey::new_from_array(bytes)
    }
}

impl Counts {
    fn from_shape(shape: Shape, accounts: u64) -> Self {
        let none =
            Self { tokens: 0, mints: 0, wallets: 0, programs: 1, stakes: 0, others: 0, large: 0 };
        match shape {
            Shape::Tokens => {
                let mints = accounts * 4 / 74;
                Self { tokens: accounts - mints, mints, programs: 0, ..none }
            }
            Shape::Mainnet => {
                let (tokens, mints) = (accounts * 70 / 100, accounts * 4 / 100);
                let (wallets, stakes) = (accounts * 12 / 100, accounts / 1_000);
                let (programs, large) = ((accounts / 5_000).max(16), accounts / 10);
                let others = accounts - tokens - mints - wallets - stakes - programs;
                Self { tokens, mints, wallets, programs, stakes, others, large }
            }
        }
    }

    /// Token accounts of the mint with the most holders.
    fn first_mint(&self) -> u64 {
        self.tokens * 15 / 100
    }
}
