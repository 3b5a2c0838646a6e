//! kaspad's gRPC over real sockets, with the client of tonic, which compresses its messages as kaspad's clients do.

mod client;
mod hostile;
mod streams;
mod world;
