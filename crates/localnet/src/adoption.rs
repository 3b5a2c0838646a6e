//! Accounts of another cluster, which the ledger takes over while it runs.
//!
//! In: [`ControlCommand::Adopt`](chain_solana::ControlCommand). Out: writes in the open block. The block stays open: a
//! fetched account makes no block.
//! Invariant: an account that the ledger has, or had in the same chain of blocks, is not replaced.
//! Invariant: after the ledger went back, it has every account that it took over in a block that was left, as it was
//! fetched: the other cluster may have another one by now.
//! Not here: which accounts those are (`adopted_accounts`), where they come from (`upstream_fork`).

use std::sync::Arc;

use chain_solana::{AdoptedAccount, ControlError};
use ledger::Commitment;
use query::LedgerError;
use solana_account::{AccountSharedData, ReadableAccount};
use svm::AccountSource;

use crate::account_bytes::WrittenBytes;
use crate::control::{ControlResult, has_code};
use crate::executor::{Executor, ExecutorError};
use crate::genesis_accounts::LAMPORTS_MAX;

impl Executor {
    /// Writes accounts that the ledger does not have.
    pub(crate) fn adopt(
        &mut self,
        accounts: Vec<Arc<AdoptedAccount>>,
    ) -> Result<ControlResult, ExecutorError> {
        let none = AccountSharedData::default();
        let mut capitalization = u128::from(self.builder.bank.capitalization);
        let mut writes = Vec::new();
        let mut has_programs = false;
        let mut written = WrittenBytes::default();
        for adopted in &accounts {
            let key = adopted.pubkey();
            let account = &adopted.account().0;
            let exists = AccountSource::account(&self.ledger, &key).is_some();
            if exists || self.protection(&key, &none, account).is_some() {
                continue;
            }
            capitalization += u128::from(account.lamports());
            has_programs |= has_code(account);
            written.add(&none, account);
            writes.push((key, account.clone()));
        }
        let max = LAMPORTS_MAX.max(self.builder.bank.capitalization);
        let capitalization = match u64::try_from(capitalization) {
            Ok(lamports) if lamports <= max => lamports,
            _ => return Ok(Err(ControlError::TooManyLamports { lamports: capitalization, max })),
        };
        if let Err(err) = self.admit_writes(written) {
            return Ok(Err(err));
        }
        if !writes.is_empty() {
            match self.write(writes, capitalization) {
                Err(LedgerError::TableFull(_)) => return Ok(Err(ControlError::LedgerFull)),
                written => written?,
            }
            if has_programs {
                // A call of the absent program may have left its mark in the VM.
                self.set.reload_programs();
            }
            self.publish();
        }
        let version = self.reader.view(Commitment::Processed).version();
        let slot = self.builder.bank.block.slot;
        accounts.iter().for_each(|adopted| adopted.set_written(slot, version));
        self.adopted.add_written(accounts);
        Ok(Ok(self.control_done()))
    }

    /// Writes the accounts whose blocks were left into the open block.
    pub(crate) fn restore_adopted(&mut self) -> Result<(), ExecutorError> {
        let accounts = self.adopted.take_unwritten();
        if accounts.is_empty() {
            return Ok(());
        }
        if let Err(err) = self.adopt(accounts.clone())? {
            // They were in the ledger before, with the same lamports and addresses. They stay unwritten, and readers see
            // them all the same.
            tracing::error!(%err, accounts = accounts.len(), "fetched accounts were not restored");
            self.adopted.restore_unwritten(accounts);
        }
        Ok(())
    }
}
