//! The API on a ledger of 80 slots, with a transaction service that tests control.
//!
//! Slots 1 to 80 of 4 seconds, 32 to an epoch. 46 and 64 are skipped. 48 is finalized, 79 confirmed,
//! 80 open. The history retains 40 slots: the first available is 40. Every block has a vote; [`World::tx`]
//! lists the other transactions.

use std::collections::HashMap;
use std::sync::Arc;

use chain_solana::{
    BlockInfo, BlockhashQueue, ClusterInfo, ExecutedTransaction, Faucet, HistoryLimits, Simulation,
    Simulator, StatusVisibility, TransactionSender,
};
use cpu_pool::Pool;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Api, SystemClock};
use ledger::Slot;
use query::LedgerConfig;
use serde_json::Value;
use solana_account::AccountSharedData;
use solana_epoch_rewards_hasher::EpochRewardsHasher;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_instruction::error::InstructionError;
use solana_keypair::Keypair;
use solana_message::v0::LoadedAddresses;
use solana_message::{AddressLookupTableAccount, Message, VersionedMessage, v0};
use solana_pubkey::Pubkey;
use solana_sdk_ids::{compute_budget, sysvar};
use solana_signer::Signer;
use solana_slot_hashes::SlotHashes;
use solana_slot_history::SlotHistory;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{Reward, RewardType, TransactionStatusMeta};
use testkit::cluster_info::cluster_info;
use testkit::fake_transaction_service::FakeTransactionService;
use testkit::test_ledger::{
    AccountWrites, TestLedger, TestLedgerConfig, TestTransaction, block_info,
};

use crate::SolanaApi;

pub(super) const GENESIS_TIME: i64 = 1_700_000_000;
pub(super) const FINALIZED: Slot = 48;
pub(super) const CONFIRMED: Slot = 79;
pub(super) const PROCESSED: Slot = 80;
/// Lamports per byte of the Rent sysvar, which the processed block writes.
pub(super) const PROCESSED_RENT: u64 = 696;
const SLOT_SECS: i64 = 4;
const SKIPPED: [Slot; 2] = [46, 64];
const HISTORY_BLOCKS: u64 = 38;
/// The first block of epoch 2, and the number of blocks after it that pay rewards.
pub(super) const BOUNDARY: Slot = 65;
const PARTITIONS: u64 = 2;

/// Returns a key pair by number: the same in every run.
pub(super) fn keypair(number: u8) -> Keypair {
    Keypair::new_from_array([number; 32])
}

pub(super) fn hash(slot: Slot) -> Hash {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&slot.to_le_bytes());
    Hash::new_from_array(bytes)
}

/// Returns a successful simulation without effects.
pub(super) fn simulation() -> Simulation {
    Simulation {
        slot: FINALIZED,
        err: None,
        logs: vec!["Program 11111111111111111111111111111111 invoke [1]".into()],
        units_consumed: 150,
        return_data: None,
        inner_instructions: None,
        post_accounts: Vec::new(),
        fee: 5_000,
        pre_balances: vec![100, 0],
        post_balances: vec![40, 60],
        pre_token_balances: Vec::new(),
        post_token_balances: Vec::new(),
        loaded_addresses: LoadedAddresses::default(),
        loaded_accounts_data_size: 9,
        replacement_blockhash: None,
    }
}

pub(super) struct World {
    pub(super) api: SolanaApi,
    pub(super) transaction_service: Arc<FakeTransactionService>,
    named: HashMap<&'static str, Arc<ExecutedTransaction>>,
}

impl World {
    /// Creates the ledger that the head of this file describes.
    pub(super) fn new() -> Self {
        Builder::new().build()
    }

    /// Creates a world with the failed transaction `late` in slot 61. Its status is hidden.
    pub(super) fn with_late() -> Self {
        Builder { has_late: true, ..Builder::new() }.build()
    }

    /// Returns a transaction of history: `memo` in slot 42, `failed` in 43, `lookup` in 44, `priced` in 45, `cheap` and
    /// `dear` in 47, `confirmed` in 60, `processed` and `refused` in 80, `forgotten` in 20. The status of `refused` is
    /// hidden.
    pub(super) fn tx(&self, name: &str) -> &Arc<ExecutedTransaction> {
        self.named.get(name).unwrap_or_else(|| panic!("no transaction is called {name}"))
    }

    /// Returns the signature of [`Self::tx`].
    pub(super) fn signature(&self, name: &str) -> String {
        self.tx(name).signature().to_string()
    }

    /// Calls a method as a client would.
    pub(super) fn call(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let text = params.to_string();
        let found = SolanaApi::sorted_methods().into_iter().find(|spec| spec.name == method);
        let method = found.unwrap_or_else(|| panic!("no method is called {method}"));
        let output = (method.run)(&self.api, Params::new(Some(&text)))?;
        Ok(serde_json::from_slice(&output.into_json()?).expect("a result is JSON"))
    }

    /// Calls a method that must succeed, and returns its result.
    pub(super) fn ok(&self, method: &str, params: Value) -> Value {
        let result = self.call(method, &params);
        result.unwrap_or_else(|err| panic!("{method} {params}: {err}"))
    }

    /// Returns the `value` of a call's result, which must be true at `slot`.
    pub(super) fn value(&self, slot: Slot, method: &str, params: Value) -> Value {
        let mut result = self.ok(method, params);
        assert_eq!(result["context"]["slot"], slot, "{method}");
        assert_eq!(result["context"]["apiVersion"], "4.2.2", "{method}");
        result["value"].take()
    }

    /// Checks the error of a call that must be refused.
    pub(super) fn check_refusal(
        &self,
        method: &str,
        params: Value,
        code: i64,
        message: &str,
    ) -> RpcError {
        let Err(err) = self.call(method, &params) else { panic!("{method} {params} had a result") };
        assert_eq!((err.code, err.message.as_str()), (code, message), "{method} {params}");
        err
    }
}

struct Builder {
    ledger: TestLedger,
    slot_history: SlotHistory,
    named: HashMap<&'static str, Arc<ExecutedTransaction>>,
    /// Whether slot 61 has a transaction.
    has_late: bool,
}

impl Builder {
    fn new() -> Self {
        let root = BlockInfo {
            blockhashes: Arc::new(BlockhashQueue::new(hash(0))),
            unix_timestamp: GENESIS_TIME,
            capitalization: 1_000_000,
            ..block_info(0)
        };
        let config = TestLedgerConfig {
            ledger: LedgerConfig::new(1_000),
            history: HistoryLimits { blocks_max: HISTORY_BLOCKS, bytes_max: u64::MAX },
            blockhash: hash,
            block_time: |slot| GENESIS_TIME + slot as i64 * SLOT_SECS,
        };
        let ledger = TestLedger::new(root, writes(super::votes::accounts()), config);
        let slot_history = SlotHistory::default();
        Self { ledger, slot_history, named: HashMap::new(), has_late: false }
    }

    fn build(mut self) -> World {
        for slot in (1..=PROCESSED).filter(|slot| !SKIPPED.contains(slot)) {
            self.block(slot);
        }
        let transaction_service = Arc::new(FakeTransactionService::default());
        *transaction_service.simulation.lock() = Ok(simulation());
        let reader = self.ledger.reader().clone();
        let history = Arc::clone(self.ledger.history());
        let pool = Pool::new(cpu_pool::Config::default(), Arc::new(SystemClock::new()), || {});
        let pool = Arc::new(pool.expect("a thread starts"));
        let api = SolanaApi::builder(Arc::new(node_info()), reader, history, pool)
            .transaction_sender(Arc::clone(&transaction_service) as Arc<dyn TransactionSender>)
            .simulator(Arc::clone(&transaction_service) as Arc<dyn Simulator>)
            .faucet(Some(Arc::clone(&transaction_service) as Arc<dyn Faucet>))
            .build();
        World { api, transaction_service, named: self.named }
    }

    /// Opens, fills and completes a block. The last block remains open.
    fn block(&mut self, slot: Slot) {
        let parent = self.ledger.tip().block.slot;
        self.ledger.open(slot);
        self.slot_history.add(slot);
        self.ledger.write(writes(sysvars(&self.slot_history, parent)));
        self.execute(slot);
        if slot == PROCESSED {
            let rent = bincode::serialize(&(PROCESSED_RENT, 1.0_f64, 50_u8));
            let rent = account(&sysvar::ID, &rent.expect("it has a size"));
            self.ledger.write(writes(vec![(sysvar::rent::ID, rent)]));
            return;
        }
        self.ledger.complete_with(|block| {
            block.bank_hash = hash(1_000 + slot);
            block.rewards = rewards(slot);
            block.reward_partitions = (slot == BOUNDARY).then_some(PARTITIONS);
            block.writes.clear();
        });
        self.ledger.confirm();
        if slot <= FINALIZED {
            self.ledger.finalize();
        }
    }

    /// Executes a vote, and the transactions of [`World::tx`] in this slot.
    fn execute(&mut self, slot: Slot) {
        let to_vote = Instruction::new_with_bytes(
            solana_sdk_ids::vote::ID,
            &[],
            vec![solana_instruction::AccountMeta::new(keypair(2).pubkey(), false)],
        );
        let vote = executed_transaction(
            sign_transaction(&[to_vote], &keypair(1), slot),
            &LoadedAddresses::default(),
        );
        self.ledger.execute(TestTransaction { is_vote: true, ..vote });
        for (name, other) in self.others(slot) {
            let executed = self.ledger.execute(other);
            self.named.insert(name, executed);
        }
    }

    fn others(&self, slot: Slot) -> Vec<(&'static str, TestTransaction)> {
        let payer = keypair(10);
        let to = keypair(11).pubkey();
        let pay = |lamports| transfer(&payer.pubkey(), &to, lamports);
        let none = LoadedAddresses::default();
        let plain = |instructions: &[Instruction]| {
            executed_transaction(sign_transaction(instructions, &payer, slot), &none)
        };
        let other = match slot {
            20 => ("forgotten", plain(&[pay(20)])),
            42 => {
                let memo =
                    Instruction::new_with_bytes(spl_memo_interface::v3::id(), b"hello", vec![]);
                ("memo", plain(&[pay(42), memo]))
            }
            43 => {
                let mut failed = plain(&[pay(43)]);
                let err = TransactionError::InstructionError(0, InstructionError::Custom(1));
                failed.meta.status = Err(err);
                ("failed", failed)
            }
            44 => {
                let (transaction, loaded) = with_lookup(&payer, hash(slot - 1));
                ("lookup", executed_transaction(transaction, &loaded))
            }
            45 => ("priced", plain(&[units(200_000), unit_price(1_000), pay(45)])),
            60 => ("confirmed", plain(&[pay(60)])),
            61 if self.has_late => {
                let payer = keypair(16);
                let pay = transfer(&payer.pubkey(), &keypair(17).pubkey(), 1);
                let mut late = executed_transaction(sign_transaction(&[pay], &payer, slot), &none);
                late.meta.status = Err(TransactionError::AccountNotFound);
                late.visibility = StatusVisibility::hidden();
                ("late", late)
            }
            80 => {
                let mut refused = plain(&[pay(81)]);
                refused.meta.status = Err(TransactionError::AccountNotFound);
                refused.visibility = StatusVisibility::hidden();
                return vec![("processed", plain(&[pay(80)])), ("refused", refused)];
            }
            47 => {
                let cheap = keypair(12);
                let dear = keypair(14);
                let pay = |from: &Keypair, to| transfer(&from.pubkey(), &keypair(to).pubkey(), 1);
                let cheap = sign_transaction(&[pay(&cheap, 13)], &cheap, slot);
                let dear = sign_transaction(&[unit_price(2_000), pay(&dear, 15)], &dear, slot);
                return vec![
                    ("cheap", executed_transaction(cheap, &none)),
                    ("dear", executed_transaction(dear, &none)),
                ];
            }
            _ => return Vec::new(),
        };
        vec![other]
    }
}

/// Returns the block that pays a stake account for epoch 1.
pub(super) fn pays(stake: &Pubkey) -> Slot {
    let hasher = EpochRewardsHasher::new(PARTITIONS as usize, &hash(BOUNDARY - 2));
    BOUNDARY + 1 + hasher.hash_address_to_partition(stake) as Slot
}

/// Returns the rewards of a block. For epoch 1 the vote account gets 7 lamports, and each stake account 100 plus its
/// number. The leader gets the fees of every block.
fn rewards(slot: Slot) -> Vec<Reward> {
    let reward = |number: u8, lamports, kind| Reward {
        pubkey: keypair(number).pubkey().to_string(),
        lamports,
        post_balance: 1_000 + lamports as u64,
        reward_type: Some(kind),
        commission: None,
        commission_bps: Some(500).filter(|_| kind == RewardType::Voting),
    };
    let mut all = Vec::new();
    if slot == BOUNDARY {
        all.push(reward(2, 7, RewardType::Voting));
    }
    for number in 60..70 {
        if slot == pays(&keypair(number).pubkey()) {
            all.push(reward(number, 100 + i64::from(number), RewardType::Staking));
        }
    }
    all.push(reward(1, 2_500, RewardType::Fee));
    all
}

fn writes(accounts: Vec<(Pubkey, AccountSharedData)>) -> AccountWrites {
    accounts.into_iter().map(|(pubkey, account)| (pubkey, Some(account))).collect()
}

fn node_info() -> ClusterInfo {
    ClusterInfo {
        genesis_hash: hash(0),
        genesis_unix_timestamp: GENESIS_TIME,
        identity: keypair(1).pubkey(),
        epoch_schedule: EpochSchedule::custom(32, 32, false),
        slot_ms: 4_000,
        shred_version: 77,
        feature_set: 1234,
        rpc: Some(([127, 0, 0, 1], 8899).into()),
        pubsub: Some(([127, 0, 0, 1], 8900).into()),
        ..cluster_info()
    }
}

pub(super) fn account(owner: &Pubkey, data: &[u8]) -> AccountSharedData {
    let mut account = AccountSharedData::new(1_000_000, 0, owner);
    account.set_data_from_slice(data);
    account
}

fn sysvars(history: &SlotHistory, parent: Slot) -> Vec<(Pubkey, AccountSharedData)> {
    let bytes = |value: Result<Vec<u8>, _>| value.expect("a sysvar has a size");
    let history = bytes(bincode::serialize(history));
    let hashes = bytes(bincode::serialize(&SlotHashes::new(&[(parent, hash(parent))])));
    vec![
        (sysvar::slot_history::ID, account(&sysvar::ID, &history)),
        (sysvar::slot_hashes::ID, account(&sysvar::ID, &hashes)),
    ]
}

pub(super) fn units(limit: u32) -> Instruction {
    let data = [&[2][..], &limit.to_le_bytes()].concat();
    Instruction::new_with_bytes(compute_budget::ID, &data, vec![])
}

pub(super) fn unit_price(microlamports: u64) -> Instruction {
    let data = [&[3][..], &microlamports.to_le_bytes()].concat();
    Instruction::new_with_bytes(compute_budget::ID, &data, vec![])
}

/// Signs a legacy transaction that names the blockhash before `slot`'s.
pub(super) fn sign_transaction(
    instructions: &[Instruction],
    payer: &Keypair,
    slot: Slot,
) -> VersionedTransaction {
    let before = hash(slot.saturating_sub(1));
    let message = Message::new_with_blockhash(instructions, Some(&payer.pubkey()), &before);
    VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[payer]).expect("one signer")
}

/// Returns the lookup table of the ledger.
pub(super) fn table() -> AddressLookupTableAccount {
    let addresses = vec![keypair(30).pubkey(), keypair(31).pubkey()];
    AddressLookupTableAccount { key: keypair(20).pubkey(), addresses }
}

/// Returns a version 0 transaction that pays the first address of [`table`].
pub(super) fn with_lookup(
    payer: &Keypair,
    blockhash: Hash,
) -> (VersionedTransaction, LoadedAddresses) {
    let table = table();
    let pay = transfer(&payer.pubkey(), &table.addresses[0], 5);
    let loaded = LoadedAddresses { writable: vec![table.addresses[0]], readonly: Vec::new() };
    let message = v0::Message::try_compile(&payer.pubkey(), &[pay], &[table], blockhash)
        .expect("the keys fit");
    let message = VersionedMessage::V0(message);
    (VersionedTransaction::try_new(message, &[payer]).expect("one signer"), loaded)
}

/// Returns a transaction that paid a fee.
fn executed_transaction(
    transaction: VersionedTransaction,
    loaded: &LoadedAddresses,
) -> TestTransaction {
    let mut keys = transaction.message.static_account_keys().to_vec();
    keys.extend_from_slice(&loaded.writable);
    keys.extend_from_slice(&loaded.readonly);
    let meta = TransactionStatusMeta {
        fee: 5_000,
        pre_balances: vec![100; keys.len()],
        post_balances: vec![90; keys.len()],
        inner_instructions: Some(Vec::new()),
        log_messages: Some(vec!["ran".into()]),
        pre_token_balances: Some(Vec::new()),
        post_token_balances: Some(Vec::new()),
        rewards: Some(Vec::new()),
        loaded_addresses: loaded.clone(),
        compute_units_consumed: Some(150),
        ..Default::default()
    };
    TestTransaction { meta, account_keys: keys, ..TestTransaction::new(transaction) }
}
