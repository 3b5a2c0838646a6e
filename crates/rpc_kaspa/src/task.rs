//! The work of a message on the CPU pool.

use cpu_pool::Class;
use kaspa::OwnMethod;
use websocket::{SessionOutput, SessionTask};

use crate::address_changes::{PositionTask, SubscribeTask, UnsubscribeTask};
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
    Subscribe(Box<SubscribeTask>),
    Unsubscribe(Box<UnsubscribeTask>),
    Position(Box<PositionTask>),
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

    /// Runs a method that kaspad does not have.
    pub(crate) fn run_own(call: Call, method: OwnMethod) -> Self {
        Self(match method {
            OwnMethod::AddressesSubscribe => {
                TaskKind::Subscribe(Box::new(SubscribeTask::new(call)))
            }
            OwnMethod::AddressesUnsubscribe => {
                TaskKind::Unsubscribe(Box::new(UnsubscribeTask::new(call)))
            }
            OwnMethod::AddressesPosition => TaskKind::Position(Box::new(PositionTask::new(call))),
        })
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
            TaskKind::Subscribe(task) => wrap(task.step(), TaskKind::Subscribe),
            TaskKind::Unsubscribe(task) => wrap(task.step(), TaskKind::Unsubscribe),
            TaskKind::Position(task) => wrap(task.step(), TaskKind::Position),
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
