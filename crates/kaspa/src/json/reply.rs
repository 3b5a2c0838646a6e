//! Replies in JSON.

use super::frame::{encode_reply, put_reply_head};
use super::text::JsonBuffer;
use crate::hash::Hash;
use crate::message::{AddressBalance, CoinSupply, NodeInfo, ServerInfo};
use crate::operation::{Method, Operation};

/// The text after the last entry of a reply to getUtxosByAddresses or getBalancesByAddresses.
pub const JSON_LIST_TAIL: &str = "]}}";

/// Encodes the reply to getUtxosByAddresses up to its first UTXO. Then come UTXOs of
/// [`crate::AddressUtxo::encode_json_into`] with commas between them, and [`JSON_LIST_TAIL`].
pub fn encode_json_utxos_head(id: u64) -> Vec<u8> {
    encode_list_head(id, Method::GetUtxosByAddresses)
}

/// Encodes the reply to getBalancesByAddresses up to its first balance. Then come balances of
/// [`AddressBalance::encode_json_into`] with commas between them, and [`JSON_LIST_TAIL`].
pub fn encode_json_balances_head(id: u64) -> Vec<u8> {
    encode_list_head(id, Method::GetBalancesByAddresses)
}

fn encode_list_head(id: u64, method: Method) -> Vec<u8> {
    let mut out = Vec::with_capacity(96);
    put_reply_head(&mut out, id, Operation::Method(method));
    out.put_json(r#"{"entries":["#);
    out
}

impl AddressBalance {
    /// Appends the balance as an element of a list, without the comma between elements.
    pub fn encode_json_into(&self, out: &mut Vec<u8>) {
        out.put_json(r#"{"address":"#);
        out.put_address(&self.address);
        out.put_json(r#","balance":"#);
        out.put_number(self.balance);
        out.push(b'}');
    }
}

/// Encodes the reply to getBalanceByAddress.
pub fn encode_json_balance(id: u64, balance: u64) -> Vec<u8> {
    encode_method_reply(id, Method::GetBalanceByAddress, |out| {
        out.put_json(r#"{"balance":"#);
        out.put_number(balance);
        out.push(b'}');
    })
}

/// Encodes the reply to getSink.
pub fn encode_json_sink(id: u64, sink: &Hash) -> Vec<u8> {
    encode_method_reply(id, Method::GetSink, |out| {
        out.put_json(r#"{"sink":"#);
        out.put_hash(sink);
        out.push(b'}');
    })
}

/// Encodes the reply to getSinkBlueScore.
pub fn encode_json_sink_blue_score(id: u64, blue_score: u64) -> Vec<u8> {
    encode_method_reply(id, Method::GetSinkBlueScore, |out| {
        out.put_json(r#"{"blueScore":"#);
        out.put_number(blue_score);
        out.push(b'}');
    })
}

/// Encodes the reply to getSyncStatus.
pub fn encode_json_sync_status(id: u64, is_synced: bool) -> Vec<u8> {
    encode_method_reply(id, Method::GetSyncStatus, |out| {
        out.put_json(r#"{"isSynced":"#);
        out.put_flag(is_synced);
        out.push(b'}');
    })
}

/// Encodes the reply to subscribe. kaspad numbers its listeners; no client reads the number.
pub fn encode_json_subscribed(id: u64, listener: u64) -> Vec<u8> {
    encode_reply(id, Operation::Subscribe, |out| {
        out.put_json(r#"{"id":"#);
        out.put_number(listener);
        out.push(b'}');
    })
}

/// Encodes the reply to unsubscribe.
pub fn encode_json_unsubscribed(id: u64) -> Vec<u8> {
    encode_reply(id, Operation::Unsubscribe, |out| out.put_json("{}"))
}

/// Encodes the reply to ping.
pub fn encode_json_pong(id: u64) -> Vec<u8> {
    encode_method_reply(id, Method::Ping, |out| out.put_json("{}"))
}

fn encode_method_reply(id: u64, method: Method, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    encode_reply(id, Operation::Method(method), write)
}

impl ServerInfo {
    /// Encodes the reply to getServerInfo.
    pub fn encode_json(&self, id: u64) -> Vec<u8> {
        encode_method_reply(id, Method::GetServerInfo, |out| {
            out.put_json(r#"{"hasUtxoIndex":"#);
            out.put_flag(self.has_utxo_index);
            out.put_json(r#","isSynced":"#);
            out.put_flag(self.is_synced);
            out.put_json(r#","networkId":"#);
            out.put_string(&self.network.to_string());
            out.put_json(r#","rpcApiRevision":"#);
            out.put_number(u64::from(self.rpc_api_revision));
            out.put_json(r#","rpcApiVersion":"#);
            out.put_number(u64::from(self.rpc_api_version));
            out.put_json(r#","serverVersion":"#);
            out.put_string(&self.server_version);
            out.put_json(r#","virtualDaaScore":"#);
            out.put_number(self.virtual_daa_score);
            out.push(b'}');
        })
    }
}

impl NodeInfo {
    /// Encodes the reply to getInfo.
    pub fn encode_json(&self, id: u64) -> Vec<u8> {
        encode_method_reply(id, Method::GetInfo, |out| {
            out.put_json(r#"{"hasMessageId":"#);
            out.put_flag(self.has_message_id);
            out.put_json(r#","hasNotifyCommand":"#);
            out.put_flag(self.has_notify_command);
            out.put_json(r#","isSynced":"#);
            out.put_flag(self.is_synced);
            out.put_json(r#","isUtxoIndexed":"#);
            out.put_flag(self.is_utxo_indexed);
            out.put_json(r#","mempoolSize":"#);
            out.put_number(self.mempool_size);
            out.put_json(r#","p2pId":"#);
            out.put_string(&self.p2p_id);
            out.put_json(r#","serverVersion":"#);
            out.put_string(&self.server_version);
            out.push(b'}');
        })
    }
}

impl CoinSupply {
    /// Encodes the reply to getCoinSupply.
    pub fn encode_json(&self, id: u64) -> Vec<u8> {
        encode_method_reply(id, Method::GetCoinSupply, |out| {
            out.put_json(r#"{"circulatingSompi":"#);
            out.put_number(self.circulating_sompi);
            out.put_json(r#","maxSompi":"#);
            out.put_number(self.max_sompi);
            out.push(b'}');
        })
    }
}
