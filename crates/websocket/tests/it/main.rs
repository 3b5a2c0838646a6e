//! Connections that serve a protocol which is not JSON: binary and text messages, long ones in both directions,
//! notifications, and clients that misbehave. Sockets are real.

mod blob_protocol;
mod close_reasons;
mod messages;
mod slow_clients;
mod streamed;
mod uploads;
mod world;
