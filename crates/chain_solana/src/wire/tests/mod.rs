//! Tests of the records of a log: round trips, damage, limits, and the files of each version.

mod damage;
mod golden;
mod limits;
mod round_trip;

use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;
use ledger::{AddressId, BlockId, StoredRecord};
use solana::{Account, Entry, VerificationLevel};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use super::fuzzing::Message;
use super::*;
use crate::testing::RandomLedger;
use crate::{AccountWrite, Block, BlockFooter, RevertReason};

/// A log that grows by random records, each with its messages and its decoded form.
struct RandomLog {
    rng: Rng,
    ledger: RandomLedger,
    link: RecordLink,
    writer: WriterId,
}

/// A record as it was made.
struct Made {
    messages: Vec<Message>,
    digest: RecordDigest,
    record: Record,
    /// The record for comparisons.
    text: String,
}

impl Made {
    /// Whether a reader got this record, with every field of it.
    fn is_equal(&self, read: &ReadRecord) -> bool {
        let is_text_equal = format!("{:?}", read.record) == self.text;
        // The text has only the first bytes of an account.
        let is_state_equal = match (&read.record, &self.record) {
            (Record::Block(read), Record::Block(made)) => read.accounts == made.accounts,
            _ => true,
        };
        is_text_equal && is_state_equal && read.digest == self.digest
    }
}

impl RandomLog {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let link = RecordLink { number: rng.u64(1..1 << 40), previous: digest(&mut rng) };
        let level = rng.choice(VerificationLevel::ALL);
        let ingester = std::array::from_fn(|_| rng.u8(..));
        let writer = WriterId { term: rng.u64(..), ingester, level };
        Self { rng, ledger: RandomLedger::new(seed), link, writer }
    }

    /// Makes the next record, of any kind.
    fn record(&mut self) -> Made {
        match self.rng.u32(0..6) {
            0 => self.marks(),
            1 => self.term(),
            2 => self.snapshot(),
            _ => {
                let block = self.random_block();
                self.block(&block)
            }
        }
    }

    fn random_block(&mut self) -> Block {
        let mut block = self.ledger.block();
        let count = self.rng.usize(0..4);
        block.entries = (0..count).map(|_| entry(&mut self.rng)).collect();
        block
    }

    /// Makes the record of a block.
    fn block(&mut self, block: &Block) -> Made {
        let footer = self.rng.bool().then(|| Arc::new(footer(&mut self.rng)));
        let source = BlockSource {
            block,
            parent_blockhash: hash(&mut self.rng),
            capitalization: self.rng.u64(..),
            clock_time: self.rng.i64(..),
            is_jump: self.rng.bool(),
            footer: footer.as_ref(),
            made_at_ms: self.rng.u64(..),
        };
        let encoded = EncodedBlock::new(&source).expect("a block that fits");
        let parent_number = self.rng.u64(..);
        let record = encoded.to_record(self.link, self.writer, parent_number);
        let expected = BlockRecord {
            link: self.link,
            writer: self.writer,
            parent_number,
            parent_blockhash: source.parent_blockhash,
            capitalization: source.capitalization,
            clock_time: source.clock_time,
            is_jump: source.is_jump,
            made_at_ms: source.made_at_ms,
            block: Block {
                id: BlockId { slot: block.id.slot, version: self.link.number },
                parent: BlockId { slot: block.parent.slot, version: parent_number },
                writes: Vec::new(),
                ..block.clone()
            },
            footer: footer.clone(),
            accounts: wire_accounts(block),
            digests: encoded.digests(),
        };
        self.finish(&record, Record::Block(Box::new(expected)))
    }

    fn marks(&mut self) -> Made {
        let count = self.rng.usize(0..20);
        let record = MarksRecord {
            link: self.link,
            writer: self.writer,
            made_at_ms: self.rng.u64(..),
            marks: (0..count).map(|_| mark(&mut self.rng)).collect(),
        };
        self.finish(&encode_marks(&record), Record::Marks(record))
    }

    fn term(&mut self) -> Made {
        self.writer.term = self.writer.term.wrapping_add(1);
        let record = TermRecord {
            link: self.link,
            writer: self.writer,
            made_at_ms: self.rng.u64(..),
            reason: "no block of the leader for 3 s".to_owned(),
        };
        self.finish(&encode_term(&record), Record::Term(record))
    }

    fn snapshot(&mut self) -> Made {
        let record = SnapshotRecord {
            link: self.link,
            writer: self.writer,
            made_at_ms: self.rng.u64(..),
            manifest_key: format!("snap/toy/{}/manifest", self.rng.u64(..)),
            manifest_digest: digest(&mut self.rng).0,
            block: name(&mut self.rng),
            block_digest: digest(&mut self.rng),
        };
        self.finish(&encode_snapshot(&record), Record::Snapshot(record))
    }

    fn finish(&mut self, encoded: &EncodedRecord, record: Record) -> Made {
        let digest = encoded.digest();
        self.link = RecordLink { number: self.link.number + 1, previous: digest };
        let text = format!("{record:?}");
        Made { messages: messages(encoded), digest, record, text }
    }
}

fn messages(record: &EncodedRecord) -> Vec<Message> {
    let head = Message { is_head: true, payload: record.head.clone() };
    let body = |payload: &Bytes| Message { is_head: false, payload: payload.clone() };
    std::iter::once(head).chain(record.bodies.iter().map(body)).collect()
}

/// Reads messages until one is refused. Returns the accepted records as text, and the refusal.
fn read_all<'a>(messages: impl IntoIterator<Item = &'a Message>) -> ReadLog {
    let mut reader = RecordReader::new();
    let mut log = ReadLog { records: Vec::new(), refusal: None };
    for Message { is_head, payload } in messages {
        match reader.push(*is_head, payload.clone()) {
            Ok(Some(read)) => log.records.push(read),
            Ok(None) => {}
            Err(err) => {
                log.refusal = Some(err);
                break;
            }
        }
    }
    log
}

/// The outcome of reading messages.
struct ReadLog {
    records: Vec<ReadRecord>,
    refusal: Option<WireError>,
}

/// Returns the accounts that a reader gets of a block.
fn wire_accounts(block: &Block) -> Vec<WireAccount> {
    let account = |write: &AccountWrite| WireAccount {
        pubkey: write.pubkey,
        account: write.after().map(|account| Account::clone(&account)),
    };
    block.writes.iter().map(account).collect()
}

/// A write of an account with `data`, which sorts by `number`.
fn write(number: u64, data: Vec<u8>) -> AccountWrite {
    let mut pubkey = [7; 32];
    pubkey[..8].copy_from_slice(&number.to_be_bytes());
    let account = solana_account::Account { lamports: 1, data, ..Default::default() };
    let account = Arc::new(Account(AccountSharedData::from(account)));
    AccountWrite {
        pubkey: Pubkey::new_from_array(pubkey),
        id: AddressId(0),
        account: Some(StoredRecord::from(account)),
        removed_keys: Vec::new(),
    }
}

/// Bytes that cannot be compressed.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    Rng::with_seed(seed).fill(&mut data);
    data
}

fn mark(rng: &mut Rng) -> Mark {
    let block = name(rng);
    match rng.u32(0..6) {
        0 => Mark::TipMoved(block),
        1 => Mark::Confirmed(block),
        2 => Mark::Rooted(block),
        3 => Mark::Reverted { block, reason: RevertReason::Abandoned },
        4 => Mark::Reverted { block, reason: RevertReason::Replaced },
        _ => {
            let error = "another bank hash ".repeat(rng.usize(0..12));
            Mark::Reverted { block, reason: RevertReason::Dead { error } }
        }
    }
}

fn name(rng: &mut Rng) -> BlockName {
    BlockName { slot: rng.u64(..), number: rng.u64(..) }
}

fn entry(rng: &mut Rng) -> Entry {
    Entry {
        num_hashes: rng.u64(..),
        hash: hash(rng),
        transaction_count: rng.u64(..),
        starting_transaction_index: rng.u64(..),
    }
}

fn footer(rng: &mut Rng) -> BlockFooter {
    let bytes = |rng: &mut Rng| (0..rng.usize(0..50)).map(|_| rng.u8(..)).collect();
    BlockFooter {
        bank_hash: bytes(rng),
        producer_time_nanos: rng.u64(..),
        user_agent: bytes(rng),
        certificates: bytes(rng),
    }
}

fn hash(rng: &mut Rng) -> Hash {
    Hash::new_from_array(digest(rng).0)
}

fn digest(rng: &mut Rng) -> RecordDigest {
    RecordDigest(std::array::from_fn(|_| rng.u8(..)))
}
