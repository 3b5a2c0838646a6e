//! Clients of a model node in both encodings, and the UTXO set that a follower would have.

use std::collections::BTreeMap;

use kaspa::{
    AcceptingBlock, AddressUtxo, BorshReply, BorshServerMessage, ChainReply, Event, Hash,
    JsonServerMessage, KaspaAddress, Method, Notification, Outpoint, Scope, ServerError, UtxoEntry,
    VerbosityLevel, decode_borsh_utxos,
};
use muhash::MuHash;
use serde_json::{Value, json};
use testkit::kaspa_node::{KaspaNode, MINER, WrpcClient, WrpcMessage, simnet_address};

/// A client in Borsh.
pub(crate) struct BorshClient {
    pub(crate) connection: WrpcClient,
    next_id: u64,
    /// Notifications that came before replies.
    pub(crate) notifications: Vec<Notification>,
}

/// A reply of getVirtualChainFromBlockV2.
pub(crate) struct Chain {
    pub(crate) removed: Vec<Hash>,
    pub(crate) blocks: Vec<AcceptingBlock>,
}

/// A UTXO set by outpoint and DAA score, which grows with notifications in any order.
pub(crate) type UtxoMap = BTreeMap<Outpoint, UtxoEntry>;

impl BorshClient {
    pub(crate) async fn connect(node: &KaspaNode) -> Self {
        let connection = WrpcClient::connect(node.borsh()).await;
        Self { connection, next_id: 1, notifications: Vec::new() }
    }

    /// Sends a request that `encode` makes for an id, and returns the structure of its reply.
    pub(crate) async fn call(
        &mut self,
        encode: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<Vec<u8>, ServerError> {
        let id = self.next_id;
        self.next_id += 1;
        self.connection.send_binary(encode(id)).await;
        loop {
            let frame = self.connection.read_binary().await;
            match BorshServerMessage::parse(&frame).expect("a message of a node") {
                BorshServerMessage::Reply(BorshReply { id: of, result, .. }) => {
                    assert_eq!(of, id);
                    return result.map(<[u8]>::to_vec);
                }
                BorshServerMessage::Notification { event, payload } => {
                    let notification = Notification::decode_borsh(event, payload);
                    self.notifications.push(notification.expect("a notification"));
                }
            }
        }
    }

    pub(crate) async fn subscribe(&mut self, scope: Scope) {
        let subscribed = self.call(|id| scope.encode_borsh_subscribe(id)).await;
        subscribed.expect("a subscription");
    }

    /// Subscribes to everything.
    pub(crate) async fn subscribe_all(&mut self) {
        for event in Event::ALL {
            self.subscribe(whole_scope(*event)).await;
        }
    }

    pub(crate) async fn read_notification(&mut self) -> Notification {
        if !self.notifications.is_empty() {
            return self.notifications.remove(0);
        }
        let frame = self.connection.read_binary().await;
        let message = BorshServerMessage::parse(&frame).expect("a message of a node");
        let notification = message.decode_notification().expect("no request is open");
        notification.expect("a notification")
    }

    pub(crate) async fn chain(&mut self, start: Hash) -> Result<Chain, ServerError> {
        let encode = |id| Method::encode_borsh_get_chain(id, &start, VerbosityLevel::Full, None);
        let structure = self.call(encode).await?;
        let mut reply = ChainReply::parse(&structure).expect("a chain");
        let mut blocks = Vec::new();
        while let Some(block) = reply.next_block().expect("a block") {
            blocks.push(block);
        }
        let hashes: Vec<Hash> = blocks.iter().map(|block| block.hash).collect();
        assert_eq!(reply.added, hashes);
        Ok(Chain { removed: reply.removed.clone(), blocks })
    }

    pub(crate) async fn utxos(&mut self, addresses: &[KaspaAddress]) -> Vec<AddressUtxo> {
        let encode = |id| Method::GetUtxosByAddresses.encode_borsh_addresses(id, addresses);
        let structure = self.call(encode).await.expect("UTXOs");
        decode_borsh_utxos(&structure).expect("UTXOs")
    }
}

/// A client in JSON.
pub(crate) struct JsonClient {
    pub(crate) connection: WrpcClient,
    next_id: u64,
}

impl JsonClient {
    pub(crate) async fn connect(node: &KaspaNode) -> Self {
        Self { connection: WrpcClient::connect(node.json()).await, next_id: 1 }
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({ "id": id, "method": method, "params": params }).to_string();
        self.connection.send_text(&request).await;
        let text = self.connection.read_text().await;
        let reply = JsonServerMessage::parse(&text).expect("a message of a node");
        assert_eq!(reply.id, Some(id));
        match reply.result() {
            Ok(params) => Ok(serde_json::from_str(params.map_or("null", |raw| raw.get()))
                .expect("parameters are JSON")),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) async fn read_notification(&mut self) -> Value {
        let text = self.connection.read_text().await;
        let message: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(message.get("id"), None, "{text}");
        message
    }
}

/// Everything that an event has.
pub(crate) fn whole_scope(event: Event) -> Scope {
    match event {
        Event::UtxosChanged => Scope::UtxosChanged { addresses: Vec::new() },
        Event::VirtualChainChanged => {
            Scope::VirtualChainChanged { include_accepted_transaction_ids: true }
        }
        event => Scope::Other(event),
    }
}

pub(crate) fn miner_address() -> KaspaAddress {
    simnet_address(MINER)
}

/// The hash over a set.
pub(crate) fn commitment(utxos: &UtxoMap) -> Hash {
    let mut product = MuHash::EMPTY;
    utxos.iter().for_each(|(outpoint, entry)| product.add(&entry.element(outpoint)));
    Hash(product.finalize())
}

/// Checks that the connection ends.
pub(crate) async fn assert_end(connection: &mut WrpcClient) {
    assert!(matches!(connection.read_message().await, WrpcMessage::End(_)));
}
