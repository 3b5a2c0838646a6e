//! A follower against a scripted source.

mod follows;
mod http;
mod script;
mod snapshot;
mod source;
