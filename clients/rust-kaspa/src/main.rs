//! kaspa-grpc-client or kaspa-wrpc-client against a port: what its calls return, and what its notifications add up to.
//!
//! `kaspa-client-reporter grpc|borsh|json HOST:PORT ADDRESS...` subscribes to the changed UTXOs of these addresses and to
//! the virtual DAA score. Then it answers each line of standard input with a line of JSON, and ends with the input.
//! Methods and notifications have their names in wRPC. UTXOs are objects by outpoint.
//! Not here: the comparison of two ports (`xtask/src/kaspa_rig/rust_clients.rs`).

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use async_channel::Receiver;
use kaspa_addresses::Address;
use kaspa_grpc_client::GrpcClient;
use kaspa_notify::connection::ChannelType;
use kaspa_notify::listener::ListenerId;
use kaspa_notify::scope::{UtxosChangedScope, VirtualDaaScoreChangedScope};
use kaspa_rpc_core::api::rpc::RpcApi;
use kaspa_rpc_core::notify::connection::ChannelConnection;
use kaspa_rpc_core::notify::mode::NotificationMode;
use kaspa_rpc_core::{Notification, RpcUtxosByAddressesEntry};
use kaspa_wrpc_client::{KaspaRpcClient, WrpcEncoding};
use serde_json::{Value, json};

const USAGE: &str = "usage: kaspa-client-reporter grpc|borsh|json HOST:PORT ADDRESS...";
/// Time limit of a call over gRPC.
const CALL_TIMEOUT_MS: u64 = 60_000;
/// Time after which the node has the subscriptions: kaspa-wrpc-client sends them after it has returned.
const SUBSCRIBE_TIME: Duration = Duration::from_secs(1);

/// UTXOs in JSON by outpoint.
type Utxos = BTreeMap<String, Value>;

/// A client, and the listener of its notifications.
struct Connected {
    client: Arc<dyn RpcApi>,
    listener: ListenerId,
    notifications: Receiver<Notification>,
}

/// The sum of the notifications. It does not depend on their order: three tasks of kaspa-wrpc-client's notifier compete
/// for the notifications of a connection, and may swap them. The rig's own subscribers check the order.
struct NotifiedState {
    /// How often each UTXO was there at the subscription and added since, less the times it was removed: by outpoint and
    /// value in JSON. Zeros are removed.
    counts: BTreeMap<(String, String), i64>,
    /// The highest score; `None` before the first notification.
    daa_score: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let protocol = args.next().ok_or(USAGE)?;
    let server = args.next().ok_or(USAGE)?;
    let addresses: Vec<Address> =
        args.map(|text| Address::try_from(text.as_str())).collect::<Result<_, _>>()?;
    let Connected { client, listener, notifications } = match protocol.as_str() {
        "grpc" => connect_grpc(&server).await?,
        "borsh" => connect_wrpc(WrpcEncoding::Borsh, &server).await?,
        "json" => connect_wrpc(WrpcEncoding::SerdeJson, &server).await?,
        _ => return Err(USAGE.into()),
    };
    client.start_notify(listener, UtxosChangedScope::new(addresses.clone()).into()).await?;
    client.start_notify(listener, VirtualDaaScoreChangedScope {}.into()).await?;
    tokio::time::sleep(SUBSCRIBE_TIME).await;
    // Nothing changes between the subscription and the list: the rig starts the program at a quiet time.
    let utxos = client.get_utxos_by_addresses(addresses.clone()).await?;
    let mut state = NotifiedState { counts: BTreeMap::new(), daa_score: None };
    state.count(&utxos, 1)?;
    for line in io::stdin().lines() {
        line?;
        while let Ok(notification) = notifications.try_recv() {
            state.apply(&notification)?;
        }
        let report = report(&*client, &addresses, &state).await?;
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{report}")?;
        stdout.flush()?;
    }
    Ok(())
}

async fn connect_grpc(server: &str) -> Result<Connected, Box<dyn Error>> {
    let client = GrpcClient::connect_with_args(
        NotificationMode::Direct,
        format!("grpc://{server}"),
        None,
        false,
        None,
        false,
        Some(CALL_TIMEOUT_MS),
        Default::default(),
    )
    .await?;
    let notifications = client.notification_channel_receiver();
    let listener = GrpcClient::DIRECT_MODE_LISTENER_ID;
    Ok(Connected { client: Arc::new(client), listener, notifications })
}

async fn connect_wrpc(encoding: WrpcEncoding, server: &str) -> Result<Connected, Box<dyn Error>> {
    let url = format!("ws://{server}");
    let client = KaspaRpcClient::new(encoding, Some(&url), None, None, None)?;
    client.connect(None).await?;
    let (sender, notifications) = async_channel::unbounded();
    let connection = ChannelConnection::new("reporter", sender, ChannelType::Persistent);
    let listener = client.register_new_listener(connection);
    Ok(Connected { client: Arc::new(client), listener, notifications })
}

async fn report(
    client: &dyn RpcApi,
    addresses: &[Address],
    state: &NotifiedState,
) -> Result<Value, Box<dyn Error>> {
    let mut balances = BTreeMap::new();
    for address in addresses {
        let balance = client.get_balance_by_address(address.clone()).await?;
        balances.insert(address.to_string(), balance);
    }
    let utxos = client.get_utxos_by_addresses(addresses.to_vec()).await?;
    Ok(json!({
        "getInfo": client.get_info().await?,
        "getBlockDagInfo": client.get_block_dag_info().await?,
        "getUtxosByAddresses": by_outpoint(&utxos)?,
        "getBalanceByAddress": balances,
        "utxosChanged": state.utxos()?,
        "virtualDaaScoreChanged": state.daa_score,
        "contradictions": state.contradictions(),
    }))
}

impl NotifiedState {
    fn apply(&mut self, notification: &Notification) -> serde_json::Result<()> {
        match notification {
            Notification::UtxosChanged(changed) => {
                self.count(&changed.removed, -1)?;
                self.count(&changed.added, 1)?;
            }
            Notification::VirtualDaaScoreChanged(changed) => {
                self.daa_score = self.daa_score.max(Some(changed.virtual_daa_score));
            }
            _ => {}
        }
        Ok(())
    }

    fn count(
        &mut self,
        entries: &[RpcUtxosByAddressesEntry],
        times: i64,
    ) -> serde_json::Result<()> {
        for (outpoint, utxo) in by_outpoint(entries)? {
            let key = (outpoint, utxo.to_string());
            let count = self.counts.entry(key.clone()).or_default();
            *count += times;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
        Ok(())
    }

    /// Returns the UTXOs that are there.
    fn utxos(&self) -> serde_json::Result<Utxos> {
        let present = self.counts.iter().filter(|(_, count)| **count > 0);
        present
            .map(|((outpoint, utxo), _)| Ok((outpoint.clone(), serde_json::from_str(utxo)?)))
            .collect()
    }

    /// Returns the number of UTXOs that were added or removed too often.
    fn contradictions(&self) -> usize {
        self.counts.values().filter(|count| **count != 1).count()
    }
}

fn by_outpoint(entries: &[RpcUtxosByAddressesEntry]) -> serde_json::Result<Utxos> {
    entries
        .iter()
        .map(|entry| {
            Ok((serde_json::to_value(entry.outpoint)?.to_string(), serde_json::to_value(entry)?))
        })
        .collect()
}
