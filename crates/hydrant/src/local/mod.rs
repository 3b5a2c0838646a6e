//! A local ledger: its settings, its producer, its output.

pub(crate) mod config;
pub(crate) mod flags;
mod front_end;
mod preset;
mod producer;

pub use config::LocalConfig;
pub(crate) use preset::LocalPreset;
pub use producer::LocalProducer;
