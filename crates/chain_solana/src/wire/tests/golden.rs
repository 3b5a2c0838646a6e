//! The records of each version as files: a release reads what an earlier one wrote.
//!
//! `HYDRANT_WRITE_GOLDEN=1` writes the files of the present version, which are also seeds of the fuzz target
//! `log_messages`. A file of a version that was released never changes.
//! zstd's bytes depend on its release, so a block is compared after it was read.

use std::fs;
use std::path::PathBuf;

use solana_account_decoder_client_types::token::UiTokenAmount;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::v0::LoadedAddresses;
use solana_message::{Message as TransactionMessage, MessageHeader, VersionedMessage};
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{
    InnerInstruction, InnerInstructions, Reward, RewardType, TransactionStatusMeta,
    TransactionTokenBalance,
};

use super::*;
use crate::wire::fuzzing::{read_messages, write_messages};
use crate::{BankHashComponents, ExecutedTransaction};

/// Seeds of the fuzz target.
const SEEDS_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/log_messages");

const LINK: RecordLink = RecordLink { number: 1_234_567, previous: RecordDigest([0xa5; 32]) };
const WRITER: WriterId =
    WriterId { term: 3, ingester: *b"sixteen bytes id", level: Some(VerificationLevel::Agreed) };
const MADE_AT_MS: u64 = 1_800_000_000_123;

/// Compares the file of a version 1 with `record`. Both are read as the same record.
fn check(name: &str, record: &EncodedRecord) {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}_v1"));
    if std::env::var_os("HYDRANT_WRITE_GOLDEN").is_some() {
        let seed = PathBuf::from(SEEDS_DIR).join(format!("{name}_v1"));
        for path in [&path, &seed] {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, write_messages(record)).expect("a file");
        }
    }
    let file = fs::read(&path).expect("a golden file; HYDRANT_WRITE_GOLDEN=1 writes it");
    let golden = read_messages(&file);
    let read = read_all(&golden);
    let again = read_all(&messages(record));
    assert_eq!((read.refusal, again.refusal), (None, None), "{name}");
    assert_eq!((read.records.len(), again.records.len()), (1, 1), "{name}");
    let golden_record = &read.records[0].record;
    let record = &again.records[0].record;
    assert_eq!(format!("{golden_record:?}"), format!("{record:?}"), "{name}");
    if let (Record::Block(golden), Record::Block(block)) = (golden_record, record) {
        assert_eq!(golden.accounts, block.accounts);
        assert_eq!(golden.digests, block.digests);
    } else {
        assert_eq!(read.records[0].digest, again.records[0].digest, "{name}");
    }
}

#[test]
fn marks_of_version_1_are_read() {
    let block = |slot, number| BlockName { slot, number };
    let reverted = |slot, reason| Mark::Reverted { block: block(slot, slot + 1_000), reason };
    let marks = vec![
        Mark::TipMoved(block(300, 1_234_560)),
        Mark::Confirmed(block(290, 1_234_550)),
        Mark::Rooted(block(260, 1_234_520)),
        reverted(299, RevertReason::Dead { error: "another bank hash".to_owned() }),
        reverted(298, RevertReason::Abandoned),
        reverted(297, RevertReason::Replaced),
    ];
    let record = MarksRecord { link: LINK, writer: WRITER, made_at_ms: MADE_AT_MS, marks };
    check("marks", &encode_marks(&record));
}

#[test]
fn a_term_of_version_1_is_read() {
    let reason = "no block of the leader for 3 s".to_owned();
    let record = TermRecord { link: LINK, writer: WRITER, made_at_ms: MADE_AT_MS, reason };
    check("term", &encode_term(&record));
}

#[test]
fn a_snapshot_of_version_1_is_read() {
    let record = SnapshotRecord {
        link: LINK,
        writer: WRITER,
        made_at_ms: MADE_AT_MS,
        manifest_key: "snap/toy/000000000260/manifest".to_owned(),
        manifest_digest: [0x11; 32],
        block: BlockName { slot: 260, number: 1_234_520 },
        block_digest: RecordDigest([0x22; 32]),
    };
    check("snapshot", &encode_snapshot(&record));
}

#[test]
fn a_block_of_version_1_is_read() {
    let footer = Arc::new(BlockFooter {
        bank_hash: vec![5; 32],
        producer_time_nanos: 1_800_000_000_000_000_000,
        user_agent: b"agave/4.2.2".to_vec(),
        certificates: vec![1, 2, 3],
    });
    let block = block();
    let source = BlockSource {
        block: &block,
        parent_blockhash: block.previous_blockhash,
        capitalization: 500_000_000_000_000_000,
        clock_time: 1_800_000_000,
        is_jump: false,
        footer: Some(&footer),
        made_at_ms: MADE_AT_MS,
    };
    let encoded = EncodedBlock::new(&source).expect("a block that fits");
    check("block", &encoded.to_record(LINK, WRITER, 1_234_566));
}

#[test]
fn an_empty_block_of_version_1_that_was_jumped_to_is_read() {
    let mut block = block();
    block.transactions.clear();
    block.rewards.clear();
    block.reward_partitions = None;
    block.entries.clear();
    block.writes.clear();
    let source = BlockSource {
        block: &block,
        parent_blockhash: filled_hash(77),
        capitalization: 0,
        clock_time: -1,
        is_jump: true,
        footer: None,
        made_at_ms: MADE_AT_MS,
    };
    let encoded = EncodedBlock::new(&source).expect("a block that fits");
    check("jump", &encoded.to_record(LINK, WRITER, 1_000_000));
}

/// A block with every field, the same in every release.
fn block() -> Block {
    let mut closed = write(9, Vec::new());
    closed.account = None;
    Block {
        id: BlockId { slot: 301, version: 5 },
        parent: BlockId { slot: 299, version: 4 },
        block_height: 280,
        blockhash: filled_hash(1),
        previous_blockhash: filled_hash(2),
        bank_hash: filled_hash(3),
        hash_components: BankHashComponents {
            parent_hash: filled_hash(4),
            signature_count: 6,
            last_blockhash: filled_hash(1),
            lt_checksum: filled_hash(5),
        },
        block_time: 1_799_999_999,
        transaction_count: 98_765,
        transactions: vec![Arc::new(transaction())],
        rewards: vec![reward(Some(RewardType::Fee)), reward(None)],
        reward_partitions: Some(4),
        entries: vec![Entry {
            num_hashes: 12_500,
            hash: filled_hash(1),
            transaction_count: 1,
            starting_transaction_index: 0,
        }],
        writes: vec![write(1, Vec::new()), write(2, vec![7; 300]), closed],
    }
}

fn transaction() -> ExecutedTransaction {
    let account_keys: Vec<Pubkey> = (10..13).map(filled_pubkey).collect();
    let instruction =
        CompiledInstruction { program_id_index: 2, accounts: vec![0, 1], data: vec![9, 8, 7] };
    let message = VersionedMessage::Legacy(TransactionMessage {
        header: MessageHeader {
            num_required_signatures: 1,
            num_readonly_signed_accounts: 0,
            num_readonly_unsigned_accounts: 1,
        },
        account_keys: account_keys.clone(),
        recent_blockhash: filled_hash(2),
        instructions: vec![instruction.clone()],
    });
    let loaded =
        LoadedAddresses { writable: vec![filled_pubkey(13)], readonly: vec![filled_pubkey(14)] };
    let token = TransactionTokenBalance {
        account_index: 1,
        mint: "a mint".to_owned(),
        ui_token_amount: UiTokenAmount {
            ui_amount: Some(1.5),
            decimals: 1,
            amount: "15".to_owned(),
            ui_amount_string: "1.5".to_owned(),
        },
        owner: "an owner".to_owned(),
        program_id: "a program".to_owned(),
    };
    let meta = TransactionStatusMeta {
        status: Err(TransactionError::InsufficientFundsForFee),
        fee: 5_000,
        pre_balances: vec![10_000, 1, 1],
        post_balances: vec![5_000, 1, 1],
        inner_instructions: Some(vec![InnerInstructions {
            index: 0,
            instructions: vec![InnerInstruction { instruction, stack_height: Some(2) }],
        }]),
        log_messages: Some(vec!["Program log: hello".to_owned()]),
        pre_token_balances: Some(vec![token]),
        post_token_balances: None,
        rewards: Some(Vec::new()),
        loaded_addresses: loaded.clone(),
        return_data: Some(TransactionReturnData {
            program_id: filled_pubkey(12),
            data: vec![1, 2],
        }),
        compute_units_consumed: Some(150),
        cost_units: Some(1_500),
    };
    ExecutedTransaction {
        slot: 301,
        index: 0,
        block_time: 1_799_999_999,
        transaction: VersionedTransaction { signatures: vec![Signature::from([6; 64])], message },
        meta,
        account_keys: [account_keys, loaded.writable, loaded.readonly].concat(),
        is_vote: false,
        visibility: Default::default(),
    }
}

fn reward(reward_type: Option<RewardType>) -> Reward {
    Reward {
        pubkey: "an address".to_owned(),
        lamports: -5,
        post_balance: 12,
        reward_type,
        commission: Some(7),
        commission_bps: Some(700),
    }
}

fn filled_hash(byte: u8) -> Hash {
    Hash::new_from_array([byte; 32])
}

fn filled_pubkey(byte: u8) -> Pubkey {
    Pubkey::new_from_array([byte; 32])
}
