//! Parameters of the requests in JSON that Hydrant serves itself.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::frame::{JsonRequest, encode_reply};
use super::text::JsonBuffer;
use crate::address::KaspaAddress;
use crate::message::Scope;
use crate::operation::{Event, Operation};

#[derive(Deserialize)]
struct AddressesParams {
    addresses: Vec<KaspaAddress>,
}

#[derive(Deserialize)]
struct AddressParams {
    address: KaspaAddress,
}

#[derive(Deserialize)]
struct NoParams {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WindowParams {
    window_size: u32,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct SubmitParams<'a> {
    allow_orphan: bool,
    #[serde(borrow)]
    transaction: &'a RawValue,
}

#[derive(Deserialize)]
enum ScopeParams {
    BlockAdded {},
    VirtualChainChanged { include_accepted_transaction_ids: bool },
    FinalityConflict {},
    FinalityConflictResolved {},
    UtxosChanged { addresses: Vec<KaspaAddress> },
    SinkBlueScoreChanged {},
    VirtualDaaScoreChanged {},
    PruningPointUtxoSetOverride {},
    NewBlockTemplate {},
}

impl JsonRequest<'_> {
    /// Reads the addresses of getUtxosByAddresses and getBalancesByAddresses.
    pub fn addresses(&self) -> Result<Vec<KaspaAddress>, serde_json::Error> {
        Ok(self.parse_params::<AddressesParams>()?.addresses)
    }

    /// Reads the address of getBalanceByAddress.
    pub fn address(&self) -> Result<KaspaAddress, serde_json::Error> {
        Ok(self.parse_params::<AddressParams>()?.address)
    }

    /// Checks a request without parameters, such as getServerInfo.
    pub fn no_params(&self) -> Result<(), serde_json::Error> {
        self.parse_params::<NoParams>().map(|NoParams {}| ())
    }

    /// Reads the window of estimateNetworkHashesPerSecond, in blocks.
    pub fn window_size(&self) -> Result<u32, serde_json::Error> {
        Ok(self.parse_params::<WindowParams>()?.window_size)
    }

    /// Encodes a request of submitTransaction with allowOrphan off, and another id. `None` if it is off already.
    pub fn encode_without_orphans(&self, id: u64) -> Result<Option<Vec<u8>>, serde_json::Error> {
        let params: SubmitParams<'_> = self.parse_params()?;
        if !params.allow_orphan {
            return Ok(None);
        }
        let params = SubmitParams { allow_orphan: false, ..params };
        let params = serde_json::to_vec(&params)?;
        Ok(Some(encode_reply(id, self.operation, |out| out.extend_from_slice(&params))))
    }

    /// Reads the scope of subscribe and unsubscribe.
    pub fn scope(&self) -> Result<Scope, serde_json::Error> {
        Ok(match self.parse_params()? {
            ScopeParams::UtxosChanged { addresses } => Scope::UtxosChanged { addresses },
            ScopeParams::VirtualChainChanged { include_accepted_transaction_ids } => {
                Scope::VirtualChainChanged { include_accepted_transaction_ids }
            }
            ScopeParams::BlockAdded {} => Scope::Other(Event::BlockAdded),
            ScopeParams::FinalityConflict {} => Scope::Other(Event::FinalityConflict),
            ScopeParams::FinalityConflictResolved {} => {
                Scope::Other(Event::FinalityConflictResolved)
            }
            ScopeParams::SinkBlueScoreChanged {} => Scope::Other(Event::SinkBlueScoreChanged),
            ScopeParams::VirtualDaaScoreChanged {} => Scope::Other(Event::VirtualDaaScoreChanged),
            ScopeParams::PruningPointUtxoSetOverride {} => {
                Scope::Other(Event::PruningPointUtxoSetOverride)
            }
            ScopeParams::NewBlockTemplate {} => Scope::Other(Event::NewBlockTemplate),
        })
    }

    fn parse_params<'p, T: Deserialize<'p>>(&'p self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.params.get())
    }
}

impl Scope {
    /// Encodes a request that starts notifications.
    pub fn encode_json_subscribe(&self, id: u64) -> Vec<u8> {
        self.encode_json(id, Operation::Subscribe)
    }

    /// Encodes a request that stops notifications.
    pub fn encode_json_unsubscribe(&self, id: u64) -> Vec<u8> {
        self.encode_json(id, Operation::Unsubscribe)
    }

    fn encode_json(&self, id: u64, operation: Operation) -> Vec<u8> {
        encode_reply(id, operation, |out| {
            out.put_json("{\"");
            out.put_json(self.event().scope_name());
            out.put_json("\":");
            match self {
                Self::UtxosChanged { addresses } => {
                    out.put_json(r#"{"addresses":"#);
                    out.put_list(addresses, |out, address| out.put_address(address));
                    out.push(b'}');
                }
                Self::VirtualChainChanged { include_accepted_transaction_ids } => {
                    out.put_json(r#"{"include_accepted_transaction_ids":"#);
                    out.put_flag(*include_accepted_transaction_ids);
                    out.push(b'}');
                }
                Self::Other(_) => out.put_json("{}"),
            }
            out.push(b'}');
        })
    }
}
