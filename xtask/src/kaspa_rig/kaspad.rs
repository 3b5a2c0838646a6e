//! A kaspad on simnet, which the rig mines with.
//!
//! Blocks are templates of the node itself, and travel as JSON, so a block of one node can be submitted to another one.
//! Simnet needs no proof of work.
//! Not here: the order of blocks (`miner`).

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kaspa::{ChainChange, Encoding, Hash, KaspaAddress, Method};
use serde_json::{Value, json};

use crate::kaspa_rig::requests::Request;
use crate::kaspa_rig::resources::Resources;
use crate::kaspa_rig::wallet::COINBASE_MATURITY;
use crate::kaspa_rig::wrpc_client::{Reply, TimedReply, WrpcClient};
use crate::rig::child_process::ChildProcess;
use crate::rig::clock::{now, pause};
use crate::rig::ports::local;

/// Time limit until a kaspad listens.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The ports of a node, which are free when it starts for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KaspadPorts {
    pub(crate) p2p: u16,
    pub(crate) grpc: u16,
    pub(crate) borsh: u16,
    pub(crate) json: u16,
}

/// A kaspad with its database.
pub(crate) struct Kaspad {
    name: String,
    program: PathBuf,
    dir: PathBuf,
    ports: KaspadPorts,
    running: Option<Running>,
    /// The CPU time of processes that were killed.
    past_cpu_time: Duration,
}

/// The submission of an accepted block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission {
    /// The time at which the block was sent.
    pub(crate) sent: Instant,
    /// The time until the node replied.
    pub(crate) time: Duration,
}

/// The process, and the connection for mining.
struct Running {
    process: ChildProcess,
    client: WrpcClient,
}

impl Kaspad {
    /// Starts a node with an empty database in `dir`.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        dir: &Path,
        ports: KaspadPorts,
    ) -> Result<Self> {
        let name = name.to_owned();
        let mut node = Self {
            name,
            program: program.to_owned(),
            dir: dir.to_owned(),
            ports,
            running: None,
            past_cpu_time: Duration::ZERO,
        };
        fs::write(node.params_file(), override_params().to_string())?;
        node.restart()?;
        Ok(node)
    }

    /// Starts the node with its database, and returns when it listens.
    pub(crate) fn restart(&mut self) -> Result<()> {
        let mut process = ChildProcess::start(&self.dir, &self.name, self.command())?;
        let started = now();
        for address in [self.borsh(), self.json(), self.grpc()] {
            while TcpStream::connect(address).is_err() {
                process.check()?;
                let is_late = started.elapsed() > START_TIMEOUT;
                ensure!(!is_late, "{} does not listen after {START_TIMEOUT:?}", self.name);
                pause(POLL_INTERVAL);
            }
        }
        let client = WrpcClient::connect(self.json(), Encoding::Json)?;
        self.running = Some(Running { process, client });
        Ok(())
    }

    /// Kills the node, as `kill -9` does.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.past_cpu_time = self.resources()?.cpu_time;
        let running = self.running.take().with_context(|| format!("{} does not run", self.name))?;
        running.process.kill()
    }

    /// Returns an error if the node should run and does not.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.running.as_mut().map_or(Ok(()), |running| running.process.check())
    }

    /// Returns the resources of all processes so far.
    pub(crate) fn resources(&self) -> Result<Resources> {
        let name = &self.name;
        let running = self.running.as_ref().with_context(|| format!("{name} does not run"))?;
        Resources::read(running.process.id(), self.past_cpu_time)
    }

    /// Returns the address of wRPC in Borsh.
    pub(crate) fn borsh(&self) -> SocketAddr {
        local(self.ports.borsh)
    }

    /// Returns the address of wRPC in JSON.
    pub(crate) fn json(&self) -> SocketAddr {
        local(self.ports.json)
    }

    /// Returns the address of gRPC.
    pub(crate) fn grpc(&self) -> SocketAddr {
        local(self.ports.grpc)
    }

    /// Returns the tip of the selected chain.
    pub(crate) fn sink(&mut self) -> Result<Hash> {
        let params = self.call(&Request::Plain(Method::GetSink))?;
        parse_hash(&params["sink"])
    }

    /// Returns the change of the selected chain since a block.
    pub(crate) fn chain_change(&mut self, start: Hash) -> Result<ChainChange> {
        let params = self.call(&Request::ChainIds(start))?;
        parse_chain_change(&params)
    }

    /// Returns a new block on top of the virtual block's parents.
    pub(crate) fn build_block(&mut self, reward: &KaspaAddress) -> Result<Value> {
        let params = json!({ "payAddress": reward.to_string(), "extraData": [] });
        let mut reply = self.call(&Request::Json(Method::GetBlockTemplate, params))?;
        Ok(reply["block"].take())
    }

    /// Adds a block.
    pub(crate) fn submit_block(&mut self, block: &Value) -> Result<Submission> {
        let params = json!({ "allowNonDaaBlocks": false, "block": block });
        let request = Request::Json(Method::SubmitBlock, params);
        let TimedReply { reply, sent, time } = self.request(&request)?;
        let params = self.read_params(&request, reply)?;
        let report = &params["report"];
        ensure!(report["type"] == "success", "{} refuses a block: {report}", self.name);
        Ok(Submission { sent, time })
    }

    /// Adds a transaction to the mempool. Returns false if it is refused: another branch may have spent its inputs.
    pub(crate) fn submit_transaction(&mut self, transaction: Value) -> Result<bool> {
        let params = json!({ "allowOrphan": false, "transaction": transaction });
        let request = Request::Json(Method::SubmitTransaction, params);
        let TimedReply { reply, .. } = self.request(&request)?;
        Ok(reply.is_ok())
    }

    fn call(&mut self, request: &Request<'_>) -> Result<Value> {
        let TimedReply { reply, .. } = self.request(request)?;
        self.read_params(request, reply)
    }

    fn read_params(&self, request: &Request<'_>, reply: Reply) -> Result<Value> {
        match reply {
            Ok(content) => content.into_json(),
            Err(error) => bail!("{}: {}: {error}", self.name, request.name()),
        }
    }

    fn request(&mut self, request: &Request<'_>) -> Result<TimedReply> {
        let name = &self.name;
        let running = self.running.as_mut().with_context(|| format!("{name} does not run"))?;
        running.client.call(request).with_context(|| format!("call {name}"))
    }

    fn command(&self) -> Command {
        let ports = &self.ports;
        let mut command = Command::new(&self.program);
        command
            .args(["--simnet", "--utxoindex", "--unsaferpc", "--enable-unsynced-mining"])
            .args(["--disable-upnp", "--nodnsseed", "--outpeers=0", "--nologfiles", "--yes"])
            .arg(format!("--appdir={}", self.dir.join(&self.name).display()))
            .arg(format!("--override-params-file={}", self.params_file().display()))
            .arg(format!("--listen={}", local(ports.p2p)))
            .arg(format!("--rpclisten={}", local(ports.grpc)))
            .arg(format!("--rpclisten-borsh={}", local(ports.borsh)))
            .arg(format!("--rpclisten-json={}", local(ports.json)));
        command
    }

    fn params_file(&self) -> PathBuf {
        self.dir.join("simnet.json")
    }
}

/// Returns the parameters of simnet, with a shorter time until coinbases can be spent. kaspad needs all of a group.
fn override_params() -> Value {
    json!({ "blockrate": {
        "target_time_per_block": 100,
        "ghostdag_k": 124,
        "past_median_time_sample_rate": 100,
        "difficulty_sample_rate": 40,
        "max_block_parents": 16,
        "mergeset_size_limit": 248,
        "merge_depth": 36_000,
        "finality_depth": 432_000,
        "pruning_depth": 1_080_000,
        "coinbase_maturity": COINBASE_MATURITY,
    } })
}

/// Reads a hash in JSON.
fn parse_hash(value: &Value) -> Result<Hash> {
    let text = value.as_str().with_context(|| format!("{value} is not a hash"))?;
    Ok(Hash::from_hex(text)?)
}

/// Reads the reply to getVirtualChainFromBlock. It has the fields of a notification.
fn parse_chain_change(params: &Value) -> Result<ChainChange> {
    let text = json!({ "VirtualChainChanged": params }).to_string();
    match kaspa::Notification::decode_json(&text)? {
        kaspa::Notification::VirtualChainChanged(change) => Ok(change),
        other => bail!("not a change of the chain: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_chain_is_read() {
        let block = "ab".repeat(32);
        let id = "cd".repeat(32);
        let params = json!({
            "removedChainBlockHashes": [],
            "addedChainBlockHashes": [block],
            "acceptedTransactionIds":
                [{ "acceptingBlockHash": block, "acceptedTransactionIds": [id] }],
        });
        let change = parse_chain_change(&params).unwrap();
        assert_eq!(change.added, [Hash([0xab; 32])]);
        assert_eq!(change.accepted[0].accepting_block, change.added[0]);
        assert_eq!(change.accepted[0].transaction_ids, [Hash([0xcd; 32])]);
        assert!(parse_chain_change(&json!({})).is_err());
        assert!(parse_hash(&json!(5)).is_err());
    }
}
