//! The table of methods: what each is called, what it costs, what runs it.
//!
//! A file of methods ends in its `METHODS`; [`FILES`] lists the files. A method is a plain function
//! `fn(&Node, Params) -> MethodResult`: it reads its parameters, takes one view, makes one answer.
//! It must not block, sleep or keep anything; it may panic, which ends its request only (-32603).
//! Not here: sockets, batches, the pool (`dispatch`).

mod account_list;
mod accounts;
mod accounts_reader;
mod blocks;
mod cost;
mod epoch;
mod fees;
mod incremental;
mod index_selection;
mod node_info;
mod output;
mod paginated;
mod parse_key;
mod programs;
mod samples;
mod send;
mod simulate;
mod slot;
mod statuses;
mod supply;
#[cfg(test)]
mod tests;
mod tokens;
mod transaction_codec;
mod transactions;
mod votes;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

use crate::dependencies::Dependencies;
use crate::error::RpcError;
use crate::metrics::MethodLabel;
use crate::node::Node;
use crate::params::Params;

pub use node_info::api_version;
pub use output::MethodOutput;
pub(crate) use output::{
    OutputKind, PREFIX, RESULT_CHUNK_BYTES, StreamState, StreamedResult, close_response,
};
pub(crate) use transaction_codec::decode;
pub use votes::required_index_keys;

/// Which files have methods. One line a file.
const FILES: &[&[Method]] = &[
    accounts::METHODS,
    blocks::METHODS,
    epoch::METHODS,
    fees::METHODS,
    node_info::METHODS,
    paginated::METHODS,
    programs::METHODS,
    samples::METHODS,
    send::METHODS,
    simulate::METHODS,
    statuses::METHODS,
    supply::METHODS,
    slot::METHODS,
    tokens::METHODS,
    transactions::METHODS,
    votes::METHODS,
];

/// What a method gives: an answer, or why not.
pub(crate) type MethodResult = Result<MethodOutput, RpcError>;

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
    ByCost {
        class_max: pool::Class,
        class: fn(&Node, Params<'_>, &mut InlineBudget) -> Option<pool::Class>,
    },
    /// Tried on the thread that polls the socket, which gives up before it does much: then on the CPU
    /// pool, as it says.
    TryInline(fn(&Node, Params<'_>, &mut InlineBudget) -> Result<MethodResult, pool::Class>),
}

/// What all calls of a body together may still encode where they are looked at, in bytes of account data as
/// `sizes` weighs them.
pub(crate) struct InlineBudget(u64);

impl InlineBudget {
    /// Of one body.
    pub(crate) fn new(node: &Node) -> Self {
        Self(node.config.inline_bytes_max as u64)
    }

    /// Takes so many of it, or nothing if it has not as many; `None` is more than it ever has.
    fn try_spend(&mut self, bytes: Option<u64>) -> bool {
        let left = bytes.and_then(|bytes| self.0.checked_sub(bytes));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// What a call reads, if its answer may come from the cache.
pub(crate) fn dependencies(
    method: &Method,
    node: &Node,
    params: Params<'_>,
) -> Option<Dependencies> {
    match method.name {
        "getProgramAccounts" => programs::dependencies(node, params),
        "getTokenAccountsByOwner" => tokens::dependencies(node, params, solana::key_kind::OWNER),
        "getTokenAccountsByDelegate" => {
            tokens::dependencies(node, params, solana::key_kind::DELEGATE)
        }
        "getTokenLargestAccounts" => tokens::largest_dependencies(node, params),
        "getProgramAccountsV2" => paginated::program_dependencies(node, params),
        "getTokenAccountsByOwnerV2" => paginated::owner_dependencies(node, params),
        "getTokenAccountsByMint" => paginated::mint_dependencies(node, params),
        "getAccountInfo" => accounts::account_dependencies(params),
        "getMultipleAccounts" => accounts::multiple_accounts_dependencies(params),
        "getSupply" => supply::dependencies(params),
        "getLargestAccounts" => supply::largest_dependencies(params),
        "getBlock" => blocks::dependencies(node, params),
        "getTransaction" => transactions::dependencies(node, params),
        _ => None,
    }
}

/// Whether a call of it may be heavy, by its name alone: for those that are not looked at one by one.
pub(crate) fn may_be_heavy(method: &Method) -> bool {
    // What is tried is small nearly always.
    matches!(method.class, Class::ByCost { class_max: pool::Class::Heavy, .. })
}

/// A method with its place in [`all_methods`], by which it is counted.
#[derive(Clone, Copy)]
pub(crate) struct MethodRef {
    method: &'static Method,
    number: u16,
}

impl MethodRef {
    /// As metrics know it.
    pub(crate) fn label(self) -> MethodLabel {
        MethodLabel::for_method(self.number)
    }
}

impl Deref for MethodRef {
    type Target = Method;

    fn deref(&self) -> &Method {
        self.method
    }
}

/// The method of that name.
pub(crate) fn find_method(name: &str) -> Option<MethodRef> {
    static METHODS: LazyLock<HashMap<&str, MethodRef, RandomState>> = LazyLock::new(|| {
        let numbered = all_methods().iter().zip(0..);
        numbered.map(|(method, number)| (method.name, MethodRef { method, number })).collect()
    });
    METHODS.get(name).copied()
}

/// Every method, in the order of names.
pub(crate) fn all_methods() -> &'static [&'static Method] {
    static ALL_METHODS: LazyLock<Vec<&'static Method>> = LazyLock::new(|| {
        let mut by_name: Vec<_> = FILES.iter().copied().flatten().collect();
        by_name.sort_unstable_by_key(|method| method.name);
        by_name
    });
    &ALL_METHODS
}
