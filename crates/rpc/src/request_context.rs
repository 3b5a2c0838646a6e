//! Who asks, as everything that answers a request is told.
//!
//! Shape: small, and copied. Not here: whose turn it is (`pool`), how an answer is coded ([`crate::compress`]).

use std::time::Duration;

use pool::ClientId;

use crate::content_encoding::ContentEncoding;
use crate::request_id::RequestId;
use crate::value_response::ResponseOptions;

/// Who asks, and how he wants it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestContext {
    /// Whose turn it is.
    pub(crate) client: ClientId,
    /// What a long answer is compressed with.
    pub(crate) coding: ContentEncoding,
    /// Of another door: the value alone, as it wants it.
    pub(crate) options: Option<ResponseOptions>,
    /// What the log calls his request.
    pub(crate) request: RequestId,
    /// When all of it was there, by the pool's clock.
    pub(crate) arrived: Duration,
}
