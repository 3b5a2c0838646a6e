//! The start below a reorganization that is deeper than the chain retains.
//!
//! In: a session whose source left our final block, and the snapshot files. Out: the newest start that is on the chain of
//! the source. Final blocks cannot leave the ledger that readers have, so the follower ends with
//! [`crate::FollowError::Restart`], and the program starts the node again.
//! Without such a start the UTXO set of the source's pruning point is imported, if the program does that. A node that
//! was off for longer than its sources have history starts again in the same way.
//! A source that is behind is not a reason: its newest block must claim as much work as ours.
//! The snapshot thread writes nothing meanwhile. A write that was almost complete may still replace a file.
//! Not here: whether another source continues our chain (`sources`).

use std::fs::File;
use std::io;
use std::path::Path;

use kaspa::{Method, Network, decode_borsh_sink};
use tokio::task::spawn_blocking;

use crate::chain_pages::count_blocks_off_chain;
use crate::restart_point::{RestartBase, RestartOptions, RestartPoint};
use crate::session::Session;
use crate::snapshot_error::SnapshotError;
use crate::snapshot_file::read_block_hash;
use crate::snapshot_path::{add_suffix, find_previous_path, is_missing};
use crate::source_error::SourceError;

/// Suffix of the name of a file whose block was reverted.
const REVERTED_SUFFIX: &str = ".reverted";

impl Session<'_> {
    /// Returns the newest start that is on the chain of the source. `None` if there is none.
    ///
    /// Errors: among others that the chain of the source has less work than ours.
    pub(crate) async fn find_restart_point(
        &mut self,
        options: &RestartOptions,
    ) -> Result<Option<RestartPoint>, SourceError> {
        let structure = self.connection.call_plain(Method::GetSink).await?;
        let newest = decode_borsh_sink(&structure)?;
        let sink = self.context.reader.status().sink.hash;
        self.check_fork_weight(sink, Some(&newest)).await?;
        let network = self.context.network;
        let snapshot = options.snapshot.clone();
        let list = move || list_candidates(network, snapshot.as_deref());
        let candidates = spawn_blocking(list).await.map_err(|_| SourceError::WriterEnded)?;
        for candidate in candidates {
            let off_chain = count_blocks_off_chain(&mut self.connection, &candidate.block).await?;
            if off_chain == Some(0) {
                return Ok(Some(candidate));
            }
        }
        if !options.can_import {
            return Ok(None);
        }
        let block = self.connection.request_pruning_point().await?;
        Ok(Some(RestartPoint { block, base: RestartBase::Import }))
    }
}

/// Returns the starts that exist, the newest first.
fn list_candidates(network: Network, snapshot: Option<&Path>) -> Vec<RestartPoint> {
    let mut candidates = Vec::new();
    let mut add_file = |base: RestartBase, path: &Path| match read_block_hash(path, network) {
        Ok(block) => candidates.push(RestartPoint { block, base }),
        Err(SnapshotError::Missing) => {}
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the chain cannot start from {}", path.display());
        }
    };
    if let Some(path) = snapshot {
        add_file(RestartBase::Snapshot, path);
        add_file(RestartBase::PreviousSnapshot, &find_previous_path(path));
    }
    if network != Network::Mainnet {
        let block = network.genesis().hash();
        candidates.push(RestartPoint { block, base: RestartBase::Genesis });
    }
    candidates
}

/// Renames the file of a start so that [`crate::start_chain`] loads it. The file that was the newest one when it was
/// chosen may have been replaced since then, and is then the previous one.
pub(crate) fn prepare_restart(
    path: &Path,
    network: Network,
    point: RestartPoint,
) -> io::Result<()> {
    let previous = find_previous_path(path);
    let has_block = |path: &Path| read_block_hash(path, network).ok() == Some(point.block);
    match point.base {
        RestartBase::Snapshot if has_block(path) || !has_block(&previous) => Ok(()),
        RestartBase::Snapshot | RestartBase::PreviousSnapshot => move_file(&previous, path),
        RestartBase::Genesis | RestartBase::Import => {
            match move_file(path, &add_suffix(path, REVERTED_SUFFIX)) {
                Err(error) if is_missing(&error) => Ok(()),
                moved => moved,
            }
        }
    }
}

fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    store::durable_file::rename(&File::open(from)?, from, to)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use kaspa::{Hash, Header};

    use super::*;
    use crate::snapshot_file::write_head;

    #[test]
    fn the_file_of_a_start_gets_the_name_that_is_loaded() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("utxos");
        let read = |path: &Path| fs::read_to_string(path).ok();
        fs::write(&path, "newest").expect("it is written");
        fs::write(find_previous_path(&path), "before").expect("it is written");
        let prepare = |base: RestartBase| {
            let point = RestartPoint { block: Hash([7; 32]), base };
            prepare_restart(&path, Network::Simnet, point)
        };
        prepare(RestartBase::Snapshot).expect("nothing to do");
        assert_eq!(read(&path).as_deref(), Some("newest"));
        prepare(RestartBase::PreviousSnapshot).expect("it is there");
        assert_eq!(read(&path).as_deref(), Some("before"));
        assert_eq!(read(&find_previous_path(&path)), None);
        for base in [RestartBase::Genesis, RestartBase::Import] {
            prepare(base).expect("a missing file is no error");
            assert_eq!(read(&path), None);
        }
        assert_eq!(read(&add_suffix(&path, REVERTED_SUFFIX)).as_deref(), Some("before"));
    }

    #[test]
    fn a_file_that_another_one_replaced_since_it_was_chosen_is_loaded() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("utxos");
        let write = |path: &Path, nonce: u64| {
            let header = Header { nonce, ..Network::Simnet.genesis() };
            let block = header.hash();
            let mut head = Vec::new();
            write_head(&mut head, Network::Simnet, &block, &header).expect("memory");
            fs::write(path, head).expect("it is written");
            block
        };
        let chosen = write(&find_previous_path(&path), 1);
        let newer = write(&path, 2);
        for block in [newer, chosen] {
            let point = RestartPoint { block, base: RestartBase::Snapshot };
            prepare_restart(&path, Network::Simnet, point).expect("both files exist");
            assert_eq!(read_block_hash(&path, Network::Simnet).ok(), Some(block));
        }
    }
}
