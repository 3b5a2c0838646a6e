//! The work of a message on the CPU pool.

use cpu_pool::Class;
use websocket::{SessionOutput, SessionTask};

use crate::balance_list::BalanceListTask;
use crate::call::{Call, StepOutput};
use crate::kaspa_rpc::NoItems;
use crate::scope_task::ScopeTask;
use crate::utxo_list::UtxoListTask;

/// The work of a message on the CPU pool.
pub struct KaspaTask(TaskKind);

enum TaskKind {
    Utxos(Box<UtxoListTask>),
    Balances(Box<BalanceListTask>),
    Scope(Box<ScopeTask>),
}

impl KaspaTask {
    pub(crate) fn list_utxos(call: Call) -> Self {
        Self(TaskKind::Utxos(Box::new(UtxoListTask::new(call))))
    }

    pub(crate) fn list_balances(call: Call) -> Self {
        Self(TaskKind::Balances(Box::new(BalanceListTask::new(call))))
    }

    /// Starts or stops notifications.
    pub(crate) fn change_scope(call: Call) -> Self {
        Self(TaskKind::Scope(Box::new(ScopeTask::new(call))))
    }
}

impl SessionTask for KaspaTask {
    type Items = NoItems;

    fn class(&self) -> Class {
        Class::Medium
    }

    fn step(self) -> (Vec<SessionOutput<NoItems>>, Option<Self>) {
        match self.0 {
            TaskKind::Utxos(task) => wrap(task.step(), TaskKind::Utxos),
            TaskKind::Balances(task) => wrap(task.step(), TaskKind::Balances),
            TaskKind::Scope(task) => wrap(task.step(), TaskKind::Scope),
        }
    }
}

fn wrap<T>(
    output: StepOutput<T>,
    work: fn(Box<T>) -> TaskKind,
) -> (Vec<SessionOutput<NoItems>>, Option<KaspaTask>) {
    let (out, rest) = output;
    (out, rest.map(|rest| KaspaTask(work(rest))))
}
