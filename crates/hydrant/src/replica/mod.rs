//! A replica: its settings, its producer, and the command `hydrant replica`.
//!
//! Without the feature `cluster` there are the flags only, because one configuration file serves all commands.
//! Not here: the ledger that is fed by a log (the crate `replica`), the settings of the log (`cluster_log`).

#[cfg(feature = "cluster")]
mod archiver;
#[cfg(feature = "cluster")]
mod command;
#[cfg(feature = "cluster")]
mod config;
pub(crate) mod flags;
#[cfg(feature = "cluster")]
mod front_end;
#[cfg(feature = "cluster")]
mod producer;
#[cfg(feature = "cluster")]
mod refusing_sender;
#[cfg(feature = "cluster")]
mod verification;

#[cfg(feature = "cluster")]
pub(crate) use command::run;
#[cfg(feature = "cluster")]
pub use config::ReplicaNodeConfig;
#[cfg(feature = "cluster")]
pub use producer::ReplicaProducer;
