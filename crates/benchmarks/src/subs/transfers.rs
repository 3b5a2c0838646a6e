//! Transfers to chosen addresses, and the recipient of each by its signature.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http_client::{Connection, Endpoint};
use parking_lot::Mutex;
use serde_json::{Value, json};
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::Message;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction as system;
use solana_transaction::Transaction;
use testkit::scenario::{Task, task};
use testkit::transfers::send_params;

use super::addresses::address_of;

/// Enough for an account to stay.
const LAMPORTS: u64 = 1_000_000;
/// How often a new blockhash is requested; one is valid for a minute.
const BLOCKHASH_INTERVAL: Duration = Duration::from_secs(2);

/// Transfers that are signed when they are sent.
#[derive(Clone)]
pub(crate) struct Transfers {
    payers: Arc<Vec<Keypair>>,
    blockhash: Arc<Mutex<Hash>>,
    /// The recipient of each transaction, by its signature.
    recipients: Arc<Mutex<HashMap<String, u32>>>,
}

impl Transfers {
    pub(crate) fn new(payers: Vec<Keypair>, blockhash: Hash) -> Self {
        Self {
            payers: Arc::new(payers),
            blockhash: Arc::new(Mutex::new(blockhash)),
            recipients: Arc::default(),
        }
    }

    /// A request for each number: a transfer to its address.
    pub(crate) fn requests(
        &self,
        numbers: impl Iterator<Item = u32> + Send + 'static,
    ) -> impl Iterator<Item = String> + Send + 'static {
        let all = self.clone();
        numbers.enumerate().filter_map(move |(at, number)| {
            let payer = &all.payers[at % all.payers.len()];
            let to = Pubkey::new_from_array(address_of(number));
            // Amounts differ, so that two transfers to one address are two.
            let lamports = LAMPORTS + at as u64;
            let transfer = system::transfer(&payer.pubkey(), &to, lamports);
            let blockhash = *all.blockhash.lock();
            let message =
                Message::new_with_blockhash(&[transfer], Some(&payer.pubkey()), &blockhash);
            let transaction = Transaction::new(&[payer], message, blockhash);
            all.recipients.lock().insert(transaction.signatures[0].to_string(), number);
            let params = send_params(&transaction, true).ok()?;
            let call =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "sendTransaction", "params": params });
            Some(call.to_string())
        })
    }

    pub(crate) fn refresh(&self, rpc: SocketAddr) -> Task {
        let all = self.clone();
        task(async move |mut stop| {
            let endpoint = Endpoint::from(rpc);
            let mut connection = Connection::open(rpc).await?;
            loop {
                let request =
                    endpoint.call("getLatestBlockhash", &json!([{ "commitment": "confirmed" }]));
                let response = connection.exchange(&request).await?;
                let response: Value = serde_json::from_slice(response.body)?;
                let hash = response["result"]["value"]["blockhash"].as_str().context("no hash")?;
                *all.blockhash.lock() = hash.parse()?;
                tokio::select! {
                    () = stop.stopped() => return Ok(()),
                    () = tokio::time::sleep(BLOCKHASH_INTERVAL) => {}
                }
            }
        })
    }

    /// Removes and returns the recipient of the transaction with this signature.
    pub(crate) fn take_recipient(&self, signature: &str) -> Option<u32> {
        self.recipients.lock().remove(signature)
    }
}
