//! The order of faults.
//!
//! Not here: the effect of a fault (`nodes`).

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Hydrant is killed. A reorganization happens before it starts again.
    KillHydrant,
    /// The kaspad is killed. A branch grows elsewhere before it starts again.
    KillKaspad,
    /// All connections between the two are cut.
    CutLink,
}

/// The faults of a run: the kinds repeat in a fixed order, up to a number.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    made: u64,
    max: u64,
}

impl Faults {
    const ORDER: [Fault; 3] = [Fault::KillHydrant, Fault::KillKaspad, Fault::CutLink];

    /// Creates a sequence of at most `max` faults.
    pub(crate) fn new(max: u64) -> Self {
        Self { made: 0, max }
    }

    /// Returns the next fault. `None` after the last one.
    pub(crate) fn next_fault(&mut self) -> Option<Fault> {
        if self.is_finished() {
            return None;
        }
        let fault = Self::ORDER[(self.made % Self::ORDER.len() as u64) as usize];
        self.made += 1;
        Some(fault)
    }

    /// Whether all faults were made.
    pub(crate) fn is_finished(&self) -> bool {
        self.made == self.max
    }

    /// Returns the number of faults that were not made yet.
    pub(crate) fn missing(&self) -> u64 {
        self.max - self.made
    }

    /// Returns the number of faults so far.
    pub(crate) fn count(&self) -> u64 {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_repeat_in_a_fixed_order_up_to_their_number() {
        let mut faults = Faults::new(4);
        let all: Vec<Fault> = std::iter::from_fn(|| faults.next_fault()).collect();
        assert_eq!(all[..3], Faults::ORDER);
        assert_eq!(all[3..], [Fault::KillHydrant]);
        assert!(faults.is_finished());
        assert_eq!(faults.count(), 4);
        assert_eq!(Faults::new(0).next_fault(), None);
    }
}
