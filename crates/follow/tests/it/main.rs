//! A follower against a scripted source.

mod corruptions;
mod follows;
mod frames;
mod hostile;
mod http;
mod leaders;
mod proofs;
mod proven;
mod script;
mod snapshot;
mod stored;
mod updates;
mod votes;
