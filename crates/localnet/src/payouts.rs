//! Payments without a transaction: commissions and stake rewards of an epoch, the leader's fees, and burnt lamports.
//!
//! Order in a block: commissions, if it starts an epoch; stake accounts, if it is one of the blocks that pay them;
//! transactions; then the leader's fees, and the incinerator is emptied.

use chain_solana::BlockInfo;
use ledger::Commitment;
use query::LedgerError;
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_epoch_rewards::EpochRewards;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{incinerator, sysvar};
use solana_signer::Signer;
use solana_stake_interface::stake_history::StakeHistoryEntry;
use solana_transaction_status::RewardType;
use svm::sysvars;

use crate::epoch::{self, Commission, Rewarded};
use crate::executor::{Executor, ExecutorError};

impl Executor {
    /// Ends the parent's epoch if the open block starts another: computes its rewards, and pays the commissions.
    /// Returns the epochs that ended, each with its stake: also those that passed without a block.
    pub(crate) fn start_epoch(&mut self) -> Result<Vec<(u64, StakeHistoryEntry)>, ExecutorError> {
        let schedule = self.epochs.schedule();
        let ended = schedule.get_epoch(self.builder.bank.parent.slot);
        if schedule.get_epoch(self.builder.bank.block.slot) == ended {
            return Ok(Vec::new());
        }
        // The parent's state is published, and this block has written nothing yet.
        let view = self.reader.view(Commitment::Confirmed);
        let start = self.epochs.start_epoch(self.set.vm(), &view, &self.builder.bank);
        let mut sysvar = start.sysvar;
        for commission in start.commissions {
            sysvar.distributed_rewards += commission.burnt + commission.lamports;
            self.pay_commission(commission)?;
        }
        let distributed = sysvar.distributed_rewards;
        self.builder.reward_partitions = Some(sysvar.num_partitions);
        self.set_epoch_rewards(&sysvar)?;
        if let Some(store) = &mut self.store {
            store.set_epochs(bincode::serialize(&**self.epochs.voters()).unwrap_or_default());
        }
        tracing::info!(
            epoch = ended,
            rewards = sysvar.total_rewards,
            commissions = distributed,
            blocks = sysvar.num_partitions,
            "epoch ended"
        );
        Ok(start.ended)
    }

    fn pay_commission(&mut self, commission: Commission) -> Result<(), ExecutorError> {
        let Commission { collector, lamports, is_voter, commission_bps, .. } = commission;
        let Some(account) = self.collect(&collector, lamports, is_voter) else { return Ok(()) };
        let post_balance = account.lamports();
        if !self.pay(vec![(collector, account)], lamports)? {
            return Ok(());
        }
        let kind = RewardType::Voting;
        let pubkey = collector;
        let reward = Rewarded { pubkey, lamports, post_balance, kind, commission_bps };
        self.builder.rewards.push(self.epochs.reward(reward));
        Ok(())
    }

    /// Pays the stake accounts that are due in this block.
    pub(crate) fn pay_stakes(&mut self) -> Result<(), ExecutorError> {
        let Some(due) = self.epochs.due(self.builder.bank.block_height) else { return Ok(()) };
        let epoch = self.epochs.schedule().get_epoch(self.builder.bank.block.slot);
        let mut sysvar = epoch::read_epoch_rewards(self.set.vm());
        let mut left = sysvar.total_rewards.saturating_sub(sysvar.distributed_rewards);
        let mut paid = 0;
        let mut writes = Vec::new();
        let mut rewards = Vec::new();
        let accounts = due.rewards.into_iter().map(|reward| {
            let account = self.set.account(&self.ledger, &reward.pubkey).cloned();
            (reward, account)
        });
        let rewarded: Vec<_> = accounts.collect();
        let payments = self.epochs.payments(self.set.vm(), epoch, &rewarded);
        for ((reward, _), payment) in rewarded.into_iter().zip(payments) {
            if reward.lamports > left {
                tracing::error!(stake = %reward.pubkey, reward = reward.lamports, left, "not paid");
                continue;
            }
            left -= reward.lamports;
            let Some(payment) = payment else { continue };
            paid += reward.lamports;
            if reward.lamports > 0 {
                rewards.push(self.epochs.reward(Rewarded {
                    pubkey: reward.pubkey,
                    lamports: reward.lamports,
                    post_balance: payment.account.lamports(),
                    kind: payment.kind,
                    commission_bps: reward.commission_bps,
                }));
            }
            writes.push((reward.pubkey, payment.account));
        }
        if !self.pay(writes, paid)? {
            return Ok(());
        }
        self.builder.rewards.extend(rewards);
        sysvar.distributed_rewards = sysvar.total_rewards - left;
        sysvar.active = !due.is_last;
        self.set_epoch_rewards(&sysvar)?;
        Ok(())
    }

    /// Pays the leader's fees at the end of a block, and burns the lamports of the incinerator.
    pub(crate) fn pay_leader(&mut self) -> Result<(), ExecutorError> {
        let lamports = self.builder.fees.leader_share();
        let epoch = self.epochs.schedule().get_epoch(self.builder.bank.block.slot);
        let identity = self.identity.pubkey();
        let collector = self.epochs.fee_collector(epoch, &self.vote_account, identity);
        let is_voter = collector == self.vote_account;
        if lamports > 0
            && let Some(account) = self.collect(&collector, lamports, is_voter)
        {
            let post_balance = account.lamports();
            if self.pay(vec![(collector, account)], lamports)? {
                let kind = RewardType::Fee;
                let pubkey = collector;
                let commission_bps = None;
                let reward = Rewarded { pubkey, lamports, post_balance, kind, commission_bps };
                self.builder.rewards.push(self.epochs.reward(reward));
            }
        }
        self.burn()
    }

    fn burn(&mut self) -> Result<(), ExecutorError> {
        if !self.builder.has_written(&incinerator::ID) {
            return Ok(());
        }
        let account = self.set.account(&self.ledger, &incinerator::ID);
        let lamports = account.map_or(0, ReadableAccount::lamports);
        let capitalization = self.builder.bank.capitalization.saturating_sub(lamports);
        let empty = AccountSharedData::default();
        Ok(self.write(vec![(incinerator::ID, empty)], capitalization)?)
    }

    /// The collector's account after the payment. `None` if it may not collect.
    fn collect(
        &mut self,
        collector: &Pubkey,
        lamports: u64,
        is_voter: bool,
    ) -> Option<AccountSharedData> {
        let account = self.set.account(&self.ledger, collector).cloned();
        let mut account = account.unwrap_or_default();
        let before = account.lamports();
        account.checked_add_lamports(lamports).ok()?;
        let rent = self.set.vm().svm().get_sysvar();
        let may_collect = is_voter
            || epoch::may_collect(self.epochs.features(), &rent, collector, before, &account);
        may_collect.then_some(account)
    }

    /// Writes accounts that got `lamports` together. False if the ledger has no space for them.
    fn pay(
        &mut self,
        accounts: Vec<(Pubkey, AccountSharedData)>,
        lamports: u64,
    ) -> Result<bool, ExecutorError> {
        let capitalization = self.builder.bank.capitalization.saturating_add(lamports);
        match self.write(accounts, capitalization) {
            Err(LedgerError::TableFull(full)) => {
                tracing::error!(lamports, %full, "not paid: no space for the accounts");
                Ok(false)
            }
            written => Ok(written.map(|()| true)?),
        }
    }

    fn set_epoch_rewards(&mut self, sysvar: &EpochRewards) -> Result<(), LedgerError> {
        sysvars::set_epoch_rewards(self.set.vm_mut(), sysvar);
        self.write_accounts(&[sysvar::epoch_rewards::ID])
    }

    /// Writes accounts that no transaction changed.
    pub(crate) fn write(
        &mut self,
        accounts: Vec<(Pubkey, AccountSharedData)>,
        capitalization: u64,
    ) -> Result<(), LedgerError> {
        let before: Vec<AccountSharedData> = accounts
            .iter()
            .map(|(key, _)| self.set.account(&self.ledger, key).cloned().unwrap_or_default())
            .collect();
        let bank = BlockInfo { capitalization, ..self.builder.bank.clone() };
        self.apply(accounts.iter().map(|(key, account)| (*key, account)), bank)?;
        let changes = accounts.iter().zip(&before);
        self.builder.record_key_changes(changes.map(|((key, after), before)| (key, before, after)));
        self.set.commit(accounts.iter().map(|(key, account)| (*key, account)));
        Ok(())
    }
}
