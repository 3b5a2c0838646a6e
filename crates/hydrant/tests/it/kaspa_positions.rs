//! `addressesSubscribe` of `hydrant follow-kaspa`: a client that resumes after kills of the node and cuts of its link
//! has the UTXOs of the source at its position, each once.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kaspa::Hash;
use serde_json::{Value, json};
use testkit::kaspa_node::{KaspaNode, MINER, WrpcClient, simnet_address};

use crate::kaspa_node::KaspaProcess;

/// A client with a copy of the miner's UTXOs that is made of notifications only.
struct CopyingClient {
    client: WrpcClient,
    subscription: Value,
    copy: UtxoCopy,
}

/// The part of a client that outlives its connection.
#[derive(Default)]
struct UtxoCopy {
    /// Amounts in sompi by outpoint: transaction id and index.
    utxos: BTreeMap<(String, u64), u64>,
    position: Value,
    snapshots: usize,
}

fn read_utxo(utxo: &Value) -> Result<((String, u64), u64)> {
    let id = utxo["outpoint"]["transactionId"].as_str().context("an id")?.to_owned();
    let index = utxo["outpoint"]["index"].as_u64().context("an index")?;
    let amount = utxo["utxoEntry"]["amount"].as_u64().context("an amount")?;
    Ok(((id, index), amount))
}

impl UtxoCopy {
    fn apply(&mut self, params: &Value) -> Result<()> {
        for utxo in params["removed"].as_array().context("a list")? {
            let (outpoint, amount) = read_utxo(utxo)?;
            ensure!(self.utxos.remove(&outpoint) == Some(amount), "not there: {utxo}");
        }
        for utxo in params["added"].as_array().context("a list")? {
            let (outpoint, amount) = read_utxo(utxo)?;
            ensure!(self.utxos.insert(outpoint, amount).is_none(), "twice: {utxo}");
        }
        if params["more"] == json!(false) {
            self.position = params["position"].clone();
            self.snapshots += usize::from(params["kind"] == json!("snapshot"));
        }
        Ok(())
    }
}

impl CopyingClient {
    /// Subscribes: with a snapshot at first, then from the position of the copy.
    async fn subscribe(node: &KaspaProcess, copy: UtxoCopy) -> Result<Self> {
        let client = WrpcClient::connect(node.json).await;
        let addresses = [simnet_address(MINER).to_string()];
        let params = if copy.position.is_null() {
            json!({ "addresses": addresses, "snapshot": true })
        } else {
            json!({ "addresses": addresses, "resume": copy.position })
        };
        let mut client = Self { client, subscription: Value::Null, copy };
        let reply = client.call("addressesSubscribe", params).await?;
        client.subscription = reply["subscription"].clone();
        Ok(client)
    }

    /// Calls a method. Notifications before its reply are applied.
    async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        let request = json!({ "id": 1, "method": method, "params": params });
        self.client.send_text(&request.to_string()).await;
        loop {
            let message: Value = serde_json::from_str(&self.client.read_text().await)?;
            if message.get("id").is_some() {
                ensure!(message.get("error").is_none(), "{method}: {message}");
                return Ok(message["params"].clone());
            }
            self.copy.apply(&message["params"])?;
        }
    }

    /// Applies all notifications of published blocks.
    async fn sync(&mut self) -> Result<()> {
        let params = json!({ "subscription": self.subscription });
        self.copy.position = self.call("addressesPosition", params).await?["position"].clone();
        Ok(())
    }

    /// Compares the copy with the UTXO set of the source at its position. All UTXOs are the miner's.
    fn check(&self, source: &KaspaNode) -> Result<()> {
        let block = self.copy.position["chainBlock"].as_str().context("a position")?;
        let expected: BTreeMap<(String, u64), u64> = source
            .utxos_at(&Hash::from_hex(block)?)
            .into_iter()
            .map(|(outpoint, entry)| {
                ((outpoint.transaction_id.to_string(), u64::from(outpoint.index)), entry.amount)
            })
            .collect();
        ensure!(self.copy.utxos == expected, "the copy differs at block {block}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_resumes_after_kills_and_reorganizations() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(20);
    let mut copy = UtxoCopy::default();
    // The depth of the reorganization after each kill.
    for depth in [0, 1, 3, 7, 12, 2] {
        let node = KaspaProcess::start(&source, &[])?;
        node.wait_for_sink(&source)?;
        let mut client = CopyingClient::subscribe(&node, copy).await?;
        client.sync().await?;
        client.check(&source)?;
        source.mine(2);
        node.wait_for_sink(&source)?;
        if depth % 2 == 1 {
            client.sync().await?;
            client.check(&source)?;
        }
        // Otherwise the notifications of these blocks are lost with the connection.
        copy = client.copy;
        drop(node);
        if depth > 0 {
            // The client's block stays on the chain: the next process does not know those that leave it meanwhile.
            source.mine(depth);
            source.reorganize(depth);
        }
        source.mine(1);
    }
    ensure!(copy.snapshots == 1, "{} snapshots", copy.snapshots);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_resumes_although_the_chain_grew_by_hundreds_of_blocks() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(20);
    let node = KaspaProcess::start(&source, &[])?;
    node.wait_for_sink(&source)?;
    let mut client = CopyingClient::subscribe(&node, UtxoCopy::default()).await?;
    client.sync().await?;
    drop(node);
    // Some seconds of a network with 60 blocks a second.
    source.mine(500);
    let node = KaspaProcess::start(&source, &[])?;
    node.wait_for_sink(&source)?;
    let mut client = CopyingClient::subscribe(&node, client.copy).await?;
    client.sync().await?;
    client.check(&source)?;
    ensure!(client.copy.snapshots == 1, "{} snapshots", client.copy.snapshots);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_left_the_chain_before_the_start_is_refused() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(20);
    let node = KaspaProcess::start(&source, &[])?;
    node.wait_for_sink(&source)?;
    let mut client = CopyingClient::subscribe(&node, UtxoCopy::default()).await?;
    client.sync().await?;
    drop(node);
    source.reorganize(2);
    source.mine(1);
    let node = KaspaProcess::start(&source, &[])?;
    node.wait_for_sink(&source)?;
    let refusal = CopyingClient::subscribe(&node, client.copy).await.err().context("it resumes")?;
    ensure!(refusal.to_string().contains("is not of the chain of this node"), "{refusal}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_gets_each_change_once_while_the_link_to_the_source_is_cut() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(20);
    let node = KaspaProcess::start(&source, &[])?;
    node.wait_for_sink(&source)?;
    let mut client = CopyingClient::subscribe(&node, UtxoCopy::default()).await?;
    for depth in [2, 5, 1] {
        source.set_accepting(false);
        source.cut_after(0);
        // The next message cuts each connection.
        source.mine(1);
        source.reorganize(depth);
        source.set_accepting(true);
        source.mine(1);
        node.wait_for_sink(&source)?;
        client.sync().await?;
        client.check(&source)?;
    }
    ensure!(client.copy.snapshots == 1, "{} snapshots", client.copy.snapshots);
    Ok(())
}
