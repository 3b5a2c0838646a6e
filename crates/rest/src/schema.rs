//! What answers look like, as JSON Schema: every member, its type, its unit and its meaning.
//!
//! The shapes are those of Agave's published crates, which do not tell them. `tests/it/schemas` holds them
//! against those crates' types and against real answers: none has a member that is not told here, and nothing
//! is told here that none has. Null and missing are told where an answer of ours can be so, which is less than
//! the types allow. What is as its program has it (`info` of parsed data and instructions) is not told further.

mod account;
mod block;
mod builder;
mod errors;
mod node;
mod transaction;

use serde_json::{Map, Value};

/// Every schema that a route names, and what those are made of, under their names.
pub(crate) fn all() -> Value {
    let mut all = vec![("Error", crate::error::schema()), ("Sent", node::submitted())];
    all.extend(node::all());
    all.extend(account::all());
    all.extend(transaction::all());
    all.extend(block::all());
    all.extend(errors::all());
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect::<Map<_, _>>().into()
}
