//! Transactions that were sent and are not in a block yet: which are due again, which have expired.
//!
//! Input: transactions of clients, the time, the state of the chain. Output: those to send now. It has no clock and no
//! socket.
//! Bounds: a number of transactions, with shares of clients ([`ClientShares`]). A transaction has the bytes of a
//! packet.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chain_solana::{SendError, Sender};
use clients::ClientId;
use solana_hash::Hash;
use solana_signature::Signature;

use crate::client_shares::ClientShares;

/// A transaction that is sent until it is in a block.
#[derive(Clone, Debug)]
pub(crate) struct PendingTransaction {
    pub(crate) signature: Signature,
    pub(crate) blockhash: Hash,
    pub(crate) bytes: Bytes,
    /// Whether the blockhash was valid when the transaction came. Otherwise it may be a durable nonce.
    pub(crate) was_valid: bool,
    /// The last block height at which it is sent.
    pub(crate) last_height: u64,
}

struct Entry {
    transaction: PendingTransaction,
    client: ClientId,
    due: (Instant, u64),
}

/// The reason why a transaction is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Landed,
    /// Its blockhash has expired.
    Expired,
}

/// The transactions that are not in a block yet.
pub(crate) struct PendingTransactions {
    retry_interval: Duration,
    entries: HashMap<Signature, Entry>,
    /// When each one is sent next, in order.
    due: BTreeMap<(Instant, u64), Signature>,
    shares: ClientShares,
    next_number: u64,
}

impl PendingTransactions {
    pub(crate) fn new(transactions_max: usize, retry_interval: Duration) -> Self {
        Self {
            retry_interval,
            entries: HashMap::new(),
            due: BTreeMap::new(),
            shares: ClientShares::new(transactions_max),
            next_number: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all transactions and of their entries.
    pub(crate) fn bytes(&self) -> usize {
        self.shares.bytes() + self.entries.len() * (size_of::<Entry>() + 2 * size_of::<Signature>())
    }

    /// Adds a transaction, which is due at once. One that is pending already is accepted and changes nothing.
    pub(crate) fn add(
        &mut self,
        sender: Sender,
        transaction: PendingTransaction,
        now: Instant,
    ) -> Result<(), SendError> {
        if self.entries.contains_key(&transaction.signature) {
            return Ok(());
        }
        self.shares.add(sender, transaction.bytes.len())?;
        let due = self.schedule(transaction.signature, now);
        let entry = Entry { client: sender.client, due, transaction };
        self.entries.insert(entry.transaction.signature, entry);
        Ok(())
    }

    /// The transactions that are due, the oldest first, at most `max`. They are due again after the retry interval.
    pub(crate) fn take_due(&mut self, now: Instant, max: usize) -> Vec<PendingTransaction> {
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some(first) = self.due.first_entry()
            && first.key().0 <= now
        {
            let signature = first.remove();
            let due = self.schedule(signature, now + self.retry_interval);
            if let Some(entry) = self.entries.get_mut(&signature) {
                entry.due = due;
                taken.push(entry.transaction.clone());
            }
        }
        taken
    }

    /// Removes the transactions for which `end` has a reason. Returns the reasons.
    pub(crate) fn remove_ended(
        &mut self,
        end: impl Fn(&PendingTransaction) -> Option<End>,
    ) -> Vec<End> {
        let ended: Vec<(Signature, End)> = self
            .entries
            .iter()
            .filter_map(|(signature, entry)| Some((*signature, end(&entry.transaction)?)))
            .collect();
        ended.iter().for_each(|(signature, _)| self.remove(signature));
        ended.into_iter().map(|(_, end)| end).collect()
    }

    fn remove(&mut self, signature: &Signature) {
        let Some(entry) = self.entries.remove(signature) else { return };
        self.due.remove(&entry.due);
        self.shares.remove(entry.client, entry.transaction.bytes.len());
    }

    fn schedule(&mut self, signature: Signature, at: Instant) -> (Instant, u64) {
        self.next_number += 1;
        let due = (at, self.next_number);
        self.due.insert(due, signature);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Duration = Duration::from_secs(2);

    fn transaction(n: u8) -> PendingTransaction {
        PendingTransaction {
            signature: [n; 64].into(),
            blockhash: Hash::new_from_array([n; 32]),
            bytes: vec![n; 100].into(),
            was_valid: true,
            last_height: 150,
        }
    }

    fn numbers(taken: &[PendingTransaction]) -> Vec<u8> {
        taken.iter().map(|transaction| transaction.bytes[0]).collect()
    }

    #[test]
    fn a_transaction_is_due_at_once_and_then_again_until_it_ends() {
        let now = crate::clock::now();
        let mut pending = PendingTransactions::new(10, RETRY);
        for n in [1, 2, 3] {
            pending.add(ClientId(1).into(), transaction(n), now).expect("there is space");
        }
        pending.add(ClientId(1).into(), transaction(2), now).expect("it is known");
        assert_eq!(numbers(&pending.take_due(now, 2)), [1, 2]);
        assert_eq!(numbers(&pending.take_due(now, 2)), [3]);
        assert!(pending.take_due(now + RETRY / 2, 9).is_empty());
        assert_eq!(numbers(&pending.take_due(now + RETRY, 9)), [1, 2, 3]);
        let ended = pending.remove_ended(|it| (it.bytes[0] < 3).then_some(End::Landed));
        assert_eq!(ended, [End::Landed; 2]);
        assert_eq!(numbers(&pending.take_due(now + RETRY * 3, 9)), [3]);
        pending.remove_ended(|_| Some(End::Expired));
        assert_eq!((pending.len(), pending.bytes()), (0, 0));
        assert!(pending.due.is_empty());
        assert_eq!(pending.shares.len(), 0);
    }
}
