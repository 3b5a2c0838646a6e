//! The conversion of results into responses: the state that each is read from, and transforms.

use ledger::Commitment;
use rest::{CustomResponse, ETagSource, JSON_MEDIA, ValueResponse};

use crate::utxo_page::utxo_page;

/// Bytes of a page of UTXOs, with a margin: 1,000 of 500 bytes.
const UTXO_PAGE_BYTES_MAX: usize = 1024 * 1024;

/// The media type of numbers that are plain text.
const TEXT_MEDIA: &str = "text/plain";

/// A route that reads the virtual block.
pub(crate) const VIRTUAL: CustomResponse =
    CustomResponse { media: JSON_MEDIA, commitment: Commitment::Processed, may_wait: |_| false };

/// A route that reads the virtual block, and responds with plain text.
pub(crate) const VIRTUAL_TEXT: CustomResponse =
    CustomResponse { media: TEXT_MEDIA, commitment: Commitment::Processed, may_wait: |_| false };

/// A route that reads the sink, or the history up to it.
pub(crate) const SINK: CustomResponse =
    CustomResponse { media: JSON_MEDIA, commitment: Commitment::Confirmed, may_wait: |_| false };

/// A value of the virtual block.
pub(crate) const VIRTUAL_VALUE: ValueResponse = ValueResponse {
    commitment: Some(Commitment::Processed),
    ..ValueResponse::for_state("address")
};

/// A page of UTXOs of the virtual block.
pub(crate) const UTXO_PAGE_VALUE: ValueResponse = ValueResponse {
    etag: ETagSource::Bytes(UTXO_PAGE_BYTES_MAX),
    transform: Some(|_| utxo_page()),
    ..VIRTUAL_VALUE
};

/// A value that is read from the sink.
pub(crate) const SINK_VALUE: ValueResponse =
    ValueResponse { commitment: Some(Commitment::Confirmed), ..ValueResponse::for_state("block") };

/// A value that is read from the history.
pub(crate) const HISTORY_VALUE: ValueResponse = ValueResponse {
    commitment: Some(Commitment::Confirmed),
    ..ValueResponse::for_state("transaction")
};
