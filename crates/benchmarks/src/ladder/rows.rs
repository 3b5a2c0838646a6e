//! The rows of the ladder: every REST route, every POST, and batches of JSON-RPC.
//!
//! To add a route, add its requests to [`RestSuite::ALL`] and a line to [`ROWS`]. A test fails until it is there.

use anyhow::{Context, Result};
use http_client::{Client, Endpoint};
use loadgen::{Classifier, json_rpc};
use loadgen_solana::{Inputs, RestSuite};
use serde_json::{Value, json};

use super::nodes::StillNode;

/// Least share of the constant response's rate: routes of one object, and lists.
const OBJECT_SHARE_MIN: f64 = 0.75;
const LIST_SHARE_MIN: f64 = 0.9;

/// A row of the ladder: requests to one route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The name of the suite with its requests, or of a batch.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) change: Change,
}

/// The kind of a row's response, which decides its bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A response with one object.
    Object,
    /// A response with 100 entries, or a batch.
    List,
    /// A response that is computed for each request and never cached, and cannot be as fast as a constant one.
    Computed,
}

/// The write after which a response of the row is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A write to the first token account.
    Account,
    /// A write to the first mint: another supply.
    Mint,
    /// A block with a transfer to the first recipient.
    Block,
}

const fn row(name: &'static str, kind: Kind, change: Change) -> Row {
    Row { name, kind, change }
}

pub(super) const ROWS: &[Row] = &[
    row("rest-node", Kind::Object, Change::Block),
    row("rest-ledger", Kind::Object, Change::Block),
    row("rest-supply", Kind::Object, Change::Block),
    row("rest-account", Kind::Object, Change::Account),
    row("rest-account-raw", Kind::Object, Change::Account),
    row("rest-accounts-100", Kind::List, Change::Account),
    row("rest-accounts-post-100", Kind::List, Change::Account),
    row("rest-owner-tokens", Kind::List, Change::Account),
    row("rest-mint-holders", Kind::List, Change::Account),
    row("rest-mint-supply", Kind::Object, Change::Mint),
    row("rest-program-accounts", Kind::List, Change::Account),
    row("rest-program-accounts-post", Kind::List, Change::Account),
    row(ACCOUNT_TRANSACTIONS, Kind::List, Change::Block),
    row("rest-transaction", Kind::Object, Change::Block),
    row("rest-transaction-status", Kind::Object, Change::Block),
    row("rest-block", Kind::List, Change::Block),
    row("rest-simulate", Kind::Computed, Change::Block),
    row("batch-10", Kind::List, Change::Account),
    row("batch-100", Kind::List, Change::Account),
    row("rest-openapi", Kind::Object, Change::Block),
    row("rest-ready", Kind::Object, Change::Block),
    row("rest-metrics", Kind::Computed, Change::Block),
];

/// The row that reads the history of accounts, those of the recipients of transfers.
const ACCOUNT_TRANSACTIONS: &str = "rest-account-transactions";

/// The route that [`super::submission`] measures: each transaction can be sent only once.
#[cfg(test)]
const SUBMISSION_ROUTE: &str = "POST /v1/transactions";

impl Kind {
    /// The least share of the constant response's rate, from the cache.
    pub(super) fn share_min(self) -> Option<f64> {
        match self {
            Self::Object => Some(OBJECT_SHARE_MIN),
            Self::List => Some(LIST_SHARE_MIN),
            Self::Computed => None,
        }
    }
}

impl Row {
    /// The verb and the route, as in the docs.
    pub(super) fn route(&self) -> String {
        match (self.suite(), self.batch_len()) {
            (Some(suite), _) => suite.route.to_owned(),
            (None, Some(calls)) => format!("POST / with {calls} getAccountInfo"),
            (None, None) => self.name.to_owned(),
        }
    }

    pub(super) fn classifier(&self) -> Classifier {
        self.suite().map_or(json_rpc, RestSuite::classifier)
    }

    /// The requests of the row to a node. The first of them has been answered.
    pub(super) fn requests(&self, node: &StillNode<'_>) -> Result<Vec<Vec<u8>>> {
        let mut client = node.client()?;
        let is_recipients = self.name == ACCOUNT_TRANSACTIONS;
        let inputs = if is_recipients { &node.recipient_inputs } else { &node.inputs };
        match self.batch_len() {
            Some(calls) => Ok(batches(client.endpoint(), inputs, calls)),
            None => self.suite_requests(&mut client, inputs),
        }
    }

    fn suite_requests(&self, client: &mut Client, inputs: &Inputs) -> Result<Vec<Vec<u8>>> {
        let suite = self.suite().with_context(|| format!("no suite {}", self.name))?;
        Ok(suite.requests(client, inputs)?)
    }

    fn suite(&self) -> Option<RestSuite> {
        RestSuite::parse(self.name)
    }

    fn batch_len(&self) -> Option<usize> {
        self.name.strip_prefix("batch-")?.parse().ok()
    }
}

/// Batches of JSON-RPC, each of other accounts.
fn batches(endpoint: &Endpoint, inputs: &Inputs, calls: usize) -> Vec<Vec<u8>> {
    let call = |(id, address): (usize, &String)| {
        let params = json!([address, { "encoding": "base64" }]);
        json!({ "jsonrpc": "2.0", "id": id, "method": "getAccountInfo", "params": params })
    };
    let batch =
        |addresses: &[String]| -> Value { addresses.iter().enumerate().map(call).collect() };
    inputs.accounts.chunks(calls).map(|some| endpoint.body(&batch(some).to_string())).collect()
}

#[cfg(test)]
mod tests {
    use rest::{HttpMethod, RestApi};
    use rest_solana::SolanaRest;

    use super::*;

    #[test]
    fn every_rest_route_has_a_row() {
        let rows: Vec<String> = ROWS.iter().map(Row::route).collect();
        // `GET /v1/accounts of 100` is a row of `GET /v1/accounts`.
        let has_row = |route: &str| {
            rows.iter().any(|row| row == route || row.starts_with(&format!("{route} ")))
        };
        for route in SolanaRest::TABLE.routes {
            let verb = if route.method == HttpMethod::Get { "GET" } else { "POST" };
            let route = format!("{verb} {}", route.path);
            assert!(
                has_row(&route) || route == SUBMISSION_ROUTE,
                "the ladder has no row of {route}"
            );
        }
    }

    #[test]
    fn every_row_has_requests() {
        for row in ROWS {
            assert!(row.suite().is_some() != row.batch_len().is_some(), "{}", row.name);
        }
    }
}
