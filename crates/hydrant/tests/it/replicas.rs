//! Replicas of a local ledger, behind a log and a store of snapshots in directories: equal responses, and faults.
//!
//! The ledger is a process, as in the other tests. Replicas that only answer are nodes of this process; those that are
//! killed or stopped are processes.

mod archive;
mod calls;
mod differences;
mod embedded;
mod equal_responses;
mod faults;
mod levels;
mod resumes;
mod rig;
