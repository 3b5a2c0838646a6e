//! A follower against a scripted source.

mod archives;
mod corruptions;
mod entries;
mod follows;
mod footers;
mod forged_start;
mod frames;
mod hostile;
mod http;
mod joins;
mod leaders;
mod liars;
mod lies;
mod newer_blocks;
mod open_banks;
mod parameters;
mod proofs;
mod proven;
mod proven_jumps;
mod script;
mod snapshot;
mod stored;
mod stored_jumps;
mod updates;
mod votes;
mod without_bank_ids;
