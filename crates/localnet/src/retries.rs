//! Transactions that cannot run yet, and that are tried again on request of their sender.
//!
//! In: transactions that no block may contain, for a reason that another write may remove: the fee payer has no
//! account or too little, or the nonce is another one. Out: the same, with the next block after a write of that
//! account. They return to the queue, in the share of their client. Each waits as long as its blockhash is valid, or
//! for as many intervals as it may be retried (`executor_retries`).
//! Bounds: [`COUNT_MAX`] transactions and [`BYTES_MAX`]. Of each, a client may have as much as remains free, so a
//! single client gets half and the next one always finds space. Beyond a bound the transaction is dropped, and
//! counted.
//! Cost: nothing while a transaction waits; a lookup for each write, and a try for each block that writes its account.
//! Invariant: a transaction that paid a fee is never here. A transaction is here once, however often it is sent.
//! Not here: the number of retries (`VerifiedTransaction::retries`). A restart forgets them, as it forgets the queue.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use clients::ClientId;
use foldhash::quality::RandomState;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::queue::{RetryCounters, SentTransaction};

/// Maximum number of transactions that wait.
const COUNT_MAX: u64 = 4_096;
/// Maximum bytes of the transactions that wait.
const BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The transactions that wait for an account.
pub(crate) struct Retries {
    /// The transactions by the hash of their message.
    waiting: HashMap<Hash, WaitingTransaction, RandomState>,
    /// Transactions whose account was not written yet.
    by_account: HashMap<Pubkey, HashSet<Hash, RandomState>, RandomState>,
    /// The last block height of each.
    by_height: BTreeSet<(u64, Hash)>,
    clients: HashMap<ClientId, Usage, RandomState>,
    usage: Usage,
    /// Transactions whose account was written.
    ready: Vec<Hash>,
    counters: Arc<RetryCounters>,
}

struct WaitingTransaction {
    sent: SentTransaction,
    /// The account whose write may remove the reason.
    account: Pubkey,
    last_height: u64,
}

#[derive(Clone, Copy, Default)]
struct Usage {
    count: u64,
    bytes: u64,
}

impl Usage {
    fn from_transaction(sent: &SentTransaction) -> Self {
        Self { count: 1, bytes: sent.transaction.memory_bytes() as u64 }
    }

    fn add(&mut self, more: Self) {
        self.count += more.count;
        self.bytes += more.bytes;
    }

    fn remove(&mut self, less: Self) {
        self.count -= less.count;
        self.bytes -= less.bytes;
    }
}

impl Retries {
    pub(crate) fn new(counters: Arc<RetryCounters>) -> Self {
        Self {
            waiting: HashMap::default(),
            by_account: HashMap::default(),
            by_height: BTreeSet::new(),
            clients: HashMap::default(),
            usage: Usage::default(),
            ready: Vec::new(),
            counters,
        }
    }

    /// Adds a transaction that waits for a write of `account`, up to the block of a height. False if a bound refuses
    /// it.
    pub(crate) fn add(&mut self, sent: SentTransaction, account: Pubkey, last_height: u64) -> bool {
        let hash = sent.transaction.message_hash();
        if self.waiting.contains_key(&hash) {
            return true;
        }
        let client = sent.sender.client;
        let more = Usage::from_transaction(&sent);
        if !self.has_space(client, more) {
            self.counters.add_refused();
            return false;
        }
        self.usage.add(more);
        self.clients.entry(client).or_default().add(more);
        self.by_account.entry(account).or_default().insert(hash);
        self.by_height.insert((last_height, hash));
        self.waiting.insert(hash, WaitingTransaction { sent, account, last_height });
        self.report();
        true
    }

    fn has_space(&self, client: ClientId, more: Usage) -> bool {
        let of_client = self.clients.get(&client).copied().unwrap_or_default();
        let has_space = |more: u64, max: u64, used: u64, by_client: u64| {
            more <= max.saturating_sub(used).saturating_sub(by_client)
        };
        has_space(more.count, COUNT_MAX, self.usage.count, of_client.count)
            && has_space(more.bytes, BYTES_MAX, self.usage.bytes, of_client.bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Records a write of an account.
    pub(crate) fn note_write(&mut self, account: &Pubkey) {
        if let Some(hashes) = self.by_account.remove(account) {
            self.ready.extend(hashes);
        }
    }

    /// Makes all transactions ready: the ledger went back, and any account may be another one.
    pub(crate) fn note_revert(&mut self) {
        self.by_account.clear();
        self.ready = self.waiting.keys().copied().collect();
    }

    /// Removes the transactions that are ready, after those whose time is over at the block of a height.
    pub(crate) fn take_ready(&mut self, height: u64) -> Vec<SentTransaction> {
        while let Some((last_height, hash)) = self.by_height.first().copied()
            && last_height < height
        {
            self.remove(&hash);
            self.counters.add_expired();
        }
        let ready = std::mem::take(&mut self.ready);
        let ready: Vec<_> = ready.iter().filter_map(|hash| self.remove(hash)).collect();
        self.report();
        ready
    }

    fn remove(&mut self, hash: &Hash) -> Option<SentTransaction> {
        let WaitingTransaction { sent, account, last_height } = self.waiting.remove(hash)?;
        self.by_height.remove(&(last_height, *hash));
        if let Some(hashes) = self.by_account.get_mut(&account) {
            hashes.remove(hash);
            if hashes.is_empty() {
                self.by_account.remove(&account);
            }
        }
        let client = sent.sender.client;
        let less = Usage::from_transaction(&sent);
        self.usage.remove(less);
        if let Some(of_client) = self.clients.get_mut(&client) {
            of_client.remove(less);
            if of_client.count == 0 {
                self.clients.remove(&client);
            }
        }
        Some(sent)
    }

    fn report(&self) {
        self.counters.set_waiting(self.usage.count, self.usage.bytes);
    }
}

#[cfg(test)]
mod tests {
    use chain_solana::VerifiedTransaction;
    use solana_message::{Message, MessageHeader, VersionedMessage};
    use solana_transaction::versioned::VersionedTransaction;

    use super::*;

    fn retries() -> Retries {
        Retries::new(Arc::default())
    }

    fn account(n: u8) -> Pubkey {
        Pubkey::new_from_array([n; 32])
    }

    /// A transaction of a client, different for each number.
    fn sent(client: u64, number: u64) -> SentTransaction {
        let mut blockhash = [0; 32];
        blockhash[..8].copy_from_slice(&number.to_le_bytes());
        let header = MessageHeader { num_required_signatures: 1, ..MessageHeader::default() };
        let message = VersionedMessage::Legacy(Message {
            header,
            account_keys: vec![account(1)],
            recent_blockhash: Hash::new_from_array(blockhash),
            ..Message::default()
        });
        let transaction = VersionedTransaction { signatures: vec![Default::default()], message };
        let verified = VerifiedTransaction::verify_except(transaction, |_| true);
        let transaction = verified.expect("it is well-formed").with_retries(u32::MAX);
        SentTransaction {
            sender: ClientId(client.into()).into(),
            transaction,
            has_paid_for_code: false,
            retry_until: None,
        }
    }

    #[test]
    fn a_write_of_the_account_makes_its_transactions_ready() {
        let mut retries = retries();
        assert!(retries.add(sent(1, 1), account(1), 9));
        assert!(retries.add(sent(1, 2), account(2), 9));
        assert!(retries.add(sent(1, 2), account(2), 9), "it waits already");
        assert!(retries.take_ready(1).is_empty());
        retries.note_write(&account(2));
        retries.note_write(&account(2));
        retries.note_write(&account(3));
        let ready = retries.take_ready(1);
        let expected = sent(1, 2).transaction.message_hash();
        let hashes: Vec<Hash> = ready.iter().map(|it| it.transaction.message_hash()).collect();
        assert_eq!(hashes, [expected]);
        retries.note_revert();
        assert_eq!(retries.take_ready(1).len(), 1);
        assert!(retries.is_empty() && retries.by_account.is_empty() && retries.clients.is_empty());
        assert!(retries.by_height.is_empty());
    }

    #[test]
    fn a_transaction_waits_up_to_its_last_block() {
        let mut retries = retries();
        retries.add(sent(1, 1), account(1), 9);
        retries.note_write(&account(1));
        assert_eq!(retries.take_ready(9).len(), 1);
        retries.add(sent(1, 1), account(1), 9);
        retries.note_write(&account(1));
        assert!(retries.take_ready(10).is_empty());
        assert!(retries.is_empty());
    }

    #[test]
    fn a_client_that_fills_the_list_leaves_space_for_others() {
        let mut retries = retries();
        let added = (0..2 * COUNT_MAX).filter(|n| retries.add(sent(1, *n), account(1), 9)).count();
        assert!(added as u64 <= COUNT_MAX / 2 && added > 100, "{added}");
        assert!(retries.usage.bytes <= BYTES_MAX);
        for client in 2..8 {
            assert!(retries.add(sent(client, 1_000_000 + client), account(2), 9), "{client}");
        }
        retries.note_write(&account(2));
        assert_eq!(retries.take_ready(1).len(), 6);
    }
}
