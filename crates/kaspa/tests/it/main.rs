//! Golden messages of a kaspad: `tests/golden/README.md` says how they were made.

mod borsh;
mod chain;
mod json;
mod protobuf;
