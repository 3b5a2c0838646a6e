//! Resources of a process: memory, CPU time, threads and file descriptors, the limit of the last, and the memory of the
//! machine.
//!
//! In: a process of this machine. Out: its resources from Linux's `/proc`; an error on other systems.
//! Not here: samples over time (`loadgen`, `testkit`), metric families (`jsonrpc`).
#![forbid(unsafe_code)]

mod machine;
mod process;
mod rlimit;

pub use machine::machine_memory_bytes;
pub use process::{Process, ProcessError};
pub use rlimit::raise_open_files_max;
