//! Epoch-based reclamation: which readers may still have a freed id.
//!
//! Shape: the writer creates an [`Epoch`] for every snapshot that it publishes; the snapshot owns it.
//! Epochs are numbered; an id freed in one is safe to reuse once every epoch up to its number is dropped.
//! Bounds: one entry per live epoch, and at most as many again of dropped ones.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

/// A reader's pin on the ids that it may know: while it lives, none of them is reused for another
/// address. Made by [`crate::AddressTable::epoch`]; clones share one pin.
#[derive(Clone, Debug)]
pub struct Epoch {
    _pin: Arc<()>,
}

/// The epochs that may still be pinned, the oldest first.
#[derive(Default)]
pub(crate) struct Epochs {
    newest: u64,
    pinned: VecDeque<(u64, Weak<()>)>,
    /// Number of pinned epochs after the last sweep.
    swept: usize,
}

impl Epochs {
    /// Starts the next epoch and returns its pin.
    pub(crate) fn advance(&mut self) -> Epoch {
        let pin = Arc::new(());
        self.newest += 1;
        self.pinned.push_back((self.newest, Arc::downgrade(&pin)));
        // A reader that pins an old epoch for long leaves dropped ones behind it in the queue: sweep
        // whenever they could be half of all.
        if self.pinned.len() > 2 * self.swept + 64 {
            self.pinned.retain(|(_, pin)| pin.strong_count() > 0);
            self.swept = self.pinned.len();
        }
        Epoch { _pin: pin }
    }

    /// Returns the number of the newest epoch; 0 before the first.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the oldest epoch that is pinned, or the next one. No reader has an id that only older
    /// epochs knew.
    pub(crate) fn oldest_pinned(&mut self) -> u64 {
        while self.pinned.front().is_some_and(|(_, pin)| pin.strong_count() == 0) {
            self.pinned.pop_front();
        }
        // Pairs with the release of a reader that dropped its pin: its reads before that come
        // before anything that we write from here on.
        fence(Ordering::Acquire);
        self.pinned.front().map_or(self.newest + 1, |(epoch, _)| *epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_pin_counts() {
        let mut epochs = Epochs::default();
        assert_eq!(epochs.oldest_pinned(), 1);
        let first = epochs.advance();
        let copy = first.clone();
        let second = epochs.advance();
        drop(first);
        assert_eq!(epochs.oldest_pinned(), 1);
        drop(copy);
        assert_eq!(epochs.oldest_pinned(), 2);
        drop(second);
        assert_eq!(epochs.oldest_pinned(), 3);
    }

    #[test]
    fn one_long_pin_does_not_pile_up_dropped_epochs() {
        let mut epochs = Epochs::default();
        let _long = epochs.advance();
        for _ in 0..10_000 {
            epochs.advance();
        }
        assert_eq!(epochs.oldest_pinned(), 1);
        assert!(epochs.pinned.len() <= 67, "{} epochs", epochs.pinned.len());
    }
}
