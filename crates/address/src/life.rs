//! Who counts on an id, in one word.

/// The largest count. Far more than a record of today's largest ledger is counted; beyond it we
/// stop rather than forget somebody.
const COUNT_MAX: u32 = (1 << 30) - 1;

/// Where an id stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It has no address.
    Free,
    /// Somebody counts on it.
    Counted {
        count: u32,
        /// Whether it is still in the queue of those that wait, from an earlier release.
        is_waiting: bool,
    },
    /// Nobody counts on it, readers may hold it. It is in the queue of those that wait.
    Idle {
        /// The low bits of the last epoch whose readers may hold it.
        known_until: u32,
    },
}

impl Life {
    pub(crate) fn from_word(word: u32) -> Self {
        let low = word & COUNT_MAX;
        match word >> 30 {
            0 => Self::Free,
            1 => Self::Counted { count: low, is_waiting: false },
            2 => Self::Counted { count: low, is_waiting: true },
            _ => Self::Idle { known_until: low },
        }
    }

    pub(crate) fn to_word(self) -> u32 {
        match self {
            Self::Free => 0,
            Self::Counted { count, is_waiting } => {
                assert!(count <= COUNT_MAX, "an address is counted more than {COUNT_MAX} times");
                count | if is_waiting { 2 << 30 } else { 1 << 30 }
            }
            Self::Idle { known_until } => known_until | 3 << 30,
        }
    }

    /// Idle until `epoch`.
    pub(crate) fn idle(epoch: u64) -> Self {
        Self::Idle { known_until: (epoch & u64::from(COUNT_MAX)) as u32 }
    }
}

/// The newest epoch up to `newest` that ends in these low bits: the one that was meant, or a later
/// one if that was a billion epochs ago.
pub(crate) fn epoch_of(known_until: u32, newest: u64) -> u64 {
    newest - (newest.wrapping_sub(u64::from(known_until)) & u64::from(COUNT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_survives_its_word() {
        let counted = |count, is_waiting| Life::Counted { count, is_waiting };
        let lives = [
            Life::Free,
            counted(1, false),
            counted(0, true),
            counted(COUNT_MAX, true),
            Life::idle(0),
        ];
        for life in lives {
            assert_eq!(Life::from_word(life.to_word()), life);
        }
    }

    #[test]
    fn epochs_come_back_from_their_low_bits() {
        for epoch in [1, 2, 1 << 30, (1 << 30) + 5, 7 << 40] {
            let Life::Idle { known_until } = Life::idle(epoch) else { panic!("idle is idle") };
            for later in [0, 1, 1_000_000] {
                assert_eq!(epoch_of(known_until, epoch + later), epoch);
            }
        }
    }
}
