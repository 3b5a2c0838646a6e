//! Accounts of another cluster, for the genesis of a new ledger (`--url`, `--clone` and similar flags).
//!
//! In: the flags. Out: genesis accounts, features that are inactive there, and its slot.
//! Shape: [`CloneRequest::from_flags`] checks the flags; [`CloneRequest::fetch`] calls the cluster's JSON-RPC.
//! Bounds: [`ADDRESSES_MAX`] accounts; [`ADDRESSES_PER_CALL`] in a call, whose response has at most
//! [`RESPONSE_BYTES_MAX`]. Each account has the bounds of an account's file.
//! Not here: the decoding of an account (`accounts_file`).

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use http_client::{Client, Endpoint, Server};
use localnet::GenesisAccount;
use serde_json::json;
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_address_lookup_table_interface::state::AddressLookupTable;
use solana_feature_set::FEATURE_NAMES;
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_pubkey::Pubkey;

use crate::accounts_file::{self, JsonAccount};
use crate::console::print_stderr;
use crate::local::flags::DevFlags;
use crate::wait_notice::with_wait_notice;

/// Accounts that are fetched at most, those of lookup tables included.
const ADDRESSES_MAX: usize = 100_000;
/// Addresses of one call. Public endpoints accept 100; an account may have 10 MiB.
const ADDRESSES_PER_CALL: usize = 20;
/// Bytes of a response: the largest accounts that a call may return, as base64.
const RESPONSE_BYTES_MAX: usize = 320 << 20;
/// First byte of an active feature's account: the tag of an `Option` that has a slot.
const ACTIVATED: u8 = 1;

/// The accounts, features and slot that a new ledger takes from a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CloneRequest {
    /// The URL of the cluster's JSON-RPC.
    url: String,
    /// Accounts that must exist on the cluster.
    accounts: Vec<Pubkey>,
    /// Accounts that are skipped if they do not exist.
    maybe_accounts: Vec<Pubkey>,
    /// Accounts that must exist on the cluster. Programs of the upgradeable loader are fetched with their data.
    any: Vec<Pubkey>,
    /// Programs of the upgradeable loader, fetched with their data.
    programs: Vec<Pubkey>,
    /// Lookup tables, fetched with the accounts that they list.
    lookup_tables: Vec<Pubkey>,
    has_features: bool,
    has_slot: bool,
}

/// The accounts, features and slot that a cluster returned.
#[derive(Debug, Default)]
pub(crate) struct Cloned {
    pub(crate) accounts: Vec<GenesisAccount>,
    /// Features that are not active there.
    pub(crate) inactive_features: Vec<Pubkey>,
    pub(crate) slot: Option<u64>,
}

impl CloneRequest {
    /// Returns the request of the flags, and of the entries `[[test.validator.clone]]` of Anchor's files. `None` if nothing
    /// is requested.
    pub(crate) fn from_flags(
        flags: &DevFlags,
        addresses_of_anchor: &[String],
    ) -> Result<Option<Self>> {
        // A fork starts at the slot of its cluster anyway.
        let is_fork = flags.fork_url.is_some() && flags.url.is_none();
        let has_slot = flags.warp_slot == Some(None) && !is_fork;
        let request = Self {
            url: String::new(),
            accounts: addresses("--clone", &flags.clone)?,
            maybe_accounts: addresses("--maybe-clone", &flags.maybe_clone)?,
            any: addresses("[[test.validator.clone]]", addresses_of_anchor)?,
            programs: addresses("--clone-upgradeable-program", &flags.clone_upgradeable_program)?,
            lookup_tables: addresses(
                "--deep-clone-address-lookup-table",
                &flags.deep_clone_address_lookup_table,
            )?,
            has_features: flags.clone_feature_set,
            has_slot,
        };
        if request == Self::default() {
            return Ok(None);
        }
        let Some(url) = &flags.url else {
            ensure!(
                !has_slot,
                "--warp-slot needs a slot, or --url or --fork-url for the slot of that cluster"
            );
            ensure!(
                request.any.is_empty(),
                "[[test.validator.clone]] requires test.validator.url, the cluster to fetch from"
            );
            bail!("--clone and similar flags require --url, the cluster to fetch from");
        };
        Ok(Some(Self { url: cluster_url(url), ..request }))
    }

    /// Fetches all of it. An account that must exist and does not is an error.
    pub(crate) fn fetch(&self) -> Result<Cloned> {
        let server = Server::from_url(&self.url);
        with_wait_notice(&server, || self.fetch_all())
            .with_context(|| format!("clone from {server}"))
    }

    fn fetch_all(&self) -> Result<Cloned> {
        let mut cluster = Cluster::open(&self.url)?;
        let mut accounts = cluster.fetch_required("--clone", &self.accounts)?;
        for address in &self.maybe_accounts {
            match cluster.account(address)? {
                Some(account) => accounts.push(account),
                None => print_stderr(&format!("hydrant: --maybe-clone {address}: no such account")),
            }
        }
        for account in cluster.fetch_required("[[test.validator.clone]]", &self.any)? {
            // A program without its data could not be called.
            let data = data_address(&account).ok();
            accounts.push(account);
            accounts.extend(cluster.fetch_required("[[test.validator.clone]]", data.as_slice())?);
        }
        for program in cluster.fetch_required("--clone-upgradeable-program", &self.programs)? {
            let data = data_address(&program)?;
            accounts.push(program);
            accounts.extend(cluster.fetch_required("--clone-upgradeable-program", &[data])?);
        }
        let flag = "--deep-clone-address-lookup-table";
        let mut listed = BTreeSet::new();
        for table in cluster.fetch_required(flag, &self.lookup_tables)? {
            let parsed = AddressLookupTable::deserialize(table.account.data()).map_err(|err| {
                anyhow::anyhow!("{flag} {}: no lookup table: {err}", table.address)
            })?;
            listed.extend(parsed.addresses.iter().copied());
            accounts.push(table);
        }
        let listed: Vec<Pubkey> = listed.into_iter().collect();
        // A table may list addresses that have no account.
        accounts.extend(cluster.accounts(&listed)?.into_iter().flatten());
        let inactive_features =
            if self.has_features { cluster.inactive_features()? } else { Vec::new() };
        let slot = self.has_slot.then(|| cluster.slot()).transpose()?;
        accounts.iter_mut().for_each(|account| deploy_at_genesis(&mut account.account));
        Ok(Cloned { accounts, inactive_features, slot })
    }
}

/// The JSON-RPC of a cluster, with the number of fetched accounts.
struct Cluster {
    client: Client,
    fetched: usize,
}

impl Cluster {
    fn open(url: &str) -> Result<Self> {
        let endpoint = Endpoint::parse(url)?;
        Ok(Self { client: Client::open_with_body_limit(endpoint, RESPONSE_BYTES_MAX)?, fetched: 0 })
    }

    /// The accounts at `addresses`, in order, `None` for one that does not exist.
    fn accounts(&mut self, addresses: &[Pubkey]) -> Result<Vec<Option<GenesisAccount>>> {
        self.fetched += addresses.len();
        ensure!(
            self.fetched <= ADDRESSES_MAX,
            "{} accounts, the maximum is {ADDRESSES_MAX}: save them as files for --account-dir",
            self.fetched
        );
        let mut all = Vec::new();
        for addresses in addresses.chunks(ADDRESSES_PER_CALL) {
            let texts: Vec<String> = addresses.iter().map(Pubkey::to_string).collect();
            let params = json!([texts, { "encoding": "base64", "commitment": "finalized" }]);
            let mut result = self.client.call("getMultipleAccounts", &params)?;
            let values: Vec<Option<JsonAccount>> =
                serde_json::from_value(result["value"].take())
                    .context("getMultipleAccounts: not in the format of an account")?;
            ensure!(
                values.len() == addresses.len(),
                "getMultipleAccounts: {} accounts for {} addresses",
                values.len(),
                addresses.len()
            );
            for (address, value) in addresses.iter().zip(values) {
                let account = value.map(|value| genesis_account(*address, value)).transpose();
                all.push(account.with_context(|| format!("the account {address}"))?);
            }
        }
        Ok(all)
    }

    fn account(&mut self, address: &Pubkey) -> Result<Option<GenesisAccount>> {
        Ok(self.accounts(&[*address])?.pop().flatten())
    }

    /// Returns the accounts at `addresses`. It is an error if one does not exist.
    fn fetch_required(&mut self, flag: &str, addresses: &[Pubkey]) -> Result<Vec<GenesisAccount>> {
        let accounts = self.accounts(addresses)?;
        let all = addresses.iter().zip(accounts);
        all.map(|(address, account)| {
            account.with_context(|| format!("{flag} {address}: no such account"))
        })
        .collect()
    }

    /// The features that this node knows and that are not active there.
    fn inactive_features(&mut self) -> Result<Vec<Pubkey>> {
        let features: Vec<Pubkey> = FEATURE_NAMES.keys().copied().collect();
        let accounts = self.accounts(&features)?;
        let is_active = |account: &Option<GenesisAccount>| {
            account.as_ref().is_some_and(|it| {
                *it.account.owner() == solana_sdk_ids::feature::ID
                    && it.account.data().first() == Some(&ACTIVATED)
            })
        };
        let inactive = features.iter().zip(&accounts).filter(|(_, account)| !is_active(account));
        Ok(inactive.map(|(feature, _)| *feature).collect())
    }

    fn slot(&mut self) -> Result<u64> {
        let slot = self.client.call("getSlot", &json!([{ "commitment": "finalized" }]))?;
        slot.as_u64().with_context(|| format!("getSlot: no slot: {slot}"))
    }
}

fn genesis_account(address: Pubkey, value: JsonAccount) -> Result<GenesisAccount> {
    let account = accounts_file::decode_account(value)?;
    let account = GenesisAccount { address, account };
    localnet::check_account(&account)?;
    Ok(account)
}

/// The address of an upgradeable program's data.
fn data_address(program: &GenesisAccount) -> Result<Pubkey> {
    let is_upgradeable = *program.account.owner() == solana_sdk_ids::bpf_loader_upgradeable::ID;
    match bincode::deserialize(program.account.data()) {
        Ok(UpgradeableLoaderState::Program { programdata_address }) if is_upgradeable => {
            Ok(programdata_address)
        }
        _ => bail!(
            "--clone-upgradeable-program {}: no program of the upgradeable loader; use --clone",
            program.address
        ),
    }
}

/// Sets the slot at which a program was deployed to 0. The slot of the cluster is later than those of a new ledger, in
/// which the program would not be callable.
fn deploy_at_genesis(account: &mut AccountSharedData) {
    if *account.owner() != solana_sdk_ids::bpf_loader_upgradeable::ID {
        return;
    }
    let head_bytes = UpgradeableLoaderState::size_of_programdata_metadata();
    let Some(head) = account.data().get(..head_bytes) else { return };
    let Ok(UpgradeableLoaderState::ProgramData { upgrade_authority_address, .. }) =
        bincode::deserialize(head)
    else {
        return;
    };
    let state = UpgradeableLoaderState::ProgramData { slot: 0, upgrade_authority_address };
    // It has the length that it had: the slot has a fixed one.
    if let Ok(bytes) = bincode::serialize(&state) {
        account.data_as_mut_slice()[..bytes.len()].copy_from_slice(&bytes);
    }
}

fn addresses(flag: &str, texts: &[String]) -> Result<Vec<Pubkey>> {
    let parse = |text: &String| accounts_file::address_or_keypair(text).context(flag.to_owned());
    texts.iter().map(parse).collect()
}

/// The URL of a cluster, which may be named as the Solana CLI names it.
pub(crate) fn cluster_url(text: &str) -> String {
    match text {
        "m" | "mainnet-beta" | "mainnet" => "https://api.mainnet-beta.solana.com",
        "t" | "testnet" => "https://api.testnet.solana.com",
        "d" | "devnet" => "https://api.devnet.solana.com",
        "l" | "localhost" => "http://localhost:8899",
        url => url,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(flags: DevFlags) -> Result<Option<CloneRequest>> {
        CloneRequest::from_flags(&flags, &[])
    }

    fn refusal(flags: DevFlags) -> String {
        format!("{:#}", request(flags).expect_err("it is refused"))
    }

    #[test]
    fn flags_that_fetch_require_a_cluster_and_valid_addresses() {
        assert_eq!(request(DevFlags::default()).expect("nothing to fetch"), None);
        let url = Some("d".to_owned());
        let only_url = DevFlags { url: url.clone(), ..DevFlags::default() };
        assert_eq!(request(only_url).expect("nothing to fetch"), None);
        let clone = vec![Pubkey::new_from_array([7; 32]).to_string()];
        let without_url = DevFlags { clone: clone.clone(), ..DevFlags::default() };
        assert!(refusal(without_url).contains("require --url"));
        let warp = DevFlags { warp_slot: Some(None), ..DevFlags::default() };
        assert!(refusal(warp).contains("--warp-slot needs a slot, or --url"));
        let forked = DevFlags {
            warp_slot: Some(None),
            fork_url: Some("d".to_owned()),
            ..DevFlags::default()
        };
        assert_eq!(CloneRequest::from_flags(&forked, &[]).expect("valid flags"), None);
        let invalid = DevFlags { clone: vec!["x".into()], url: url.clone(), ..DevFlags::default() };
        assert!(
            refusal(invalid).contains("--clone: \"x\" is neither an address nor a keypair file")
        );
        let all = DevFlags { clone, url, clone_feature_set: true, ..DevFlags::default() };
        let all = request(all).expect("valid flags").expect("something to fetch");
        assert_eq!(all.url, "https://api.devnet.solana.com");
        assert!(all.has_features && !all.has_slot && all.accounts.len() == 1);
    }

    #[test]
    fn a_cloned_program_is_deployed_at_genesis() {
        let authority = Some(Pubkey::new_from_array([3; 32]));
        let data = |slot| {
            let state =
                UpgradeableLoaderState::ProgramData { slot, upgrade_authority_address: authority };
            let mut data = bincode::serialize(&state).expect("it serializes");
            data.extend_from_slice(b"\x7fELF");
            data
        };
        let owner = solana_sdk_ids::bpf_loader_upgradeable::ID;
        let mut account = AccountSharedData::new(1, 0, &owner);
        account.set_data_from_slice(&data(u64::MAX));
        deploy_at_genesis(&mut account);
        assert_eq!(account.data(), data(0));
        // Other accounts stay as they are.
        let mut other = AccountSharedData::new(1, 0, &Pubkey::default());
        other.set_data_from_slice(&data(5));
        deploy_at_genesis(&mut other);
        assert_eq!(other.data(), data(5));
    }
}
