//! The two nodes: the validator and ours, with the same genesis, and calls of both.
//!
//! Shape: a call is written once, with words for the values of each node: `$SIGNATURE3` is the signature of the
//! fourth transaction there, `"$SLOT3"` its slot, `$BLOCKHASH` a recent blockhash. Each node gets its own values.
//! Invariant: both processes end with [`ComparedNodes`].

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::compare::genesis::Genesis;
use crate::compare::keys::{MINTED, address};
use crate::compare::options::Options;
use crate::directories::remove_directory;
use crate::rig::clock::{now, pause};
use crate::rig::json_rpc::{call, post};
use crate::rig::ports::free_ports;

/// Time limit for the start of a node.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for the last transaction to be final: some 32 slots of a busy machine.
const FINAL_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The response of a node: `status` and `body`.
pub(crate) type Reply = Value;

/// A node, with its own values.
pub(crate) struct ComparedNode {
    name: &'static str,
    process: Child,
    pub(crate) rpc: SocketAddr,
    /// The signatures of the transactions, in the order in which they were sent.
    pub(crate) signatures: Vec<String>,
    /// Their slots; `None` if they did not land.
    pub(crate) slots: Vec<Option<u64>>,
}

pub(crate) struct ComparedNodes {
    pub(crate) validator: ComparedNode,
    pub(crate) hydrant: ComparedNode,
}

impl ComparedNodes {
    /// Starts both, and returns when both serve.
    pub(crate) fn start(options: &Options, genesis: &Genesis) -> Result<Self> {
        let [rpc, faucet, gossip, our_rpc, our_faucet, our_gossip] = free_ports()?;
        let validator = Command::new(&options.validator);
        let mut hydrant = Command::new(&options.hydrant);
        hydrant.arg("test-validator");
        let dir = &options.dir;
        let ports = [rpc, faucet, gossip];
        let validator = ComparedNode::start("validator", validator, dir, genesis, ports)?;
        let ports = [our_rpc, our_faucet, our_gossip];
        let hydrant = ComparedNode::start("hydrant", hydrant, dir, genesis, ports)?;
        let mut nodes = Self { validator, hydrant };
        let started = now();
        for node in [&mut nodes.validator, &mut nodes.hydrant] {
            node.wait_until_healthy(started.elapsed())?;
            println!("the {} serves at http://{}", node.name, node.rpc);
        }
        Ok(nodes)
    }

    /// Returns both nodes, the validator first.
    pub(crate) fn both(&mut self) -> [&mut ComparedNode; 2] {
        [&mut self.validator, &mut self.hydrant]
    }

    /// Fails if one of the nodes has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.both().into_iter().try_for_each(ComparedNode::check)
    }

    /// Sends a body to both, each with its own values. A reply is its status and its JSON.
    pub(crate) fn ask_both(&self, body: &str) -> Result<(Reply, Reply)> {
        Ok((self.validator.ask(body)?, self.hydrant.ask(body)?))
    }

    /// Waits until all that landed is final on both, and finds the slots.
    pub(crate) fn wait_until_final(&mut self) -> Result<()> {
        for node in self.both() {
            let started = now();
            let last = node.call("getSlot", &json!([{ "commitment": "processed" }]))?;
            let last = last["result"].as_u64().context("no slot")?;
            loop {
                let slot = node.call("getSlot", &json!([{ "commitment": "finalized" }]))?;
                if slot["result"].as_u64() >= Some(last) {
                    break;
                }
                node.check()?;
                ensure!(started.elapsed() < FINAL_TIMEOUT, "{}: not final", node.name);
                pause(POLL_INTERVAL);
            }
            node.find_slots()?;
        }
        Ok(())
    }
}

impl ComparedNode {
    fn start(
        name: &'static str,
        mut command: Command,
        dir: &Path,
        genesis: &Genesis,
        [rpc, faucet, gossip]: [u16; 3],
    ) -> Result<Self> {
        let ledger = dir.join(format!("{name}-ledger"));
        remove_directory(&ledger)?;
        command.arg("--reset").arg("--ledger").arg(&ledger);
        command.arg("--account-dir").arg(&genesis.accounts);
        for (address, elf) in &genesis.programs {
            command.arg("--bpf-program").arg(address).arg(elf);
        }
        let log = File::create(dir.join(format!("{name}.log")))?;
        let process = command
            .args(["--quiet", "--bind-address", "127.0.0.1", "--mint", &address(MINTED)])
            .args(["--rpc-port", &rpc.to_string(), "--faucet-port", &faucet.to_string()])
            .args(["--gossip-port", &gossip.to_string()])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start the {name}"))?;
        Ok(Self {
            name,
            process,
            rpc: SocketAddr::from(([127, 0, 0, 1], rpc)),
            signatures: Vec::new(),
            slots: Vec::new(),
        })
    }

    /// Returns the address of its WebSocket port.
    pub(crate) fn pubsub(&self) -> SocketAddr {
        SocketAddr::new(self.rpc.ip(), self.rpc.port() + 1)
    }

    fn check(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            Some(status) => bail!("the {} ended ({status}): see its log", self.name),
            None => Ok(()),
        }
    }

    fn wait_until_healthy(&mut self, waited: Duration) -> Result<()> {
        let started = now();
        let is_healthy = |rpc| {
            let health = call(rpc, "getHealth", &json!([]));
            let slot = call(rpc, "getSlot", &json!([{ "commitment": "finalized" }]));
            // A validator serves nothing about its genesis before it has a root.
            health.is_ok_and(|it| it["result"] == "ok")
                && slot.is_ok_and(|it| it["result"].as_u64() > Some(0))
        };
        while !is_healthy(self.rpc) {
            self.check()?;
            ensure!(waited + started.elapsed() < START_TIMEOUT, "the {} is not healthy", self.name);
            pause(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Calls a method. The response has `result` or `error`.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Result<Value> {
        call(self.rpc, method, params)
    }

    /// Returns a recent blockhash of this node.
    pub(crate) fn latest_blockhash(&self) -> Result<String> {
        let confirmed = json!([{ "commitment": "confirmed" }]);
        let response = self.call("getLatestBlockhash", &confirmed)?;
        let hash = response["result"]["value"]["blockhash"].as_str().context("no blockhash")?;
        Ok(hash.to_owned())
    }

    /// Sends a body with this node's values in it.
    pub(crate) fn ask(&self, body: &str) -> Result<Reply> {
        let mut body = self.fill_in(body);
        if body.contains("$BLOCKHASH") {
            body = body.replace("$BLOCKHASH", &self.latest_blockhash()?);
        }
        let (status, text) = post(self.rpc, &body)?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(json!({ "status": status, "body": body }))
    }

    /// Returns a text with this node's values in it.
    pub(crate) fn fill_in(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        // The higher numbers first: `$SLOT1` is the start of `$SLOT12`.
        for number in (0..self.signatures.len()).rev() {
            if !filled.contains('$') {
                break;
            }
            filled = filled.replace(&format!("$SIGNATURE{number}"), &self.signatures[number]);
            let slot = self.slots.get(number).copied().flatten().unwrap_or_default();
            filled = filled.replace(&format!("\"$SLOT{number}\""), &slot.to_string());
        }
        filled
    }

    fn find_slots(&mut self) -> Result<()> {
        let search = json!({ "searchTransactionHistory": true });
        self.slots.clear();
        for signatures in self.signatures.chunks(200) {
            let response = call(self.rpc, "getSignatureStatuses", &json!([signatures, search]))?;
            let statuses = response["result"]["value"].as_array().context("no statuses")?;
            self.slots.extend(statuses.iter().map(|status| status["slot"].as_u64()));
        }
        Ok(())
    }
}

impl Drop for ComparedNode {
    fn drop(&mut self) {
        // If it has ended already, there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
