//! Whole chains against the verifier.

mod bounds;
mod chain;
mod corruption;
mod entries;
mod votes;
