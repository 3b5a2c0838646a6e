//! A whole node whose chain forks: blocks are frozen on several forks, the tip moves, blocks are reverted, roots
//! advance. After each publish clients over HTTP and PubSub see the guarantees of docs/design/ledgers.md: the chain of
//! the requested commitment, no stale cached response, no status of a reverted fork, and reverted blocks before applied
//! ones.

mod accounts;
mod http;
mod subscribers;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clients::{Limits, RateLimiter};
use cpu_pool::Pool;
use jsonrpc::SystemClock;
use ledger::{BlockId, Commitment};
use rpc_solana::pubsub::{self, SolanaPubSub};
use serde_json::json;
use testkit::forked_chain::{self, ForkedChain, signature};
use testkit::{ForkEvent, ForkInjector};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use self::subscribers::Subscriber;
use crate::pubsub::node::{self, Client};
use testkit::solana_node::SolanaNode;

/// Maximum number of blocks above the root.
const UNROOTED_MAX: usize = 12;

/// A node over HTTP and PubSub, and the chain that it serves.
struct ForkedNode {
    chain: ForkedChain,
    world: SolanaNode,
    runtime: Runtime,
    pubsub: Arc<SolanaPubSub>,
    pubsub_address: std::net::SocketAddr,
}

impl ForkedNode {
    fn start() -> Self {
        let (ledger, reader) = forked_chain::ledger();
        // The accounts are small, so no call may be executed inline: all of them use the cache.
        let config = rpc_solana::Config {
            inline_accounts_max: 0,
            inline_bytes_max: 0,
            ..rpc_solana::Config::default()
        };
        let world = SolanaNode::builder(reader.clone()).config(config).serve();
        let history = Arc::clone(&world.server.api.history);
        let runtime = Runtime::new().expect("a runtime");
        let pool = Pool::new(cpu_pool::Config::default(), Arc::new(SystemClock::new()), || {});
        let pool = Arc::new(pool.expect("threads start"));
        let shared = (pool, Arc::new(RateLimiter::new(Limits::default())));
        let info = node::cluster_info();
        let config = pubsub::Config { hold_ms: 0, ..Default::default() };
        let (pubsub, sender) = pubsub::start(config, info, reader, Arc::clone(&history), shared)
            .expect("a thread starts");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("loopback");
        let pubsub_address = listener.local_addr().expect("it is bound");
        let next_client = Arc::new(AtomicU64::new(7));
        runtime.spawn(node::accept(listener, next_client, Arc::clone(&pubsub)));
        let chain = ForkedChain::new(ledger, history, vec![Box::new(sender)]);
        Self { chain, world, runtime, pubsub, pubsub_address }
    }

    fn connect(&self) -> Client {
        let socket = self.runtime.block_on(TcpStream::connect(self.pubsub_address));
        let _guard = self.runtime.enter();
        Client::new(socket.expect("the server listens"))
    }

    /// Opens, writes and freezes a block, in which a transaction writes an account each time.
    fn freeze(&mut self, block: BlockId, parent: BlockId, writes: usize) {
        let mut rng = fastrand::Rng::with_seed(block.version);
        self.chain.apply(ForkEvent::Open { block, parent }, &mut rng);
        (0..writes).for_each(|_| self.chain.apply(ForkEvent::Write(block), &mut rng));
        self.chain.apply(ForkEvent::Complete(block), &mut rng);
    }

    fn apply(&mut self, events: &[ForkEvent]) {
        let mut rng = fastrand::Rng::with_seed(1);
        events.iter().for_each(|event| self.chain.apply(*event, &mut rng));
    }
}

#[test]
fn clients_see_their_commitments_chain_under_random_forks() {
    for seed in 0..6 {
        let mut node = ForkedNode::start();
        let mut injector = ForkInjector::new(seed, UNROOTED_MAX);
        let mut http = node.world.client();
        let mut subscriber = Subscriber::start(&node);
        let mut publishes = 0;
        let mut left_forks = 0;
        for _ in 0..500 {
            let event = injector.next_event(&node.chain.model);
            let before = node.chain.model.tip(Commitment::Processed);
            node.chain.apply(event, injector.rng());
            if event != ForkEvent::Publish {
                continue;
            }
            publishes += 1;
            http::check(&node.chain, &node.world, &mut http, injector.rng());
            subscriber.check(&mut node, injector.rng());
            let chain = node.chain.chain(Commitment::Processed);
            left_forks += u32::from(!chain.iter().any(|block| block.id == before));
        }
        assert!(publishes > 30, "seed {seed}: {publishes} publishes");
        assert!(subscriber.rollbacks() > 5, "seed {seed}: {left_forks} forks left");
        let counters = node.world.server.context.response_cache.counters();
        assert!(counters.hits > 100 && counters.stale > 10, "seed {seed}: {counters:?}");
        assert!(node.chain.signatures() > 20, "seed {seed}");
    }
}

/// Returns the status of a transaction, and its slot by getTransaction at confirmed.
fn transaction_status(node: &ForkedNode, n: u64) -> (Option<String>, Option<u64>) {
    let mut client = node.world.client();
    let text = signature(n).to_string();
    let statuses = client.result("getSignatureStatuses", json!([[text]]));
    let status = &statuses["value"][0]["confirmationStatus"];
    let transaction = client.result("getTransaction", json!([text, { "commitment": "confirmed" }]));
    (status.as_str().map(str::to_owned), transaction["slot"].as_u64())
}

#[test]
fn a_status_vanishes_with_its_fork_and_returns_with_the_other_one() {
    let mut node = ForkedNode::start();
    let id = |slot, version| BlockId { slot, version };
    let root = forked_chain::ROOT;
    let left = id(1, 1);
    let right = id(1, 2);
    let above = id(2, 3);
    node.freeze(left, root, 1);
    node.apply(&[ForkEvent::SetTip(left), ForkEvent::Publish]);
    assert_eq!(transaction_status(&node, 0), (Some("processed".to_owned()), None));
    // The other fork has other transactions.
    node.freeze(right, root, 0);
    node.freeze(above, right, 0);
    node.apply(&[ForkEvent::SetTip(above), ForkEvent::Publish]);
    assert_eq!(transaction_status(&node, 0), (None, None), "the tip is on the other fork");
    node.apply(&[ForkEvent::SetTip(left), ForkEvent::Confirm(left), ForkEvent::Publish]);
    assert_eq!(transaction_status(&node, 0), (Some("confirmed".to_owned()), Some(1)));
    node.apply(&[ForkEvent::Finalize(left), ForkEvent::Publish]);
    assert_eq!(transaction_status(&node, 0), (Some("finalized".to_owned()), Some(1)));
}

#[test]
fn a_dropped_block_is_reported_as_dead_before_the_tip_moves() {
    let mut node = ForkedNode::start();
    let mut client = node.connect();
    node.runtime.block_on(client.subscribe("slotsUpdates", json!([])));
    let block = BlockId { slot: 1, version: 1 };
    node.freeze(block, forked_chain::ROOT, 2);
    node.apply(&[ForkEvent::SetTip(block), ForkEvent::Publish]);
    node.apply(&[ForkEvent::DropFork(block), ForkEvent::Publish]);
    let mut next = || {
        let update = node.runtime.block_on(client.notification());
        update["params"]["result"]["type"].as_str().expect("a type").to_owned()
    };
    assert_eq!([next(), next(), next()], ["completed", "frozen", "dead"]);
    assert_eq!(transaction_status(&node, 0), (None, None));
    assert_eq!(node.pubsub.stats().connections, 1, "no client is closed for a fork");
}
