//! What the server is asked for: addresses and mints of the synthetic ledger, chosen by what they cost.

use std::net::SocketAddr;

use ::load::{Client, Endpoint};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::synthetic::{Kind, Synthetic, SyntheticConfig};

/// The seed of `state-ledger`.
const SEED: u64 = 20_260_101;

/// Bytes of an account in an answer of getProgramAccounts, about.
const ENTRY_BYTES: u64 = 430;

/// Mints that are looked at, those of the most holders first.
const MINTS_MAX: u64 = 20_000;

/// Candidates of about the size that is wanted.
const CANDIDATES: usize = 40;

/// Calls of each kind.
pub(crate) struct Targets {
    /// The cheap ones by method, and their calls.
    pub(crate) cheap: Vec<(&'static str, Vec<Value>)>,
    /// getProgramAccounts of 25 MB, or as large as one mint makes them.
    pub(crate) scans: Answer,
    /// Of 1 MB.
    pub(crate) megabyte: Answer,
    /// A whole program's accounts.
    pub(crate) whole: Value,
}

/// A call of getProgramAccounts and the size of its answer.
pub(crate) struct Answer {
    pub(crate) params: Value,
    pub(crate) bytes: usize,
}

impl Targets {
    pub(crate) fn of(accounts: u32, rpc: SocketAddr) -> Result<Self> {
        let ledger = Synthetic::new(SyntheticConfig::mainnet(SEED, accounts));
        let mut client = Client::open(rpc)?;
        let counts = ledger.counts();
        let some = |count: u64, kind: fn(u64) -> Kind| -> Vec<String> {
            let every = (count / 1_000).max(1);
            (0..1_000.min(count)).map(|n| ledger.address(kind(n * every)).to_string()).collect()
        };
        let tokens = some(counts.tokens, Kind::Token);
        let wallets = some(counts.wallets, Kind::Wallet);
        let base64 = json!({ "encoding": "base64" });
        let cheap = vec![
            ("getSlot", vec![json!([])]),
            ("getBalance", wallets.iter().map(|address| json!([address])).collect()),
            ("getAccountInfo", tokens.iter().map(|address| json!([address, base64])).collect()),
            ("getLatestBlockhash", vec![json!([])]),
        ];
        let program = spl_token_interface::id().to_string();
        let filters = json!([{ "dataSize": 165 }]);
        Ok(Self {
            cheap,
            scans: Answer::of(&ledger, &mut client, 25_000_000)?,
            megabyte: Answer::of(&ledger, &mut client, 1_000_000)?,
            whole: json!([program, { "encoding": "base64", "filters": filters }]),
        })
    }

    pub(crate) fn requests(&self, rpc: SocketAddr, method: &str) -> Vec<Vec<u8>> {
        let calls = self.cheap.iter().find(|(name, _)| *name == method);
        let params = calls.map_or(&[][..], |(_, params)| params);
        params.iter().map(|params| Endpoint::from(rpc).call(method, params)).collect()
    }
}

impl Answer {
    /// The accounts of the mint whose answer is nearest to so many bytes.
    fn of(ledger: &Synthetic, client: &mut Client, bytes: u64) -> Result<Self> {
        let wanted = bytes / ENTRY_BYTES;
        let mut mints: Vec<u64> = (0..ledger.counts().mints.min(MINTS_MAX)).collect();
        mints.sort_by_key(|mint| ledger.holders(*mint).abs_diff(wanted));
        let program = spl_token_interface::id().to_string();
        let answers = mints.into_iter().take(CANDIDATES).map(|mint| {
            let mint = ledger.address(Kind::Mint(mint)).to_string();
            let memcmp = json!({ "memcmp": { "offset": 0, "bytes": mint } });
            let filters = json!([{ "dataSize": 165 }, memcmp]);
            let params = json!([program, { "encoding": "base64", "filters": filters }]);
            let request = client.endpoint().call("getProgramAccounts", &params);
            let bytes = client.exchange(&request)?.1.len();
            anyhow::Ok(Self { params, bytes })
        });
        // Some mints are of the other token program; their answers are empty.
        for answer in answers {
            let answer = answer?;
            if answer.bytes > 10_000 {
                return Ok(answer);
            }
        }
        None.context("no mint has accounts of the token program")
    }

    pub(crate) fn request(&self, rpc: SocketAddr) -> Vec<u8> {
        Endpoint::from(rpc).call("getProgramAccounts", &self.params)
    }
}
