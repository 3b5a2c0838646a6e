//! `hydrant log-check`: reads a replicated log through, and says where it is damaged.
//!
//! Shape: `reading` reads the messages from the first to the last one. A [`LogChecker`] puts them together to records and
//! checks these. After a damage it starts over with the next record, so that each damage is found.
//! Not here: the flags (`cluster_flags`), the log (`replicated_log`), the decoding and the digests of records
//! (`chain_solana::wire`).

mod block_window;
mod checker;
mod reading;
mod report;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use replicated_log::Log;

use crate::cluster_flags::LogCheckFlags;
use crate::cluster_log::{CLUSTER_DEFAULT, ClusterLogConfig, open_log};
use crate::console::print_line;
use crate::log_check::checker::LogChecker;
use crate::log_check::reading::read_through;

/// Reads the log, and prints a summary. The error says how many damages were found.
pub(crate) fn run(flags: &LogCheckFlags) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("start the I/O threads")?;
    let (generation, checker) = runtime.block_on(check(flags))?;
    print_line(&format!("Generation {generation}\n{}", checker.report()));
    let damages = checker.damages_len();
    ensure!(damages == 0, "the log is damaged at {damages} positions");
    Ok(())
}

async fn check(flags: &LogCheckFlags) -> Result<(u64, LogChecker)> {
    let cluster = flags.log_cluster.as_deref().unwrap_or(CLUSTER_DEFAULT);
    let config = ClusterLogConfig::new(&flags.url, "");
    let config = ClusterLogConfig { cluster: cluster.to_owned(), ..config };
    let space = open_log(&config).await?;
    let generation = match flags.generation {
        Some(generation) => Some(generation),
        None => space.newest_generation().await?,
    };
    let generation =
        generation.with_context(|| format!("{}: no log of cluster {cluster}", flags.url))?;
    let log: Arc<dyn Log> = space.open_generation(generation).await?;
    let tail = log.tail().await?;
    let mut checker = LogChecker::new(tail.first, tail.last);
    // NATS reads one message after the other; a damaged object of a directory or bucket has many.
    let has_objects = !matches!(flags.url.split_once(':'), Some(("nats" | "tls", _)));
    read_through(&*log, has_objects, &mut checker).await?;
    checker.finish();
    Ok((generation, checker))
}
