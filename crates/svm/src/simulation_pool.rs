//! Simulation alongside the executing thread: separate VMs that load accounts from a reader's view.
//!
//! Shape: a few scratch VMs. Each run loads the accounts that the transaction names from the view, runs it, and evicts
//! them again. Programs and sysvars stay until the view has newer ones (`working_set`).
//! A ledger without a clock names the block in which the transaction would run ([`SimulatedBlock`]): its views may be
//! hours old. Any other ledger simulates in the block of the view.
//! Bounds: one simulation at a time for each VM; others wait. Call it from the CPU pool, which bounds the callers.
//! Invariant: a simulation does not touch the executing thread or its accounts.

use chain_solana::{Simulation, SimulationError, SimulationRequest, View, WrittenAccounts};
use ledger::BlockId;
use parking_lot::{Condvar, Mutex};
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;
use solana_transaction_error::TransactionError;

use crate::vm::ExecutionOutcome;
use crate::working_set::{AccountSource, Overlay, WorkingSet};
use crate::{nonce, status_meta, sysvars};

/// Blocks for which a simulation accepts a blockhash. As in Agave, they are 6 fewer than the 150 for which the
/// transaction is valid: it must still be valid when it has been forwarded to the leader.
const SIMULATED_BLOCKHASH_AGE_MAX: u64 = 150 - 6;

/// The sysvars that change with slots, epochs or restarts.
const SYSVARS: [Pubkey; 9] = [
    sysvar::epoch_rewards::ID,
    sysvar::slot_hashes::ID,
    sysvar::slot_history::ID,
    sysvar::recent_blockhashes::ID,
    sysvar::stake_history::ID,
    sysvar::epoch_schedule::ID,
    sysvar::last_restart_slot::ID,
    sysvar::rent::ID,
    sysvar::clock::ID,
];

/// A pool of VMs for simulations.
pub struct SimulationPool {
    idle: Mutex<Vec<ScratchVm>>,
    freed: Condvar,
    template: WorkingSet,
    checks_blockhash: bool,
}

/// The block in which a transaction would run.
#[derive(Clone, Copy)]
pub struct SimulatedBlock<'a> {
    /// The view with the accounts that the transaction finds.
    pub accounts: &'a View,
    /// The view with the sysvars of the block.
    pub sysvars: &'a View,
    /// Time of the block in seconds since 1970, if it is not that of the sysvars.
    pub unix_timestamp: Option<i64>,
}

impl<'a> SimulatedBlock<'a> {
    /// Creates the block of a view, with its own sysvars.
    pub fn from_view(view: &'a View) -> Self {
        Self { accounts: view, sysvars: view, unix_timestamp: None }
    }
}

struct ScratchVm {
    set: WorkingSet,
    /// Block and time of the loaded sysvars.
    sysvars_of: Option<(BlockId, i64)>,
    checks_blockhash: bool,
}

impl SimulationPool {
    /// Creates a pool of `count` VMs like `template`.
    pub fn new(template: WorkingSet, count: usize) -> Self {
        let idle = (0..count.max(1)).map(|_| ScratchVm::new(template.clone_programs())).collect();
        Self { idle: Mutex::new(idle), freed: Condvar::new(), template, checks_blockhash: true }
    }

    /// Sets whether only recent blockhashes are accepted, or any.
    #[must_use]
    pub fn with_blockhash_check(self, checks_blockhash: bool) -> Self {
        Self { checks_blockhash, ..self }
    }

    /// Runs a transaction in a block, after the transactions that wrote `written`. `refusal` is the reason why the
    /// block would not contain it, if that is known already.
    pub fn simulate(
        &self,
        block: SimulatedBlock<'_>,
        written: &WrittenAccounts,
        request: SimulationRequest,
        refusal: Option<TransactionError>,
    ) -> Result<Simulation, SimulationError> {
        request.transaction.sanitize().map_err(|err| SimulationError::Sanitize(err.to_string()))?;
        let mut scratch = self.take_vm();
        scratch.checks_blockhash = self.checks_blockhash;
        let run =
            std::panic::AssertUnwindSafe(|| scratch.simulate(block, written, request, refusal));
        let simulated = std::panic::catch_unwind(run);
        let reusable = simulated.is_ok().then_some(scratch);
        self.idle
            .lock()
            .push(reusable.unwrap_or_else(|| ScratchVm::new(self.template.clone_programs())));
        self.freed.notify_one();
        simulated.map_err(|_| SimulationError::Panicked)?
    }

    fn take_vm(&self) -> ScratchVm {
        let mut idle = self.idle.lock();
        loop {
            if let Some(scratch) = idle.pop() {
                return scratch;
            }
            self.freed.wait(&mut idle);
        }
    }
}

impl ScratchVm {
    fn new(set: WorkingSet) -> Self {
        Self { set, sysvars_of: None, checks_blockhash: true }
    }

    fn simulate(
        &mut self,
        block: SimulatedBlock<'_>,
        written: &WrittenAccounts,
        request: SimulationRequest,
        refusal: Option<TransactionError>,
    ) -> Result<Simulation, SimulationError> {
        let view = block.accounts;
        let bank = view.meta();
        let last_blockhash = bank.last_blockhash();
        let mut transaction = request.transaction;
        if request.replace_recent_blockhash {
            transaction.message.set_recent_blockhash(last_blockhash);
        }
        self.load_sysvars(block);
        // A run that panicked may have left accounts of another view.
        self.set.clear();
        let source = Overlay { written, source: view };
        self.set.load(&source, &transaction.message);

        let recent = transaction.message.recent_blockhash();
        let is_recent = !self.checks_blockhash
            || bank.blockhashes.age(recent).is_some_and(|age| age <= SIMULATED_BLOCKHASH_AGE_MAX);
        let nonce = (!is_recent)
            .then(|| nonce::usable(&transaction, &last_blockhash, |key| self.set.vm().account(key)))
            .flatten();
        let is_known = nonce.is_some() || is_recent;
        // As in Agave, a transaction with too old a blockhash is not looked up.
        let refusal = if is_known { refusal } else { Some(TransactionError::BlockhashNotFound) };
        let outcome = self.set.run(&transaction, nonce, &last_blockhash);
        let tokens = status_meta::token_balances(&outcome, &transaction.message, |mint| {
            self.set.account(&source, mint).cloned()
        });
        self.set.clear();

        let (outcome, err) = match refusal {
            Some(refusal) => (as_before(outcome), Some(refusal)),
            None => {
                let err = outcome.result.clone().err();
                (outcome, err)
            }
        };
        Ok(Simulation {
            slot: bank.block.slot,
            units_consumed: outcome.units_consumed,
            return_data: status_meta::return_data(&outcome.return_data),
            inner_instructions: (request.inner_instructions && outcome.is_executed)
                .then(|| status_meta::inner_instructions(&outcome)),
            loaded_accounts_data_size: outcome.loaded_bytes,
            fee: outcome.fee,
            pre_balances: status_meta::lamports(&outcome.before),
            post_balances: status_meta::lamports(&outcome.after),
            pre_token_balances: tokens.before,
            post_token_balances: tokens.after,
            replacement_blockhash: request.replace_recent_blockhash.then(|| {
                let height = bank.last_valid_block_height(&last_blockhash);
                (last_blockhash, height.unwrap_or(bank.block_height))
            }),
            loaded_addresses: outcome.loaded_addresses,
            logs: outcome.logs,
            post_accounts: outcome.keys.into_iter().zip(outcome.after).collect(),
            err,
        })
    }

    fn load_sysvars(&mut self, block: SimulatedBlock<'_>) {
        let SimulatedBlock { sysvars, unix_timestamp, .. } = block;
        let state = (sysvars.block(), sysvars.meta().unix_timestamp);
        if self.sysvars_of != Some(state) {
            for key in SYSVARS {
                if let Some(account) = sysvars.account(&key) {
                    self.set.vm_mut().put(key, &account.0);
                }
            }
            self.sysvars_of = Some(state);
        }
        if let Some(unix_timestamp) = unix_timestamp {
            sysvars::set_time(self.set.vm_mut(), unix_timestamp);
        }
    }
}

/// Returns the outcome of a run that no block would contain: it loaded nothing, paid nothing and changed nothing.
fn as_before(outcome: ExecutionOutcome) -> ExecutionOutcome {
    ExecutionOutcome {
        is_included: false,
        is_executed: false,
        loaded_bytes: 0,
        fee: 0,
        after: outcome.before.clone(),
        logs: Vec::new(),
        inner_instructions: Vec::new(),
        return_data: Default::default(),
        units_consumed: 0,
        ..outcome
    }
}
