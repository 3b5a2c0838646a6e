//! The inputs of the requests: addresses and mints of the synthetic ledger, chosen by their cost.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use http_client::{Client, Endpoint};
use serde_json::{Value, json};
use testkit::synthetic::{Kind, Synthetic, SyntheticConfig};

use crate::ledger_process::protocol::SEED;

/// Approximate bytes of an account in a response of getProgramAccounts.
const ENTRY_BYTES: u64 = 430;

/// Number of mints that are considered, those with the most holders first.
const MINTS_MAX: u64 = 20_000;

/// Number of candidates of about the requested size.
const CANDIDATES: usize = 60;

/// Number of accounts to choose from. They do not fit into a core's caches.
const ANY_ACCOUNTS: u64 = 200_000;

/// Number of lists of one or two accounts to choose from.
const ANY_LISTS: usize = 2_000;

/// Number of responses of about a megabyte to choose from.
const ANY_MEGABYTES: usize = 16;

/// Calls of each kind.
pub(crate) struct Targets {
    /// The cheap ones by method, and their calls.
    pub(crate) cheap: Vec<(&'static str, Vec<Value>)>,
    /// getAccountInfo of token accounts from all over the ledger.
    pub(crate) accounts: Vec<Value>,
    /// getProgramAccounts that finds the one or two holders of a mint.
    pub(crate) lists: Vec<Value>,
    /// getProgramAccounts of 25 MB, or as large as one mint makes them.
    pub(crate) scans: ProgramAccountsCall,
    /// Calls with responses of about 1 MB, the nearest first.
    pub(crate) megabytes: Vec<ProgramAccountsCall>,
    pub(crate) whole: Value,
}

/// A call of getProgramAccounts and the size of its response.
pub(crate) struct ProgramAccountsCall {
    pub(crate) params: Value,
    pub(crate) bytes: usize,
}

impl Targets {
    pub(crate) fn discover(accounts: u32, rpc: SocketAddr) -> Result<Self> {
        let ledger = Synthetic::new(SyntheticConfig::mainnet(SEED, accounts));
        let mut client = Client::open(rpc)?;
        let counts = ledger.counts();
        let some = |most: u64, count: u64, kind: fn(u64) -> Kind| -> Vec<String> {
            let every = (count / most).max(1);
            (0..most.min(count)).map(|n| ledger.address(kind(n * every)).to_string()).collect()
        };
        let base64 = json!({ "encoding": "base64" });
        let infos = |tokens: Vec<String>| -> Vec<Value> {
            tokens.iter().map(|address| json!([address, base64])).collect()
        };
        let wallets = some(1_000, counts.wallets, Kind::Wallet);
        let cheap = vec![
            ("getSlot", vec![json!([])]),
            ("getBalance", wallets.iter().map(|address| json!([address])).collect()),
            ("getAccountInfo", infos(some(1_000, counts.tokens, Kind::Token))),
            ("getLatestBlockhash", vec![json!([])]),
        ];
        // The last mints have the fewest holders. Every tenth mint is of the other token program.
        let mints_in_use =
            (0..counts.mints).rev().filter(|n| n % 10 != 7 && ledger.holders(*n) > 0);
        let lists = mints_in_use
            .take(ANY_LISTS)
            .map(|mint| ProgramAccountsCall::params_of_mint(&ledger, mint));
        let program = spl_token_interface::id().to_string();
        let filters = json!([{ "dataSize": 165 }]);
        Ok(Self {
            cheap,
            accounts: infos(some(ANY_ACCOUNTS, counts.tokens, Kind::Token)),
            lists: lists.collect(),
            scans: ProgramAccountsCall::near_size(&ledger, &mut client, 25_000_000, 1)?.remove(0),
            megabytes: ProgramAccountsCall::near_size(
                &ledger,
                &mut client,
                1_000_000,
                ANY_MEGABYTES,
            )?,
            whole: json!([program, { "encoding": "base64", "filters": filters }]),
        })
    }

    /// The one whose size is nearest to a megabyte.
    pub(crate) fn megabyte(&self) -> &ProgramAccountsCall {
        // `ResponseKind::near` gives at least one.
        &self.megabytes[0]
    }

    pub(crate) fn requests(&self, rpc: SocketAddr, method: &str) -> Vec<Vec<u8>> {
        let calls = self.cheap.iter().find(|(name, _)| *name == method);
        let params = calls.map_or(&[][..], |(_, params)| params);
        params.iter().map(|params| Endpoint::from(rpc).call(method, params)).collect()
    }
}

impl ProgramAccountsCall {
    /// The accounts of the mints whose responses are nearest to `bytes` bytes: one to `most`, none that is a third
    /// smaller or larger than the first.
    fn near_size(
        ledger: &Synthetic,
        client: &mut Client,
        bytes: u64,
        most: usize,
    ) -> Result<Vec<Self>> {
        let holders = bytes / ENTRY_BYTES;
        let mut mints: Vec<u64> = (0..ledger.counts().mints.min(MINTS_MAX)).collect();
        mints.sort_by_key(|mint| ledger.holders(*mint).abs_diff(holders));
        let mut lists: Vec<Self> = Vec::new();
        for mint in mints.into_iter().take(CANDIDATES) {
            let params = Self::params_of_mint(ledger, mint);
            let request = client.endpoint().call("getProgramAccounts", &params);
            let bytes = client.exchange(&request)?.body.len();
            let is_like = |first: &Self| bytes * 3 > first.bytes * 2 && bytes * 2 < first.bytes * 3;
            // Some mints are of the other token program; their responses are empty.
            if bytes > 10_000 && lists.first().is_none_or(is_like) {
                lists.push(Self { params, bytes });
            }
            if lists.len() == most {
                break;
            }
        }
        ensure!(!lists.is_empty(), "no mint has accounts of the token program");
        Ok(lists)
    }

    /// The call for the holders of a mint.
    fn params_of_mint(ledger: &Synthetic, mint: u64) -> Value {
        let mint = ledger.address(Kind::Mint(mint)).to_string();
        let memcmp = json!({ "memcmp": { "offset": 0, "bytes": mint } });
        let filters = json!([{ "dataSize": 165 }, memcmp]);
        let program = spl_token_interface::id().to_string();
        json!([program, { "encoding": "base64", "filters": filters }])
    }

    pub(crate) fn request(&self, rpc: SocketAddr) -> Vec<u8> {
        Endpoint::from(rpc).call("getProgramAccounts", &self.params)
    }
}
