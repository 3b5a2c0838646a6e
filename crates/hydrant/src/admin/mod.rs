//! The administration of a running node: HTTP with JSON on a unix socket, or on a loopback address.
//!
//! The files: `admin_api` (what can be done), `admin_server` (listeners and connections), `socket_file` (the unix
//! socket), `admin_client` (`hydrant admin`).
//! Invariant: nothing of it is on a public port.

mod admin_api;
mod admin_client;
mod admin_server;
mod socket_file;

pub(crate) use admin_api::AdminApi;
pub(crate) use admin_client::{AdminFlags, run_client};
pub(crate) use admin_server::{AdminServer, start};
