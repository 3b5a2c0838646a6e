//! The TPU port: clients send transactions over QUIC, one on each unidirectional stream.
//!
//! Shape: each shard is one thread with one UDP socket and one endpoint (`shard`). The driver does
//! no I/O and takes the time as an argument (`driver`). Received transactions go to a
//! [`TransactionSink`]; in a node this is the fair queue (`fair_queue`). The threads behind it drop
//! duplicates, check signatures and send to the [`chain_solana::TransactionSender`] (`sigverify`).
//! [`Forwarder`] sends accepted transactions to other nodes.
//! Bounds: [`Config`], each with its memory. Traffic that exceeds a bound is refused and counted by cause.
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
mod driver_stats;
mod fair_queue;
mod forwarder;
mod handshake_rate;
mod reassembly;
mod sanitize;
mod server;
mod shard;
mod sigverify;
mod socket;
mod stream_demand;
mod stream_window;
mod timers;
mod transaction;
mod weights;

pub use certificate::{ALPN, TlsError, TlsIdentity, client_config};
pub use config::{CONNECTION_BYTES, Config, ConfigError, STREAM_BYTES};
pub use connection_admission::ConnectionAdmission;
pub use counters::{Counters, DropReason, MetricsSnapshot, VerifyStep};
pub use driver::{DatagramSender, Driver};
pub use fair_queue::FairQueue;
pub use forwarder::{BlockhashCheck, DestinationStats, Forwarder, ForwarderError};
pub use server::{Server, ServerError};
pub use sigverify::SigVerifyStage;
pub use transaction::{PeerId, ReceivedTransaction, TransactionSink};
pub use weights::WEIGHTS_BYTES_MAX;
