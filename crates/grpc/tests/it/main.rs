//! The server over real sockets, with the client of the proto's crate, and a ledger whose events a test sends.

mod calls;
mod client;
mod commitments;
mod entries;
mod filters;
mod footers;
mod gossip;
mod hostile;
mod http2;
mod ledger;
mod limits;
mod replay;
mod requests;
