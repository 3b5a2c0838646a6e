//! The table of methods: what each is called, what it costs, what runs it.
//!
//! A file of methods ends in its `METHODS`; [`FILES`] lists the files. A method is a plain function
//! `fn(&Node, Params) -> MethodResult`: it reads its parameters, takes one view, makes one answer.
//! It must not block, sleep or keep anything; it may panic, which ends its request only (-32603).
//! Not here: sockets, batches, the pool (`dispatch`).

mod accounts;
mod blocks;
mod epoch;
mod fees;
mod indexed;
#[cfg(test)]
mod ledger_tests;
mod node_info;
mod pages;
mod programs;
mod read;
mod samples;
mod send;
mod simulate;
mod statuses;
mod supply;
mod text;
mod tip;
mod tokens;
mod transactions;
mod votes;
mod wire;

use std::sync::LazyLock;

use serde::Serialize;

use crate::error::RpcError;
use crate::node::Node;
use crate::params::Params;

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
    /// On the CPU pool: scans, signatures, the VM, large encodings.
    Heavy,
    /// As the function says of this call: true is heavy. The function itself must be cheap, and may
    /// say anything of parameters that are wrong.
    HeavyIf(fn(&Node, Params<'_>) -> bool),
}

/// A result as the bytes that go to the client.
///
/// The bytes begin with what precedes a result in a reply, so that a large result is never copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer(Vec<u8>);

impl Answer {
    const PREFIX: &'static [u8] = br#"{"jsonrpc":"2.0","result":"#;

    /// The answer that is `result` as JSON.
    pub(crate) fn of(result: &impl Serialize) -> MethodResult {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(Self::PREFIX);
        match serde_json::to_writer(&mut bytes, result) {
            Ok(()) => Ok(Self(bytes)),
            Err(err) => {
                tracing::error!(%err, "a result could not be written as JSON");
                Err(RpcError::internal())
            }
        }
    }

    /// The result as JSON.
    pub fn json(&self) -> &[u8] {
        &self.0[Self::PREFIX.len()..] // made by `of`, which begins with it
    }

    /// The whole reply to the request `id`, without the newline.
    pub(crate) fn into_reply(self, id: &crate::envelope::Id) -> Vec<u8> {
        let mut bytes = self.0;
        bytes.extend_from_slice(br#","id":"#);
        id.write(&mut bytes);
        bytes.push(b'}');
        bytes
    }
}

/// The method of that name.
pub(crate) fn find(name: &str) -> Option<&'static Method> {
    let by_name = by_name();
    let at = by_name.binary_search_by_key(&name, |method| method.name).ok()?;
    by_name.get(at).copied()
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
