//! Simulation beside the executing thread: VMs of their own that take accounts from a reader's view.
//!
//! Shape: a few scratch VMs. Each run loads what the transaction names from the view, runs, and lets
//! go of it again; programs and sysvars stay until the view has newer ones.
//! Bounds: as many run at once as there are VMs, more wait; call from the CPU pool, which bounds them.
//! Invariant: nothing here touches the executing thread or its accounts.

use std::collections::HashMap;
use std::sync::Arc;

use chain::{Simulation, SimulationError, SimulationRequest, View};
use ledger::{Address, BlockId};
use parking_lot::{Condvar, Mutex};
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_loader_v3_interface::get_program_data_address;
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{bpf_loader_upgradeable, native_loader, sysvar};
use solana_transaction_error::TransactionError;

use crate::vm::{Outcome, Vm};
use crate::{meta, nonce};

/// The sysvars that change with slots.
const SYSVARS: [Pubkey; 6] = [
    sysvar::slot_hashes::ID,
    sysvar::slot_history::ID,
    sysvar::recent_blockhashes::ID,
    sysvar::stake_history::ID,
    sysvar::epoch_schedule::ID,
    sysvar::clock::ID,
];

/// What an account counts beside its data.
const ACCOUNT_BYTES: usize = 64;
/// What a lookup table counts, whatever it holds.
const TABLE_BYTES: usize = 8_248;

/// VMs that simulate.
pub(crate) struct Simulator {
    idle: Mutex<Vec<Scratch>>,
    freed: Condvar,
    fresh: Vm,
}

struct Scratch {
    vm: Vm,
    /// Which state the sysvars are of.
    sysvars_of: Option<(BlockId, i64)>,
    /// The programs that are loaded, with the accounts they were loaded from.
    programs: HashMap<Pubkey, (Arc<Account>, Option<Arc<Account>>)>,
}

impl Simulator {
    /// `count` VMs like `fresh`.
    pub(crate) fn new(fresh: Vm, count: usize) -> Self {
        let idle = (0..count.max(1)).map(|_| Scratch::new(fresh.clone())).collect();
        Self { idle: Mutex::new(idle), freed: Condvar::new(), fresh }
    }

    /// Runs a transaction on the state of a view. `refusal` is why a block would not hold it, if
    /// that is known already.
    pub(crate) fn simulate(
        &self,
        view: &View,
        request: SimulationRequest,
        refusal: Option<TransactionError>,
    ) -> Result<Simulation, SimulationError> {
        request.transaction.sanitize().map_err(|err| SimulationError::Sanitize(err.to_string()))?;
        let mut scratch = self.take();
        let run = std::panic::AssertUnwindSafe(|| scratch.simulate(view, request, refusal));
        let simulated = std::panic::catch_unwind(run);
        let done = simulated.is_ok().then_some(scratch);
        self.idle.lock().push(done.unwrap_or_else(|| Scratch::new(self.fresh.clone())));
        self.freed.notify_one();
        simulated.map_err(|_| SimulationError::Panicked)?
    }

    fn take(&self) -> Scratch {
        let mut idle = self.idle.lock();
        loop {
            if let Some(scratch) = idle.pop() {
                return scratch;
            }
            self.freed.wait(&mut idle);
        }
    }
}

impl Scratch {
    fn new(vm: Vm) -> Self {
        Self { vm, sysvars_of: None, programs: HashMap::new() }
    }

    fn simulate(
        &mut self,
        view: &View,
        request: SimulationRequest,
        refusal: Option<TransactionError>,
    ) -> Result<Simulation, SimulationError> {
        let bank = view.meta();
        let last_blockhash = bank.last_blockhash();
        let mut transaction = request.transaction;
        if request.replace_recent_blockhash {
            transaction.message.set_recent_blockhash(last_blockhash);
        }
        self.load_sysvars(view);
        let mut loaded = self.load_tables(view, &transaction.message);
        let keys = match self.vm.keys(&transaction.message) {
            Ok(keys) => keys.all,
            Err(_) => transaction.message.static_account_keys().to_vec(),
        };
        for key in &keys {
            self.load(view, key);
        }
        loaded.extend_from_slice(&keys);

        let recent = transaction.message.recent_blockhash();
        let nonce = (!bank.blockhashes.is_valid(recent))
            .then(|| nonce::usable(&self.vm, &transaction, &last_blockhash))
            .flatten();
        let is_known = nonce.is_some() || bank.blockhashes.is_valid(recent);
        let refusal =
            refusal.or_else(|| (!is_known).then_some(TransactionError::BlockhashNotFound));
        let outcome = self.vm.run(&transaction, nonce, &last_blockhash);
        let tokens = meta::token_balances(&outcome, &self.vm);
        self.unload(&loaded);

        let (outcome, err) = match refusal {
            Some(refusal) => (as_before(outcome), Some(refusal)),
            None => {
                let err = outcome.result.clone().err();
                (outcome, err)
            }
        };
        let tables = transaction.message.address_table_lookups().map_or(0, <[_]>::len);
        let loaded_accounts_data_size = self.loaded_bytes(&outcome, tables);
        Ok(Simulation {
            slot: bank.block.slot,
            units_consumed: outcome.units_consumed,
            return_data: meta::return_data(&outcome.return_data),
            inner_instructions: request
                .inner_instructions
                .then(|| meta::inner_instructions(&outcome)),
            loaded_accounts_data_size,
            fee: outcome.fee,
            pre_balances: meta::lamports(&outcome.before),
            post_balances: meta::lamports(&outcome.after),
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

    /// Bytes that a transaction loads, counted as its limit counts them: clients set the limit to it.
    fn loaded_bytes(&self, outcome: &Outcome, tables: usize) -> u32 {
        let accounts = outcome.before.iter().filter(|account| account.lamports() > 0);
        let own = accounts.map(|account| ACCOUNT_BYTES + account.data().len());
        let program_data = outcome.keys.iter().filter_map(|key| self.programs.get(key)?.1.as_ref());
        let programs = program_data.map(|data| ACCOUNT_BYTES + data.0.data().len());
        let total = own.chain(programs).sum::<usize>() + tables * TABLE_BYTES;
        u32::try_from(total).unwrap_or(u32::MAX)
    }

    fn load_sysvars(&mut self, view: &View) {
        let state = (view.block(), view.meta().unix_timestamp);
        if self.sysvars_of == Some(state) {
            return;
        }
        for key in SYSVARS {
            if let Some(account) = record(view, &key) {
                self.vm.put(key, &account.0);
            }
        }
        self.sysvars_of = Some(state);
    }

    /// Loads the lookup tables of a message, so that its other keys can be known.
    fn load_tables(&mut self, view: &View, message: &VersionedMessage) -> Vec<Pubkey> {
        let lookups = message.address_table_lookups().unwrap_or_default();
        let tables: Vec<Pubkey> = lookups.iter().map(|lookup| lookup.account_key).collect();
        for table in &tables {
            self.load(view, table);
        }
        tables
    }

    /// Makes the VM's account the view's.
    fn load(&mut self, view: &View, key: &Pubkey) {
        match record(view, key) {
            None => self.vm.remove(*key),
            Some(account) if account.0.executable() => self.load_program(view, *key, account),
            Some(account) if self.vm.account(key) != Some(&account.0) => {
                self.vm.put(*key, &account.0);
            }
            Some(_) => {}
        }
    }

    /// Loads a program, unless the VM has just this one: compiling is what costs.
    fn load_program(&mut self, view: &View, key: Pubkey, account: Arc<Account>) {
        if account.0.owner() == &native_loader::ID {
            return;
        }
        let data_key = get_program_data_address(&key);
        let data = (account.0.owner() == &bpf_loader_upgradeable::ID)
            .then(|| record(view, &data_key))
            .flatten();
        let is_same = |(had, had_data): &(Arc<Account>, Option<Arc<Account>>)| {
            had.0 == account.0 && had_data.as_ref().map(|a| &a.0) == data.as_ref().map(|a| &a.0)
        };
        if self.programs.get(&key).is_some_and(is_same) {
            return;
        }
        match &data {
            Some(data) => self.vm.put(data_key, &data.0),
            None => self.vm.remove(data_key),
        }
        self.vm.put(key, &account.0);
        self.programs.insert(key, (account, data));
    }

    /// Lets go of accounts that are neither programs nor sysvars.
    fn unload(&mut self, keys: &[Pubkey]) {
        for key in keys {
            let is_kept = |account: &AccountSharedData| {
                account.executable() || account.owner() == &sysvar::ID
            };
            if self.vm.account(key).is_some_and(|account| !is_kept(account)) {
                self.vm.remove(*key);
            }
        }
    }
}

/// A run that does not count: nothing changed and nothing was said.
fn as_before(outcome: Outcome) -> Outcome {
    Outcome {
        after: outcome.before.clone(),
        logs: Vec::new(),
        inner_instructions: Vec::new(),
        return_data: Default::default(),
        units_consumed: 0,
        ..outcome
    }
}

fn record(view: &View, key: &Pubkey) -> Option<Arc<Account>> {
    view.record(&Address::from(key.to_bytes()))
}
