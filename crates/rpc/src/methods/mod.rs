//! The table of methods: what each is called, what it costs, what runs it.
//!
//! Each file of methods has a table `METHODS`; [`FILES`] lists these tables. A method is a plain function
//! `fn(&Node, Params) -> MethodResult`: it parses its parameters, takes one view and returns one result.
//! It must not block, sleep or have state. If it panics, only its own request fails (-32603).
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

/// The tables of all files that have methods. One line per file.
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

/// What a method returns.
pub(crate) type MethodResult = Result<MethodOutput, RpcError>;

/// One method.
pub(crate) struct Method {
    /// The name that clients send.
    pub(crate) name: &'static str,
    /// Where it runs.
    pub(crate) class: Class,
    /// Runs it.
    pub(crate) run: fn(&Node, Params<'_>) -> MethodResult,
}

/// Where a method runs. It depends on its cost.
pub(crate) enum Class {
    /// On the thread that polls the socket: some microseconds for any parameters.
    Inline,
    /// On the CPU pool: a signature, one transaction of history.
    Light,
    /// On the CPU pool: a block, a page, the VM.
    Medium,
    /// `class` decides for each call, up to `class_max`; `None` is inline. The function itself must be cheap.
    /// Its result does not matter if the parameters are invalid.
    ByCost {
        class_max: pool::Class,
        class: fn(&Node, Params<'_>, &mut InlineBudget) -> Option<pool::Class>,
    },
    /// Tried on the thread that polls the socket. The function gives up early if the call is expensive, and
    /// returns the class in which the call runs on the CPU pool.
    TryInline(fn(&Node, Params<'_>, &mut InlineBudget) -> Result<MethodResult, pool::Class>),
}

/// How much all calls of a body together may still encode inline, in bytes of account data as weighed by
/// `cost::inline_bytes`.
pub(crate) struct InlineBudget(u64);

impl InlineBudget {
    /// The budget of one body.
    pub(crate) fn new(node: &Node) -> Self {
        Self(node.config.inline_bytes_max as u64)
    }

    /// Subtracts `bytes` and returns true, or leaves the budget as it is if `bytes` is more. `None` is always more.
    fn try_spend(&mut self, bytes: Option<u64>) -> bool {
        let left = bytes.and_then(|bytes| self.0.checked_sub(bytes));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// What the result of a call depends on. `None` if the result is not cacheable.
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

/// Whether a call of this method may be heavy, whatever its parameters are. For calls that are not classified one by
/// one.
pub(crate) fn may_be_heavy(method: &Method) -> bool {
    // A call that is tried inline is nearly always small.
    matches!(method.class, Class::ByCost { class_max: pool::Class::Heavy, .. })
}

/// A method with its index in [`all_methods`], which its metrics use.
#[derive(Clone, Copy)]
pub(crate) struct MethodRef {
    method: &'static Method,
    number: u16,
}

impl MethodRef {
    /// Its label in the metrics.
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

/// The method with this name.
pub(crate) fn find_method(name: &str) -> Option<MethodRef> {
    static METHODS: LazyLock<HashMap<&str, MethodRef, RandomState>> = LazyLock::new(|| {
        let numbered = all_methods().iter().zip(0..);
        numbered.map(|(method, number)| (method.name, MethodRef { method, number })).collect()
    });
    METHODS.get(name).copied()
}

/// The names of all methods, sorted.
pub fn method_names() -> &'static [&'static str] {
    static NAMES: LazyLock<Vec<&'static str>> =
        LazyLock::new(|| all_methods().iter().map(|method| method.name).collect());
    &NAMES
}

/// All methods, sorted by name.
pub(crate) fn all_methods() -> &'static [&'static Method] {
    static ALL_METHODS: LazyLock<Vec<&'static Method>> = LazyLock::new(|| {
        let mut by_name: Vec<_> = FILES.iter().copied().flatten().collect();
        by_name.sort_unstable_by_key(|method| method.name);
        by_name
    });
    &ALL_METHODS
}
