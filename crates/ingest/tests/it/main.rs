//! Integration tests of an ingester: a local ledger and its log.

mod localnet_log;
