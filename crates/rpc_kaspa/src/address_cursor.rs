//! The addresses of a request, read in parts.

use kaspa::{BorshAddresses, JsonAddresses, KaspaAddress, ServerError};

use crate::request::{Message, Request};

/// A position in the addresses of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AddressCursor {
    Borsh(BorshAddresses),
    Json(JsonAddresses),
}

impl AddressCursor {
    /// Finds the addresses of a request.
    ///
    /// Cost: in JSON the length of the message, at some bytes a nanosecond.
    pub(crate) fn find(request: &Request) -> Result<Self, ServerError> {
        match request.message() {
            Message::Borsh(_) => {
                BorshAddresses::find(&request.borsh()?).map(Self::Borsh).map_err(invalid_payload)
            }
            Message::Json(text) => {
                let found = JsonAddresses::find(text, &request.json()?);
                found.map(Self::Json).map_err(|_| ServerError::InvalidParams)
            }
        }
    }

    /// Reads up to `count_max` addresses of the same request. Returns none if all have been read.
    pub(crate) fn read(
        &mut self,
        request: &Request,
        count_max: usize,
    ) -> Result<Vec<KaspaAddress>, ServerError> {
        match (self, request.message()) {
            (Self::Borsh(position), Message::Borsh(_)) => {
                position.read(&request.borsh()?, count_max).map_err(invalid_payload)
            }
            (Self::Json(position), Message::Json(text)) => {
                position.read(text, count_max).map_err(|_| ServerError::InvalidParams)
            }
            (Self::Borsh(_) | Self::Json(_), _) => unreachable!("the position is in this request"),
        }
    }
}

fn invalid_payload(_: kaspa::BorshError) -> ServerError {
    ServerError::InvalidPayload
}
