//! The shares of clients in a queue of transactions.
//!
//! Bounds: a queue of `transactions_max`; a client has at most as many as are free, times its weight. So one client
//! never fills it, and each client finds space. A client without transactions costs nothing.

use std::collections::HashMap;

use chain_solana::{QueueBound, SendError, Sender};
use clients::ClientId;

/// Counts the transactions in a queue, by client.
#[derive(Debug)]
pub(crate) struct ClientShares {
    transactions_max: usize,
    by_client: HashMap<ClientId, usize>,
    len: usize,
    bytes: usize,
}

impl ClientShares {
    pub(crate) fn new(transactions_max: usize) -> Self {
        Self { transactions_max, by_client: HashMap::new(), len: 0, bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts a transaction, if the queue and the client's share have space for it.
    pub(crate) fn add(&mut self, sender: Sender, bytes: usize) -> Result<(), SendError> {
        let full = |bound, queued: usize, limit: usize| SendError::QueueFull {
            bound,
            queued: queued as u64,
            limit: limit as u64,
        };
        let free = self.transactions_max.saturating_sub(self.len);
        if free == 0 {
            return Err(full(QueueBound::Transactions, self.len, self.transactions_max));
        }
        let of_client = self.by_client.get(&sender.client).copied().unwrap_or(0);
        let share = free.saturating_mul(sender.weight.max(1) as usize);
        if of_client >= share {
            return Err(full(QueueBound::ClientTransactions, of_client, share));
        }
        self.by_client.insert(sender.client, of_client + 1);
        (self.len, self.bytes) = (self.len + 1, self.bytes + bytes);
        Ok(())
    }

    /// A transaction that was counted has left the queue.
    pub(crate) fn remove(&mut self, client: ClientId, bytes: usize) {
        (self.len, self.bytes) = (self.len - 1, self.bytes - bytes);
        if let Some(count) = self.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_at_most_as_many_as_are_free() {
        let mut shares = ClientShares::new(8);
        let mut add = |client, weight| shares.add(Sender { client: ClientId(client), weight }, 10);
        (0..4).for_each(|_| add(1, 1).expect("half of all are free"));
        let bound = QueueBound::ClientTransactions;
        assert_eq!(add(1, 1), Err(SendError::QueueFull { bound, queued: 4, limit: 4 }));
        (0..2).for_each(|_| add(2, 1).expect("others have theirs"));
        add(2, 1).expect_err("two are free");
        add(2, 2).expect("it has twice the share");
        add(3, 1).expect("one is free");
        let bound = QueueBound::Transactions;
        assert_eq!(add(4, 1), Err(SendError::QueueFull { bound, queued: 8, limit: 8 }));
        assert_eq!((shares.len(), shares.bytes()), (8, 80));
        (0..4).for_each(|_| shares.remove(ClientId(1), 10));
        assert_eq!(shares.by_client.len(), 2, "a client without transactions is forgotten");
        shares.add(ClientId(4).into(), 1).expect("there is space again");
    }
}
