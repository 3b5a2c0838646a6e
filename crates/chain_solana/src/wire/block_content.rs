//! The sections of a block's record as bytes: the accounts, and everything that no bank hash covers.
//!
//! Input of the reader: whole sections, with or without valid digests. Invalid bytes are refused, and never cause a
//! panic.
//! Not here: how sections are cut into bodies (`body`), the facts of the bank (`facts`).

use std::sync::Arc;

use ledger::Slot;
use solana::Entry;
use solana_transaction_status::Reward;
use store::{ByteReader, ByteWriter, DecodeError};

use super::body::SectionWriter;
use super::codec;
use super::error::EncodeError;
use super::record::WireAccount;
use crate::{AccountWrite, BlockFooter, ExecutedTransaction};

/// Everything of a block that no bank hash covers.
pub(super) struct Rest<'a> {
    pub(super) block_time: i64,
    pub(super) transaction_count: u64,
    pub(super) reward_partitions: Option<u64>,
    pub(super) footer: Option<&'a BlockFooter>,
    pub(super) rewards: &'a [Reward],
    pub(super) entries: &'a [Entry],
    pub(super) transactions: &'a [Arc<ExecutedTransaction>],
}

/// [`Rest`], decoded.
pub(super) struct DecodedRest {
    pub(super) block_time: i64,
    pub(super) transaction_count: u64,
    pub(super) reward_partitions: Option<u64>,
    pub(super) footer: Option<Arc<BlockFooter>>,
    pub(super) rewards: Vec<Reward>,
    pub(super) entries: Vec<Entry>,
    pub(super) transactions: Vec<Arc<ExecutedTransaction>>,
}

/// Writes accounts in the order of their addresses. Fails if an account is written twice.
pub(super) fn write_accounts(
    slot: Slot,
    writes: &[AccountWrite],
    section: &mut SectionWriter<'_>,
) -> Result<(), EncodeError> {
    // Producers sort them by address already; sorting again costs one pass.
    let mut writes: Vec<&AccountWrite> = writes.iter().collect();
    writes.sort_by_key(|write| write.pubkey);
    if let Some(pair) = writes.windows(2).find(|pair| pair[0].pubkey == pair[1].pubkey) {
        return Err(EncodeError::RepeatedAccount { slot, pubkey: pair[0].pubkey });
    }
    section.out.u32(writes.len() as u32);
    for write in writes {
        // A reader has ids of its own, and derives the removed keys from the account that it has.
        let AccountWrite { pubkey, id: _, account: _, removed_keys: _ } = write;
        section.out.key(pubkey.as_array());
        let account = write.after();
        section.out.option(account.as_deref(), |out, account| codec::append_account(account, out));
        section.flush()?;
    }
    Ok(())
}

/// Reads the accounts of a block. Fails unless they are in the order of their addresses, each once.
pub(super) fn read_accounts(section: &[u8]) -> Result<Vec<WireAccount>, DecodeError> {
    let mut from = ByteReader::new(section);
    let accounts = from.list("accounts", |from| {
        let pubkey = codec::pubkey(from, "address")?;
        let account = from.option("account", codec::read_account_fields)?;
        Ok(WireAccount { pubkey, account })
    })?;
    from.end()?;
    let is_sorted = accounts.is_sorted_by(|first, second| first.pubkey < second.pubkey);
    if is_sorted { Ok(accounts) } else { Err(DecodeError { what: "order of accounts" }) }
}

/// Writes everything of a block that no bank hash covers.
pub(super) fn write_rest(
    rest: &Rest<'_>,
    section: &mut SectionWriter<'_>,
) -> Result<(), EncodeError> {
    let Rest {
        block_time,
        transaction_count,
        reward_partitions,
        footer,
        rewards,
        entries,
        transactions,
    } = *rest;
    section.out.i64(block_time);
    section.out.u64(transaction_count);
    section.out.option(reward_partitions, ByteWriter::u64);
    section.out.option(footer, write_footer);
    section.out.list(rewards, codec::write_reward);
    section.out.list(entries, write_entry);
    section.out.u32(transactions.len() as u32);
    for executed in transactions {
        codec::write_executed(executed, &mut section.out);
        section.flush()?;
    }
    Ok(())
}

/// Reads what [`write_rest`] wrote of the block in `slot`.
pub(super) fn read_rest(slot: Slot, section: &[u8]) -> Result<DecodedRest, DecodeError> {
    let mut from = ByteReader::new(section);
    let rest = DecodedRest {
        block_time: from.i64("time")?,
        transaction_count: from.u64("transaction count")?,
        reward_partitions: from
            .option("reward partitions", |from| from.u64("reward partitions"))?,
        footer: from.option("footer", |from| read_footer(from).map(Arc::new))?,
        rewards: from.list("block rewards", codec::read_reward)?,
        entries: from.list("entries", read_entry)?,
        transactions: from
            .list("transactions", |from| codec::read_executed(slot, from).map(Arc::new))?,
    };
    from.end().map(|()| rest)
}

fn write_footer(out: &mut ByteWriter, footer: &BlockFooter) {
    let BlockFooter { bank_hash, producer_time_nanos, user_agent, certificates } = footer;
    out.bytes(bank_hash);
    out.u64(*producer_time_nanos);
    out.bytes(user_agent);
    out.bytes(certificates);
}

fn read_footer(from: &mut ByteReader<'_>) -> Result<BlockFooter, DecodeError> {
    Ok(BlockFooter {
        bank_hash: from.bytes("bank hash of the footer")?.to_vec(),
        producer_time_nanos: from.u64("time of the footer")?,
        user_agent: from.bytes("user agent of the footer")?.to_vec(),
        certificates: from.bytes("certificates of the footer")?.to_vec(),
    })
}

fn write_entry(out: &mut ByteWriter, entry: &Entry) {
    let Entry { num_hashes, hash, transaction_count, starting_transaction_index } = entry;
    out.u64(*num_hashes);
    out.key(hash.as_bytes());
    out.u64(*transaction_count);
    out.u64(*starting_transaction_index);
}

fn read_entry(from: &mut ByteReader<'_>) -> Result<Entry, DecodeError> {
    Ok(Entry {
        num_hashes: from.u64("hashes of an entry")?,
        hash: codec::hash(from, "hash of an entry")?,
        transaction_count: from.u64("transactions of an entry")?,
        starting_transaction_index: from.u64("first transaction of an entry")?,
    })
}
