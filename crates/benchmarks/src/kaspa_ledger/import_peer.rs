//! The other end of an import: a source that names its pruning point, and a peer that sends the UTXO set there.
//!
//! Output: lines with the addresses of both. It runs until its input ends.
//! Shape: the UTXOs are dust, each of a script and a transaction of its own, and the set has the commitment of the
//! pruning point. Nothing that this process does is in the time of an import.
//! Bounds: some 400 bytes of memory for each UTXO.

use anyhow::Result;
use testkit::kaspa_chain::{BlockBuilder, dust_utxo};
use testkit::kaspa_node::KaspaNode;
use tokio::runtime::Builder;

use crate::loaded_chain::hash_pool;
use crate::size::Size;

/// The argument that selects this mode.
pub(crate) const MODE: &str = "import-peer";
/// The prefixes of the lines with addresses: that of wRPC, and that of the port for other nodes.
pub(crate) const SOURCE_LINE: &str = "source ";
pub(crate) const PEER_LINE: &str = "peer ";

pub(crate) fn run(size: &Size) -> Result<()> {
    let utxos = size.imported_utxos;
    let header = BlockBuilder::new(hash_pool(utxos)).sink().clone();
    let set: Vec<_> = (0..utxos).map(|number| dust_utxo(number, 1)).collect();
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let (node, peer) = runtime.block_on(async {
        let node = KaspaNode::start().await;
        node.set_foreign_pruning_point(header, set);
        let peer = node.serve_peers().await;
        (node, peer)
    });
    println!("{SOURCE_LINE}{}", node.borsh());
    println!("{PEER_LINE}{}", peer.address());
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    Ok(())
}
