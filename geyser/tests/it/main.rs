//! The plugin as a validator drives it: through the trait object, from several threads, with what Agave 4.2.2 sends.

mod client;
mod entries;
mod gossip;
mod lifecycle;
mod lost_updates;
mod order;
mod validator;
