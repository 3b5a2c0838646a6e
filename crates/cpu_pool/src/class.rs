//! The classes of tasks.

use std::fmt;

/// Cost of a task, by the data that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Some tens of microseconds: a signature, one transaction of history.
    Light,
    /// Some milliseconds: a block, a page, a hundred accounts, a run of the VM.
    Medium,
    /// Time proportional to the size of the state: a scan.
    Heavy,
}

impl Class {
    /// Every class, the cheapest first.
    pub const ALL: [Self; 3] = [Self::Light, Self::Medium, Self::Heavy];

    /// The index in [`Self::ALL`].
    pub fn index(self) -> usize {
        match self {
            Self::Light => 0,
            Self::Medium => 1,
            Self::Heavy => 2,
        }
    }

    /// The name in messages and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Medium => "medium",
            Self::Heavy => "heavy",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_keys_name_the_same_classes() {
        assert_eq!(api_keys::CLASS_NAMES, Class::ALL.map(Class::name));
    }
}
