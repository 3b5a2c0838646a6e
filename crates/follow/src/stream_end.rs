//! The reasons why a stream of a source ended, and how the log shows them.

use std::time::Duration;

use http_client::{Server, describe_error};
use ledger::Slot;
use tonic::Code;

use crate::convert::ConvertError;

/// The reason why a stream ended, or could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamEnd {
    #[error("connect")]
    Connect(#[source] tonic::transport::Error),
    #[error("x-token is no header value")]
    Token,
    #[error("the source refuses: {0}")]
    Refused(tonic::Status),
    #[error("a message has more than {limit} B (stream.message_bytes_max): {status}")]
    MessageTooLarge { limit: usize, status: tonic::Status },
    #[error("the source ended the stream")]
    Ended,
    #[error("nothing was received for {0:?}")]
    Stalled(Duration),
    #[error("no whole bank was received for {0:?}, although there is a newer slot")]
    NoBank(Duration),
    #[error(
        "an update of slot {slot}: the newest slot that any source says is {newest}, the most above it is {limit}"
    )]
    FarSlot { slot: Slot, newest: Slot, limit: u64 },
    #[error(
        "it is {slots} slots behind another source for {timeout:?}, at most {limit} (stream.lag_slots_max)"
    )]
    Lagging { slots: u64, limit: u64, timeout: Duration },
    #[error("a message is no update")]
    Message(#[from] ConvertError),
    #[error("the writer found a gap")]
    Gap,
    #[error("no archive closed the gap in {0:?} (stream.archive_timeout)")]
    NoArchive(Duration),
    #[error("the writer has ended")]
    WriterEnded,
}

impl StreamEnd {
    /// Whether the node left a stream that its source would have continued.
    pub(crate) fn is_choice(&self) -> bool {
        matches!(
            self,
            Self::Stalled(_) | Self::NoBank(_) | Self::Lagging { .. } | Self::FarSlot { .. }
        )
    }

    /// Whether the source says that it cannot replay from the requested slot. Servers do not agree on the code.
    pub(crate) fn is_out_of_window(&self) -> bool {
        let Self::Refused(status) = self else { return false };
        let is_named = || ["slot", "available"].iter().any(|word| status.message().contains(word));
        match status.code() {
            Code::OutOfRange => true,
            Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::Internal => {
                is_named()
            }
            _ => false,
        }
    }
}

pub(crate) fn log_end(server: &Server, end: &StreamEnd) {
    let is_refused = matches!(end, StreamEnd::Refused(_));
    let err = describe_error(end);
    tracing::warn!(%server, err, is_refused, "a source's stream ended");
}
