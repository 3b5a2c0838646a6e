//! REST over real loopback sockets, for a ledger that is not Solana's. `rest_solana` tests it with Solana's table.

mod toy_api;
