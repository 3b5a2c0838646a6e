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
    /// Cost: in JSON the length of the message, at some bytes a nanosecond, unless they were found before.
    pub(crate) fn find(request: &Request) -> Result<Self, ServerError> {
        match request.message() {
            Message::Borsh(_) => {
                BorshAddresses::find(&request.borsh()?).map(Self::Borsh).map_err(invalid_payload)
            }
            Message::Json(text) => {
                if let Some(found) = request.json_addresses() {
                    return found.clone().map(Self::Json);
                }
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

#[cfg(test)]
mod tests {
    use websocket::IncomingMessage;

    use super::*;
    use crate::message_format::MessageFormat;

    fn parse(text: &str) -> Request {
        let message = IncomingMessage::Text(text.into());
        Request::parse(MessageFormat::Json, message).expect("a known operation")
    }

    #[test]
    fn addresses_of_a_long_request_are_found_once() {
        let address = "kaspasim:qpauqsvk7yf9unexwmxsnmg547mhyga37csh0kj53q6xxgl24ydxj7zv2aeg4";
        let list = format!(r#"{{"addresses":["{address}"]}}"#);
        for (operation, params, is_valid) in [
            ("getUtxosByAddresses", list.clone(), true),
            ("getBalancesByAddresses", "{}".to_owned(), false),
            ("subscribe", format!(r#"{{"UtxosChanged":{list}}}"#), true),
            ("unsubscribe", r#"{"BlockAdded":{}}"#.to_owned(), false),
        ] {
            let text = format!(r#"{{"id":1,"method":"{operation}","params":{params}}}"#);
            let request = parse(&text);
            assert!(request.json_addresses().is_none());
            let before = AddressCursor::find(&request).map(|_| ());
            let request = request.with_json_addresses();
            let found = request.json_addresses().map(Result::is_ok);
            assert_eq!((found, before.is_ok()), (Some(is_valid), is_valid), "{text}");
            assert_eq!(AddressCursor::find(&request).map(|_| ()), before);
        }
        let other = parse(r#"{"id":1,"method":"submitTransaction","params":{}}"#);
        assert!(other.with_json_addresses().json_addresses().is_none());
    }
}
