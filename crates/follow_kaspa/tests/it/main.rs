//! A follower of model nodes and of hostile ones, over real sockets, and the calls that it forwards.

mod failover;
mod faults;
mod follows;
mod forwards;
mod hostile;
mod imports;
mod kaspad;
mod kaspad_import;
mod lies;
mod pieces;
mod snapshots;
mod world;
