//! Golden messages in Borsh are decoded, and encoded again to the same bytes.

use kaspa::{
    AddressBalance, BlockDagInfo, BlockTemplate, BorshAddresses, BorshBalancesReply, BorshError,
    BorshReply, BorshRequest, BorshServerMessage, BorshUtxosReply, CoinSupply, Event, KaspaAddress,
    Method, NodeInfo, Notification, Operation, Scope, ServerError, ServerInfo, Totals,
    VerbosityLevel, check_borsh_request, decode_borsh_sink, decode_borsh_utxos,
    encode_borsh_balance, encode_borsh_failure, encode_borsh_pong, encode_borsh_rejection,
    encode_borsh_sink, encode_borsh_sink_blue_score, encode_borsh_subscribed,
    encode_borsh_unsubscribed, replace_borsh_id,
};
use testkit::kaspa_golden::{BORSH, CHAIN, JSON, decode_digits, expect, expect_bytes, messages};

/// The reply of a method.
fn reply(frame: &[u8]) -> BorshReply<'_> {
    match BorshServerMessage::parse(frame) {
        Ok(BorshServerMessage::Reply(reply)) => reply,
        other => panic!("not a reply: {other:?}"),
    }
}

fn structure(frame: &[u8]) -> &[u8] {
    reply(frame).result.expect("a successful reply")
}

/// The id of a frame that has one.
fn id(frame: &[u8]) -> u64 {
    u64::from_le_bytes(frame[1..9].try_into().expect("eight bytes"))
}

/// The subscriptions by the name of the client's function.
fn scopes() -> Vec<(&'static str, Scope)> {
    let request = expect_bytes(BORSH, "subscribe_utxos_changed", "request");
    let scope = BorshRequest::parse(&request).expect("a request").scope().expect("a scope");
    vec![
        ("utxos_changed", scope),
        (
            "virtual_chain_changed",
            Scope::VirtualChainChanged { include_accepted_transaction_ids: true },
        ),
        ("block_added", Scope::Other(Event::BlockAdded)),
        ("finality_conflict", Scope::Other(Event::FinalityConflict)),
        ("finality_conflict_resolved", Scope::Other(Event::FinalityConflictResolved)),
        ("new_block_template", Scope::Other(Event::NewBlockTemplate)),
        ("pruning_point_utxo_set_override", Scope::Other(Event::PruningPointUtxoSetOverride)),
        ("sink_blue_score_changed", Scope::Other(Event::SinkBlueScoreChanged)),
        ("virtual_daa_score_changed", Scope::Other(Event::VirtualDaaScoreChanged)),
    ]
}

#[test]
fn every_method_has_a_request_that_passes_the_check() {
    let mut methods = Vec::new();
    let requests = messages(BORSH).filter(|golden| golden.kind == "request");
    for golden in requests {
        let frame = decode_digits(golden.text);
        let request = BorshRequest::parse(&frame).expect(golden.name);
        assert_eq!(request.id, Some(id(&frame)));
        assert_eq!(check_borsh_request(&request), Ok(()), "{}", golden.name);
        if let Operation::Method(method) = request.operation {
            let name = golden.name.trim_start_matches("error_");
            assert_eq!(method.name(), name.split('_').next().unwrap_or_default());
            methods.push(method);
        }
    }
    methods.sort();
    methods.dedup();
    assert_eq!(methods, Method::ALL);
}

#[test]
fn a_request_that_is_cut_anywhere_is_refused() {
    for golden in messages(BORSH).filter(|golden| golden.kind == "request") {
        let frame = decode_digits(golden.text);
        for len in 0..frame.len() {
            let Ok(request) = BorshRequest::parse(&frame[..len]) else { continue };
            assert!(check_borsh_request(&request).is_err(), "{} at {len}", golden.name);
            // With the length of the shorter structure: the check must find the end itself.
            let Some(structure_bytes) = len.checked_sub(14) else { continue };
            let mut cut = frame[..len].to_vec();
            cut[10..14].copy_from_slice(&(structure_bytes as u32).to_le_bytes());
            let request = BorshRequest::parse(&cut).expect(golden.name);
            assert!(check_borsh_request(&request).is_err(), "{} at {len}", golden.name);
        }
        let longer = [frame, vec![0]].concat();
        let request = BorshRequest::parse(&longer).expect(golden.name);
        let error = check_borsh_request(&request);
        assert_eq!(error, Err(BorshError::TrailingBytes { bytes: 1 }), "{}", golden.name);
    }
}

#[test]
fn a_count_that_no_bytes_back_is_refused() {
    let head = |method: Method, fields: &[&[u8]]| {
        let fields = fields.concat();
        let mut frame = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, method.code()];
        frame.extend_from_slice(&(fields.len() as u32).to_le_bytes());
        frame.extend_from_slice(&fields);
        frame
    };
    let huge = 0xffff_ff00_u32.to_le_bytes();
    let requests = [
        head(Method::GetUtxosByAddresses, &[&[1, 0], &huge]),
        head(Method::GetBalancesByAddresses, &[&[1, 0], &huge, &[0; 38]]),
        head(Method::GetDaaScoreTimestampEstimate, &[&[1, 0], &huge]),
        head(Method::GetBlockTemplate, &[&[1, 0, 2, 0], &huge]),
        head(Method::GetMempoolEntriesByAddresses, &[&[1, 0], &huge, &[0, 0]]),
        head(Method::SubmitTransaction, &[&[1, 0, 8, 0, 0, 0, 1, 0, 0, 0], &[4, 0, 0, 0], &huge]),
    ];
    for frame in requests {
        let request = BorshRequest::parse(&frame).expect("a head");
        let is_refused = matches!(
            check_borsh_request(&request),
            Err(BorshError::Count { .. } | BorshError::Truncated { .. })
        );
        assert!(is_refused, "{:?}", request.operation);
    }
}

#[test]
fn unknown_operations_and_tags_are_refused() {
    let ping = expect_bytes(BORSH, "ping", "request");
    let mut unknown = ping.clone();
    for code in [5, 20, 59, 69, 109, 154, 255] {
        unknown[kaspa::OPERATION_OFFSET] = code;
        assert!(BorshRequest::parse(&unknown).is_err(), "{code}");
    }
    let mut tag = ping.clone();
    tag[0] = 2;
    assert!(BorshRequest::parse(&tag).is_err());
    let without_id = [&[0], &ping[9..]].concat();
    let request = BorshRequest::parse(&without_id).expect("a client's notification");
    assert_eq!(request.id, None);
}

#[test]
fn own_requests_are_those_of_the_official_client() {
    let check = |name: &str, encode: &dyn Fn(u64) -> Vec<u8>| {
        let frame = expect_bytes(BORSH, name, "request");
        assert_eq!(encode(id(&frame)), frame, "{name}");
    };
    let without_params = [
        Method::Ping,
        Method::GetServerInfo,
        Method::GetInfo,
        Method::GetSink,
        Method::GetCoinSupply,
        Method::GetBlockDagInfo,
        Method::Shutdown,
    ];
    for method in without_params {
        check(method.name(), &|id| method.encode_borsh_request(id));
    }
    let frame = expect_bytes(BORSH, "getBlock", "response");
    let block = kaspa::Block::decode_borsh(structure(&frame)).expect("a block");
    check("getBlock", &|id| Method::encode_borsh_get_block(id, &block.hash, true));

    let frame = expect_bytes(BORSH, "getUtxosByAddresses", "request");
    let addresses = BorshRequest::parse(&frame).expect("a head").addresses().expect("addresses");
    assert_eq!(addresses.len(), 3);
    check("getUtxosByAddresses", &|id| {
        Method::GetUtxosByAddresses.encode_borsh_addresses(id, &addresses)
    });
    let frame = expect_bytes(BORSH, "getBalanceByAddress", "request");
    let address = BorshRequest::parse(&frame).expect("a head").address();
    assert_eq!(address, Ok(addresses[0]));
    check("getBalanceByAddress", &|id| Method::encode_borsh_get_balance(id, &addresses[0]));

    let frame = expect_bytes(BORSH, "getBalancesByAddresses", "request");
    let addresses = BorshRequest::parse(&frame).expect("a head").addresses().expect("addresses");
    check("getBlockTemplate", &|id| Method::encode_borsh_get_block_template(id, &addresses[0]));

    let frame = expect_bytes(BORSH, "getVirtualChainFromBlockV2_Full", "request");
    let start = kaspa::Hash(frame[16..48].try_into().expect("a hash"));
    let levels = [
        ("getVirtualChainFromBlockV2_None", VerbosityLevel::None),
        ("getVirtualChainFromBlockV2_Low", VerbosityLevel::Low),
        ("getVirtualChainFromBlockV2_High", VerbosityLevel::High),
        ("getVirtualChainFromBlockV2_Full", VerbosityLevel::Full),
    ];
    for (name, level) in levels {
        check(name, &|id| Method::encode_borsh_get_chain(id, &start, level, None));
    }
    let start = kaspa::Hash([0xab; 32]);
    check("error_getVirtualChainFromBlockV2", &|id| {
        Method::encode_borsh_get_chain(id, &start, VerbosityLevel::Full, Some(5))
    });
    for (name, scope) in scopes() {
        check(&format!("subscribe_{name}"), &|id| scope.encode_borsh_subscribe(id));
        if name != "utxos_changed" {
            check(&format!("unsubscribe_{name}"), &|id| scope.encode_borsh_unsubscribe(id));
        }
    }
}

#[test]
fn scopes_are_read() {
    for (name, scope) in scopes() {
        let frame = expect_bytes(BORSH, &format!("subscribe_{name}"), "request");
        let request = BorshRequest::parse(&frame).expect(name);
        assert_eq!(request.operation, Operation::Subscribe);
        assert_eq!(request.scope(), Ok(scope));
        let frame = expect_bytes(BORSH, &format!("unsubscribe_{name}"), "request");
        let request = BorshRequest::parse(&frame).expect(name);
        assert_eq!(request.operation, Operation::Unsubscribe);
        assert!(request.scope().is_ok());
    }
}

#[test]
fn replies_are_those_of_kaspad() {
    let check = |name: &str, encode: &dyn Fn(u64, &[u8]) -> Vec<u8>| {
        let frame = expect_bytes(BORSH, name, "response");
        assert_eq!(encode(id(&frame), structure(&frame)), frame, "{name}");
    };
    check("getServerInfo", &|id, structure| {
        let info = ServerInfo::decode_borsh(structure).expect("server info");
        assert_eq!(info.network, kaspa::Network::Simnet);
        assert_eq!(info.rpc_api_version, kaspa::RPC_API_VERSION);
        assert_eq!(info.server_version, "2.1.0");
        assert!(info.has_utxo_index && info.is_synced);
        info.encode_borsh(id)
    });
    check("getInfo", &|id, structure| {
        let info = NodeInfo::decode_borsh(structure).expect("node info");
        assert!(info.has_notify_command && info.has_message_id && info.is_utxo_indexed);
        info.encode_borsh(id)
    });
    check("getCoinSupply", &|id, structure| {
        let supply = CoinSupply::decode_borsh(structure).expect("supply");
        assert_eq!(supply.max_sompi, kaspa::MAX_SOMPI);
        supply.encode_borsh(id)
    });
    check("getBalanceByAddress", &|id, _| encode_borsh_balance(id, 300_000_000));
    check("getBalancesByAddresses", &|id, _| {
        let mut reply = BorshBalancesReply::default();
        balances().iter().for_each(|balance| reply.add_address(&balance.address.payload));
        let mut encoded = reply.encode_head(id).expect("short enough");
        balances().iter().for_each(|balance| balance.encode_borsh_into(&mut encoded));
        encoded
    });
    check("getSink", &|id, structure| {
        encode_borsh_sink(id, &decode_borsh_sink(structure).expect("a hash"))
    });
    check("getSinkBlueScore", &|id, _| encode_borsh_sink_blue_score(id, 1_023));
    check("ping", &|id, _| encode_borsh_pong(id));
    for (name, _) in scopes() {
        check(&format!("subscribe_{name}"), &|id, _| encode_borsh_subscribed(id, 1));
        check(&format!("unsubscribe_{name}"), &|id, _| encode_borsh_unsubscribed(id));
    }
}

/// The balances in the golden reply, as the one in JSON has them.
fn balances() -> Vec<AddressBalance> {
    let text = expect(JSON, "getBalancesByAddresses", "response");
    let json: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let entries = json["params"]["entries"].as_array().expect("entries").iter();
    entries
        .map(|entry| AddressBalance {
            address: entry["address"].as_str().and_then(|text| text.parse().ok()).expect("address"),
            balance: entry["balance"].as_u64().expect("an amount"),
        })
        .collect()
}

#[test]
fn a_list_of_utxos_is_encoded_in_pieces() {
    let frames = [
        expect_bytes(BORSH, "getUtxosByAddresses", "response"),
        expect_bytes(CHAIN, "chain_utxos", "response"),
    ];
    let mut covenants = 0;
    for frame in frames {
        let utxos = decode_borsh_utxos(structure(&frame)).expect("UTXOs");
        let mut reply = BorshUtxosReply::default();
        let mut by_address = BorshUtxosReply::default();
        for utxo in &utxos {
            assert_eq!(utxo.entry.script_public_key.address(kaspa::Prefix::Simnet), utxo.address);
            reply.add_utxo(utxo);
            let with_covenant = u64::from(utxo.entry.covenant_id.is_some());
            covenants += with_covenant;
            let totals = Totals { amount: utxo.entry.amount, count: 1, with_covenant };
            by_address.add_address(&utxo.address.expect("an address").payload, &totals);
        }
        assert_eq!(reply, by_address);
        assert_eq!(reply.frame_bytes(), frame.len() as u64);
        let mut encoded = reply.encode_head(id(&frame)).expect("short enough");
        utxos.iter().for_each(|utxo| utxo.encode_borsh_into(&mut encoded));
        assert_eq!(encoded, frame);
    }
    assert_eq!(covenants, 1);
}

#[test]
fn a_list_that_is_too_long_is_refused() {
    let payload = kaspa::AddressPayload::PublicKey([7; 32]);
    let totals = Totals { amount: 0, count: 29_020_049, with_covenant: 0 };
    let mut reply = BorshUtxosReply::default();
    reply.add_address(&payload, &totals);
    assert!(reply.encode_head(1).is_ok());
    reply.add_address(&payload, &totals);
    let error = reply.encode_head(1).expect_err("more than 4 GiB");
    assert_eq!(error.count, 2 * 29_020_049);
}

#[test]
fn all_nine_notifications_are_those_of_kaspad() {
    let mut events = Vec::new();
    for golden in messages(BORSH).filter(|golden| golden.kind == "notification") {
        let frame = decode_digits(golden.text);
        let message = BorshServerMessage::parse(&frame).expect(golden.name);
        let notification = message.decode_notification().expect("a notification");
        let notification = notification.expect(golden.name);
        let name = golden.name.split('_').next().unwrap_or_default();
        assert_eq!(notification.event().name(), name);
        assert_eq!(notification.encode_borsh(), frame, "{name}");
        events.push(notification.event());
        for len in 0..frame.len() {
            if let Ok(message) = BorshServerMessage::parse(&frame[..len]) {
                assert!(message.decode_notification().is_none_or(|result| result.is_err()));
            }
        }
    }
    events.sort();
    events.dedup();
    assert_eq!(events, Event::ALL);
}

#[test]
fn a_block_is_added_with_its_hash() {
    let frame = expect_bytes(BORSH, "blockAddedNotification", "notification");
    let message = BorshServerMessage::parse(&frame).expect("a message");
    let Some(Ok(Notification::BlockAdded(structure))) = message.decode_notification() else {
        panic!("not a block");
    };
    let block = kaspa::Block::decode_borsh(&structure).expect("a block");
    assert_eq!(block.header.hash(), block.hash);
    assert!(block.transactions[0].is_coinbase());
}

#[test]
fn a_block_has_the_hashes_that_kaspad_gives_it() {
    let frame = expect_bytes(BORSH, "getBlock", "response");
    let block = kaspa::Block::decode_borsh(structure(&frame)).expect("a block");
    let text = expect(JSON, "getBlock", "response");
    let json: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let verbose = &json["params"]["block"]["verboseData"];
    assert_eq!(verbose["hash"], block.hash.to_string());
    assert_eq!(block.header.hash(), block.hash);
    assert_eq!(block.header.parents.direct()[0].to_string(), verbose["selectedParentHash"]);
    let ids: Vec<String> = block.transactions.iter().map(|tx| tx.id().to_string()).collect();
    assert_eq!(verbose["transactionIds"], serde_json::json!(ids));
    let merge_set = kaspa::Block::decode_borsh_merge_set(structure(&frame)).expect("a merge set");
    let merge_set = merge_set.iter().map(|hash| serde_json::json!(hash.to_string()));
    let list = |name: &str| verbose[name].as_array().expect("a list").clone();
    let expected = [list("mergeSetBluesHashes"), list("mergeSetRedsHashes")].concat();
    assert_eq!(merge_set.collect::<Vec<_>>(), expected);
    for (transaction, json) in block
        .transactions
        .iter()
        .zip(json["params"]["block"]["transactions"].as_array().expect("a list"))
    {
        assert_eq!(json["verboseData"]["hash"], transaction.hash().to_string());
    }
}

#[test]
fn state_of_the_dag_is_read() {
    let frame = expect_bytes(BORSH, "getBlockDagInfo", "response");
    let dag = BlockDagInfo::decode_borsh(structure(&frame)).expect("the state of the DAG");
    assert_eq!(dag.network, kaspa::Network::Simnet);
    assert_eq!(dag.pruning_point, dag.network.genesis().hash());
    let frame = expect_bytes(BORSH, "getSink", "response");
    assert_eq!(decode_borsh_sink(structure(&frame)), Ok(dag.sink));
    let frame = expect_bytes(BORSH, "getBlockTemplate", "response");
    let template = BlockTemplate::decode_borsh(structure(&frame)).expect("a template");
    assert_eq!(template.header.parents.direct(), dag.virtual_parents);
    assert_eq!(template.header.daa_score, dag.virtual_daa_score);
    assert!(template.is_synced);
}

#[test]
fn errors_are_those_of_kaspad() {
    let failure = expect_bytes(BORSH, "getHeaders", "response");
    let error = ServerError::Text("Not implemented".to_owned());
    assert_eq!(reply(&failure).result, Err(error.clone()));
    let operation = Operation::Method(Method::GetHeaders);
    assert_eq!(encode_borsh_failure(id(&failure), operation, &error), failure);
    let rejections = [
        ("error_not_found", ServerError::NotFound),
        ("error_bad_payload", ServerError::InvalidPayload),
        ("error_no_payload", ServerError::InvalidPayload),
    ];
    for (name, error) in rejections {
        let frame = expect_bytes(CHAIN, name, "response");
        assert_eq!(reply(&frame).result, Err(error.clone()), "{name}");
        assert_eq!(encode_borsh_rejection(id(&frame), &error), frame, "{name}");
        let request = expect_bytes(CHAIN, name, "request");
        let request = BorshRequest::parse(&request).expect(name);
        let is_method = matches!(request.operation, Operation::Method(_));
        assert_eq!(check_borsh_request(&request).is_err(), is_method, "{name}");
    }
}

#[test]
fn an_id_is_replaced_in_place() {
    for kind in ["request", "response"] {
        let mut frame = expect_bytes(BORSH, "getInfo", kind);
        let rest = frame[9..].to_vec();
        assert!(replace_borsh_id(&mut frame, 77));
        assert_eq!((id(&frame), &frame[9..]), (77, &rest[..]));
    }
    let mut frame = expect_bytes(BORSH, "newBlockTemplateNotification", "notification");
    assert!(!replace_borsh_id(&mut frame, 77));
    assert!(!replace_borsh_id(&mut [1, 2, 3], 77));
    assert!(!replace_borsh_id(&mut [], 77));
}

#[test]
fn another_networks_address_is_read() {
    let frame = expect_bytes(BORSH, "getBalanceByAddress", "request");
    for prefix in 0..4 {
        let mut other = frame.clone();
        other[16] = prefix;
        let address = BorshRequest::parse(&other).expect("a head").address().expect("an address");
        assert_eq!(address.prefix, kaspa::Prefix::ALL[usize::from(prefix)]);
        assert_eq!(address.to_string().parse::<KaspaAddress>(), Ok(address));
    }
    for (offset, value) in [(16, 4), (17, 2), (18, 31), (18, 33)] {
        let mut wrong = frame.clone();
        wrong[offset] = value;
        assert!(BorshRequest::parse(&wrong).expect("a head").address().is_err());
    }
}

#[test]
fn addresses_are_read_in_parts() {
    for name in ["getUtxosByAddresses", "getBalancesByAddresses", "subscribe_utxos_changed"] {
        let frame = expect_bytes(BORSH, name, "request");
        let request = BorshRequest::parse(&frame).expect(name);
        let all = match request.operation {
            Operation::Method(_) => request.addresses().expect(name),
            _ => match request.scope().expect(name) {
                Scope::UtxosChanged { addresses } => addresses,
                other => panic!("{other:?}"),
            },
        };
        for count_max in 1..5 {
            let mut position = BorshAddresses::find(&request).expect(name);
            let mut read = Vec::new();
            loop {
                let part = position.read(&request, count_max).expect(name);
                if part.is_empty() {
                    break;
                }
                assert!(part.len() <= count_max);
                read.extend(part);
            }
            assert_eq!(read, all, "{name}");
        }
    }
}

#[test]
fn the_parameters_that_safe_mode_limits_are_found() {
    let mut frame = expect_bytes(BORSH, "submitTransaction", "request");
    let request = BorshRequest::parse(&frame).expect("a request");
    let offset = request.allow_orphan_offset().expect("a flag");
    assert_eq!(offset, request.payload.len() - 1);
    let last = frame.len() - 1;
    frame[last] = 2;
    let request = BorshRequest::parse(&frame).expect("a request");
    assert!(request.allow_orphan_offset().is_err());
    let frame = expect_bytes(BORSH, "estimateNetworkHashesPerSecond", "request");
    let request = BorshRequest::parse(&frame).expect("a request");
    assert!(request.window_size().expect("a size") > 0);
}
