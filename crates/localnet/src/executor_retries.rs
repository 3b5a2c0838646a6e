//! Decides which transactions the executing thread tries again, and for how many blocks.
//!
//! In: a transaction that no block may contain yet, and the reason. Out: the transaction in
//! [`crate::retries::Retries`], until its blockhash is too old, or for as many intervals of [`INTERVAL`] as its sender
//! allows: Agave sends a transaction again once in each.

use std::time::Duration;

use chain_solana::BLOCKHASHES_VALID;
use solana_pubkey::Pubkey;
use solana_transaction_error::TransactionError;
use svm::nonce;

use crate::config::SLOT_MS_DEFAULT;
use crate::executor::Executor;
use crate::queue::SentTransaction;

/// Interval in which Agave sends a transaction again.
const INTERVAL: Duration = Duration::from_secs(2);

impl Executor {
    /// Stores a transaction that no block may contain yet, if its sender wants a retry and another write may remove the
    /// reason. False if it is dropped.
    pub(crate) fn retry_later(
        &mut self,
        mut sent: SentTransaction,
        err: &TransactionError,
    ) -> bool {
        let Some(account) = awaited_account(&sent, err) else { return false };
        let last_height = match sent.retry_until {
            Some(last_height) => last_height,
            None => self.last_retry_height(&sent, err),
        };
        if last_height <= self.builder.bank.block_height {
            return false;
        }
        sent.retry_until = Some(last_height);
        self.retries.add(sent, account, last_height)
    }

    /// Returns the height of the last block in which a transaction is tried again.
    fn last_retry_height(&self, sent: &SentTransaction, err: &TransactionError) -> u64 {
        let bank = &self.builder.bank;
        let interval = self.retry_interval_blocks();
        let message = &sent.transaction.transaction().message;
        let valid_until = match bank.last_valid_block_height(message.recent_blockhash()) {
            Some(height) => height,
            // Agave gives up on a nonce that is not the current one after an interval.
            None if *err == TransactionError::BlockhashNotFound => bank.block_height + interval,
            None => bank.block_height + BLOCKHASHES_VALID,
        };
        let retries = interval.saturating_mul(sent.transaction.retries().into());
        valid_until.min(bank.block_height.saturating_add(retries))
    }

    /// Returns the number of blocks between two retries.
    fn retry_interval_blocks(&self) -> u64 {
        let slot_ms = match self.timing.slot_ms {
            0 => SLOT_MS_DEFAULT,
            slot_ms => slot_ms,
        };
        (INTERVAL.as_millis() as u64).div_ceil(slot_ms)
    }

    /// Returns the transactions to the queue that a new block may contain.
    pub(crate) fn queue_retries(&mut self) {
        if self.retries.is_empty() {
            return;
        }
        for sent in self.retries.take_ready(self.builder.bank.block_height) {
            match self.queue.push_again(sent) {
                Ok(()) => self.queue.retries().add_retried(),
                // Counted by the queue.
                Err(err) => tracing::debug!(%err, "a transaction is not tried again"),
            }
        }
    }
}

/// Returns the account whose write may let a transaction run that failed with `err`. `None` if no write can, or if its
/// sender wants no retry.
fn awaited_account(sent: &SentTransaction, err: &TransactionError) -> Option<Pubkey> {
    if sent.transaction.retries() == 0 {
        return None;
    }
    match err {
        TransactionError::AccountNotFound
        | TransactionError::InsufficientFundsForFee
        | TransactionError::InsufficientFundsForRent { .. }
        | TransactionError::InvalidAccountForFee => Some(sent.transaction.fee_payer()),
        TransactionError::BlockhashNotFound => {
            nonce::named_account(&sent.transaction.transaction().message)
        }
        _ => None,
    }
}
