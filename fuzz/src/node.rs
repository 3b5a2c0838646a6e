//! A node with a few accounts and a ledger that accepts every transaction: enough for every
//! method to run most of its code.

use std::sync::{Arc, LazyLock};

use chain_solana::{
    AirdropError, BankHashComponents, BlockInfo, BlockhashQueue, ComputedVerification, Faucet,
    History, HistoryLimits, InflationSchedule, OneNodeCluster, SendError, Sender, Simulation,
    SimulationError, SimulationRequest, Simulator, TransactionSender, VerifiedTransaction, View,
    WrittenAccounts,
};
use jsonrpc::{Health, SystemClock};
use ledger::{Address, BlockId, Change};
use pool::{Limits, Pool, RateLimiter};
use rpc_solana::{Config, SolanaApi, SolanaServer};
use solana::Account;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use testkit::cluster_info::cluster_info;

/// The one node of the process. Nothing that a request does changes it.
pub(crate) static NODE: LazyLock<SolanaServer> = LazyLock::new(|| {
    let cluster_info = Arc::new(cluster_info());
    let inflation = InflationSchedule::default();
    let limits = HistoryLimits { slots_max: 10, bytes_max: 1 << 20 };
    let history = Arc::new(History::new(limits, BlockId { slot: SLOT, version: 0 }));
    let reader = reader();
    let verification = ComputedVerification::new(reader.clone(), Arc::clone(&history));
    let api = SolanaApi {
        verification: Arc::new(verification),
        cluster: Arc::new(OneNodeCluster::new(Arc::clone(&cluster_info), inflation)),
        cluster_info,
        history,
        reader,
        transaction_sender: Arc::new(AcceptingLedger),
        simulator: Arc::new(AcceptingLedger),
        faucet: Some(Arc::new(AcceptingLedger)),
        fork_control: None,
        upstream: None,
        account_upstream: None,
        snapshots: None,
        notified: Arc::default(),
        older_statuses: None,
        bundles: Arc::default(),
        cheatcodes: Arc::default(),
        // Never used: requests are handled on the calling thread.
        pool: Arc::new(
            Pool::new(pool::Config::default(), Arc::new(SystemClock::new()), || {})
                .expect("a thread"),
        ),
        health: Arc::new(Health::default()),
        metrics: SolanaApi::new_metrics(),
        config: Config::default(),
    };
    let response_cache = response_cache::ResponseCache::new(1 << 24);
    api.into_server(Arc::new(response_cache), Arc::new(RateLimiter::new(Limits::default())))
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

fn reader() -> chain_solana::Reader {
    let block = BlockId { slot: SLOT, version: 0 };
    let bank = Arc::new(BlockInfo {
        block,
        parent: BlockId { slot: SLOT - 1, version: 0 },
        block_height: SLOT,
        blockhashes: Arc::new(BlockhashQueue::new(Hash::new_from_array([6; 32]))),
        transaction_count: 10,
        unix_timestamp: 1_700_000_000,
        capitalization: 1_000_000_000,
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        complete: true,
    });
    let config = query::LedgerConfig::new(1_000);
    let (mut ledger, reader) = query::Ledger::new(config, block, Arc::clone(&bank));
    ledger.apply(block, accounts(), bank).expect("the root takes accounts");
    ledger.publish();
    reader
}

/// One account of each program that JSON is made of, filled with data that makes its parser work hard;
/// the first 32 bytes of a key are its number.
fn accounts() -> Vec<Change<Account>> {
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
    let change = |(number, (owner, data)): (usize, (Pubkey, Vec<u8>))| {
        let mut account = AccountSharedData::new(1_000, 0, &owner);
        account.set_data_from_slice(&data);
        let key = [number as u8 + 1; 32];
        Change { address: Address::from(key), record: Account(account).into_record() }
    };
    programs.into_iter().enumerate().map(change).collect()
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
