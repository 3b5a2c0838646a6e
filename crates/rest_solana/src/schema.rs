//! Responses as JSON Schema: every member, its type, its unit and its meaning.
//!
//! The shapes are those of Agave's published crates, which do not describe them. `tests/it/schemas` compares the
//! schemas with those crates' types and with real responses: no response has a member that is not described here,
//! and every member that is described here occurs. A member is nullable or optional if a response of ours can be
//! so, which is less than the types allow. Data in the shape of its program (`info` of parsed data and
//! instructions) is not described further.

mod account;
mod block;
mod errors;
mod formats;
mod node;
mod transaction;
mod verification;

use serde_json::Value;

/// Every schema by name: those of the routes, and those that they refer to.
pub(crate) fn all() -> Vec<(&'static str, Value)> {
    let mut all = vec![("Sent", node::sent_schema())];
    all.extend(node::all());
    all.extend(account::all());
    all.extend(transaction::all());
    all.extend(block::all());
    all.extend(errors::all());
    all
}
