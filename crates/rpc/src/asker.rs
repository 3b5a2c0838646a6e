//! Who asks, as everything that answers a request is told.
//!
//! Shape: small, and copied. Not here: whose turn it is (`pool`), how an answer is coded ([`crate::compress`]).

use std::time::Duration;

use pool::ClientId;

use crate::bare::Want;
use crate::compress::Coding;
use crate::request_id::RequestId;

/// Who asks, and how he wants it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asker {
    /// Whose turn it is.
    pub(crate) client: ClientId,
    /// What a long answer is compressed with.
    pub(crate) coding: Coding,
    /// Of another door: the value alone, as it wants it.
    pub(crate) want: Option<Want>,
    /// What the log calls his request.
    pub(crate) request: RequestId,
    /// When all of it was there, by the pool's clock.
    pub(crate) arrived: Duration,
}
