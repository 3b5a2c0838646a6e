//! The TPU port as clients see it: in a simulation with loss, reordering and duplication, and on a
//! socket.

mod broken;
mod client;
mod collecting_sink;
mod forwarder;
mod simulation;
mod sockets;
mod stream_windows;
mod world;
