//! A follower against a scripted source.

mod archives;
mod corruptions;
mod entries;
mod follows;
mod frames;
mod hostile;
mod http;
mod joins;
mod leaders;
mod open_banks;
mod proofs;
mod proven;
mod script;
mod snapshot;
mod stored;
mod updates;
mod votes;
