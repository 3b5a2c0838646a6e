//! The accounts that calls need from the upstream of a fork, and the cheat codes that concern it, with an upstream that
//! records requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::{
    AccountsRequest, ControlCall, ControlCommand, ControlError, ControlOutcome, ControlStats,
    FetchCall, FetchError, LedgerControl, PendingSender, RemoteAccounts, pending,
};
use clients::{ClientId, RateLimiter};
use jsonrpc::error::OVERLOADED;
use jsonrpc::params::Params;
use jsonrpc::{Api, MethodClient, ResponseOptions};
use parking_lot::Mutex;
use response_cache::ResponseCache;
use serde_json::{Value, json};
use solana_loader_v3_interface::get_program_data_address;
use solana_pubkey::Pubkey;

use super::world::World;
use crate::cheatcodes::Cheatcodes;

/// An upstream that has fetched no account, unless `has_all` is set. The test sends the results.
#[derive(Default)]
struct FakeUpstream {
    has_all: AtomicBool,
    requests: Mutex<Vec<AccountsRequest>>,
    replies: Mutex<Vec<PendingSender<Result<(), FetchError>>>>,
    refusal: Mutex<Option<FetchError>>,
    forgotten: Mutex<Vec<Pubkey>>,
    offline: Mutex<Vec<(Pubkey, bool)>>,
}

impl RemoteAccounts for FakeUpstream {
    fn is_missing(&self, _: &AccountsRequest) -> bool {
        !self.has_all.load(Ordering::Relaxed)
    }

    fn request(
        &self,
        _: ClientId,
        request: AccountsRequest,
    ) -> Result<Option<FetchCall>, FetchError> {
        if let Some(err) = self.refusal.lock().clone() {
            return Err(err);
        }
        let (call, reply) = pending();
        self.requests.lock().push(request);
        self.replies.lock().push(reply);
        Ok(Some(call))
    }

    fn is_upstreams(&self, key: &Pubkey) -> bool {
        *key == UPSTREAMS || *key == get_program_data_address(&UPSTREAMS)
    }

    fn forget(&self, key: &Pubkey) {
        self.forgotten.lock().push(*key);
    }

    fn forget_all(&self) {
        self.forgotten.lock().push(Pubkey::default());
    }

    fn set_offline(&self, key: Pubkey, with_owned: bool) -> Result<(), FetchError> {
        self.offline.lock().push((key, with_owned));
        Ok(())
    }
}

/// An account that came from the upstream.
const UPSTREAMS: Pubkey = Pubkey::new_from_array([77; 32]);
const LOCAL: Pubkey = Pubkey::new_from_array([78; 32]);

/// A control that accepts and records every command.
#[derive(Default)]
struct AcceptingControl(Mutex<Vec<&'static str>>);

impl LedgerControl for AcceptingControl {
    fn control(&self, _: ClientId, command: ControlCommand) -> Result<ControlCall, ControlError> {
        self.0.lock().push(match command {
            ControlCommand::Edit(_) => "edit",
            ControlCommand::Reset(_) => "reset",
            _ => "other",
        });
        let (call, reply) = pending();
        reply.send(Ok(ControlOutcome { slot: 1, block_height: 1, transaction_count: 1 }));
        Ok(call)
    }

    fn stats(&self) -> ControlStats {
        ControlStats::default()
    }
}

struct ForkWorld {
    world: World,
    upstream: Arc<FakeUpstream>,
    control: Arc<AcceptingControl>,
}

impl ForkWorld {
    fn new() -> Self {
        let upstream = Arc::<FakeUpstream>::default();
        let control = Arc::<AcceptingControl>::default();
        let mut world = World::new();
        let control_of_api = Arc::clone(&control) as Arc<dyn LedgerControl>;
        world.api.cheatcodes = Arc::new(Cheatcodes::new(control_of_api, true));
        world.api.account_upstream = Some(Arc::clone(&upstream) as Arc<dyn RemoteAccounts>);
        Self { world, upstream, control }
    }

    /// Returns the accounts that a call needs; `None` for none.
    fn needs(&self, method: &'static str, params: &Value) -> Option<AccountsRequest> {
        let text = params.to_string();
        let prepared = self.world.api.prepare(method, Params::new(Some(&text)));
        prepared.unwrap_or_else(|err| panic!("{method}: {err:?}"))?;
        self.upstream.requests.lock().pop()
    }

    /// Whether a call that may run inline or from the cache waits.
    fn waits(&self, method: &'static str, params: &Value) -> bool {
        self.world.api.must_prepare(method, Params::new(Some(&params.to_string())))
    }
}

fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

#[test]
fn reads_need_their_accounts_and_mints_only_where_they_are_shown() {
    let fork = ForkWorld::new();
    let one = key(1).to_string();
    let two = key(2).to_string();
    for (method, params, keys, with_mints) in [
        ("getBalance", json!([one]), vec![key(1)], false),
        ("getAccountInfo", json!([one, { "encoding": "base64" }]), vec![key(1)], false),
        ("getAccountInfo", json!([one, { "encoding": "jsonParsed" }]), vec![key(1)], true),
        ("getMultipleAccounts", json!([[one, two]]), vec![key(1), key(2)], false),
        ("getTokenAccountBalance", json!([one]), vec![key(1)], true),
        ("getTokenSupply", json!([one]), vec![key(1)], false),
        ("getTokenLargestAccounts", json!([one]), vec![key(1)], false),
        ("getTokenAccountsByOwner", json!([one, { "mint": two }]), vec![key(2)], false),
    ] {
        let needs = fork.needs(method, &params).unwrap_or_else(|| panic!("{method} needs some"));
        assert_eq!((needs.keys, needs.with_mints), (keys, with_mints), "{method} {params}");
        assert!(fork.waits(method, &params), "{method}");
    }
    let many: Vec<String> = (0..=100).map(|n| key(n).to_string()).collect();
    let program = json!([one, { "programId": two }]);
    for (method, params) in [
        ("getTokenAccountsByOwner", program),
        ("getMultipleAccounts", json!([many])),
        ("getBalance", json!(["no address"])),
        ("getBalance", json!([])),
        ("getProgramAccounts", json!([one])),
        ("getSlot", json!([])),
    ] {
        assert!(fork.needs(method, &params).is_none(), "{method} {params}");
        assert!(!fork.waits(method, &params), "{method}");
    }
}

#[test]
fn transactions_and_cheat_codes_need_what_they_touch() {
    let fork = ForkWorld::new();
    let transaction = fork.world.tx("confirmed").transaction.clone();
    let bytes = wincode::serialize(&transaction).expect("it serializes");
    let text = bs58::encode(&bytes).into_string();
    for method in ["sendTransaction", "simulateTransaction"] {
        let needs = fork.needs(method, &json!([text])).expect("it needs accounts");
        assert_eq!(needs.transactions, std::slice::from_ref(&transaction), "{method}");
        assert!(fork.needs(method, &json!(["0"])).is_none());
        // It runs on the pool in any case.
        assert!(!fork.waits(method, &json!([text])));
    }
    let bundle = fork.needs("sendBundle", &json!([[text, text]])).expect("it needs accounts");
    assert_eq!(bundle.transactions.len(), 2);
    let base64 = BASE64_STANDARD.encode(&bytes);
    let bundle = json!([{ "encodedTransactions": [base64] }]);
    let bundle = fork.needs("simulateBundle", &bundle).expect("it needs accounts");
    assert_eq!(bundle.transactions, [transaction]);
    let of = |method, params: Value| -> BTreeSet<Pubkey> {
        let needs = fork.needs(method, &params).unwrap_or_else(|| panic!("{method} needs some"));
        needs.keys.into_iter().collect()
    };
    let one = key(1).to_string();
    let two = key(2).to_string();
    assert_eq!(of("requestAirdrop", json!([one, 5])), BTreeSet::from([key(1)]));
    assert_eq!(of("surfnet_setAccount", json!([one, {}])), BTreeSet::from([key(1)]));
    let token = of("surfnet_setTokenAccount", json!([one, two, {}]));
    assert!(token.len() == 3 && token.contains(&key(2)), "{token:?}");
    let program = [key(1), get_program_data_address(&key(1))];
    assert_eq!(of("surfnet_writeProgram", json!([one, "00", 0])), program.into());
    assert_eq!(of("surfnet_setProgramAuthority", json!([one])), program.into());
    assert_eq!(of("surfnet_cloneProgramAccount", json!([one, two])).len(), 4);
    let off = json!([["surfnet_setAccount"]]);
    fork.world.call("surfnet_disableCheatcode", &off).expect("it is disabled");
    assert!(fork.needs("surfnet_setAccount", &json!([one, {}])).is_none());
}

#[test]
fn a_call_waits_for_its_accounts_or_gets_the_reason() {
    let fork = ForkWorld::new();
    let prepare = || {
        let text = json!([key(1).to_string()]).to_string();
        let prepared = fork.world.api.prepare("getBalance", Params::new(Some(&text)));
        prepared.map(|preparation| preparation.expect("it waits"))
    };
    let upstream = || "http://there".to_owned();
    let unreachable = FetchError::Unreachable { upstream: upstream(), why: "gone".to_owned() };
    for (result, code) in [
        (Ok(()), None),
        (Err(unreachable), Some(-32603)),
        (Err(FetchError::Full { bytes: 2, limit: 1 }), Some(-32600)),
    ] {
        let mut call = prepare().expect("it is queued");
        assert!(call.poll_ready(&|| Waker::noop().clone()).is_pending());
        let reply = fork.upstream.replies.lock().pop().expect("it was requested");
        reply.send(result);
        assert!(call.poll_ready(&|| Waker::noop().clone()).is_ready());
        let err = call.finish().err();
        assert_eq!(err.as_ref().map(|err| err.code), code);
        // The reason names the remedy.
        assert!(err.is_none_or(|err| err.message.contains("--fork-")));
    }
    let call = prepare().expect("it is queued");
    fork.upstream.replies.lock().clear();
    assert_eq!(call.finish().map_err(|err| err.code), Err(-32603), "the node ends");
    *fork.upstream.refusal.lock() = Some(FetchError::TooMany { waiting: 5, limit: 5 });
    assert_eq!(prepare().err().map(|err| err.code), Some(OVERLOADED));
}

#[test]
fn accounts_that_were_forgotten_are_not_current() {
    let fork = ForkWorld::new();
    let clients = RateLimiter::new(cpu_pool::Config::default().clients);
    let cache = Arc::new(ResponseCache::new(1 << 20));
    let server = fork.world.api.clone().into_server(cache, Arc::new(clients));
    let client = MethodClient::default();
    let params = json!([[key(1).to_string(), key(2).to_string()]]).to_string();
    let watch = || {
        client.watch_call(&server, "getMultipleAccounts", &params, ResponseOptions::default(), 4)
    };
    let set_fetched = |is_fetched| fork.upstream.has_all.store(is_fetched, Ordering::Relaxed);
    assert!(watch().is_none(), "they are not fetched yet");
    set_fetched(true);
    let watched = watch().expect("they are known");
    let watched = client.finish_watch(&server, vec![watched]).expect("nothing has changed");
    let arrived = server.context.pool.now();
    let is_current = || client.repeat_watched(&server, &watched, arrived).expect("it is admitted");
    assert!(is_current());
    set_fetched(false);
    assert!(!is_current(), "the ledger has not changed, but they must be fetched again");
    set_fetched(true);
    assert!(is_current());
}

#[test]
fn an_offline_account_is_never_fetched() {
    let fork = ForkWorld::new();
    let call = |params| fork.world.call("surfnet_offlineAccount", &params);
    call(json!([key(1).to_string()])).expect("it is served");
    call(json!([key(2).to_string(), { "includeOwnedAccounts": true }])).expect("it is served");
    assert_eq!(*fork.upstream.offline.lock(), [(key(1), false), (key(2), true)]);
    assert_eq!(call(json!(["no address"])).map_err(|err| err.code), Err(-32602));
    let stream = fork.world.call("surfnet_streamAccount", &json!([])).map_err(|err| err.message);
    assert!(stream.is_err_and(|message| message.contains("surfnet_resetAccount")));
}

#[test]
fn a_reset_forgets_what_came_from_the_upstream() {
    let fork = ForkWorld::new();
    let reset = |key: &Pubkey| {
        let done = fork.world.call("surfnet_resetAccount", &json!([key.to_string()]));
        done.unwrap_or_else(|err| panic!("{err:?}"));
        let commands = std::mem::take(&mut *fork.control.0.lock());
        (commands, std::mem::take(&mut *fork.upstream.forgotten.lock()))
    };
    let own = vec![get_program_data_address(&UPSTREAMS), UPSTREAMS];
    assert_eq!(reset(&UPSTREAMS), (vec!["edit"], own));
    assert_eq!(reset(&LOCAL), (vec!["reset"], Vec::new()));
    fork.world.call("surfnet_resetNetwork", &json!([])).expect("it is reset");
    assert_eq!(*fork.upstream.forgotten.lock(), [Pubkey::default()]);
}
