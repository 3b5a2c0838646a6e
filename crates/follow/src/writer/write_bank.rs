//! A whole bank becomes a block: the rest of its writes, its hash, its properties, and its events.
//!
//! Input: a whole bank, and its preparation from the time when it was open. Output: a complete block of the ledger,
//! which is frozen in history. No tip moves here.
//! Invariant: a preparation counts only if it is of this bank and of its parent. If not, it is discarded and the bank
//! is written from the beginning.

use std::sync::Arc;

use chain_solana::{
    AccountUpdate, BankHashComponents, Block, BlockInfo, ExecutedTransaction, LedgerEvent,
};
use feed::{Bank, BankAccounts, Decision, LastWrite};
use ledger::BlockId;
use query::LedgerError;
use solana::Account;
use solana_account::ReadableAccount;
use solana_clock::Clock;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;
use verify::SummedBank;

use super::{Frozen, Writer};
use crate::account_updates::BankUpdates;
use crate::clock::unix_ms;
use crate::convert::{BlockFacts, WrittenAccount};
use crate::error::FollowError;
use crate::prepared_bank::{Hashing, PreparedBank};
use crate::state_at::StateAt;
use crate::verification::BankHashes;

type WholeBank = Bank<WrittenAccount, Arc<ExecutedTransaction>, BlockFacts>;

impl Writer {
    pub(super) fn write_bank(&mut self, bank: WholeBank) -> Result<(), FollowError> {
        let id = bank.id;
        self.deferred.wait_for_child();
        self.root_surplus()?;
        let prepared = self.take_prepared(id, bank.parent)?;
        // The feed reports a bank after its parent, and removes it before.
        let is_known = self.banks.contains_key(&bank.parent);
        let is_full = is_known && self.verification.is_full();
        if is_full {
            self.feed.apply(Decision::Retract(id));
        }
        let Some(parent) = self.banks.get(&bank.parent).filter(|_| !is_full) else {
            return prepared.map_or(Ok(()), |prepared| self.discard(&prepared));
        };
        let parent_info = Arc::clone(&parent.info);
        let previous_blockhash = parent.block.blockhash;
        self.enter_epoch(id.slot, bank.parent);
        let mut prepared = self.write_rest(&bank, prepared, &parent_info)?;
        let mut votes = std::mem::take(&mut prepared.landed_votes);
        votes.read(0, &bank.transactions);
        self.voting.newest = Some((id, votes));
        let changes = prepared.cluster_changes();
        let state = StateAt { ledger: &self.ledger, block: bank.parent };
        self.cluster.add_bank(id, bank.parent, &changes, &state);
        let hashes = self.freeze(&bank, &prepared)?;
        let clock_time = clock_time(&prepared).unwrap_or(parent_info.unix_timestamp);
        let facts = bank.meta.meta;
        let capitalization = i128::from(parent_info.capitalization) + prepared.lamports();
        let info = Arc::new(BlockInfo {
            block: id,
            parent: bank.parent,
            block_height: facts.block_height.unwrap_or(parent_info.block_height + 1),
            blockhashes: Arc::new(parent_info.blockhashes.with(bank.meta.blockhash)),
            transaction_count: parent_info.transaction_count + bank.transactions.len() as u64,
            unix_timestamp: clock_time,
            capitalization: u64::try_from(capitalization).unwrap_or_default(),
            bank_hash: hashes.bank_hash,
            hash_components: hashes.components,
            complete: true,
        });
        log_frozen(&info);
        let failed = |err: LedgerError| FollowError::Ledger { bank: id, err };
        self.ledger.complete(id, Arc::clone(&info)).map_err(failed)?;
        let is_needed = self.output.sinks.iter().any(|sink| sink.needs_account_updates());
        let updates = if is_needed {
            Some(account_updates(bank.accounts))
        } else {
            self.deferred.free_sent(bank.accounts, self.now);
            None
        };
        self.record_votes(&prepared);
        let balances = prepared.balances();
        let block_time = facts.block_time.unwrap_or(clock_time);
        let block = Arc::new(Block {
            id,
            parent: bank.parent,
            block_height: info.block_height,
            blockhash: bank.meta.blockhash,
            previous_blockhash,
            bank_hash: hashes.bank_hash,
            hash_components: hashes.components,
            block_time,
            transaction_count: info.transaction_count,
            transactions: self.set_block_time(id, bank.parent, bank.transactions, block_time),
            rewards: facts.rewards,
            reward_partitions: facts.reward_partitions,
            entries: bank.entries,
            writes: prepared.into_writes(),
        });
        self.verification.check_block(&block, balances);
        let timestamp_ms = unix_ms();
        let root = self.ledger.root().slot;
        self.output.unsent.push(LedgerEvent::BankCreated {
            block: id,
            parent: bank.parent,
            root,
            timestamp_ms,
        });
        if let Some(updates) = updates {
            let updates = self.output.write_versions.assign(updates);
            self.output.unsent.push(LedgerEvent::AccountsWritten { block: id, updates });
        }
        if let Some(footer) = facts.footer {
            self.output.unsent.push(LedgerEvent::BlockFooter { block: id, footer });
        }
        self.output.unsent.push(LedgerEvent::Frozen {
            block: Arc::clone(&block),
            info: Arc::clone(&info),
            timestamp_ms,
        });
        if let Some(known) = self.history.prepared_len(id, bank.parent) {
            self.history.prepare(id, block.transactions.iter().skip(known));
        }
        self.history.record_block(&block);
        let is_executed = false;
        let is_confirmed = false;
        self.banks.insert(id, Frozen { block, info, is_executed, is_confirmed });
        Ok(())
    }

    /// Writes the accounts of a whole bank that were not prepared. Returns the bank with all its writes.
    fn write_rest(
        &mut self,
        bank: &WholeBank,
        prepared: Option<PreparedBank>,
        parent_info: &Arc<BlockInfo>,
    ) -> Result<PreparedBank, FollowError> {
        let status = Arc::clone(&self.status);
        let hashing = Hashing { nanos: &status.proof.hash_nanos, is_open: false };
        let hashing = self.verification.is_on().then_some(hashing);
        if let Some(mut prepared) = prepared {
            let written = |pubkey: &Pubkey| {
                let write = bank.accounts.get(pubkey)?;
                Some((*pubkey, write.account.account.clone()))
            };
            let rest = bank.pending.iter().filter_map(written);
            prepared.write(&mut self.ledger, rest, hashing)?;
            if prepared.accounts().len() == bank.accounts.len() {
                return Ok(prepared);
            }
            // The feed drained accounts that were not written.
            self.discard(&prepared)?;
        }
        let id = bank.id;
        let parent = bank.parent;
        let ledger = &mut self.ledger;
        let opened = PreparedBank::open(ledger, id, parent, Arc::clone(parent_info));
        let mut opened = opened.map_err(|err| FollowError::Ledger { bank: id, err })?;
        let all = bank.accounts.iter().map(|write| (write.pubkey, write.account.account.clone()));
        opened.write(ledger, all, hashing)?;
        Ok(opened)
    }

    fn freeze(
        &mut self,
        bank: &WholeBank,
        prepared: &PreparedBank,
    ) -> Result<BankHashes, FollowError> {
        let signatures =
            bank.transactions.iter().map(|executed| executed.transaction.signatures.len() as u64);
        let frozen = SummedBank {
            block: bank.id,
            parent: bank.parent,
            change: prepared.change(),
            written: &prepared.changed_pubkeys(),
            signature_count: signatures.sum(),
            blockhash: bank.meta.blockhash,
        };
        let hashes = self.verification.freeze(&frozen, prepared, self.now);
        hashes.map_err(|err| FollowError::Verify { bank: bank.id, err })
    }

    /// The transactions with the time of their block. Those that were prepared have it, unless the block's metadata
    /// contradicts its Clock.
    fn set_block_time(
        &self,
        bank: BlockId,
        parent: BlockId,
        mut transactions: Vec<Arc<ExecutedTransaction>>,
        block_time: i64,
    ) -> Vec<Arc<ExecutedTransaction>> {
        let known = self.history.prepared_len(bank, parent).unwrap_or_default();
        let mut prepared = transactions.iter().take(known);
        if prepared.any(|executed| executed.block_time != block_time) {
            self.history.discard_prepared(bank);
        }
        for executed in &mut transactions {
            set_time(executed, block_time);
        }
        transactions
    }

    /// The votes that a bank's vote accounts have: they choose the tip, and bound the root.
    fn record_votes(&mut self, bank: &PreparedBank) {
        let slot = bank.id.slot;
        let mut votes = Vec::new();
        for (pubkey, account) in bank.accounts() {
            if let Some(state) = account.votes {
                votes.extend(self.voting.accounts.record_state(pubkey, state, slot));
            }
        }
        self.feed.apply(Decision::CountVotes(votes));
        if self.verification.is_on() {
            let root_max = self.voting.accounts.super_majority_root(slot);
            self.feed.apply(Decision::LimitRoot(root_max));
        }
    }
}

/// Sets the time of a transaction's block, in place if nothing else has the transaction.
pub(super) fn set_time(executed: &mut Arc<ExecutedTransaction>, block_time: i64) {
    if executed.block_time != block_time {
        Arc::make_mut(executed).block_time = block_time;
    }
}

/// The time of the Clock sysvar.
fn clock_time(bank: &PreparedBank) -> Option<i64> {
    unix_timestamp(&*bank.account(&sysvar::clock::ID)?)
}

/// Reads the time of a Clock sysvar.
pub(super) fn unix_timestamp(clock: &Account) -> Option<i64> {
    bincode::deserialize::<Clock>(clock.0.data()).ok().map(|clock| clock.unix_timestamp)
}

fn account_updates(writes: BankAccounts<WrittenAccount>) -> BankUpdates {
    let mut updates = BankUpdates::new(writes.len());
    for LastWrite { pubkey, write_version, account } in writes.into_writes() {
        let WrittenAccount { account, signature } = account;
        let account = Arc::new(account);
        let executed = None;
        updates.push(AccountUpdate { pubkey, account, write_version, signature, executed });
    }
    updates
}

/// The line that Agave logs of a bank, so that the logs of both can be compared.
fn log_frozen(bank: &BlockInfo) {
    let BankHashComponents { signature_count, last_blockhash, lt_checksum, .. } =
        bank.hash_components;
    tracing::debug!(
        target: "follow::frozen_banks",
        "bank frozen: {} hash: {} signature_count: {signature_count} last_blockhash: {last_blockhash} \
         capitalization: {}, accounts_lt_hash checksum: {lt_checksum}",
        bank.block.slot,
        bank.bank_hash,
        bank.capitalization
    );
}
