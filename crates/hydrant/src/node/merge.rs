//! Merges the command line with the configuration file: a flag overrides the file, and lists are concatenated.

/// A setting, or a group of settings, that the command line and the file may both have.
pub(crate) trait Merge {
    /// Returns the flags, with the values of `file` where the command line has none.
    fn merge(self, file: Self) -> Self;
}

impl<T> Merge for Option<T> {
    fn merge(self, file: Self) -> Self {
        self.or(file)
    }
}

impl Merge for bool {
    fn merge(self, file: Self) -> Self {
        self || file
    }
}

impl<T> Merge for Vec<T> {
    fn merge(mut self, file: Self) -> Self {
        self.extend(file);
        self
    }
}

/// Merges a group field by field. A field that is not listed does not compile.
macro_rules! merge_by_field {
    ($group:ty { $($field:ident),* $(,)? }) => {
        impl $crate::node::Merge for $group {
            fn merge(self, file: Self) -> Self {
                Self { $($field: $crate::node::Merge::merge(self.$field, file.$field),)* }
            }
        }
    };
}

pub(crate) use merge_by_field;
