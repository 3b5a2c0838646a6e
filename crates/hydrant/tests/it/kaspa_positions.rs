//! `addressesSubscribe` of `hydrant follow-kaspa`: a client that resumes after kills of the node and cuts of its link
//! has the UTXOs of the source at its position, each once.

use std::collections::BTreeMap;

use anyhow::{Context, Error, Result, ensure};
use kaspa::Hash;
use serde_json::{Value, json};
use testkit::kaspa_node::{KaspaNode, MINER, WrpcClient, simnet_address};
use testkit::kaspa_utxo_copy::{UtxoCopy, outpoint_key};

use crate::kaspa_node::KaspaProcess;

/// A client with a copy of the miner's UTXOs that is made of notifications only.
struct CopyingClient {
    client: WrpcClient,
    subscription: Value,
    copy: UtxoCopy,
}

impl CopyingClient {
    /// Subscribes: with a snapshot at first, then from the position of the copy.
    async fn subscribe(node: &KaspaProcess, copy: UtxoCopy) -> Result<Self> {
        let client = WrpcClient::connect(node.json).await;
        let params = copy.subscribe_params(json!([simnet_address(MINER).to_string()]));
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
            self.copy.apply(&message["params"]).map_err(Error::msg)?;
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
        let expected: BTreeMap<String, Value> = source
            .utxos_at(&Hash::from_hex(block)?)
            .into_iter()
            .map(|(outpoint, entry)| {
                let id = outpoint.transaction_id.to_string();
                let outpoint = json!({ "transactionId": id, "index": outpoint.index });
                (outpoint_key(&json!({ "outpoint": outpoint })), entry.amount.into())
            })
            .collect();
        let amount = |utxo: &Value| utxo["utxoEntry"]["amount"].clone();
        let copied: BTreeMap<String, Value> =
            self.copy.utxos.iter().map(|(key, utxo)| (key.clone(), amount(utxo))).collect();
        ensure!(copied == expected, "the copy differs at block {block}");
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
