//! The search for the generation to follow: the chain of the newest snapshot, the newest generation, and its opening.
//!
//! Invariant: an ingester of another chain stops before it opens a generation.
//! Not here: the extent and the records of the generation (`recovering`), a new generation (`opening`).

use super::phase::Phase;
use super::{FoundSnapshots, Now, Plan};

impl Plan {
    pub(super) fn end_log_check(&mut self, result: Result<(), ()>, now: Now) {
        match result {
            Ok(()) => self.phase = Phase::CheckingChain,
            Err(()) => self.delay(now),
        }
    }

    pub(super) fn end_chain_check(&mut self, result: Result<Option<FoundSnapshots>, ()>, now: Now) {
        let own = self.config.genesis_hash;
        let Ok(snapshots) = result else { return self.delay(now) };
        let other = snapshots.map(|it| it.genesis_hash).filter(|found| *found != own);
        if let Some(found) = other {
            return self.stop(format!(
                "the log is of the chain with the genesis hash {found}, and this node's has {own}: \
                 choose another --log-cluster"
            ));
        }
        self.snapshots = snapshots;
        self.phase = Phase::Seeking;
    }

    pub(super) fn end_search(&mut self, result: Result<Option<u64>, ()>, now: Now) {
        let Ok(newest) = result else { return self.delay(now) };
        match &mut self.phase {
            Phase::Following(following) => {
                following.note_search(now.elapsed);
                if newest.is_none_or(|newest| newest <= following.generation) {
                    return;
                }
            }
            Phase::Opening(_) => return self.end_opening_search(newest),
            _ => {}
        }
        let logged = self.snapshots.and_then(|it| it.logged_generation);
        match newest {
            Some(generation) if logged <= Some(generation) => self.connect(generation),
            None if logged.is_none() => {
                self.open_generation(0, "the cluster has no log yet".into())
            }
            // Its messages are lost, and those of older generations are not the newest ones.
            _ => self.open_generation(0, "the newest generation of the log was deleted".into()),
        }
    }

    pub(super) fn end_connection(&mut self, result: Result<(), ()>, now: Now) {
        match (&self.phase, result) {
            (Phase::Opening(_), result) => self.end_opened_generation(result, now),
            (Phase::Connecting { generation }, Ok(())) => {
                self.phase = Phase::Measuring { generation: *generation };
            }
            // It may have been removed since.
            _ => {
                self.phase = Phase::Seeking;
                self.delay(now);
            }
        }
    }

    /// Follows another generation. The log of the current one is forgotten, its numbers and terms are not.
    pub(super) fn connect(&mut self, generation: u64) {
        self.note_numbers();
        self.own.unpin();
        self.phase = Phase::Connecting { generation };
    }
}
