//! The pruning point of a source: the block whose UTXO set its network's nodes send.
//!
//! In: a source, by wRPC. Out: the block and its header, whose hash was computed here; and whether the source still
//! continues the chain from such a block. That the block is on the heaviest chain is the word of the source.

use kaspa::{Hash, Header, Method};

use super::config::ImportConfig;
use crate::chain_pages::{count_blocks_off_chain, decode_block};
use crate::config::SourceConfig;
use crate::connection::Connection;
use crate::long_message::decode_reply;
use crate::source_error::SourceError;

/// A pruning point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PruningPoint {
    pub(crate) block: Hash,
    pub(crate) header: Header,
}

/// Requests the pruning point of a source.
pub(crate) async fn request_pruning_point(
    source: &SourceConfig,
    config: &ImportConfig,
) -> Result<PruningPoint, SourceError> {
    let mut connection = Connection::open(source, &config.connection).await?;
    connection.check_server(config.network).await?;
    let block = connection.request_pruning_point().await?;
    let method = Method::GetBlock;
    let encode = |id| Method::encode_borsh_get_block(id, &block, false);
    let structure = connection.call_or_fail(method, encode).await?;
    let header = decode_reply(structure, decode_block).await?.header;
    if header.hash() != block {
        let what = "the header of the pruning point has another hash";
        return Err(SourceError::Contradiction { method, what });
    }
    Ok(PruningPoint { block, header })
}

/// Returns whether a source continues the chain from a block: it is the pruning point of the source, or on its selected
/// chain above. A source deletes the blocks below its pruning point.
pub(crate) async fn continues_from(
    source: &SourceConfig,
    config: &ImportConfig,
    block: &Hash,
) -> Result<bool, SourceError> {
    let mut connection = Connection::open(source, &config.connection).await?;
    connection.check_server(config.network).await?;
    if connection.request_pruning_point().await? == *block {
        return Ok(true);
    }
    Ok(count_blocks_off_chain(&mut connection, block).await? == Some(0))
}
