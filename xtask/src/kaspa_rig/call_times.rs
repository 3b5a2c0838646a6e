//! The times of equal calls to both nodes, over connections of the same kind.
//!
//! A time is that from the first byte sent to the last byte received: encoding a request and parsing a reply do not
//! count. The nodes are called one after the other, and the one that comes first alternates within each kind of call.
//! Calls with an error of either node are not measured.
//! Not here: the comparison of the replies (`comparison`).

use std::collections::BTreeMap;

use anyhow::Result;
use kaspa::Encoding;

use crate::kaspa_rig::node_clients::NodeClients;
use crate::kaspa_rig::requests::Request;
use crate::kaspa_rig::time_tables::{ComparedTimes, render_compared_times};
use crate::kaspa_rig::wrpc_client::TimedReply;

/// The times of all calls, by kind.
#[derive(Debug, Default)]
pub(crate) struct CallTimes(BTreeMap<CallKind, Calls>);

/// The replies of both nodes to one request.
pub(crate) struct ReplyPair {
    pub(crate) kaspad: TimedReply,
    pub(crate) hydrant: TimedReply,
}

/// A method with a number of addresses, in an encoding. The methods that Hydrant does not forward come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CallKind {
    is_forwarded: bool,
    name: String,
}

/// The calls of one kind.
#[derive(Debug, Default)]
struct Calls {
    /// All calls, with those that are not measured.
    made: u64,
    times: ComparedTimes,
}

impl CallTimes {
    /// Sends a request to both nodes, one after the other.
    pub(crate) fn call_both(
        &mut self,
        kaspad: &mut NodeClients,
        hydrant: &mut NodeClients,
        encoding: Encoding,
        request: &Request<'_>,
    ) -> Result<ReplyPair> {
        let calls = self.0.entry(CallKind::new(encoding, request)).or_default();
        let replies = if calls.is_kaspad_next() {
            let kaspad = kaspad.call(encoding, request)?;
            let hydrant = hydrant.call(encoding, request)?;
            ReplyPair { kaspad, hydrant }
        } else {
            let hydrant = hydrant.call(encoding, request)?;
            let kaspad = kaspad.call(encoding, request)?;
            ReplyPair { kaspad, hydrant }
        };
        calls.record(&replies);
        Ok(replies)
    }

    /// Returns the table of all kinds of calls.
    pub(crate) fn table(&self) -> String {
        let rows = self.0.iter().map(|(kind, calls)| (kind.name.clone(), &calls.times));
        render_compared_times("call", rows)
    }
}

impl CallKind {
    fn new(encoding: Encoding, request: &Request<'_>) -> Self {
        let count = match request {
            Request::Addresses(_, addresses) => format!(" of {} addresses", addresses.len()),
            _ => String::new(),
        };
        let is_forwarded = request.is_forwarded();
        let end = if is_forwarded { ", forwarded by Hydrant" } else { "" };
        Self { is_forwarded, name: format!("{}{count}, {encoding:?}{end}", request.name()) }
    }
}

impl Calls {
    /// Whether kaspad is the first node of the next call.
    fn is_kaspad_next(&self) -> bool {
        self.made.is_multiple_of(2)
    }

    fn record(&mut self, ReplyPair { kaspad, hydrant }: &ReplyPair) {
        self.made += 1;
        if kaspad.reply.is_ok() && hydrant.reply.is_ok() {
            self.times.add(kaspad.time, hydrant.time);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kaspa::Method;

    use super::*;
    use crate::kaspa_rig::wrpc_client::{Content, Reply};
    use crate::rig::clock::now;

    fn reply(reply: Reply, ms: u64) -> TimedReply {
        TimedReply { reply, sent: now(), time: Duration::from_millis(ms) }
    }

    fn success(ms: u64) -> TimedReply {
        reply(Ok(Content::Borsh(Vec::new())), ms)
    }

    #[test]
    fn the_first_node_alternates_within_a_kind_of_call() {
        let mut times = CallTimes::default();
        let mut order = Vec::new();
        // With one count for both kinds, each of them would always have the same order.
        for _ in 0..3 {
            for method in [Method::GetSink, Method::Ping] {
                let kind = CallKind::new(Encoding::Borsh, &Request::Plain(method));
                let calls = times.0.entry(kind).or_default();
                order.push(calls.is_kaspad_next());
                calls.record(&ReplyPair { kaspad: success(4), hydrant: success(1) });
            }
        }
        assert_eq!(order, [true, true, false, false, true, true]);
        let table = times.table();
        assert!(table.contains("| ping, Borsh | 3 | 4.000 | 1.000 | 0.250 |"), "{table}");
    }

    #[test]
    fn calls_with_an_error_are_not_measured() {
        let mut calls = Calls::default();
        let error = || reply(Err("no".to_owned()), 900);
        calls.record(&ReplyPair { kaspad: error(), hydrant: success(1) });
        calls.record(&ReplyPair { kaspad: success(1), hydrant: error() });
        calls.record(&ReplyPair { kaspad: success(2), hydrant: success(1) });
        assert_eq!(calls.made, 3);
        let table = render_compared_times("call", [("x".to_owned(), &calls.times)]);
        assert!(table.contains("| x | 1 | 2.000 | 1.000 |"), "{table}");
    }

    #[test]
    fn forwarded_calls_come_last_and_lists_have_their_size() {
        let kinds = [
            Request::Plain(Method::GetInfo),
            Request::Plain(Method::GetSink),
            Request::Addresses(Method::GetUtxosByAddresses, &[]),
        ];
        let mut kinds = kinds.map(|request| CallKind::new(Encoding::Json, &request));
        kinds.sort();
        let names = kinds.map(|kind| kind.name);
        let expected = [
            "getSink, Json",
            "getUtxosByAddresses of 0 addresses, Json",
            "getInfo, Json, forwarded by Hydrant",
        ];
        assert_eq!(names, expected);
    }
}
