//! The processes of a run, and the rig's connections to them.
//!
//! Hydrant reaches the kaspad through two connections that can be cut: one for each encoding.
//! Invariant: all processes end with [`Nodes`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::directories::remove_directory;
use crate::kaspa_rig::faults::Fault;
use crate::kaspa_rig::hydrant::{Hydrant, Upstream};
use crate::kaspa_rig::miner::Miner;
use crate::kaspa_rig::node_clients::NodeClients;
use crate::kaspa_rig::options::Options;
use crate::kaspa_rig::programs::Programs;
use crate::kaspa_rig::stream_state::NodeState;
use crate::kaspa_rig::subscriber::Server;
use crate::rig::clock::{now, pause};
use crate::rig::cuts::Wire;

/// Blocks before Hydrant starts, so that coinbases can be spent.
const FIRST_BLOCKS: usize = 60;
/// Time limit until Hydrant has the state of a quiet kaspad. After a restart it may follow the chain from the start.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(180);
/// Time after which a block is mined for a Hydrant that is not complete. With several tips a quiet virtual block does
/// not become complete before the next block.
const NEXT_BLOCK_INTERVAL: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Blocks that are mined after a fault.
const BLOCKS_AFTER_FAULT: usize = 5;

/// The nodes of a run.
pub(crate) struct Nodes {
    dir: PathBuf,
    pub(crate) miner: Miner,
    pub(crate) hydrant: Hydrant,
    wires: [Wire; 2],
    pub(crate) kaspad_clients: NodeClients,
    hydrant_clients: Option<NodeClients>,
    /// Blocks that were mined because Hydrant's virtual set did not become complete without them.
    pub(crate) completing_blocks: u64,
}

/// The clients of both nodes, for a comparison.
pub(crate) struct ComparedClients<'a> {
    pub(crate) kaspad: &'a mut NodeClients,
    pub(crate) hydrant: &'a mut NodeClients,
}

impl Nodes {
    /// Starts all, in an empty directory. Hydrant may not have caught up yet.
    pub(crate) fn start(options: &Options, programs: &Programs) -> Result<Self> {
        let dir = options.dir.join("run");
        remove_directory(&dir)?;
        std::fs::create_dir_all(&dir)?;
        let mut miner = Miner::start(&programs.kaspad, &dir, options.seed)?;
        miner.mine(FIRST_BLOCKS)?;
        let borsh = Wire::start(miner.main.borsh())?;
        let json = Wire::start(miner.main.json())?;
        let upstream = Upstream { borsh: borsh.address(), json: json.address() };
        let hydrant = Hydrant::start(&programs.hydrant, &dir, upstream)?;
        let kaspad_clients = NodeClients::connect(miner.main.borsh(), miner.main.json())?;
        let wires = [borsh, json];
        Ok(Self {
            dir,
            miner,
            hydrant,
            wires,
            kaspad_clients,
            hydrant_clients: None,
            completing_blocks: 0,
        })
    }

    /// Returns the directory of the run.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Waits until Hydrant has the complete state of the kaspad, and mines a block if it needs one. Returns the state.
    pub(crate) fn settle(&mut self) -> Result<NodeState> {
        let started = now();
        while !self.wait_until_level(NEXT_BLOCK_INTERVAL)? {
            ensure!(
                started.elapsed() < LEVEL_TIMEOUT,
                "after {LEVEL_TIMEOUT:?} Hydrant does not have the state of kaspad: {}",
                self.describe_positions()
            );
            self.miner.mine(1)?;
            self.completing_blocks += 1;
        }
        self.state()
    }

    /// Waits until Hydrant has the complete state of the kaspad. Returns false at the time limit.
    pub(crate) fn wait_until_level(&mut self, limit: Duration) -> Result<bool> {
        let started = now();
        while !self.is_level()? {
            self.miner.check()?;
            self.hydrant.check()?;
            if started.elapsed() > limit {
                return Ok(false);
            }
            pause(POLL_INTERVAL);
        }
        Ok(true)
    }

    /// Returns the state of the quiet kaspad, with all UTXOs.
    pub(crate) fn state(&mut self) -> Result<NodeState> {
        self.kaspad_clients.state(self.miner.addresses())
    }

    /// Returns the clients of both nodes.
    pub(crate) fn compared_clients(&mut self) -> Result<ComparedClients<'_>> {
        let hydrant = self.hydrant_clients.as_mut().context("Hydrant is not connected")?;
        Ok(ComparedClients { kaspad: &mut self.kaspad_clients, hydrant })
    }

    /// Makes a fault, with a reorganization of this depth meanwhile if that is possible. Returns the server whose
    /// clients have lost their connections.
    pub(crate) fn make_fault(&mut self, fault: Fault, depth: usize) -> Result<Option<Server>> {
        match fault {
            Fault::KillHydrant => {
                self.hydrant.kill()?;
                self.hydrant_clients = None;
                self.miner.reorganize(depth)?;
                self.miner.mine(BLOCKS_AFTER_FAULT)?;
                self.hydrant.restart()?;
                Ok(Some(Server::Hydrant))
            }
            Fault::KillKaspad => {
                self.miner.kill_main()?;
                let withheld = self.miner.mine_branch(depth)?;
                self.miner.restart_main()?;
                let main = &self.miner.main;
                self.kaspad_clients = NodeClients::connect(main.borsh(), main.json())?;
                self.miner.publish_branch(withheld)?;
                self.miner.mine(BLOCKS_AFTER_FAULT)?;
                Ok(Some(Server::Kaspad))
            }
            Fault::CutLink => {
                for wire in &self.wires {
                    wire.cut();
                }
                self.miner.mine(BLOCKS_AFTER_FAULT)?;
                Ok(None)
            }
        }
    }

    /// Whether both nodes reply from the same block, and Hydrant's virtual UTXO set is complete.
    fn is_level(&mut self) -> Result<bool> {
        let expected = self.kaspad_clients.position()?;
        let position = self.connect_to_hydrant().and_then(|clients| clients.position());
        if position.is_err() {
            // A Hydrant that starts, or that has no upstream, may refuse connections and calls.
            self.hydrant_clients = None;
        }
        let is_equal = position.is_ok_and(|position| position == expected);
        Ok(is_equal && self.hydrant.metrics().is_ok_and(|metrics| metrics.is_virtual_exact()))
    }

    fn connect_to_hydrant(&mut self) -> Result<&mut NodeClients> {
        let clients = match self.hydrant_clients.take() {
            Some(clients) => clients,
            None => {
                let endpoints = self.hydrant.endpoints()?;
                NodeClients::connect(endpoints.wrpc_borsh, endpoints.wrpc_json)?
            }
        };
        Ok(self.hydrant_clients.insert(clients))
    }

    fn describe_positions(&mut self) -> String {
        let kaspad = self.kaspad_clients.position();
        let hydrant = self.connect_to_hydrant().and_then(|clients| clients.position());
        let is_exact = self.hydrant.metrics().map(|metrics| metrics.is_virtual_exact());
        format!("kaspad {kaspad:?}, Hydrant {hydrant:?}, its virtual set is complete: {is_exact:?}")
    }
}
