//! A follower executes the transactions of a ledger of this process again: an honest source has no difference, also
//! over ends of epochs and on forks, and each lie about results that no bank hash covers is named.
//!
//! Recorded runs of real validators have no difference, either: the VM computes what Agave 4.2.2 does.
//!
//! Shape: the stream of the ledger is recorded once, and replayed with one lie at a time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chain_solana::{
    EventSink, ExecutionSummary, ForkTransactions, LedgerEvent, ResultField, ResultOrigin,
    Verification, VerifiedTransaction,
};
use clients::ClientId;
use follow::{ExecutionConfig, FollowerConfig, VerifyMode};
use ledger::{Address, Commitment, Slot};
use solana_account::ReadableAccount;
use solana_address_lookup_table_interface::instruction::{
    create_lookup_table, extend_lookup_table,
};
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_message::{AddressLookupTableAccount, Message, VersionedMessage, v0};
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use solana_sdk_ids::secp256k1_program;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::{
    advance_nonce_account, create_account, create_nonce_account, transfer,
};
use solana_transaction::versioned::VersionedTransaction;
use spl_associated_token_account_interface::address::get_associated_token_address;
use spl_associated_token_account_interface::instruction::create_associated_token_account;
use spl_token_interface::instruction as token;
use spl_token_interface::state::Mint;
use testkit::geyser_source;
use tokio::runtime::Runtime;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{CommitmentLevel, SlotStatus, SubscribeUpdate};
use yellowstone_grpc_proto::solana::storage::confirmed_block as proto;

use crate::followed_ledger::{
    Following, SLOTS_PER_EPOCH, Source, assert_equal, config, wait, write_snapshot,
};
use crate::grpc;
use crate::recording::{Recording, Replay};

const CLIENT: ClientId = ClientId(1);
const SOL: u64 = 1_000_000_000;
/// Lamports of accounts that the test creates: enough for their rent.
const FUNDS: u64 = 10_000_000;

/// A ledger with a wallet that pays.
struct Payer<'a> {
    source: &'a Source,
    key: Keypair,
}

/// The transactions that liars alter.
struct Sent {
    creates_token_account: Signature,
    mints: Signature,
    returns_data: Signature,
    /// A failed call of a program, which wrote the fee payer alone.
    fails: Signature,
}

impl<'a> Payer<'a> {
    fn fund(source: &'a Source) -> Self {
        let key = Keypair::new();
        let blockhash = source.reader.view(Commitment::Processed).meta().last_blockhash();
        let airdrop = source.faucet.airdrop(CLIENT.into(), key.pubkey(), 100 * SOL, blockhash);
        airdrop.expect("the queue has room");
        wait("the airdrop", || lamports(source, &key.pubkey()) > 0);
        Self { source, key }
    }

    fn pubkey(&self) -> Pubkey {
        self.key.pubkey()
    }

    fn blockhash(&self) -> Hash {
        self.source.reader.view(Commitment::Processed).meta().last_blockhash()
    }

    /// Sends instructions, and waits until they are in a block.
    fn send(&self, instructions: &[Instruction], others: &[&Keypair]) -> Signature {
        self.send_with(instructions, others, self.blockhash())
    }

    fn send_with(
        &self,
        instructions: &[Instruction],
        others: &[&Keypair],
        blockhash: Hash,
    ) -> Signature {
        let message = Message::new_with_blockhash(instructions, Some(&self.pubkey()), &blockhash);
        self.sign(VersionedMessage::Legacy(message), others)
    }

    fn sign(&self, message: VersionedMessage, others: &[&Keypair]) -> Signature {
        let mut signers = vec![&self.key];
        signers.extend(others);
        let transaction = VersionedTransaction::try_new(message, &signers).expect("signers fit");
        let signature = transaction.signatures[0];
        let verified = VerifiedTransaction::verify(transaction).expect("it is signed");
        self.source.transaction_sender.send(CLIENT.into(), verified).expect("the queue has room");
        let is_known = || {
            let history = self.source.history.snapshot();
            history.transaction(&signature, Commitment::Confirmed).is_some()
        };
        wait("the transaction", is_known);
        signature
    }

    /// Calls programs in each way that a bank hash does not cover.
    fn call_programs(&self) -> Sent {
        let payer = self.pubkey();
        let program = spl_token_interface::ID;
        let mint = Keypair::new();
        let mint_key = mint.pubkey();
        let size = Mint::LEN as u64;
        self.send(
            &[
                create_account(&payer, &mint_key, FUNDS, size, &program),
                token::initialize_mint2(&program, &mint_key, &payer, None, 6).expect("a mint"),
            ],
            &[&mint],
        );
        let create = create_associated_token_account(&payer, &payer, &mint_key, &program);
        let creates_token_account = self.send(&[create], &[]);
        let tokens = get_associated_token_address(&payer, &mint_key);
        let mint_to = token::mint_to(&program, &mint_key, &tokens, &payer, &[], 1_000);
        let mints = self.send(&[mint_to.expect("an instruction")], &[]);
        let data_size = token::get_account_data_size(&program, &mint_key).expect("an instruction");
        let returns_data = self.send(&[data_size], &[]);
        let too_many = token::burn(&program, &tokens, &mint_key, &payer, &[], 1_000_000);
        let fails = self.send(&[too_many.expect("an instruction")], &[]);
        Sent { creates_token_account, mints, returns_data, fails }
    }

    /// Uses a nonce, in a transaction that succeeds and in one that fails.
    fn use_nonces(&self) {
        let payer = self.pubkey();
        let nonce = Keypair::new();
        let key = nonce.pubkey();
        self.send(&create_nonce_account(&payer, &key, &payer, FUNDS), &[&nonce]);
        for lamports in [1, u64::MAX / 2] {
            let advance = advance_nonce_account(&key, &payer);
            let pay = transfer(&payer, &payer, lamports);
            let stored = account(self.source, &key).expect("a nonce account");
            // Behind a version, a state and the authority.
            let value = stored.0.data()[40..72].try_into().expect("32 bytes");
            self.send_with(&[advance, pay], &[], Hash::new_from_array(value));
        }
    }

    /// Names accounts by a lookup table, and calls a precompile.
    fn use_lookup_table(&self) {
        let payer = self.pubkey();
        let recent = self.source.slot(Commitment::Finalized);
        let (create, key) = create_lookup_table(payer, payer, recent);
        let target = Pubkey::new_unique();
        let extend = extend_lookup_table(key, payer, Some(payer), vec![target]);
        self.send(&[create, extend], &[]);
        let table = AddressLookupTableAccount { key, addresses: vec![target] };
        let check = Instruction {
            program_id: secp256k1_program::ID,
            accounts: Vec::new(),
            // No signature is to be checked.
            data: vec![0],
        };
        let instructions = [transfer(&payer, &target, FUNDS), check];
        let message = v0::Message::try_compile(&payer, &instructions, &[table], self.blockhash());
        self.sign(VersionedMessage::V0(message.expect("it compiles")), &[]);
        assert_eq!(lamports(self.source, &target), FUNDS);
    }
}

fn account(source: &Source, key: &Pubkey) -> Option<Arc<solana::Account>> {
    source.reader.view(Commitment::Confirmed).record(&Address::from(key.to_bytes()))
}

fn lamports(source: &Source, key: &Pubkey) -> u64 {
    account(source, key).map_or(0, |account| account.0.lamports())
}

fn summary(following: &Following) -> ExecutionSummary {
    following.status.proof().summary().execution.expect("it executes")
}

/// Waits until this number of banks was executed, or was not and is counted.
fn wait_for_banks(following: &Following, banks: u64) -> ExecutionSummary {
    let counted = || {
        let ExecutionSummary { equal_banks, differing_banks, partial_banks, skipped_banks, .. } =
            summary(following);
        equal_banks + differing_banks + partial_banks + skipped_banks
    };
    wait("all banks are executed", || counted() >= banks);
    assert_eq!(following.status.mismatch(), None);
    summary(following)
}

/// Executes every bank, however fast they come.
fn with_execution(config: FollowerConfig) -> FollowerConfig {
    let execution = ExecutionConfig { banks_max: 1_000, ..ExecutionConfig::default() };
    FollowerConfig { execution: Some(execution), ..config }
}

fn is_executed(following: &Following, slot: Slot) -> bool {
    let history = following.history.snapshot();
    let block = history.block(slot, Commitment::Processed);
    block.is_some_and(|block| {
        following.status.proof().content(block.id).results == ResultOrigin::Executed
    })
}

#[test]
fn an_honest_source_has_no_difference_over_ends_of_epochs() {
    let source = Source::start();
    source.run_to(20);
    let dir = tempfile::tempdir().expect("a directory");
    let rooted = source.reader.view(Commitment::Finalized);
    let archive = write_snapshot(&rooted, dir.path());
    let start = rooted.block().slot;
    let config = with_execution(config(source.grpc.address()));
    let config = FollowerConfig { verify: VerifyMode::Execution, ..config };
    let following = Following::start_with(config, &archive, Vec::new());
    let payer = Payer::fund(&source);
    payer.call_programs();
    payer.use_nonces();
    payer.use_lookup_table();
    source.run_to(3 * SLOTS_PER_EPOCH);
    let end = source.slot(Commitment::Confirmed);
    following.wait_for(end);
    let found = wait_for_banks(&following, end - start);
    assert_eq!((found.differing_banks, found.first_difference), (0, None), "{found:?}");
    // Those are the first banks of epochs.
    assert_eq!(found.skipped_banks, 3, "{found:?}");
    assert_eq!(found.equal_banks + found.partial_banks + 3, end - start, "{found:?}");
    assert!(found.executed_transactions >= found.equal_banks, "each has a vote: {found:?}");
    let executed = || (start + 1..=end).filter(|slot| is_executed(&following, *slot)).count();
    wait("the writer knows all results", || executed() as u64 == found.equal_banks);
    following.stop();
    source.stop();
}

#[test]
fn the_banks_of_a_new_fork_are_executed_on_their_own_parents() {
    let source = Source::start();
    source.run_to(10);
    let dir = tempfile::tempdir().expect("a directory");
    let rooted = source.reader.view(Commitment::Finalized);
    let archive = write_snapshot(&rooted, dir.path());
    let config = with_execution(config(source.grpc.address()));
    let following = Following::start_with(config, &archive, Vec::new());
    let payer = Payer::fund(&source);
    payer.call_programs();
    let mut newest = 0;
    for transactions in [ForkTransactions::Reexecute, ForkTransactions::Drop] {
        source.forks.reorg(CLIENT, 2, transactions).wait().expect("not too deep");
        newest = source.slot(Commitment::Confirmed);
        source.run_to(newest + 3);
    }
    let end = source.slot(Commitment::Confirmed);
    wait("the last bank", || following.status.processed() >= end);
    wait("the bank before it is verified", || following.status.verified() + 1 >= end);
    assert_equal(&source, &following, newest);
    wait("the last bank is executed", || is_executed(&following, end));
    let found = summary(&following);
    assert_eq!((found.differing_banks, found.first_difference), (0, None), "{found:?}");
    assert!(found.equal_banks > 0, "{found:?}");
    following.stop();
    source.stop();
}

/// A lie about the results of a transaction, or about a block if there is no transaction.
struct Lie {
    field: ResultField,
    transaction: Option<Signature>,
    apply: fn(&mut UpdateOneof),
}

impl Lie {
    fn about_transaction(
        field: ResultField,
        transaction: Signature,
        apply: fn(&mut UpdateOneof),
    ) -> Self {
        Self { field, transaction: Some(transaction), apply }
    }

    /// Alters an update if the lie is about it.
    fn alter(&self, slot: Slot, update: &mut SubscribeUpdate) {
        let Some(update) = &mut update.update_oneof else { return };
        let is_meant = match (&*update, self.transaction) {
            (UpdateOneof::Transaction(it), Some(signature)) => {
                let info = it.transaction.as_ref().expect("a transaction");
                info.signature == <[u8; 64]>::from(signature)
            }
            (UpdateOneof::BlockMeta(it), None) => it.slot == slot,
            _ => false,
        };
        if is_meant {
            (self.apply)(update);
        }
    }
}

fn meta_mut(update: &mut UpdateOneof) -> &mut proto::TransactionStatusMeta {
    let UpdateOneof::Transaction(update) = update else { panic!("not a transaction") };
    let info = update.transaction.as_mut().expect("a transaction");
    info.meta.as_mut().expect("results")
}

fn lies(sent: &Sent) -> Vec<Lie> {
    let lie = Lie::about_transaction;
    vec![
        lie(ResultField::Status, sent.fails, |it| meta_mut(it).err = None),
        lie(ResultField::Logs, sent.fails, |it| {
            meta_mut(it).log_messages = vec!["Program log: paid all".to_owned()];
        }),
        lie(ResultField::Logs, sent.mints, |it| {
            let meta = meta_mut(it);
            meta.log_messages.clear();
            meta.log_messages_none = true;
        }),
        lie(ResultField::ComputeUnits, sent.mints, |it| {
            meta_mut(it).compute_units_consumed = Some(1_399_999);
        }),
        lie(ResultField::InnerInstructions, sent.creates_token_account, |it| {
            meta_mut(it).inner_instructions.clear();
        }),
        lie(ResultField::InnerInstructions, sent.mints, |it| {
            let instruction = proto::InnerInstruction {
                program_id_index: 0,
                accounts: vec![1, 0],
                data: vec![2, 0, 0, 0],
                stack_height: Some(2),
            };
            let all = proto::InnerInstructions { index: 0, instructions: vec![instruction] };
            meta_mut(it).inner_instructions.push(all);
        }),
        lie(ResultField::ReturnData, sent.returns_data, |it| {
            meta_mut(it).return_data.as_mut().expect("it returns data").data[0] ^= 1;
        }),
        lie(ResultField::TokenBalances, sent.mints, |it| {
            let balance = meta_mut(it).post_token_balances.first_mut().expect("a balance");
            let amount = balance.ui_token_amount.as_mut().expect("an amount");
            amount.amount = "1000000".to_owned();
        }),
        lie(ResultField::Balances, sent.mints, |it| {
            let meta = meta_mut(it);
            meta.pre_balances.clear();
            meta.post_balances.clear();
        }),
        lie(ResultField::TransactionRewards, sent.mints, |it| {
            meta_mut(it).rewards.push(proto::Reward {
                pubkey: Pubkey::new_unique().to_string(),
                lamports: 1_000_000,
                ..proto::Reward::default()
            });
        }),
        Lie {
            field: ResultField::BlockTime,
            transaction: None,
            apply: |it| {
                let UpdateOneof::BlockMeta(meta) = it else { panic!("not the meta") };
                meta.block_time = Some(proto::UnixTimestamp { timestamp: 1_900_000_000 });
            },
        },
        Lie {
            field: ResultField::BlockHeight,
            transaction: None,
            apply: |it| {
                let UpdateOneof::BlockMeta(meta) = it else { panic!("not the meta") };
                meta.block_height = Some(proto::BlockHeight { block_height: 1 });
            },
        },
    ]
}

/// The updates of a source from a slot on, until a slot is confirmed.
fn record(source: &Source, runtime: &Runtime, from: Slot, end: Slot) -> Vec<SubscribeUpdate> {
    let address = source.grpc.address();
    runtime.block_on(async {
        let stream = grpc::subscribe(address, CommitmentLevel::Processed, from).await;
        let mut stream = stream.expect("a stream");
        let mut all = Vec::new();
        loop {
            let update = stream.message().await.expect("it is open").expect("an update");
            let is_end = matches!(
                &update.update_oneof,
                Some(UpdateOneof::Slot(it))
                    if it.slot == end && it.status == i32::from(SlotStatus::SlotConfirmed)
            );
            // The follower does not request entries.
            if !matches!(update.update_oneof, Some(UpdateOneof::Entry(_))) {
                all.push(update);
            }
            if is_end {
                return all;
            }
        }
    })
}

/// Follows the recorded updates until all of their banks were executed.
fn replay(runtime: &Runtime, archive: &Path, updates: Vec<SubscribeUpdate>) -> ExecutionSummary {
    let is_meta =
        |update: &&SubscribeUpdate| matches!(update.update_oneof, Some(UpdateOneof::BlockMeta(_)));
    let banks = updates.iter().filter(is_meta).count() as u64;
    let scripted = geyser_source::Source::new(None);
    let address = runtime.block_on(scripted.serve());
    let following = Following::start_with(with_execution(config(address)), archive, Vec::new());
    scripted.send(updates);
    let found = wait_for_banks(&following, banks);
    following.stop();
    found
}

#[test]
fn each_lie_about_results_is_named_with_its_transaction_and_field() {
    let source = Source::start();
    source.run_to(10);
    let dir = tempfile::tempdir().expect("a directory");
    let rooted = source.reader.view(Commitment::Finalized);
    let archive = write_snapshot(&rooted, dir.path());
    let from = rooted.block().slot + 1;
    let payer = Payer::fund(&source);
    let sent = payer.call_programs();
    let history = source.history.snapshot();
    let minted = history.transaction(&sent.mints, Commitment::Confirmed).expect("it is in a block");
    let end = source.slot(Commitment::Confirmed);
    assert!(end + 4 < SLOTS_PER_EPOCH, "all banks are of one epoch");
    source.run_to(end + 3);
    let runtime = Runtime::new().expect("a runtime");
    let honest = record(&source, &runtime, from, end);
    let found = replay(&runtime, &archive, honest.clone());
    assert_eq!((found.differing_banks, found.first_difference), (0, None), "{found:?}");
    for lie in lies(&sent) {
        let mut updates = honest.clone();
        updates.iter_mut().for_each(|update| lie.alter(minted.slot, update));
        let found = replay(&runtime, &archive, updates);
        let name = lie.field.name();
        let difference = found.first_difference.unwrap_or_else(|| panic!("{name}: {found:?}"));
        assert_eq!(difference.field, lie.field, "{found:?}");
        assert_eq!(difference.signature, lie.transaction, "{found:?}");
        assert!(found.differing_banks > 0, "{name}: {found:?}");
    }
    source.stop();
}

#[test]
fn a_sample_executes_whole_banks_and_counts_the_others() {
    let source = Source::start();
    source.run_to(10);
    let dir = tempfile::tempdir().expect("a directory");
    let rooted = source.reader.view(Commitment::Finalized);
    let archive = write_snapshot(&rooted, dir.path());
    let start = rooted.block().slot;
    let execution = ExecutionConfig { transactions_per_s: Some(1), banks_max: 1_000 };
    let execution = Some(execution);
    let config = FollowerConfig { execution, ..config(source.grpc.address()) };
    // More banks than a second has credit for.
    source.run_to(start + 12);
    let following = Following::start_with(config, &archive, Vec::new());
    let end = source.slot(Commitment::Confirmed);
    following.wait_for(end);
    let found = wait_for_banks(&following, end - start);
    assert_eq!((found.differing_banks, found.transactions_per_s), (0, Some(1)), "{found:?}");
    assert!(found.equal_banks > 0 && found.skipped_banks > 0, "{found:?}");
    following.stop();
    source.stop();
}

/// Counts the banks that became the tip and have transactions.
#[derive(Clone, Default)]
struct TipCounter(Arc<AtomicU64>);

impl EventSink for TipCounter {
    fn send(&mut self, event: &LedgerEvent) {
        if let LedgerEvent::Executed(_) = event {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn the_banks_of_recorded_validators_have_the_results_that_they_reported() {
    for name in ["recorded_validator", "recorded_cluster"] {
        let Recording { archive, chunks, .. } = Recording::read(name);
        let tips = TipCounter::default();
        let sinks: Vec<Box<dyn EventSink>> = vec![Box::new(tips.clone())];
        let set = |config, _| with_execution(config);
        let mut replay = Replay::start_with(&archive, None, set, sinks);
        for chunk in chunks {
            replay.send(chunk.updates);
        }
        let found = wait_for_banks(&replay.following, tips.0.load(Ordering::Relaxed));
        assert_eq!((found.differing_banks, found.first_difference), (0, None), "{name}: {found:?}");
        assert!(found.equal_banks > found.partial_banks, "{name}: {found:?}");
        replay.following.stop();
    }
}
