//! A follower against a scripted source.

mod corruptions;
mod entries;
mod follows;
mod frames;
mod hostile;
mod http;
mod leaders;
mod proofs;
mod proven;
mod script;
mod snapshot;
mod updates;
mod votes;
