//! Golden messages of a kaspad: `tests/golden/README.md` says how they were made.

mod borsh;
mod chain;
mod golden;
mod json;
mod protobuf;
