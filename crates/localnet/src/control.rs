//! Commands for the ledger itself: writes without a transaction, the clock, and the way back to the first accounts.
//!
//! In: a [`CommandRequest`], between two transactions. Out: account writes in the open block, which subscriptions, the
//! indices, the bank hash and the store see like any others; or another open block. The result is sent after it was
//! published.
//! If each transaction makes a block, a command that writes ends its block as well, and so does a journey through time.
//! Bounds: [`ACCOUNT_BYTES_MAX`] for an account, [`WRITES_MAX`] accounts and [`LAMPORTS_MAX`] in all.
//! Invariant: the accounts that the ledger itself depends on are never set: sysvars, builtin programs, features, its
//! identity and its vote account.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use chain_solana::{
    ACCOUNT_BYTES_MAX, AccountsEdit, BlockInfo, ControlCommand, ControlError, ControlOutcome,
    CurrentAccounts, EditedAccounts, ResetScope, TimeTarget,
};
use ledger::{Commitment, Slot};
use query::LedgerError;
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_loader_v3_interface::get_program_data_address;
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_sdk_ids::{
    bpf_loader, bpf_loader_deprecated, bpf_loader_upgradeable, feature, loader_v4, native_loader,
    sysvar,
};
use solana_signer::Signer;
use svm::{AccountSource, sysvars};

use crate::account_bytes::{NoSpace, WrittenBytes};
use crate::baseline::Baseline;
use crate::config::{SLOT_MS_DEFAULT, WARP_SLOT_MAX};
use crate::executor::{Executor, ExecutorError, now, unix_ms};
use crate::genesis_accounts::LAMPORTS_MAX;
use crate::queue::CommandRequest;
use crate::vote;

/// Accounts that one command writes at most.
const WRITES_MAX: usize = 100_000;
/// The end of the year 9999, in milliseconds since 1970: programs and clients represent every time before it.
const UNIX_MS_MAX: i64 = 253_402_300_799_999;

/// The loaders, whose accounts have code.
const LOADERS: [Pubkey; 4] =
    [bpf_loader::ID, bpf_loader_deprecated::ID, bpf_loader_upgradeable::ID, loader_v4::ID];

pub(crate) type ControlResult = Result<ControlOutcome, ControlError>;

/// The accounts of the open block.
struct OpenAccounts<'a> {
    ledger: &'a query::Ledger<Account, BlockInfo>,
    slot: Slot,
    rent: Rent,
}

impl CurrentAccounts for OpenAccounts<'_> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        AccountSource::account(self.ledger, key)
    }

    fn slot(&self) -> Slot {
        self.slot
    }

    fn minimum_balance(&self, bytes: usize) -> u64 {
        self.rent.minimum_balance(bytes).max(1)
    }
}

impl Executor {
    /// Carries out a command, then sends its result.
    pub(crate) fn control(&mut self, request: CommandRequest) -> Result<(), ExecutorError> {
        let CommandRequest { command, reply } = request;
        let result = match command {
            ControlCommand::Edit(edit) => self.edit(edit)?,
            ControlCommand::Adopt(accounts) => self.adopt(accounts)?,
            ControlCommand::Travel(to) => self.travel(to)?,
            ControlCommand::PauseClock => {
                self.clock.lock().pause(unix_ms());
                Ok(self.control_done())
            }
            ControlCommand::ResumeClock => {
                self.clock.lock().resume(unix_ms(), now());
                Ok(self.control_done())
            }
            ControlCommand::Reset(scope) => self.reset(scope)?,
        };
        reply.send(result);
        Ok(())
    }

    pub(crate) fn control_done(&self) -> ControlOutcome {
        let BlockInfo { block, block_height, transaction_count, .. } = self.builder.bank;
        ControlOutcome { slot: block.slot, block_height, transaction_count }
    }

    fn edit(&mut self, edit: AccountsEdit) -> Result<ControlResult, ExecutorError> {
        let current = OpenAccounts {
            ledger: &self.ledger,
            slot: self.builder.bank.block.slot,
            rent: self.set.vm().svm().get_sysvar(),
        };
        match catch_unwind(AssertUnwindSafe(|| edit(&current))) {
            Ok(Ok(accounts)) => self.write_edited(accounts),
            Ok(Err(err)) => Ok(Err(err)),
            Err(_) => Ok(Err(ControlError::Panicked)),
        }
    }

    /// Writes those accounts that change, and publishes them.
    fn write_edited(&mut self, accounts: EditedAccounts) -> Result<ControlResult, ExecutorError> {
        if self.timing.slot_ms == 0 {
            self.update_time()?;
        }
        let mut writes = Vec::new();
        let mut replaces_code = false;
        let mut written = WrittenBytes::default();
        let mut capitalization = u128::from(self.builder.bank.capitalization);
        for (key, after) in accounts {
            let before = AccountSource::account(&self.ledger, &key);
            let before = before.map(|account| account.0.clone()).unwrap_or_default();
            // An account without lamports does not exist.
            let after = if after.lamports() == 0 { AccountSharedData::default() } else { after };
            if before == after {
                continue;
            }
            if let Some(reason) = self.protection(&key, &before, &after) {
                return Ok(Err(ControlError::Protected { pubkey: key, reason }));
            }
            let bytes = after.data().len();
            if bytes > ACCOUNT_BYTES_MAX {
                return Ok(Err(ControlError::TooLarge { pubkey: key, bytes }));
            }
            capitalization += u128::from(after.lamports());
            capitalization -= u128::from(before.lamports());
            written.add(&before, &after);
            replaces_code |= has_code(&before) || has_code(&after);
            writes.push((key, after));
        }
        let max = LAMPORTS_MAX.max(self.builder.bank.capitalization);
        let capitalization = match u64::try_from(capitalization) {
            Ok(lamports) if lamports <= max => lamports,
            _ => return Ok(Err(ControlError::TooManyLamports { lamports: capitalization, max })),
        };
        if writes.len() > WRITES_MAX {
            let accounts = writes.len();
            let max = WRITES_MAX;
            return Ok(Err(ControlError::TooManyAccounts { accounts, max }));
        }
        if writes.is_empty() {
            return Ok(Ok(self.control_done()));
        }
        if let Err(err) = self.admit_writes(written) {
            return Ok(Err(err));
        }
        match self.write(writes, capitalization) {
            Err(LedgerError::TableFull(_)) => return Ok(Err(ControlError::LedgerFull)),
            written => written?,
        }
        if replaces_code {
            self.set.reload_programs();
        }
        self.publish();
        let done = self.control_done();
        self.end_command()?;
        Ok(Ok(done))
    }

    /// Checks that the state has space for the writes of a command.
    pub(crate) fn admit_writes(&self, written: WrittenBytes) -> Result<(), ControlError> {
        let admitted = self.account_bytes.admit(self.ledger.record_bytes(), written);
        admitted.map_err(|full| match full {
            NoSpace::Addresses(_) => ControlError::LedgerFull,
            NoSpace::AccountBytes { limit, .. } => ControlError::AccountBytesFull { limit },
        })
    }

    /// Why an account is not set. `None` if it may be.
    pub(crate) fn protection(
        &self,
        key: &Pubkey,
        before: &AccountSharedData,
        after: &AccountSharedData,
    ) -> Option<&'static str> {
        let has_owner = |owner: &Pubkey| before.owner() == owner || after.owner() == owner;
        if sysvars::ALL.contains(key) || has_owner(&sysvar::ID) {
            return Some("sysvars follow the ledger's clock (surfnet_timeTravel)");
        }
        if has_owner(&native_loader::ID) {
            return Some("it is a builtin program, which is code of the node");
        }
        if has_owner(&feature::ID) {
            return Some("features are fixed when the ledger is created (--features)");
        }
        if *key == self.identity.pubkey() || *key == self.vote_account {
            return Some("the node votes with it");
        }
        None
    }

    /// Ends the open block, and opens the next one at a later slot and time. Blocks become final if as many slots are
    /// passed over as that takes.
    fn travel(&mut self, to: TimeTarget) -> Result<ControlResult, ExecutorError> {
        let (slot, target_ms) = match self.destination(to) {
            Ok(destination) => destination,
            Err(err) => return Ok(Err(err)),
        };
        let passed = slot - self.builder.bank.block.slot;
        if passed == 0 {
            return self.travel_in_block(target_ms);
        }
        self.complete_block()?;
        self.finish_payout(slot)?;
        let is_long = passed > self.timing.finalize_after;
        let unfinalized_max = if is_long { 0 } else { self.timing.finalize_after };
        while self.checkpoints.unfinalized() as u64 > unfinalized_max {
            self.finalize_oldest()?;
        }
        self.clock.lock().jump_to(target_ms, unix_ms(), now());
        self.timing.warp_slot = Some(slot);
        self.open_block(self.builder.bank.clone())?;
        self.hidden_statuses.show_all();
        let done = self.control_done();
        self.end_command()?;
        Ok(Ok(done))
    }

    /// Sets the time of the open block, whose slot is the destination.
    fn travel_in_block(&mut self, target_ms: i64) -> Result<ControlResult, ExecutorError> {
        self.clock.lock().jump_to(target_ms, unix_ms(), now());
        self.update_time()?;
        self.publish();
        let done = self.control_done();
        self.end_command()?;
        Ok(Ok(done))
    }

    /// Makes the blocks that still pay the rewards of the last epoch, before the slot of another epoch is opened. No
    /// block is open before and after.
    fn finish_payout(&mut self, next: Slot) -> Result<(), ExecutorError> {
        let epoch_of = |slot| self.epochs.schedule().get_epoch(slot);
        if epoch_of(next) == epoch_of(self.newest.slot) {
            return Ok(());
        }
        while self.epochs.is_paying() && self.newest.slot + 1 < next {
            self.open_block(self.builder.bank.clone())?;
            self.complete_block()?;
        }
        Ok(())
    }

    /// Ends the block of a command where blocks are made on demand.
    fn end_command(&mut self) -> Result<(), ExecutorError> {
        if self.timing.slot_ms == 0 && !self.timing.is_manual {
            self.end_block()?;
        }
        Ok(())
    }

    /// The slot and the time in milliseconds of a target that is later than the open block, or is its slot.
    fn destination(&self, to: TimeTarget) -> Result<(Slot, i64), ControlError> {
        let current = self.builder.bank.block.slot;
        let now_ms = self.clock.lock().current(unix_ms());
        let slot_ms = match self.timing.slot_ms {
            0 => SLOT_MS_DEFAULT,
            slot_ms => slot_ms,
        };
        let after_slots = |slot: Slot| {
            let passed_ms = slot.saturating_sub(current).saturating_mul(slot_ms);
            now_ms.saturating_add(i64::try_from(passed_ms).unwrap_or(i64::MAX))
        };
        let given_ms = |unix_ms: u64| i64::try_from(unix_ms).unwrap_or(i64::MAX);
        let (slot, target_ms) = match to {
            TimeTarget::Epoch(epoch) => {
                let slot = self.epochs.schedule().get_first_slot_in_epoch(epoch);
                (slot, after_slots(slot))
            }
            TimeTarget::Slot(slot) => (slot, after_slots(slot)),
            TimeTarget::UnixMs(unix_ms) => {
                let target_ms = given_ms(unix_ms);
                let passed_ms = u64::try_from(target_ms.saturating_sub(now_ms)).unwrap_or_default();
                (current.saturating_add((passed_ms / slot_ms).max(1)), target_ms)
            }
            TimeTarget::SlotAt { slot, unix_ms } => (slot, given_ms(unix_ms)),
        };
        // If the open block waits for a transaction, clients have not seen its slot yet.
        let waits = self.timing.slot_ms == 0;
        if slot < current || (slot == current && !waits) {
            let what = format!("slot {slot} is not later than slot {current}, which is open");
            return Err(ControlError::Invalid(what));
        }
        if slot > WARP_SLOT_MAX {
            let what =
                format!("slot {slot}: at most {WARP_SLOT_MAX}, so that slots remain after it");
            return Err(ControlError::Invalid(what));
        }
        if target_ms < now_ms {
            let what = format!("{target_ms} ms is not later than the ledger's time, {now_ms} ms");
            return Err(ControlError::Invalid(what));
        }
        if target_ms > UNIX_MS_MAX {
            let what = format!(
                "slot {slot} would be at {target_ms} ms, at most {UNIX_MS_MAX} ms, the end of the year 9999 \
                 (absoluteSlotAt sets slot and time separately)"
            );
            return Err(ControlError::Invalid(what));
        }
        Ok((slot, target_ms))
    }

    fn reset(&mut self, scope: ResetScope) -> Result<ControlResult, ExecutorError> {
        let Some(baseline) = self.baseline.clone() else {
            return Ok(Err(ControlError::NoBaseline { bytes_max: self.baseline_bytes_max }));
        };
        // A view shows what is published.
        self.publish();
        let accounts = match scope {
            ResetScope::All => self.changed_since(&baseline, |_, _, _| true),
            ResetScope::Account { pubkey, with_owned } => {
                let mut accounts = accounts_at_start(&baseline, pubkey);
                if with_owned {
                    let owns = |account: &Account| account.0.owner() == &pubkey;
                    let owned = self.changed_since(&baseline, |key, now, was| {
                        accounts.iter().all(|(known, _)| known != key)
                            && (now.is_some_and(owns) || was.is_some_and(owns))
                    });
                    accounts.extend(owned);
                }
                accounts
            }
        };
        let result = self.write_edited(accounts)?;
        if result.is_ok() && scope == ResetScope::All && self.reset_time()? {
            self.end_command()?;
        }
        Ok(result)
    }

    /// Undoes the jumps and pauses of the clock. True if its time went back, which happens in the open block.
    fn reset_time(&mut self) -> Result<bool, ExecutorError> {
        if !self.clock.lock().reset(now()) {
            return Ok(false);
        }
        let unix_timestamp = self.clock.lock().advance(unix_ms(), now());
        if unix_timestamp >= self.builder.bank.unix_timestamp {
            return Ok(false);
        }
        self.set_time(unix_timestamp)?;
        // A vote whose time is before that of the last one is refused.
        let account = self.set.account(&self.ledger, &self.vote_account).cloned();
        if let Some(account) =
            account.and_then(|it| vote::with_time(&it, &self.vote_account, unix_timestamp))
        {
            self.write(vec![(self.vote_account, account)], self.builder.bank.capitalization)?;
        }
        self.publish();
        Ok(true)
    }

    /// The accounts of the start that differ from those of now and that `is_selected` selects. The ledger's own ones
    /// stay.
    fn changed_since(
        &self,
        baseline: &Baseline,
        is_selected: impl Fn(&Pubkey, Option<&Account>, Option<&Account>) -> bool,
    ) -> EditedAccounts {
        let view = self.reader.view(Commitment::Processed);
        let none = AccountSharedData::default();
        let mut changed = Vec::new();
        let mut compare = |key: Pubkey, now: Option<&Account>, was: Option<&Account>| {
            let before = now.map_or(&none, |account| &account.0);
            let after = was.map_or(&none, |account| &account.0);
            if before != after
                && is_selected(&key, now, was)
                && self.protection(&key, before, after).is_none()
            {
                changed.push((key, after.clone()));
            }
        };
        for (address, account) in view.all() {
            // Every address of the ledger is a pubkey.
            let Ok(key) = Pubkey::try_from(address.as_bytes()) else { continue };
            compare(key, Some(&account), baseline.account(&key).map(Arc::as_ref));
        }
        for (key, account) in baseline.accounts() {
            if AccountSource::account(&view, key).is_none() {
                compare(*key, None, Some(account));
            }
        }
        changed
    }
}

/// An account of the start, and the data account of the program that it is or was.
fn accounts_at_start(baseline: &Baseline, pubkey: Pubkey) -> EditedAccounts {
    let account =
        |key: &Pubkey| baseline.account(key).map(|account| account.0.clone()).unwrap_or_default();
    let data_key = get_program_data_address(&pubkey);
    vec![(data_key, account(&data_key)), (pubkey, account(&pubkey))]
}

/// Whether the VM may have compiled an account, or code in it.
pub(crate) fn has_code(account: &AccountSharedData) -> bool {
    account.executable() || LOADERS.contains(account.owner())
}
