//! The connections of the rig to a node, one for each encoding, and the state that the node replies.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use kaspa::{Encoding, KaspaAddress, Method, ServerInfo, decode_borsh_sink, decode_borsh_utxos};

use crate::kaspa_rig::requests::Request;
use crate::kaspa_rig::stream_state::NodeState;
use crate::kaspa_rig::wrpc_client::{TimedReply, WrpcClient};

/// Connections to a node.
pub(crate) struct NodeClients {
    borsh: WrpcClient,
    json: WrpcClient,
}

/// The block that a node replies from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodePosition {
    pub(crate) sink: kaspa::Hash,
    pub(crate) virtual_daa_score: u64,
}

impl NodeClients {
    /// Connects to both ports of a node.
    pub(crate) fn connect(borsh: SocketAddr, json: SocketAddr) -> Result<Self> {
        Ok(Self {
            borsh: WrpcClient::connect(borsh, Encoding::Borsh)?,
            json: WrpcClient::connect(json, Encoding::Json)?,
        })
    }

    /// Sends a request in an encoding.
    pub(crate) fn call(&mut self, encoding: Encoding, request: &Request<'_>) -> Result<TimedReply> {
        match encoding {
            Encoding::Borsh => self.borsh.call(request),
            Encoding::Json => self.json.call(request),
        }
    }

    /// Returns the block that the node replies from.
    pub(crate) fn position(&mut self) -> Result<NodePosition> {
        let sink = decode_borsh_sink(&self.read(&Request::Plain(Method::GetSink))?)?;
        let info = ServerInfo::decode_borsh(&self.read(&Request::Plain(Method::GetServerInfo))?)?;
        Ok(NodePosition { sink, virtual_daa_score: info.virtual_daa_score })
    }

    /// Returns the state of a quiet node, with the UTXOs of these addresses.
    pub(crate) fn state(&mut self, addresses: &[KaspaAddress]) -> Result<NodeState> {
        let NodePosition { sink, virtual_daa_score } = self.position()?;
        let structure = self.read(&Request::Plain(Method::GetSinkBlueScore))?;
        // After the version.
        let score = structure.get(2..10).and_then(|score| score.try_into().ok());
        let sink_blue_score = u64::from_le_bytes(score.context("a short reply")?);
        let request = Request::Addresses(Method::GetUtxosByAddresses, addresses);
        let utxos = decode_borsh_utxos(&self.read(&request)?)?;
        Ok(NodeState { sink, sink_blue_score, virtual_daa_score, utxos })
    }

    fn read(&mut self, request: &Request<'_>) -> Result<Vec<u8>> {
        self.borsh.call_successfully(request)?.into_borsh()
    }
}
