//! A ledger with a few accounts of each kind that clients ask for.
//!
//! Slot 100 is finalized, slot 101 confirmed, slot 102 open. [`WALLET`] has 1, 2 and 3 SOL at the three commitments;
//! everything else is the same at each.

use std::sync::Arc;

use chain_solana::{BlockInfo, BlockhashQueue, Reader};
use ledger::BlockId;
use query::{IndexConfig, LedgerConfig};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use spl_token_interface::state::{Account as Token, AccountState, Mint};

use crate::test_ledger::{AccountWrites, TestLedger, TestLedgerConfig, block_info};

/// Lamports of one SOL.
pub const SOL: u64 = 1_000_000_000;
/// The finalized slot.
pub const FINALIZED: u64 = 100;
/// The confirmed slot.
pub const CONFIRMED: u64 = 101;
/// The slot of the open block.
pub const PROCESSED: u64 = 102;
/// The clock of every block.
pub const NOW: i64 = 1_700_000_000;
/// Lamports of all accounts.
pub const CAPITALIZATION: u64 = 500 * SOL;

/// A wallet.
pub const WALLET: Pubkey = Pubkey::new_from_array([1; 32]);
/// A wallet of 4 SOL.
pub const OTHER_WALLET: Pubkey = Pubkey::new_from_array([2; 32]);
/// The delegate of `TOKEN`.
pub const DELEGATE: Pubkey = Pubkey::new_from_array([3; 32]);
/// The owner of `DATA`.
pub const PROGRAM: Pubkey = Pubkey::new_from_array([9; 32]);
/// A mint of the older token program: 2 decimals, a supply of 1,000.
pub const MINT: Pubkey = Pubkey::new_from_array([10; 32]);
/// A mint of Token-2022 without decimals.
pub const NEW_MINT: Pubkey = Pubkey::new_from_array([11; 32]);
/// 700 of `MINT` for `WALLET`, 50 of it delegated to `DELEGATE`.
pub const TOKEN: Pubkey = Pubkey::new_from_array([20; 32]);
/// 300 of `MINT` for `OTHER_WALLET`.
pub const OTHER_TOKEN: Pubkey = Pubkey::new_from_array([21; 32]);
/// 5 of `NEW_MINT` for `WALLET`.
pub const NEW_TOKEN: Pubkey = Pubkey::new_from_array([22; 32]);
/// An account of the token program that is not a token account.
pub const ODD_TOKEN: Pubkey = Pubkey::new_from_array([23; 32]);
/// Accounts of `PROGRAM` with the bytes 0, 1, 2, ….
pub const DATA: [Pubkey; 3] = [
    Pubkey::new_from_array([30; 32]),
    Pubkey::new_from_array([31; 32]),
    Pubkey::new_from_array([32; 32]),
];
/// Their lengths in bytes.
pub const DATA_BYTES: [usize; 3] = [9, 129, 100_000];
/// A stake account of 7 SOL, locked until long after `NOW`.
pub const LOCKED_STAKE: Pubkey = Pubkey::new_from_array([40; 32]);
/// A stake account of 8 SOL that is free.
pub const FREE_STAKE: Pubkey = Pubkey::new_from_array([41; 32]);

/// Returns the identity of the block of a slot.
pub fn block(slot: u64) -> BlockId {
    BlockId { slot, version: slot }
}

/// Returns the facts of the bank of a slot.
pub fn bank(slot: u64) -> Arc<BlockInfo> {
    Arc::new(BlockInfo {
        block_height: slot - 10,
        blockhashes: Arc::new(BlockhashQueue::new(Hash::new_from_array([6; 32]))),
        transaction_count: slot * 10,
        unix_timestamp: NOW,
        capitalization: CAPITALIZATION,
        complete: slot < PROCESSED,
        ..block_info(slot)
    })
}

/// Returns a reader of the ledger with these indices.
pub fn ledger(indices: IndexConfig) -> Reader {
    let ledger = LedgerConfig { addresses_max: 10_000, indices };
    let config = TestLedgerConfig { ledger, ..TestLedgerConfig::default() };
    let mut accounts = genesis();
    accounts.push((WALLET, plain(SOL)));
    let mut ledger = TestLedger::new((*bank(FINALIZED)).clone(), some(accounts), config);
    for (slot, sol) in [(CONFIRMED, 2), (PROCESSED, 3)] {
        ledger.open_as((*bank(slot)).clone());
        ledger.write(some(vec![(WALLET, plain(sol * SOL))]));
        if slot == CONFIRMED {
            ledger.complete();
            ledger.confirm();
        }
    }
    ledger.reader().clone()
}

fn some(accounts: Vec<(Pubkey, AccountSharedData)>) -> AccountWrites {
    accounts.into_iter().map(|(pubkey, account)| (pubkey, Some(account))).collect()
}

fn genesis() -> Vec<(Pubkey, AccountSharedData)> {
    let mut accounts = vec![
        (OTHER_WALLET, plain(4 * SOL)),
        (MINT, with_data(spl_token_interface::id(), &mint(2, 1_000))),
        (NEW_MINT, with_data(spl_token_2022_interface::id(), &mint(0, 5))),
        (TOKEN, with_data(spl_token_interface::id(), &token(MINT, WALLET, 700, Some(DELEGATE)))),
        (OTHER_TOKEN, with_data(spl_token_interface::id(), &token(MINT, OTHER_WALLET, 300, None))),
        (NEW_TOKEN, with_data(spl_token_2022_interface::id(), &token(NEW_MINT, WALLET, 5, None))),
        (ODD_TOKEN, with_data(spl_token_interface::id(), &[1, 2, 3])),
        (LOCKED_STAKE, stake(7 * SOL, NOW + 1_000)),
        (FREE_STAKE, stake(8 * SOL, NOW - 1_000)),
    ];
    for (pubkey, bytes) in DATA.into_iter().zip(DATA_BYTES) {
        let data: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
        accounts.push((pubkey, with_data(PROGRAM, &data)));
    }
    accounts
}

fn plain(lamports: u64) -> AccountSharedData {
    AccountSharedData::new(lamports, 0, &solana_sdk_ids::system_program::id())
}

/// Returns an account of 0.01 SOL with these data.
pub fn with_data(owner: Pubkey, data: &[u8]) -> AccountSharedData {
    let mut account = AccountSharedData::new(SOL / 100, 0, &owner);
    account.set_data_from_slice(data);
    account
}

/// Returns the data of a mint.
pub fn mint(decimals: u8, supply: u64) -> Vec<u8> {
    let mint = Mint { decimals, supply, is_initialized: true, ..Mint::default() };
    let mut data = vec![0; Mint::LEN];
    Mint::pack(mint, &mut data).expect("it fits");
    data
}

/// Returns the data of a token account. 50 of its tokens are delegated if it has a delegate.
pub fn token(mint: Pubkey, owner: Pubkey, amount: u64, delegate: Option<Pubkey>) -> Vec<u8> {
    let token = Token {
        mint,
        owner,
        amount,
        delegate: delegate.into(),
        delegated_amount: if delegate.is_some() { 50 } else { 0 },
        state: AccountState::Initialized,
        ..Token::default()
    };
    let mut data = vec![0; Token::LEN];
    Token::pack(token, &mut data).expect("it fits");
    data
}

/// An initialized stake account without authorities, with a lockup until `unlocks`.
fn stake(lamports: u64, unlocks: i64) -> AccountSharedData {
    let mut data = vec![0; 200];
    data[0] = 1;
    data[76..84].copy_from_slice(&unlocks.to_le_bytes());
    let mut account = with_data(solana_sdk_ids::stake::id(), &data);
    solana_account::WritableAccount::set_lamports(&mut account, lamports);
    account
}
