//! Calls without parameters that several modules make: the check of a server, the state of its DAG.
//!
//! Not here: calls with parameters (`session`, `chain_pages`).

use bytes::Bytes;
use kaspa::{BlockDagInfo, Hash, Method, Network, RPC_API_VERSION, ServerInfo};

use crate::connection::Connection;
use crate::long_message::decode_reply;
use crate::source_error::SourceError;

/// The lowest version of kaspad that can be followed. Older ones leave covenants out of getVirtualChainFromBlockV2.
const VERSION_MIN: [u64; 3] = [2, 1, 0];
const VERSION_MIN_TEXT: &str = "2.1.0";

impl Connection {
    /// Calls a method without parameters. Fails if the source refuses it.
    pub(crate) async fn call_plain(&mut self, method: Method) -> Result<Bytes, SourceError> {
        self.call_or_fail(method, |id| method.encode_borsh_request(id)).await
    }

    /// Checks that the server is of this network and has a version that can be followed. Returns its reply.
    pub(crate) async fn check_server(
        &mut self,
        network: Network,
    ) -> Result<ServerInfo, SourceError> {
        let structure = self.call_plain(Method::GetServerInfo).await?;
        let decode =
            |structure: &[u8]| ServerInfo::decode_borsh(structure).map_err(SourceError::from);
        let info = decode_reply(structure, decode).await?;
        check_info(&info, network)?;
        Ok(info)
    }

    pub(crate) async fn request_dag_info(&mut self) -> Result<BlockDagInfo, SourceError> {
        let structure = self.call_plain(Method::GetBlockDagInfo).await?;
        let decode =
            |structure: &[u8]| BlockDagInfo::decode_borsh(structure).map_err(SourceError::from);
        decode_reply(structure, decode).await
    }

    pub(crate) async fn request_pruning_point(&mut self) -> Result<Hash, SourceError> {
        Ok(self.request_dag_info().await?.pruning_point)
    }
}

fn check_info(info: &ServerInfo, network: Network) -> Result<(), SourceError> {
    if info.network != network {
        return Err(SourceError::WrongNetwork { source_network: info.network, network });
    }
    if info.rpc_api_version != RPC_API_VERSION {
        let expected = RPC_API_VERSION;
        return Err(SourceError::WrongRpcVersion { version: info.rpc_api_version, expected });
    }
    if !is_new_enough(&info.server_version) {
        let version: String = info.server_version.chars().take(32).collect();
        return Err(SourceError::TooOld { version, min: VERSION_MIN_TEXT });
    }
    Ok(())
}

/// Whether a version, as in `2.1.0` or `2.1.0-rc.1`, is at least [`VERSION_MIN`].
fn is_new_enough(version: &str) -> bool {
    let numbers = version.split(['-', '+']).next().unwrap_or_default().split('.');
    let numbers: Option<Vec<u64>> = numbers.map(|number| number.parse().ok()).collect();
    numbers.is_some_and(|numbers| numbers.as_slice() >= VERSION_MIN.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ServerInfo {
        ServerInfo {
            rpc_api_version: RPC_API_VERSION,
            rpc_api_revision: 0,
            server_version: "2.1.0".to_owned(),
            network: Network::Simnet,
            has_utxo_index: true,
            is_synced: true,
            virtual_daa_score: 1,
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        for version in ["2.1.0", "2.1.0-rc.1", "2.10.0", "3.0.0", "2.1.0+abc", "10.0.0"] {
            assert!(is_new_enough(version), "{version}");
        }
        for version in ["2.0.9", "1.9.9", "", "2", "2.1", "x.y.z", "2.1.x", "-2.1.0"] {
            assert!(!is_new_enough(version), "{version}");
        }
    }

    #[test]
    fn another_network_or_version_is_refused() {
        let check = |info: &ServerInfo| check_info(info, Network::Simnet);
        assert!(check(&info()).is_ok());
        let other = ServerInfo { network: Network::Mainnet, ..info() };
        assert!(matches!(check(&other), Err(SourceError::WrongNetwork { .. })));
        let testnet = ServerInfo { network: Network::Testnet(10), ..info() };
        let refused = check_info(&testnet, Network::Testnet(12));
        assert!(matches!(refused, Err(SourceError::WrongNetwork { .. })));
        let old = ServerInfo { server_version: "1.0.1".to_owned(), ..info() };
        assert!(matches!(check(&old), Err(SourceError::TooOld { .. })));
        let newer = ServerInfo { rpc_api_version: RPC_API_VERSION + 1, ..info() };
        assert!(matches!(check(&newer), Err(SourceError::WrongRpcVersion { .. })));
    }
}
