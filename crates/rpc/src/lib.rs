//! JSON-RPC over HTTP and PubSub over WebSocket, as Agave 4.2 speaks them.
//!
//! In: bytes of clients. Out: answers from one view each of [`chain::Reader`] and history, and
//! transactions for [`chain::TransactionService`].
//! Invariant: a thread that polls sockets never does more than microseconds of a method's work; what
//! is more runs on [`pool::Pool`], and a full pool is told to the client at once.
//! Not here: state and index (`query`), execution (`localnet`), configuration files (`hydrant`).

mod asker;
mod bare;
mod cached;
mod call;
mod chunk;
pub mod commitment;
mod compress;
mod config;
mod configs;
mod content;
mod cors;
mod custom_error;
pub mod decode;
mod dispatch;
pub mod envelope;
pub mod error;
mod guard;
mod head;
mod health;
mod held;
mod http;
mod identity;
mod io;
mod job;
mod kept;
mod look;
mod methods;
pub mod metrics;
mod node;
mod outlet;
mod pace;
pub mod params;
mod places;
mod poll_budget;
pub mod pubsub;
mod quick;
mod request_id;
mod server;
mod spare;
mod stamp;
mod usage;
mod work;
mod yield_queue;

pub use bare::{MakeShaper, Shaper, Told, Want};
pub use call::{Called, Caller};
pub use chunk::Chunk;
pub use compress::{Coding, coded, weight};
pub use config::{Config, ConfigError};
pub use content::Content;
pub use cors::{AllowedOrigins, NoOrigin};
pub use dispatch::answer_here;
pub use health::{Health, Status};
pub use http::{Web, WebRequest};
pub use kept::Answers;
pub use methods::{MethodOutput, api_version, required_index_keys};
pub use metrics::Metrics;
pub use node::{Node, SystemClock};
pub use request_id::RequestId;
pub use server::{Listeners, Socket, Speaker, serve, serve_with_web};
pub use usage::Usage;
