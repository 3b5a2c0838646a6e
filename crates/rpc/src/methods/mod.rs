//! The table of methods: what each is called, what it costs, what runs it.
//!
//! A file of methods ends in its `METHODS`; [`FILES`] lists the files. A method is a plain function
//! `fn(&Node, Params) -> MethodResult`: it reads its parameters, takes one view, makes one answer.
//! It must not block, sleep or keep anything; it may panic, which ends its request only (-32603).
//! Not here: sockets, batches, the pool (`dispatch`).

mod accounts;
mod answer;
mod blocks;
mod epoch;
mod fees;
mod indexed;
#[cfg(test)]
mod ledger_tests;
mod list;
mod node_info;
mod pages;
mod programs;
mod read;
mod samples;
mod search;
mod send;
mod simulate;
mod sizes;
mod statuses;
mod supply;
mod text;
mod tip;
mod tokens;
mod transactions;
mod votes;
mod wire;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

use crate::cached::Reads;
use crate::error::RpcError;
use crate::metrics::Subject;
use crate::node::Node;
use crate::params::Params;

pub use answer::Answer;
pub(crate) use answer::{Form, PIECE_BYTES, PREFIX, Pieces, Progress, close_reply};
pub use node_info::api_version;
pub use votes::own_keys;
pub(crate) use wire::decode;

/// Which files have methods. One line a file.
const FILES: &[&[Method]] = &[
    accounts::METHODS,
    blocks::METHODS,
    epoch::METHODS,
    fees::METHODS,
    node_info::METHODS,
    pages::METHODS,
    programs::METHODS,
    samples::METHODS,
    send::METHODS,
    simulate::METHODS,
    statuses::METHODS,
    supply::METHODS,
    tip::METHODS,
    tokens::METHODS,
    transactions::METHODS,
    votes::METHODS,
];

/// What a method gives: an answer, or why not.
pub(crate) type MethodResult = Result<Answer, RpcError>;

/// One method.
pub(crate) struct Method {
    /// As clients call it.
    pub(crate) name: &'static str,
    /// Where it runs.
    pub(crate) class: Class,
    /// What it does.
    pub(crate) run: fn(&Node, Params<'_>) -> MethodResult,
}

/// Where a method runs, by what it costs.
pub(crate) enum Class {
    /// On the thread that polls the socket: some microseconds, whatever its parameters are.
    Inline,
    /// On the CPU pool: a signature, one transaction of history.
    Light,
    /// On the CPU pool: a block, a page, the VM.
    Medium,
    /// As the function says of this call, and nothing heavier than `heaviest`; `None` is inline. The function
    /// itself must be cheap, and may say anything of parameters that are wrong.
    By { heaviest: pool::Class, class: fn(&Node, Params<'_>, &mut Budget) -> Option<pool::Class> },
    /// Tried on the thread that polls the socket, which gives up before it does much: then on the CPU
    /// pool, as it says.
    Try(fn(&Node, Params<'_>, &mut Budget) -> Result<MethodResult, pool::Class>),
}

/// What all calls of a body together may still encode where they are looked at, in bytes of account data as
/// `sizes` weighs them.
pub(crate) struct Budget(u64);

impl Budget {
    /// Of one body.
    pub(crate) fn new(node: &Node) -> Self {
        Self(node.config.inline_bytes_max as u64)
    }

    /// Takes so many of it, or nothing if it has not as many; `None` is more than it ever has.
    fn take(&mut self, bytes: Option<u64>) -> bool {
        let left = bytes.and_then(|bytes| self.0.checked_sub(bytes));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// What a call reads, if its answer may come from the cache.
pub(crate) fn reads(method: &Method, node: &Node, params: Params<'_>) -> Option<Reads> {
    match method.name {
        "getProgramAccounts" => programs::reads(node, params),
        "getTokenAccountsByOwner" => tokens::reads(node, params, solana::facet::OWNER),
        "getTokenAccountsByDelegate" => tokens::reads(node, params, solana::facet::DELEGATE),
        "getTokenLargestAccounts" => tokens::reads_of_largest(node, params),
        "getProgramAccountsV2" => pages::reads_of_program(node, params),
        "getTokenAccountsByOwnerV2" => pages::reads_of_owner(node, params),
        "getTokenAccountsByMint" => pages::reads_of_mint(node, params),
        "getAccountInfo" => accounts::reads_of_one(params),
        "getMultipleAccounts" => accounts::reads_of_several(params),
        "getSupply" => supply::reads(params),
        "getLargestAccounts" => supply::reads_of_largest(params),
        "getBlock" => blocks::reads(node, params),
        "getTransaction" => transactions::reads(node, params),
        _ => None,
    }
}

/// Whether a call of it may be heavy, by its name alone: for those that are not looked at one by one.
pub(crate) fn may_be_heavy(method: &Method) -> bool {
    // What is tried is small nearly always.
    matches!(method.class, Class::By { heaviest: pool::Class::Heavy, .. })
}

/// A method with its place in [`by_name`], by which it is counted.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    method: &'static Method,
    number: u16,
}

impl Named {
    /// As metrics know it.
    pub(crate) fn subject(self) -> Subject {
        Subject::method(self.number)
    }
}

impl Deref for Named {
    type Target = Method;

    fn deref(&self) -> &Method {
        self.method
    }
}

/// The method of that name.
pub(crate) fn find(name: &str) -> Option<Named> {
    static METHODS: LazyLock<HashMap<&str, Named, RandomState>> = LazyLock::new(|| {
        let numbered = by_name().iter().zip(0..);
        numbered.map(|(method, number)| (method.name, Named { method, number })).collect()
    });
    METHODS.get(name).copied()
}

/// Every method, in the order of names.
pub(crate) fn by_name() -> &'static [&'static Method] {
    static BY_NAME: LazyLock<Vec<&'static Method>> = LazyLock::new(|| {
        let mut by_name: Vec<_> = FILES.iter().copied().flatten().collect();
        by_name.sort_unstable_by_key(|method| method.name);
        by_name
    });
    &BY_NAME
}
