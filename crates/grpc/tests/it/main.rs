//! The server over real sockets, with the client of the proto's crate. The tests send the events of the ledger.

mod call_rates;
mod calls;
mod client;
mod commitments;
mod entries;
mod filter_load;
mod filters;
mod footers;
mod gossip;
mod hostile;
mod http2;
mod ledger;
mod limits;
mod raw_client;
mod receive_windows;
mod replay;
mod requests;
mod send_windows;
mod shared_connection;
mod shares;
