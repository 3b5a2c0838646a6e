//! The door as clients see it: in a simulation with loss, reordering and duplication, and on a socket.

mod broken;
mod client;
mod outlet;
mod relay;
mod simulation;
mod sockets;
mod world;
