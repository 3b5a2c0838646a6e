//! Integration tests of the ledger's interface.

mod examples;
