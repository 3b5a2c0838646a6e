//! The atomics that threads share: the standard library's, or loom's in its tests.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// An array of zeros: a constant with the standard library's atomics. Those of loom have no constant.
#[cfg(not(loom))]
macro_rules! zeros {
    [$zero:expr; $len:expr] => {
        [const { $zero }; $len]
    };
}
#[cfg(loom)]
macro_rules! zeros {
    [$zero:expr; $len:expr] => {
        std::array::from_fn::<_, { $len }, _>(|_| $zero)
    };
}

pub(crate) use zeros;
