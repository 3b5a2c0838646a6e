//! Settings of a local node under the names `solana-test-validator` and `surfpool`, beyond the flags of `hydrant dev`.

use std::path::PathBuf;

use localnet::GenesisAccount;

use crate::banner::OutputStyle;

/// Settings of a local node that are not flags of `hydrant dev`. Its own preset is the default.
#[derive(Default)]
pub(crate) struct LocalPreset {
    pub(crate) style: OutputStyle,
    /// The Solana CLI's configuration, which names the keypair of the mint: `--config` of `solana-test-validator`.
    pub(crate) cli_config: Option<PathBuf>,
    /// The port of WebSocket, if it is not the one after `--rpc-port`: `--ws-port` of surfpool.
    pub(crate) pubsub_port: Option<u16>,
    /// Accounts to clone, programs with their data: `[[test.validator.clone]]` of Anchor.
    pub(crate) cloned_addresses: Vec<String>,
    /// Accounts to add at genesis.
    pub(crate) accounts: Vec<GenesisAccount>,
}
