//! The console: a web page at `/` that shows the ledger, its transactions and accounts, and the node, while they
//! change.
//!
//! In: requests of browsers, on the port of JSON-RPC ([`jsonrpc::HttpApi`]). Out: the page, with the state of the node
//! as text, and the files that it loads, from `assets/`. Other requests are passed to another [`jsonrpc::HttpApi`].
//! Bounds: each request counts towards the limits of its client. Nothing is stored for a client. The files are
//! compressed once, and browsers cache them forever: their path has a hash of their content.
//! Invariant: the page reads the node only through its public API, as any other client does, and loads nothing from
//! other servers. Its content security policy allows neither inline scripts nor HTML that is made from text.
//! Not here: the meaning of requests other than `GET /` of a browser (`jsonrpc`, `rest`).
#![forbid(unsafe_code)]

mod assets;
#[cfg(test)]
mod assets_test;
mod content_negotiation;
mod page;
mod security_headers;
mod with_console;

pub use page::LedgerKind;
pub use with_console::WithConsole;

/// The requests and subscriptions that an open page sends, by view, as JSON. Variable parts of paths are in braces.
///
/// The benchmark `console` replays them. The scripts do not read it: `console_flow` compares it with the requests of a
/// browser, and a test of this crate with the intervals in the scripts.
pub const TRAFFIC: &str = include_str!("../traffic.json");
