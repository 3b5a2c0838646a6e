//! A client of `addressesSubscribe` with a copy of its UTXOs that is made of notifications only, and a chain for it.

use kaspa::{AddressUtxo, Encoding};
use rpc_kaspa::Settings;
use serde_json::{Value, json};
use subscriptions::Limits;
use testkit::kaspa_chain::{Payment, address, pay};
use testkit::kaspa_utxo_copy::{UtxoCopy, Utxos, outpoint_key};

use crate::world::{World, config};
use crate::wrpc_client::WrpcClient;

pub(crate) struct AddressClient {
    pub(crate) client: WrpcClient,
    pub(crate) copy: UtxoCopy,
    pub(crate) subscription: Value,
    next_sequence: u64,
}

/// The addresses of keys, as a parameter.
pub(crate) fn addresses(keys: &[u8]) -> Value {
    keys.iter().map(|key| address(*key).to_string()).collect()
}

/// The UTXOs that the newest block of a chain has for keys.
pub(crate) fn list_chain_utxos(world: &World, keys: &[u8]) -> Utxos {
    let utxos = keys.iter().flat_map(|key| world.chain.list_utxos(&address(*key)));
    let to_json = |utxo: AddressUtxo| {
        let mut text = Vec::new();
        utxo.encode_json_into(&mut text);
        let value = serde_json::from_slice(&text).expect("JSON");
        (outpoint_key(&value), value)
    };
    utxos.map(to_json).collect()
}

impl AddressClient {
    pub(crate) async fn connect(world: &World) -> Self {
        Self::new(world.connect(Encoding::Json).await)
    }

    pub(crate) fn new(client: WrpcClient) -> Self {
        Self { client, copy: UtxoCopy::default(), subscription: Value::Null, next_sequence: 0 }
    }

    /// Connects again with the copy of an earlier connection.
    pub(crate) async fn reconnect(world: &World, copy: UtxoCopy) -> Self {
        Self { copy, ..Self::connect(world).await }
    }

    /// Sends a request. Returns its id.
    pub(crate) async fn send(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.client.allocate_id();
        let request = json!({ "id": id, "method": method, "params": params });
        self.client.send(request.to_string().into_bytes()).await;
        id
    }

    /// Receives a reply. Notifications before it are applied. The end of the connection is an error, too.
    async fn receive_reply(&mut self, id: u64) -> Result<Value, String> {
        loop {
            let message = self.client.receive().await.map_err(|code| format!("closed: {code}"))?;
            let message: Value = serde_json::from_slice(&message).expect("JSON");
            if message.get("id").is_none() {
                self.apply(&message);
                continue;
            }
            assert_eq!(message["id"], json!(id));
            return match message.get("error") {
                Some(error) => Err(error["message"].as_str().expect("a text").to_owned()),
                None => Ok(message["params"].clone()),
            };
        }
    }

    fn apply(&mut self, message: &Value) {
        assert_eq!(message["method"], json!("addressesNotification"));
        let params = &message["params"];
        assert_eq!(params["subscription"], self.subscription);
        assert_eq!(params["sequence"], json!(self.next_sequence));
        self.next_sequence += 1;
        self.copy.apply(params).expect("it fits");
    }

    pub(crate) async fn call(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let id = self.send(method, params).await;
        self.receive_reply(id).await
    }

    /// Subscribes. Returns the reply.
    pub(crate) async fn subscribe(&mut self, params: &Value) -> Result<Value, String> {
        let id = self.send("addressesSubscribe", params).await;
        self.finish_subscribe(id).await
    }

    /// Receives the reply to a subscription whose request was sent.
    pub(crate) async fn finish_subscribe(&mut self, id: u64) -> Result<Value, String> {
        let reply = self.receive_reply(id).await?;
        self.subscription = reply["subscription"].clone();
        self.next_sequence = 0;
        self.copy.position = reply["position"].clone();
        Ok(reply)
    }

    /// Applies all notifications of published blocks. The position is that of the newest one then.
    pub(crate) async fn sync(&mut self) {
        self.try_sync().await.expect("a position");
    }

    pub(crate) async fn try_sync(&mut self) -> Result<(), String> {
        let params = json!({ "subscription": self.subscription });
        let reply = self.call("addressesPosition", &params).await?;
        self.copy.position = reply["position"].clone();
        Ok(())
    }
}

/// A world whose log has this many steps of the chain.
pub(crate) fn world_with_log(retained_steps: usize) -> World {
    let limits = Limits { retained_steps, ..config().limits };
    World::new(Vec::new(), Settings::default(), websocket::Config { limits, ..config() })
}

pub(crate) fn mine(world: &mut World, payments: &[Payment]) {
    world.chain.add_block(&[], payments);
    world.publish();
}

/// Replaces the newest blocks by others, one more than before. Each pays to a key.
pub(crate) fn reorganize(world: &mut World, depth: usize, key: u8) {
    let added = (0..=depth).map(|at| (Vec::new(), vec![pay(key, 1_000 + at as u64)])).collect();
    world.chain.replace_blocks(depth, added);
    world.publish();
}

/// A client of key 1, which has its UTXOs.
pub(crate) async fn start_client(world: &World) -> AddressClient {
    resume_client(world, UtxoCopy::default()).await.expect("room")
}

/// A client of key 1 that continues a copy.
pub(crate) async fn resume_client(world: &World, copy: UtxoCopy) -> Result<AddressClient, String> {
    let params = copy.subscribe_params(addresses(&[1]));
    let mut client = AddressClient::reconnect(world, copy).await;
    client.subscribe(&params).await?;
    client.sync().await;
    Ok(client)
}

pub(crate) fn check(world: &World, client: &AddressClient) {
    assert_eq!(client.copy.utxos, list_chain_utxos(world, &[1]));
    assert_eq!(client.copy.position["chainBlock"], json!(world.chain.sink_hash().to_string()));
}

pub(crate) async fn wait_until_empty(world: &World) {
    while world.server.stats().connections > 0 {
        tokio::task::yield_now().await;
    }
    assert!(world.server.subscriptions.is_idle());
}
