//! The depths of the reorganizations that the rig makes.

/// The deepest reorganization: that of Hydrant's default settings.
pub(crate) const DEPTH_MAX: usize = 100;
/// The difference between two depths. It has no common divisor with [`DEPTH_MAX`], so each depth comes once in as many
/// reorganizations.
const DISTANCE: usize = 37;

/// The depths in order: the largest one first, then all others, small and large ones mixed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Depths {
    next: usize,
}

impl Depths {
    /// Returns the depth of the next reorganization, in chain blocks.
    pub(crate) fn next_depth(&mut self) -> usize {
        let depth = (DEPTH_MAX - 1 + self.next * DISTANCE) % DEPTH_MAX + 1;
        self.next += 1;
        depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_depth_comes_once_in_a_hundred() {
        let mut depths = Depths::default();
        let mut all: Vec<usize> = (0..DEPTH_MAX).map(|_| depths.next_depth()).collect();
        assert_eq!(all[..4], [100, 37, 74, 11]);
        all.sort_unstable();
        assert_eq!(all, (1..=DEPTH_MAX).collect::<Vec<usize>>());
    }
}
