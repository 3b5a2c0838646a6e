//! Execution of banks: calls of programs that are not known, and banks beyond the bound of the queue.

use std::collections::HashMap;

use chain_solana::{Block, ExecutedTransaction, StatusVisibility};
use ledger::{Address, Commitment};
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_clock::Clock;
use solana_feature_set::FeatureSet;
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::{Message as SolanaMessage, MessageHeader, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_sdk_ids::{native_loader, sysvar};
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionStatusMeta;
use svm::Vm;
use testkit::test_ledger::{TestLedger, TestLedgerConfig, block_info, empty_block};
use tokio::sync::mpsc;

use super::*;

const SLOT: u64 = 5;
/// A builtin program that the VM does not have.
const UNKNOWN: Pubkey = Pubkey::new_from_array([77; 32]);

/// Accounts of a new ledger, with a wallet and a builtin program of a later release.
fn new_ledger(payer: &Keypair) -> TestLedger {
    let vm = Vm::new(FeatureSet::all_enabled());
    let mut accounts: HashMap<Pubkey, AccountSharedData> =
        vm.accounts().map(|(key, account)| (*key, account.clone())).collect();
    accounts.insert(payer.pubkey(), AccountSharedData::new(1 << 30, 0, &Pubkey::default()));
    let mut unknown = AccountSharedData::new(1, 0, &native_loader::ID);
    unknown.set_executable(true);
    accounts.insert(UNKNOWN, unknown);
    let accounts = accounts.into_iter().map(|(key, account)| (key, Some(account)));
    TestLedger::new(block_info(SLOT), accounts.collect(), TestLedgerConfig::default())
}

/// A call of the unknown program.
fn call(payer: &Keypair, index: u32) -> Arc<ExecutedTransaction> {
    let message = SolanaMessage {
        header: MessageHeader {
            num_required_signatures: 1,
            num_readonly_signed_accounts: 0,
            num_readonly_unsigned_accounts: 1,
        },
        account_keys: vec![payer.pubkey(), UNKNOWN],
        recent_blockhash: Hash::default(),
        instructions: vec![CompiledInstruction {
            program_id_index: 1,
            accounts: vec![0],
            data: vec![index as u8],
        }],
    };
    let account_keys = message.account_keys.clone();
    let message = VersionedMessage::Legacy(message);
    Arc::new(ExecutedTransaction {
        slot: SLOT + 1,
        index,
        block_time: 0,
        transaction: VersionedTransaction::try_new(message, &[payer]).expect("the key signs"),
        meta: TransactionStatusMeta::default(),
        account_keys,
        is_vote: false,
        visibility: StatusVisibility::default(),
    })
}

/// A bank on a ledger's newest block that writes nothing.
fn new_bank(ledger: &TestLedger, transactions: Vec<Arc<ExecutedTransaction>>) -> BankToExecute {
    let view = ledger.reader().view(Commitment::Processed);
    let parent = ledger.tip().clone();
    let id = BlockId { slot: SLOT + 1, version: SLOT + 1 };
    let clock = view.record(&Address::from(sysvar::clock::ID.to_bytes())).expect("a Clock");
    let clock: Clock = bincode::deserialize(clock.0.data()).expect("its form");
    let block = Block {
        block_time: clock.unix_timestamp,
        block_height: parent.block_height + 1,
        transactions,
        ..empty_block(id, parent.block)
    };
    let before = vec![Arc::new(StatesBefore::new(HashMap::default()))];
    BankToExecute { block: Arc::new(block), parent: Arc::new(parent), before, view: Arc::new(view) }
}

#[test]
fn a_call_of_an_unknown_builtin_program_is_not_executed_and_named() {
    let payer = Keypair::new();
    let ledger = new_ledger(&payer);
    let bank = new_bank(&ledger, vec![call(&payer, 0), call(&payer, 1)]);
    let status = ExecutionStatus::default();
    let mut vm = None;
    let result = execute_bank(&mut vm, &bank, &status, &AtomicBool::new(false));
    let summary = status.summary();
    assert_eq!(result, Some(BankResult::Partial), "{summary:?}");
    assert_eq!((summary.executed_transactions, summary.skipped_transactions), (0, 2));
    assert_eq!(summary.first_difference, None);
    let reason = summary.last_skip.expect("a reason");
    assert!(reason.contains(&format!("builtin program {UNKNOWN}")), "{reason}");
    let mut out = metrics::Exposition::default();
    status.write(&mut out);
    let text = out.into_string();
    // The second one names the fee payer of the first.
    for result in ["unknown_program", "unknown_account"] {
        let line =
            format!("hydrant_follow_execution_transactions_total{{result=\"{result}\"}} 1\n");
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn banks_beyond_the_bound_are_counted_and_wait_for_nothing() {
    let payer = Keypair::new();
    let ledger = new_ledger(&payer);
    let (sender, _messages) = mpsc::channel(1);
    let status = Arc::<ExecutionStatus>::default();
    let config = ExecutionConfig { banks_max: 2, ..ExecutionConfig::default() };
    // As if its threads were busy.
    let mut execution = Execution::new(config, sender.downgrade(), Arc::clone(&status));
    let now = Duration::from_secs(1);
    for _ in 0..2 {
        assert!(execution.admits(1, now));
        execution.push(new_bank(&ledger, Vec::new()));
    }
    let queued = || status.queued_banks.load(Ordering::Relaxed);
    assert_eq!((queued(), status.summary().skipped_banks), (2, 0));
    assert!(!execution.admits(1, now));
    execution.push(new_bank(&ledger, Vec::new()));
    assert_eq!((queued(), status.summary().skipped_banks), (2, 2));
    let bank = execution.shared.pop().expect("it is not closed");
    assert_eq!(queued(), 1);
    assert!(execution.admits(1, now));
    execution.remove(bank.block.id);
    assert_eq!((queued(), status.summary().skipped_banks), (0, 3), "a dropped bank is removed");
    drop(execution);
    assert_eq!(status.queued_bytes.load(Ordering::Relaxed), 0);
}
