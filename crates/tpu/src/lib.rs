//! The front door: transactions in over QUIC, one to a unidirectional stream, for very many clients.
//!
//! Shape: shards of one thread, one UDP socket and one endpoint each (`shard`), around a driver that
//! does no I/O and takes its time from outside (`driver`). What it reads goes to an [`TransactionSink`]; in a
//! node that is the fair queue (`queue`), behind which threads drop repetitions, check signatures and
//! hand over to [`chain_solana::TransactionDoor`] (`stage`). [`Forwarder`] sends on what was accepted.
//! Bounds: [`Config`], each with its memory. What is over one of them is refused and counted by cause.
//! Not here: the QUIC state machine (`quinn-proto`), execution (`localnet`). Why: docs/quic.md.
#![forbid(unsafe_code)]

mod buffer_pool;
mod certificate;
mod clock;
mod config;
mod connection;
mod connection_admission;
mod connection_id;
mod counters;
mod dedup;
mod driver;
mod fair_queue;
mod forwarder;
mod reassembly;
mod sanitize;
mod server;
mod shard;
mod sigverify;
mod socket;
mod stream_window;
mod timers;
mod token_bucket;
mod transaction;
mod weights;

pub use certificate::{ALPN, TlsError, TlsIdentity, client_config};
pub use config::{Config, ConfigError};
pub use connection_admission::ConnectionAdmission;
pub use counters::{Counters, DropReason, MetricsSnapshot, VerifyStep};
pub use driver::{DatagramSender, Driver};
pub use fair_queue::FairQueue;
pub use forwarder::{BlockhashCheck, DestinationStats, Forwarder, ForwarderError};
pub use server::{Server, ServerError};
pub use sigverify::SigVerifyStage;
pub use transaction::{PeerId, ReceivedTransaction, TransactionSink};
