//! The stream of account writes over a synthetic ledger: what trading does to one.
//!
//! Shape: transactions of a few writes each. Most are swaps in one of [`MARKETS`] markets, chosen by
//! Zipf's law: the market's vault and a holder's token account change by the same amount, the market's
//! two own accounts change a few bytes, a payer loses a fee. So a few hundred accounts take most writes. Eight
//! of 100 transactions close a holder's token account; it opens another one when it trades again. Three
//! give a token account to another owner, three set or revoke a delegate.
//! Invariant: the balances of a mint add up to its supply.
//! Bounds: the accounts that ever change are chosen at the start: at most 64,000 token accounts and
//! [`PAYERS`] wallets, 16 MB. A closed account is replaced by the one that the holder opens next, at a
//! new address. The same ledger gives the same stream.

use std::sync::Arc;

use fastrand::Rng;
use ledger::{Address, Change};
use solana::Account;
use solana_account::{ReadableAccount, WritableAccount};
use solana_pubkey::Pubkey;

use super::data::{TokenFields, rent};
use super::{Holding, Kind, NATIVE_MINT, Named, Synthetic};
use crate::zipf::Zipf;

/// Mints that are traded.
const MARKETS: u64 = 64;
/// Holders of each that trade, at most; the first is the market's vault.
const HOLDERS_MAX: u64 = 1_000;
/// Wallets that pay, at most.
const PAYERS: u64 = 4_096;
/// The fee of a transaction.
const FEE: u64 = 5_000;
/// Writes of a transaction at most.
const WRITES_MAX: usize = 6;

/// The endless stream of writes.
#[derive(Clone, Debug)]
pub struct Updates {
    ledger: Synthetic,
    rng: Rng,
    markets: Vec<Market>,
    popularity: Zipf,
    payers: Vec<u64>,
    /// Token accounts opened so far.
    created: u64,
    transactions: u64,
}

#[derive(Clone, Debug)]
struct Market {
    /// Accounts of a program: one large, one small.
    own: [u64; 2],
    traders: Zipf,
    tokens: Vec<Token>,
}

#[derive(Clone, Debug)]
struct Token {
    address: Pubkey,
    fields: TokenFields,
    is_open: bool,
}

impl Updates {
    /// The stream over a ledger of mainnet's shape, as it was made.
    pub fn new(ledger: &Synthetic) -> Self {
        assert!(ledger.counts.wallets > 0, "a ledger of tokens alone has no payers");
        let mut others = 0..ledger.counts.others;
        let mut own = |is_large| {
            let found = others.find(|other| ledger.is_large(*other) == is_large);
            found.expect("of both there are more than markets")
        };
        let mints = (0..).filter(|mint| *mint != NATIVE_MINT).take(MARKETS as usize);
        let markets: Vec<Market> = mints
            .map(|mint| {
                let holders = 0..ledger.holders(mint);
                let tokens: Vec<Token> = holders
                    .map(|holder| Token::new(ledger, Holding { mint, holder }))
                    .filter(|token| !token.fields.is_frozen)
                    .take(HOLDERS_MAX as usize)
                    .collect();
                assert!(tokens.len() > 1, "two trade");
                let traders = Zipf::new(1 << 32, tokens.len() as u64 - 1);
                Market { own: [own(true), own(false)], traders, tokens }
            })
            .collect();
        let payers = (0..PAYERS.min(ledger.counts.wallets))
            .map(|wallet| ledger.account(Kind::Wallet(wallet)).0.lamports())
            .collect();
        Self {
            rng: Rng::with_seed(ledger.config.seed),
            ledger: ledger.clone(),
            markets,
            popularity: Zipf::new(1 << 32, MARKETS),
            payers,
            created: 0,
            transactions: 0,
        }
    }

    /// The writes of a slot: at least `writes`, up to five more.
    pub fn slot(&mut self, writes: usize) -> Vec<Change<Account>> {
        let mut changes = Vec::with_capacity(writes + WRITES_MAX);
        while changes.len() < writes {
            self.transaction(&mut changes);
        }
        changes
    }

    /// The writes of one transaction, appended.
    pub fn transaction(&mut self, changes: &mut Vec<Change<Account>>) {
        self.transactions += 1;
        let market = chosen(&mut self.rng, self.popularity);
        let trader = 1 + chosen(&mut self.rng, self.markets[market].traders);
        let kind = self.rng.usize(..100);
        let is_open = self.markets[market].tokens[trader].is_open;
        let mut refund = 0;
        match kind {
            0..8 if is_open => refund = self.close(market, trader, changes),
            8..11 if is_open => {
                let rank = self.rng.u64(..self.ledger.counts.wallets);
                self.token(market, trader).owner = self.ledger.owner_of_rank(rank);
                self.write_token(market, trader, changes);
            }
            11..14 if is_open => {
                self.change_delegate(market, trader);
                self.write_token(market, trader, changes);
            }
            _ => self.swap(market, trader, changes),
        }
        self.pay(refund, changes);
    }

    fn swap(&mut self, market: usize, trader: usize, changes: &mut Vec<Change<Account>>) {
        if !self.markets[market].tokens[trader].is_open {
            self.open(market, trader);
        }
        let (mut from, mut to) = if self.rng.bool() { (0, trader) } else { (trader, 0) };
        if self.token(market, from).amount == 0 {
            (from, to) = (to, from);
        }
        let balance = self.token(market, from).amount;
        let amount = balance.min(1 + balance / 64);
        self.token(market, from).amount -= amount;
        self.token(market, to).amount += amount;
        self.write_token(market, from, changes);
        self.write_token(market, to, changes);
        for own in self.markets[market].own {
            let mut account = self.ledger.account(Kind::Other(own));
            let count = self.transactions.to_le_bytes();
            for (to, from) in account.0.data_as_mut_slice().iter_mut().rev().zip(count) {
                *to = from;
            }
            changes.push(change(self.ledger.address(Kind::Other(own)), account));
        }
    }

    /// Another token account of the same owner, at a new address.
    fn open(&mut self, market: usize, trader: usize) {
        let address = self.ledger.pubkey(Named::Created, self.created);
        self.created += 1;
        let token = &mut self.markets[market].tokens[trader];
        *token = Token { address, fields: token.fields.clone(), is_open: true };
    }

    /// Moves its balance to the vault, and its lamports to the payer.
    fn close(&mut self, market: usize, trader: usize, changes: &mut Vec<Change<Account>>) -> u64 {
        let account = self.ledger.token(&self.markets[market].tokens[trader].fields);
        let lamports = account.0.lamports();
        let amount = std::mem::take(&mut self.token(market, trader).amount);
        self.token(market, 0).amount += amount;
        let token = &mut self.markets[market].tokens[trader];
        token.is_open = false;
        token.fields.delegate = None;
        token.fields.was_delegate = None;
        token.fields.lamports = 0;
        changes.push(Change { address: Address::from(token.address.to_bytes()), record: None });
        self.write_token(market, 0, changes);
        lamports
    }

    fn change_delegate(&mut self, market: usize, trader: usize) {
        let rank = self.rng.u64(..) % (self.ledger.counts.tokens / 200).max(1);
        let delegate = self.ledger.pubkey(Named::Delegate, rank);
        let fields = self.token(market, trader);
        match fields.delegate.take() {
            Some((delegate, _)) => fields.was_delegate = Some(delegate),
            None => fields.delegate = Some((delegate, fields.amount.max(1))),
        }
    }

    /// A payer with enough lamports pays the fee, or gets the lamports of a closed account.
    fn pay(&mut self, refund: u64, changes: &mut Vec<Change<Account>>) {
        let payer = chosen(&mut self.rng, Zipf::new(1 << 32, self.payers.len() as u64));
        let lamports = &mut self.payers[payer];
        *lamports = lamports.saturating_sub(FEE).max(rent(0)) + refund;
        let mut account = self.ledger.account(Kind::Wallet(payer as u64));
        account.0.set_lamports(*lamports);
        changes.push(change(self.ledger.address(Kind::Wallet(payer as u64)), account));
    }

    fn token(&mut self, market: usize, holder: usize) -> &mut TokenFields {
        &mut self.markets[market].tokens[holder].fields
    }

    fn write_token(&self, market: usize, holder: usize, changes: &mut Vec<Change<Account>>) {
        let token = &self.markets[market].tokens[holder];
        changes.push(change(token.address, self.ledger.token(&token.fields)));
    }
}

impl Token {
    fn new(ledger: &Synthetic, holding: Holding) -> Self {
        let token = ledger.token_of(holding);
        let address = ledger.address(Kind::Token(token));
        Self { address, fields: ledger.token_fields(token), is_open: true }
    }
}

/// One of the ranks.
fn chosen(rng: &mut Rng, of: Zipf) -> usize {
    of.rank(rng.u64(..) >> 32) as usize
}

fn change(address: Pubkey, account: Account) -> Change<Account> {
    Change { address: Address::from(address.to_bytes()), record: Some(Arc::new(account)) }
}
