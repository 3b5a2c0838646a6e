//! The transactions of banks as a part of their proof: a bank is shown as confirmed only once they have been checked.
//!
//! In: banks with their transactions, and the results of their checks. Out: banks that may be shown, or that are requested
//! again because their transactions contradict them.
//! Bounds: the banks above the root.

use std::sync::Arc;

use chain_solana::{BankContent, Block, ExecutedTransaction, ResultOrigin};
use ledger::BlockId;
use solana::{BankMismatch, HashReporter, TransactionFault};

use super::Verification;
use crate::checked_bank::CheckedBank;
use crate::transaction_checks::BankBalances;

impl Verification {
    /// Checks the transactions of an open bank. They are in order, and `from` is how many are before them.
    pub(crate) fn check_transactions(
        &mut self,
        bank: BlockId,
        from: usize,
        transactions: &[Arc<ExecutedTransaction>],
    ) {
        if let Some(checks) = &mut self.checks {
            checks.add_transactions(bank, from, transactions);
        }
    }

    /// Checks the rest of a whole bank, which is frozen.
    pub(crate) fn check_block(&mut self, block: &Arc<Block>, balances: BankBalances) {
        if let Some(checks) = &mut self.checks {
            checks.finish(block, balances);
        }
    }

    /// Ends the checks of a bank that ended.
    pub(crate) fn stop_checks(&mut self, bank: BlockId) {
        if let Some(checks) = &mut self.checks {
            checks.remove(bank);
        }
    }

    /// Number of banks above the root whose transactions are not proven.
    pub(crate) fn unproven_banks(&self) -> usize {
        self.unchecked.all.len()
    }

    /// Whether checks of a bank run that may confirm it.
    pub(crate) fn is_checking(&self) -> bool {
        self.unchecked.all.len() > self.unchecked.faulty.len()
    }

    /// Whether the transactions of a bank, or of an ancestor, are not checked.
    pub(super) fn awaits_transactions(&self, bank: BlockId) -> bool {
        self.is_above_any(bank, &self.unchecked.all)
    }

    /// The checks of a bank's transactions are done.
    pub(crate) fn record_checked(&mut self, checked: &CheckedBank) {
        let bank = checked.bank;
        let Some(checks) = self.checks.as_mut().filter(|_| self.unchecked.all.contains(&bank))
        else {
            return;
        };
        checks.remove(bank);
        if let Some(fault) = checked.fault {
            self.unchecked.faulty.insert(bank);
            self.handle_fault(bank, fault);
            return;
        }
        // Its execution may have ended before.
        let known = chain_solana::Verification::content(&*self.proof, bank).results;
        let is_executed = known == ResultOrigin::Executed;
        let results = if is_executed { known } else { checked.results };
        let content = BankContent { transactions: checks.proof(), results };
        self.proof.record_content(bank, content);
        self.unchecked.all.remove(&bank);
        let waiting = self.unchecked.waiting.iter().copied();
        let is_proven = |bank: &BlockId| {
            !self.awaits_transactions(*bank)
                && !self.is_above_unverified(*bank)
                && !self.is_above_refused_jump(*bank)
        };
        let checked: Vec<_> = waiting.filter(is_proven).collect();
        for bank in checked {
            self.unchecked.waiting.remove(&bank);
            self.approve(bank, true);
        }
    }

    /// The transactions of a bank were executed with the results that the source reported.
    pub(crate) fn record_executed(&self, bank: BlockId) {
        let content = chain_solana::Verification::content(&*self.proof, bank);
        let results = ResultOrigin::Executed;
        self.proof.record_content(bank, BankContent { results, ..content });
    }

    /// Requests a bank again whose transactions contradict it, and reports it if that recurs.
    fn handle_fault(&mut self, bank: BlockId, fault: TransactionFault) {
        let hash = self.verifier.as_ref().and_then(|verifier| verifier.bank_hash(bank));
        let hash = hash.unwrap_or_default();
        let mismatch = BankMismatch {
            slot: bank.slot,
            computed: hash,
            reported: hash,
            reporter: HashReporter::Transactions,
            accounts_written: fault.account.into_iter().collect(),
            accounts_written_len: usize::from(fault.account.is_some()),
            fault: Some(fault),
        };
        self.handle_mismatch(bank, &mismatch, true);
    }
}
