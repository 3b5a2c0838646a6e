//! The front door: transactions in over QUIC, one to a unidirectional stream, for very many clients.
//!
//! Shape: shards of one thread, one UDP socket and one endpoint each (`shard`), around a driver that
//! does no I/O and takes its time from outside (`driver`). What it reads goes to an [`Outlet`]; in a
//! node that is the fair queue (`queue`), behind which threads drop repetitions, check signatures and
//! hand over to [`chain::TransactionDoor`] (`stage`). [`Relay`] sends on what was accepted.
//! Bounds: [`Config`], each with its memory. What is over one of them is refused and counted by cause.
//! Not here: the QUIC state machine (`quinn-proto`), execution (`localnet`). Why: docs/quic.md.
#![forbid(unsafe_code)]

mod assembly;
mod buffers;
mod certificate;
mod cid;
mod clock;
mod config;
mod connection;
mod counters;
mod dedup;
mod driver;
mod gate;
mod queue;
mod rate;
mod received;
mod relay;
mod sanitize;
mod server;
mod shard;
mod socket;
mod stage;
mod timers;
mod weights;
mod window;

pub use certificate::{ALPN, Identity, TlsError, client_config};
pub use config::{Config, ConfigError};
pub use counters::{Cause, Counters, Figures, Step};
pub use driver::{Driver, Outgoing};
pub use gate::Gate;
pub use queue::FairQueue;
pub use received::{Outlet, PeerId, Received};
pub use relay::{Destination, IsValid, Relay, RelayError};
pub use server::{Server, ServerError};
pub use stage::Stages;
