//! Reads a ledger back. Everything is read once and checked.
//!
//! The checksum of a value is checked ([`store::decode_row`]). Further checks: blocks follow each other without a gap
//! from the head's oldest block to the head itself. No account is newer than the head. The number of accounts and the
//! sum of their fingerprints equal those of the head, so that none is missing or outdated. The head is not older than
//! the slot in the directory's file.

use std::sync::Arc;

use chain_solana::Block;
use chain_solana::wire::codec;
use solana::Account;
use solana_pubkey::Pubkey;
use store::{Directory, Engine, StoreError, Table, decode_row, fingerprint};

use crate::head::Head;
use crate::key::{self, Key};
use crate::rows::CallerRows;

/// A whole ledger as of its newest block.
pub struct Restored {
    /// The caller's bytes from the creation of the ledger.
    pub genesis: Vec<u8>,
    /// The stored blocks, the oldest first, without their account writes. Never empty.
    pub blocks: Vec<Arc<Block>>,
    /// Every account as of the newest block, in the order of pubkeys.
    pub accounts: Vec<(Pubkey, Arc<Account>)>,
}

/// Everything except the accounts.
pub(crate) struct RestoredBlocks {
    pub(crate) head: Head,
    pub(crate) rows: CallerRows,
    pub(crate) blocks: Vec<Arc<Block>>,
}

/// Reads the head, the caller's bytes and the blocks.
pub(crate) fn read_restored_blocks<E: Engine>(
    directory: &Directory,
    engine: &E,
) -> Result<RestoredBlocks, StoreError> {
    let Meta { head, genesis, epochs, bank } = read_meta(directory, engine)?;
    let head = head.ok_or_else(|| directory.damage_error("head: missing"))?;
    let genesis = genesis.ok_or_else(|| directory.damage_error("genesis: missing"))?;
    let newest = directory.newest()?;
    if newest > head.slot {
        let what = format!("head: names block {}, but block {newest} was stored", head.slot);
        return Err(directory.damage_error(what));
    }
    let blocks = read_blocks(directory, engine, &head)?;
    Ok(RestoredBlocks { head, rows: CallerRows { genesis, epochs, bank }, blocks })
}

/// The rows about the ledger as a whole.
#[derive(Default)]
struct Meta {
    head: Option<Head>,
    genesis: Option<Vec<u8>>,
    epochs: Option<Vec<u8>>,
    bank: Option<Vec<u8>>,
}

fn read_meta<E: Engine>(directory: &Directory, engine: &E) -> Result<Meta, StoreError> {
    let mut meta = Meta::default();
    each(directory, engine, key::META, |key, value| {
        let body = decode_row(key, value).map_err(|err| err.to_string())?;
        match key {
            Key::Head => {
                meta.head = Some(Head::from_bytes(&body).map_err(|err| err.to_string())?);
            }
            Key::Epochs => meta.epochs = Some(body),
            Key::Bank => meta.bank = Some(body),
            _ => meta.genesis = Some(body),
        }
        Ok(())
    })?;
    Ok(meta)
}

fn read_blocks<E: Engine>(
    directory: &Directory,
    engine: &E,
    head: &Head,
) -> Result<Vec<Arc<Block>>, StoreError> {
    let mut blocks: Vec<Arc<Block>> = Vec::new();
    each(directory, engine, key::BLOCKS, |key, value| {
        let body = decode_row(key, value).map_err(|err| err.to_string())?;
        let mut block = codec::read_block(&body).map_err(|err| err.to_string())?;
        if Key::Block(block.id.slot) != key {
            return Err(format!("holds block {}", block.id.slot));
        }
        if block.id.slot > head.slot {
            return Err(format!("is newer than the head, block {}", head.slot));
        }
        follows(blocks.last(), &block, head)?;
        if let Some(parent) = blocks.last() {
            block.parent = parent.id;
        }
        blocks.push(Arc::new(block));
        Ok(())
    })?;
    match blocks.last() {
        Some(block) if block.id.slot == head.slot => Ok(blocks),
        _ => {
            Err(directory
                .damage_error(format!("block {}: missing, and it is the newest", head.slot)))
        }
    }
}

/// Checks that `block` follows the one before it.
fn follows(before: Option<&Arc<Block>>, block: &Block, head: &Head) -> Result<(), String> {
    match before {
        None if block.id.slot == head.first_slot => Ok(()),
        None => Err(format!("is the oldest, but block {} should be", head.first_slot)),
        Some(before) if before.id.slot != block.parent.slot => {
            Err(format!("its parent, block {}, is missing", block.parent.slot))
        }
        Some(before) if before.blockhash != block.previous_blockhash => {
            Err(format!("does not follow from block {}: blockhash", before.id.slot))
        }
        Some(_) => Ok(()),
    }
}

/// Reads the accounts, and checks their number and fingerprints.
pub(crate) fn read_accounts<E: Engine>(
    directory: &Directory,
    engine: &E,
    head: &Head,
    accounts: &mut impl FnMut(Pubkey, Account),
) -> Result<(), StoreError> {
    let mut count = 0_u64;
    let mut fingerprints = 0_u64;
    each(directory, engine, key::ACCOUNTS, |key, value| {
        let body = decode_row(key, value).map_err(|err| err.to_string())?;
        let (slot, account) = codec::read_account(&body).map_err(|err| err.to_string())?;
        if slot > head.slot {
            return Err(format!(
                "was written by block {slot}, which is past the head, {}",
                head.slot
            ));
        }
        fingerprints = fingerprints.wrapping_add(fingerprint(value));
        count += 1;
        if let Key::Account(pubkey) = key {
            accounts(pubkey, account);
        }
        Ok(())
    })?;
    if count != head.accounts {
        let what = format!("accounts: there are {count}, there should be {}", head.accounts);
        return Err(directory.damage_error(what));
    }
    if fingerprints != head.fingerprints {
        let what = format!("accounts: some are not as block {} left them", head.slot);
        return Err(directory.damage_error(what));
    }
    Ok(())
}

/// Calls `visit` with each row of a table. An error of `visit` or of the engine names the row.
fn each<E: Engine>(
    directory: &Directory,
    engine: &E,
    table: Table,
    mut visit: impl FnMut(Key, &[u8]) -> Result<(), String>,
) -> Result<(), StoreError> {
    let mut fault = None;
    let mut last: Option<Key> = None;
    let scanned = engine.scan(table, &mut |key, value| {
        let visited = match Key::from_bytes(table, key) {
            Some(key) => {
                last = Some(key);
                visit(key, value).map_err(|what| format!("{key}: {what}"))
            }
            None => Err(format!("table {}: unknown key of {} bytes", table.name, key.len())),
        };
        fault = visited.err();
        fault.is_none()
    });
    let after = last.map_or_else(|| "at its beginning".to_owned(), |key| format!("after {key}"));
    match (fault, scanned) {
        (Some(what), _) => Err(directory.damage_error(what)),
        (None, Ok(())) => Ok(()),
        (None, Err(err)) => {
            Err(directory.read_failed(err, &format!("table {}, {after}", table.name)))
        }
    }
}
