//! Requests of wRPC, whatever their encoding.

use anyhow::{Result, bail};
use kaspa::{Encoding, Hash, KaspaAddress, Method, Operation, Scope};
use serde_json::{Value, json};
use tungstenite::Message;

/// A request to a node.
#[derive(Clone, Debug)]
pub(crate) enum Request<'a> {
    /// A method without parameters.
    Plain(Method),
    /// getBalanceByAddress.
    Balance(&'a KaspaAddress),
    /// getUtxosByAddresses or getBalancesByAddresses.
    Addresses(Method, &'a [KaspaAddress]),
    /// getBlock, with transactions.
    Block(Hash),
    /// getVirtualChainFromBlock, with the ids of accepted transactions.
    ChainIds(Hash),
    /// Starts notifications.
    Subscribe(&'a Scope),
    /// A method with parameters in JSON, which has no other encoding here.
    Json(Method, Value),
}

impl Request<'_> {
    /// Returns the operation's name in JSON.
    pub(crate) fn name(&self) -> &'static str {
        self.operation().name()
    }

    /// Whether Hydrant sends the request to its kaspad, rather than reply from its own state.
    pub(crate) fn is_forwarded(&self) -> bool {
        !matches!(
            self.operation(),
            Operation::Subscribe
                | Operation::Method(
                    Method::Ping
                        | Method::GetSink
                        | Method::GetSinkBlueScore
                        | Method::GetCoinSupply
                        | Method::GetBalanceByAddress
                        | Method::GetBalancesByAddresses
                        | Method::GetUtxosByAddresses
                )
        )
    }

    fn operation(&self) -> Operation {
        Operation::Method(match self {
            Self::Subscribe(_) => return Operation::Subscribe,
            Self::Plain(method) | Self::Addresses(method, _) | Self::Json(method, _) => *method,
            Self::Balance(_) => Method::GetBalanceByAddress,
            Self::Block(_) => Method::GetBlock,
            Self::ChainIds(_) => Method::GetVirtualChainFromBlock,
        })
    }

    /// Encodes the message.
    pub(crate) fn encode(&self, encoding: Encoding, id: u64) -> Result<Message> {
        match encoding {
            Encoding::Borsh => Ok(Message::binary(self.encode_borsh(id)?)),
            Encoding::Json => Ok(Message::text(self.encode_json(id)?)),
        }
    }

    fn encode_borsh(&self, id: u64) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Plain(method) => method.encode_borsh_request(id),
            Self::Balance(address) => Method::encode_borsh_get_balance(id, address),
            Self::Addresses(method, addresses) => method.encode_borsh_addresses(id, addresses),
            Self::Block(hash) => Method::encode_borsh_get_block(id, hash, true),
            Self::ChainIds(start) => Method::encode_borsh_get_chain_ids(id, start),
            Self::Subscribe(scope) => scope.encode_borsh_subscribe(id),
            Self::Json(method, _) => bail!("{} is sent in JSON only", method.name()),
        })
    }

    fn encode_json(&self, id: u64) -> Result<String> {
        let params = match self {
            Self::Subscribe(scope) => {
                return Ok(String::from_utf8(scope.encode_json_subscribe(id))?);
            }
            Self::Plain(_) => json!({}),
            Self::Balance(address) => json!({ "address": address.to_string() }),
            Self::Addresses(_, addresses) => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                json!({ "addresses": addresses })
            }
            Self::Block(hash) => {
                json!({ "hash": hash.to_string(), "includeTransactions": true })
            }
            Self::ChainIds(start) => json!({
                "startHash": start.to_string(),
                "includeAcceptedTransactionIds": true,
                "minConfirmationCount": null,
            }),
            Self::Json(_, params) => params.clone(),
        };
        Ok(json!({ "id": id, "method": self.name(), "params": params }).to_string())
    }
}

#[cfg(test)]
mod tests {
    use kaspa::{AddressPayload, BorshRequest, JsonRequest, Prefix};

    use super::*;

    fn address(key: u8) -> KaspaAddress {
        KaspaAddress { prefix: Prefix::Simnet, payload: AddressPayload::PublicKey([key; 32]) }
    }

    #[test]
    fn both_encodings_of_a_request_have_the_same_content() {
        let addresses = [address(1), address(2)];
        let scope = Scope::UtxosChanged { addresses: addresses.to_vec() };
        for request in [
            Request::Plain(Method::GetSink),
            Request::Balance(&addresses[0]),
            Request::Addresses(Method::GetUtxosByAddresses, &addresses),
            Request::Subscribe(&scope),
        ] {
            let borsh = request.encode_borsh(7).unwrap();
            let borsh = BorshRequest::parse(&borsh).unwrap();
            let text = request.encode_json(7).unwrap();
            let text = JsonRequest::parse(&text).unwrap();
            assert_eq!((borsh.id, text.id), (Some(7), Some(7)));
            assert_eq!(borsh.operation, text.operation);
            match request {
                Request::Balance(address) => {
                    assert_eq!(borsh.address(), Ok(*address));
                    assert_eq!(text.address().unwrap(), *address);
                }
                Request::Addresses(_, addresses) => {
                    assert_eq!(borsh.addresses().unwrap(), addresses);
                    assert_eq!(text.addresses().unwrap(), addresses);
                }
                Request::Subscribe(scope) => {
                    assert_eq!(borsh.scope().unwrap(), *scope);
                    assert_eq!(text.scope().unwrap(), *scope);
                }
                _ => {
                    borsh.no_params().unwrap();
                    text.no_params().unwrap();
                }
            }
        }
    }

    #[test]
    fn requests_about_addresses_and_the_sink_are_not_forwarded() {
        let addresses = [address(1)];
        let list = Request::Addresses(Method::GetUtxosByAddresses, &addresses);
        for own in [Request::Plain(Method::GetSink), Request::Balance(&addresses[0]), list] {
            assert!(!own.is_forwarded(), "{own:?}");
        }
        let block = Request::Block(Hash([1; 32]));
        for forwarded in [Request::Plain(Method::GetServerInfo), block] {
            assert!(forwarded.is_forwarded(), "{forwarded:?}");
        }
    }

    #[test]
    fn parameters_in_json_are_not_sent_in_borsh() {
        let request = Request::Json(Method::SubmitBlock, json!({}));
        assert!(request.encode(Encoding::Borsh, 1).is_err());
        let message = request.encode(Encoding::Json, 1).unwrap();
        assert!(message.into_text().unwrap().as_str().contains("submitBlock"));
    }
}
