//! A node with a few accounts and a ledger that accepts every transaction: enough for every
//! method to run most of its code.

use std::sync::{Arc, LazyLock};

use chain_solana::{
    AirdropError, BlockInfo, BlockhashQueue, Faucet, Reader, SendError, Sender, Simulation,
    SimulationError, SimulationRequest, Simulator, TransactionSender, VerifiedTransaction, View,
    WrittenAccounts,
};
use rpc_solana::{SolanaApiBuilder, SolanaServer};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use testkit::solana_node::SolanaNode;
use testkit::test_ledger::{AccountWrites, TestLedger, TestLedgerConfig, block_info};

/// The one node of the process. Nothing that a request does changes it, and nothing runs on its pool: requests are handled
/// on the calling thread.
pub(crate) static NODE: LazyLock<SolanaServer> = LazyLock::new(|| {
    // The service of `testkit` records every call, and a run has no end.
    let accept = |api: SolanaApiBuilder| {
        api.transaction_sender(Arc::new(AcceptingLedger))
            .simulator(Arc::new(AcceptingLedger))
            .faucet(Some(Arc::new(AcceptingLedger)))
    };
    SolanaNode::builder(reader()).with_api(accept).build_server()
});

struct AcceptingLedger;

impl TransactionSender for AcceptingLedger {
    fn send(&self, _: Sender, _: VerifiedTransaction) -> Result<(), SendError> {
        Ok(())
    }
}

impl Simulator for AcceptingLedger {
    fn simulate_after(
        &self,
        _: &View,
        _: &WrittenAccounts,
        _: SimulationRequest,
    ) -> Result<Simulation, SimulationError> {
        Err(SimulationError::Panicked)
    }
}

impl Faucet for AcceptingLedger {
    fn airdrop(&self, _: Sender, _: Pubkey, _: u64, _: Hash) -> Result<Signature, AirdropError> {
        Ok(Signature::default())
    }
}

const SLOT: u64 = 1_000;

fn reader() -> Reader {
    let root = BlockInfo {
        transaction_count: 10,
        unix_timestamp: 1_700_000_000,
        capitalization: 1_000_000_000,
        blockhashes: Arc::new(BlockhashQueue::new(Hash::new_from_array([6; 32]))),
        ..block_info(SLOT)
    };
    TestLedger::new(root, accounts(), TestLedgerConfig::default()).reader().clone()
}

/// One account of each program that JSON is made of, filled with data that makes its parser work hard;
/// the first 32 bytes of a key are its number.
fn accounts() -> AccountWrites {
    let token = spl_token();
    let programs = [
        (solana_sdk_ids::system_program::id(), vec![]),
        (solana_sdk_ids::vote::id(), vec![1; 3_762]),
        (solana_sdk_ids::stake::id(), [vec![2, 0, 0, 0], vec![3; 196]].concat()),
        (solana_sdk_ids::sysvar::id(), vec![1; 200]),
        (solana_sdk_ids::address_lookup_table::id(), [vec![1, 0, 0, 0], vec![0; 148]].concat()),
        (token, token_account()),
        (token, mint()),
        (Pubkey::new_from_array([9; 32]), (0..200).collect()),
    ];
    let write = |(number, (owner, data)): (usize, (Pubkey, Vec<u8>))| {
        let mut account = AccountSharedData::new(1_000, 0, &owner);
        account.set_data_from_slice(&data);
        (Pubkey::new_from_array([number as u8 + 1; 32]), Some(account))
    };
    programs.into_iter().enumerate().map(write).collect()
}

pub(crate) fn spl_token() -> Pubkey {
    Pubkey::from_str_const("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
}

/// Of mint 7, for wallet 1, initialized.
pub(crate) fn token_account() -> Vec<u8> {
    let mut data = [vec![7; 32], vec![1; 32], vec![0; 101]].concat();
    data[64] = 100;
    data[108] = 1;
    data
}

/// With 6 decimals, initialized.
fn mint() -> Vec<u8> {
    let mut data = vec![0; 82];
    data[36] = 100;
    data[44] = 6;
    data[45] = 1;
    data
}
