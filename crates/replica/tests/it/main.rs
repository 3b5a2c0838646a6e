//! Replicas behind a log in memory, compared with a model of the chain that was logged.

mod damage;
mod directory_log;
mod fault_reports;
mod follows;
mod generations;
mod jumps;
mod logged_blocks;
mod logged_generations;
mod rig;
mod snapshots;
mod source_chain;
mod source_log;
mod watched_log;
