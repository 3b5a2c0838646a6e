//! Reading a log at the start of an ingester: the blocks from the root on.
//!
//! Shape: the end of the log is read in windows that become larger until one has the record of the last rooted block.
//! All blocks above the root come after it. Most windows are a few hundred messages, however long the log is.
//! Not here: the log from there on (`following`).

use replicated_log::{StoredMessage, Tail};

use super::phase::{Following, Phase, Recovering};
use super::reports::STORED_DAMAGES;
use super::{Action, DAMAGES_MAX, Now, Obstacle, Plan, READ_TIME_MAX, ReadFailure};
use crate::log_chain::Damage;
use crate::record_stream::{RecordStream, StreamError};

/// Messages of the first window: some hundred small blocks. A larger value reads more at each start.
const FIRST_WINDOW: u64 = 512;
/// Growth of a window that was too small.
const WINDOW_FACTOR: u64 = 8;

/// Leases for which a log must be shorter than it was before it counts as replaced.
const SHORTER_LEASES: u32 = 2;

impl Plan {
    /// Reads the window. Its messages never arrive if the log was created again after it was measured, so the newest
    /// generation is requested after a while without a message.
    pub(super) fn next_recovering_action(&mut self, now: Now) -> Action {
        let Phase::Recovering(recovering) = &self.phase else { return Action::Wait(None) };
        let Some(since) = recovering.read_since else {
            return Action::Read(recovering.stream.position());
        };
        let until = since + READ_TIME_MAX;
        if now.elapsed < until {
            return Action::Wait(Some(until));
        }
        // The log may count a message that it lost.
        let generation = recovering.generation;
        let wanted = recovering.stream.position() + 1;
        if self.replace_at_obstacle(generation, wanted, now) {
            return self.next_opening_action(now);
        }
        self.phase = Phase::Seeking;
        Action::FindGeneration
    }

    pub(super) fn end_measurement(&mut self, result: Result<Tail, ()>, now: Now) {
        let Ok(tail) = result else { return self.delay(now) };
        match &mut self.phase {
            Phase::Measuring { generation } => {
                let generation = *generation;
                if tail.last == 0 {
                    return self.await_first_record(generation, now);
                }
                if tail.first == 0 || tail.first > tail.last {
                    let reason = "all messages of the log were removed".into();
                    return self.replace_generation(generation, reason, now);
                }
                let hole = self.truncated_at.take().filter(|wanted| *wanted >= tail.first);
                if let Some(sequence) = hole {
                    return self.handle_read_failure(ReadFailure::Damaged { sequence }, now);
                }
                if let Some(reason) = self.end_rejoin(generation, tail.last) {
                    return self.open_generation(generation + 1, reason);
                }
                let damaged = self.rejoin.as_ref().map_or(0, |it| it.damaged);
                let after = damaged.min(tail.last - 1);
                let recovering = Recovering::new(generation, tail, FIRST_WINDOW, after);
                self.phase = Phase::Recovering(Box::new(recovering));
            }
            // Confirmed messages are gone: the log was created again, or restored from an older backup.
            Phase::Following(following) if following.is_longer_than(tail.last) => {
                let generation = following.generation;
                if following.note_shorter_tail(now.elapsed) < self.config.lease * SHORTER_LEASES {
                    // The extent is requested again.
                    return self.delay(now);
                }
                self.note_read_failure(ReadFailure::Gone);
                self.replace_generation(
                    generation,
                    "the log was replaced by an older one".into(),
                    now,
                );
            }
            Phase::Following(following) => following.note_tail(tail.last, now.elapsed),
            Phase::Opening(_) => self.end_first_tail(tail.last),
            _ => {}
        }
    }

    pub(super) fn end_reader_opening(&mut self, result: Result<(), ()>, now: Now) {
        match (&mut self.phase, result) {
            (Phase::Recovering(recovering), Ok(())) => recovering.read_since = Some(now.elapsed),
            (Phase::Following(following), Ok(())) => following.note_reader(now.elapsed),
            (Phase::Recovering(recovering), Err(())) => {
                self.phase = Phase::Measuring { generation: recovering.generation };
                self.delay(now);
            }
            (_, Ok(())) => {}
            (_, Err(())) => self.delay(now),
        }
    }

    pub(super) fn handle_message(&mut self, message: &StoredMessage, now: Now) {
        match self.phase {
            Phase::Recovering(_) => self.recover(message, now),
            Phase::Following(_) => self.follow(message, now),
            _ => {}
        }
    }

    pub(super) fn handle_read_failure(&mut self, failure: ReadFailure, now: Now) {
        if let ReadFailure::Damaged { sequence } = failure {
            return self.handle_damaged_message(sequence, now);
        }
        match &mut self.phase {
            Phase::Recovering(recovering) => {
                let generation = recovering.generation;
                self.note_read_failure(failure);
                // The log may have lost its oldest messages meanwhile, or may be replaced by another generation.
                self.note_truncation(failure);
                self.phase = match failure {
                    ReadFailure::Gone => Phase::Seeking,
                    _ => Phase::Measuring { generation },
                };
                self.delay(now);
            }
            Phase::Following(_) => self.lose_reader(failure, now),
            _ => {}
        }
    }

    /// Remembers the message that a truncated reader had requested until the extent of the log is known.
    pub(super) fn note_truncation(&mut self, failure: ReadFailure) {
        if let ReadFailure::Truncated { wanted } = failure {
            self.truncated_at = Some(wanted);
        }
    }

    /// Reads again from before a message that is missing or damaged in the log.
    fn handle_damaged_message(&mut self, sequence: u64, now: Now) {
        let generation = match &self.phase {
            Phase::Measuring { generation } => *generation,
            Phase::Recovering(recovering) => recovering.generation,
            Phase::Following(following) => following.generation,
            _ => return,
        };
        if self.replace_at_obstacle(generation, sequence, now) {
            return;
        }
        match &mut self.phase {
            Phase::Following(following) => following.measure_again(),
            _ => self.phase = Phase::Measuring { generation },
        }
        self.delay(now);
    }

    /// Counts a message that a reader did not get past. Whole records before it say nothing about it, so it has a count
    /// of its own. After several times a leader passes over a message of its own. Otherwise the log is replaced, and
    /// this returns `true`.
    pub(super) fn replace_at_obstacle(&mut self, generation: u64, sequence: u64, now: Now) -> bool {
        self.note_damage(Damage { what: "missing", number: 0, sequence });
        let earlier = self.obstacle.take();
        let earlier = earlier.filter(|it| it.generation == generation && it.sequence == sequence);
        let times = earlier.map_or(0, |it| it.times) + 1;
        if times > DAMAGES_MAX {
            if self.pass_damage("missing", sequence) {
                return false;
            }
            let reason = "a message of the log is missing or damaged".into();
            self.abandon_generation(generation, sequence, reason, now);
            return true;
        }
        self.obstacle = Some(Obstacle { generation, sequence, times });
        false
    }

    fn recover(&mut self, message: &StoredMessage, now: Now) {
        let Phase::Recovering(recovering) = &mut self.phase else { return };
        if recovering.read_since.is_none() {
            return;
        }
        recovering.read_since = Some(now.elapsed);
        let applied = match recovering.stream.push(message) {
            Ok(Some(record)) => {
                let applied = recovering.chain.apply(&record.head, record.sequence);
                if applied.is_ok() {
                    self.damages = 0;
                }
                applied.map_err(StreamError::Damage)
            }
            Ok(None) => Ok(()),
            Err(err) => Err(err),
        };
        match applied {
            Ok(()) if recovering.stream.position() >= recovering.tail.last => self.end_window(now),
            Ok(()) => {}
            Err(StreamError::Version(err)) => self.stop(err.to_string()),
            Err(StreamError::Damage(damage)) => {
                let generation = recovering.generation;
                self.handle_damage(generation, damage, now);
            }
        }
    }

    /// Reads a damaged record again. After several times a leader passes over a record of its own. Otherwise the log is
    /// replaced.
    pub(super) fn handle_damage(&mut self, generation: u64, damage: Damage, now: Now) {
        let Damage { what, sequence, .. } = damage;
        self.note_damage(damage);
        self.damages += 1;
        if self.damages > DAMAGES_MAX {
            if self.pass_damage(what, sequence) {
                return;
            }
            let reason = "a record of the log is damaged".into();
            return match STORED_DAMAGES.contains(&what) {
                true => self.abandon_generation(generation, sequence, reason, now),
                false => self.replace_generation(generation, reason, now),
            };
        }
        match &mut self.phase {
            Phase::Following(following) => following.reopen_reader(),
            Phase::Recovering(recovering) if recovering.chain.position() > 0 => {
                recovering.reopen_reader()
            }
            _ => self.phase = Phase::Measuring { generation },
        }
        self.delay(now);
    }

    /// Follows the log if the window has its root, or reads a larger one.
    fn end_window(&mut self, now: Now) {
        let Phase::Recovering(recovering) = &mut self.phase else { return };
        let generation = recovering.generation;
        if recovering.chain.has_root() {
            let chain = std::mem::take(&mut recovering.chain);
            let stream = std::mem::replace(&mut recovering.stream, RecordStream::after_record(0));
            self.damages = 0;
            return self.start_following(Following::new(generation, chain, stream, now.elapsed));
        }
        let Recovering { after, window, .. } = **recovering;
        if recovering.is_whole() {
            let reason = "the log begins above its root".into();
            return match after {
                0 => self.replace_generation(generation, reason, now),
                // The root is not behind the damage yet.
                _ => self.abandon_generation(generation, after, reason, now),
            };
        }
        let tail = recovering.tail.clone();
        let recovering = Recovering::new(generation, tail, window * WINDOW_FACTOR, after);
        self.phase = Phase::Recovering(Box::new(recovering));
    }
}
