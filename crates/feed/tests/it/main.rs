//! The feed against a plain model, and against hostile streams.

mod approval;
mod chain;
mod checker;
mod entries;
mod follows;
mod hostile;
mod joins;
mod open_banks;
mod rig;
mod stream;
