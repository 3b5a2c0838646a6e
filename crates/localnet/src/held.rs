//! Which accounts are held, and which goes when there is no more room: the clock algorithm.
//!
//! Shape: a ring of keys and a hand. Each key has a mark that a use sets; the hand takes marks away and
//! lets go of what has none. So what is used often stays, at the cost of one look-up a use.
//! Bounds: bytes, each key counted with what it costs beside its data. Room is made only when asked for,
//! so that what one transaction names stays together.

use std::collections::{HashMap, VecDeque};

use solana_pubkey::Pubkey;

/// What a held account costs beside its data: its places in the VM and here, allocations included.
const OVERHEAD_BYTES: usize = 320;

struct Use {
    data_bytes: usize,
    used: bool,
}

/// Keys in the order in which they came, and what each costs.
pub(crate) struct Held {
    held: HashMap<Pubkey, Use, foldhash::quality::RandomState>,
    ring: VecDeque<Pubkey>,
    bytes: usize,
    bytes_max: usize,
}

impl Held {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { held: HashMap::default(), ring: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Marks a key as used; false if it is not held.
    pub(crate) fn touch(&mut self, key: &Pubkey) -> bool {
        let Some(held) = self.held.get_mut(key) else { return false };
        held.used = true;
        true
    }

    /// Holds a key, or notes what it has become.
    pub(crate) fn hold(&mut self, key: Pubkey, data_bytes: usize) {
        let before = self.held.insert(key, Use { data_bytes, used: true });
        match before {
            Some(before) => self.bytes -= before.data_bytes,
            None => {
                self.ring.push_back(key);
                self.bytes += OVERHEAD_BYTES;
            }
        }
        self.bytes += data_bytes;
    }

    /// Makes room: gives a key that is held no longer, as long as there are too many.
    pub(crate) fn next_to_go(&mut self) -> Option<Pubkey> {
        while self.bytes > self.bytes_max {
            let key = self.ring.pop_front()?;
            // Every key of the ring is held, once.
            let held = self.held.get_mut(&key)?;
            if held.used {
                held.used = false;
                self.ring.push_back(key);
                continue;
            }
            self.bytes -= OVERHEAD_BYTES + held.data_bytes;
            self.held.remove(&key);
            return Some(key);
        }
        None
    }

    /// Forgets all keys and gives them.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Pubkey> + use<'_> {
        self.held.clear();
        self.bytes = 0;
        self.ring.drain(..)
    }

    /// Bytes that are held, and may be once there is room.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> (usize, usize) {
        (self.bytes, self.bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Pubkey {
        Pubkey::new_from_array([n; 32])
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes_in_turn() {
        let mut held = Held::new(3 * OVERHEAD_BYTES + 30);
        (1..=3).for_each(|n| held.hold(key(n), 10));
        assert_eq!(held.next_to_go(), None);
        held.hold(key(4), 10);
        // All were just used, so the oldest goes, and the marks are gone.
        assert_eq!(held.next_to_go(), Some(key(1)));
        assert_eq!(held.next_to_go(), None);
        assert!(held.touch(&key(2)) && !held.touch(&key(1)));
        held.hold(key(5), 10);
        assert_eq!(held.next_to_go(), Some(key(3)));
        assert_eq!(held.next_to_go(), None);
    }

    #[test]
    fn an_account_that_grows_counts_with_what_it_is_now() {
        let mut held = Held::new(2 * OVERHEAD_BYTES + 100);
        held.hold(key(1), 10);
        held.hold(key(2), 10);
        held.hold(key(2), 90);
        assert_eq!(held.next_to_go(), None);
        held.hold(key(2), 91);
        assert_eq!(held.next_to_go(), Some(key(1)));
        held.hold(key(2), 5);
        assert_eq!(held.bytes(), (OVERHEAD_BYTES + 5, 2 * OVERHEAD_BYTES + 100));
        assert_eq!(held.drain().collect::<Vec<_>>(), [key(2)]);
        assert_eq!(held.bytes().0, 0);
    }
}
