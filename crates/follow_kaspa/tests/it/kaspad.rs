//! A real kaspad on simnet. Run by name, with `HYDRANT_KASPAD` as the path of the program (kaspad 2.1.0).

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use chain_kaspa::VirtualMode;
use follow_kaspa::{Forwarder, ForwarderConfig, SourceConfig};
use kaspa::{
    AddressPayload, BorshReply, BorshServerMessage, CoinSupply, Encoding, Hash, KaspaAddress,
    Method, Operation, Prefix, decode_borsh_sink, decode_borsh_utxos,
};
use ledger::Commitment;
use tempfile::TempDir;
use testkit::eventually::eventually;
use testkit::kaspa_node::WrpcClient;

use crate::world::{Utxos, World, chain_config, config};

const SKIPPED: &str = "HYDRANT_KASPAD names no program";

/// A kaspad with a simnet of its own. It ends with the value.
pub(crate) struct Kaspad {
    child: Child,
    _dir: TempDir,
    borsh: SocketAddr,
    p2p: SocketAddr,
    client: WrpcClient,
}

impl Drop for Kaspad {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a port that was free a moment ago. kaspad cannot choose one itself.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound")
}

pub(crate) fn address(key: u8) -> KaspaAddress {
    KaspaAddress { prefix: Prefix::Simnet, payload: AddressPayload::PublicKey([key; 32]) }
}

impl Kaspad {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts with further arguments.
    pub(crate) async fn start_with(args: &[&str]) -> Self {
        let program = PathBuf::from(std::env::var_os("HYDRANT_KASPAD").expect(SKIPPED));
        let dir = tempfile::tempdir().expect("a directory");
        let borsh = free_address();
        let p2p = free_address();
        let child = Command::new(program)
            .args(["--simnet", "--utxoindex", "--unsaferpc", "--enable-unsynced-mining"])
            .args(["--disable-upnp", "--nodnsseed", "--outpeers=0", "--nologfiles", "--yes"])
            .arg(format!("--appdir={}", dir.path().display()))
            .arg(format!("--listen={p2p}"))
            .arg(format!("--rpclisten={}", free_address()))
            .arg(format!("--rpclisten-borsh={borsh}"))
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("kaspad starts");
        let listens = || std::net::TcpStream::connect(borsh).is_ok();
        eventually(listens, || "kaspad does not listen".to_owned()).await;
        let client = WrpcClient::connect(borsh).await;
        Self { child, _dir: dir, borsh, p2p, client }
    }

    pub(crate) fn source(&self) -> SourceConfig {
        SourceConfig::new(format!("ws://{}", self.borsh))
    }

    /// Returns the address of its port for other nodes.
    pub(crate) fn p2p(&self) -> SocketAddr {
        self.p2p
    }

    pub(crate) async fn call(&mut self, request: Vec<u8>) -> Vec<u8> {
        self.client.send_binary(request).await;
        let reply = self.client.read_binary().await;
        match BorshServerMessage::parse(&reply) {
            Ok(BorshServerMessage::Reply(BorshReply { result: Ok(structure), .. })) => {
                structure.to_vec()
            }
            other => panic!("not a successful reply: {other:?}"),
        }
    }

    /// Returns a block that pays to a key, with its length.
    async fn template(&mut self, key: u8) -> Vec<u8> {
        let request = Method::encode_borsh_get_block_template(1, &address(key));
        let structure = self.call(request).await;
        // The version, the block, and whether the node is in sync.
        structure[2..structure.len() - 1].to_vec()
    }

    async fn submit(&mut self, block: &[u8]) {
        let structure = [&[1, 0], block, &[0]].concat();
        let length = u32::try_from(structure.len()).expect("a short block");
        let mut request = vec![1];
        request.extend_from_slice(&1_u64.to_le_bytes());
        request.push(Method::SubmitBlock.code());
        request.extend_from_slice(&length.to_le_bytes());
        request.extend_from_slice(&structure);
        self.call(request).await;
    }

    /// Mines blocks. Every third one has a sibling.
    pub(crate) async fn mine(&mut self, count: u8) {
        for nth in 0..count {
            let block = self.template(1 + nth % 3).await;
            let sibling = if nth % 3 == 0 { Some(self.template(5).await) } else { None };
            self.submit(&block).await;
            if let Some(sibling) = sibling {
                self.submit(&sibling).await;
            }
        }
    }

    async fn sink(&mut self) -> Hash {
        let structure = self.call(Method::GetSink.encode_borsh_request(1)).await;
        decode_borsh_sink(&structure).expect("a sink")
    }

    async fn utxos(&mut self) -> Utxos {
        let addresses = [1, 2, 3, 5].map(address);
        let request = Method::GetUtxosByAddresses.encode_borsh_addresses(1, &addresses);
        let structure = self.call(request).await;
        let utxos = decode_borsh_utxos(&structure).expect("UTXOs");
        utxos.into_iter().map(|utxo| (utxo.outpoint, utxo.entry)).collect()
    }

    async fn supply(&mut self) -> CoinSupply {
        let structure = self.call(Method::GetCoinSupply.encode_borsh_request(1)).await;
        CoinSupply::decode_borsh(&structure).expect("a supply")
    }

    pub(crate) async fn assert_followed(&mut self, world: &World) {
        let sink = self.sink().await;
        let is_followed = || {
            let chain = world.status.chain();
            chain.sink.hash == sink && chain.virtual_state.mode == VirtualMode::Exact
        };
        let describe =
            || format!("{sink}: {:?}, {:?}", world.status.chain(), world.status.problem());
        eventually(is_followed, describe).await;
        let expected = self.utxos().await;
        let is_equal = || world.read(Commitment::Processed) == expected;
        eventually(is_equal, || "the virtual UTXO set".to_owned()).await;
        let view = world.reader.utxos.view(Commitment::Processed);
        assert_eq!(view.meta().supply.sompi, self.supply().await.circulating_sompi);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kaspad"]
async fn a_real_kaspad_is_followed() {
    let mut kaspad = Kaspad::start().await;
    // The last block has a sibling: a quiet chain with two tips becomes exact without another block.
    kaspad.mine(40).await;
    let source = kaspad.source();
    let world = World::start(config(vec![source.clone()]), chain_config());
    kaspad.assert_followed(&world).await;
    for _ in 0..5 {
        kaspad.mine(12).await;
        kaspad.assert_followed(&world).await;
    }
    let counters = world.status.chain().counters;
    assert_eq!(counters.refused, 0);
    assert_eq!(world.status.sessions(), 1, "{:?}", world.status.last_session_end());
    let forwarder = Forwarder::start(ForwarderConfig::new(vec![source], Vec::new()));
    let operation = Operation::Method(Method::GetSink);
    let request = Method::GetSink.encode_borsh_request(77).into();
    let client = clients::ClientId(1);
    let reply = forwarder.forward(client, Encoding::Borsh, operation, request).await;
    let reply = reply.expect("a reply");
    let Ok(BorshServerMessage::Reply(reply)) = BorshServerMessage::parse(&reply) else {
        panic!("not a reply")
    };
    assert_eq!(reply.id, 77);
    assert_eq!(decode_borsh_sink(reply.result.expect("a sink")), Ok(world.status.proven().hash));
    assert_eq!(world.status.chain().sink.hash, kaspad.sink().await);
    world.stop().await;
}
