//! Load, unload and reload.

use std::io::{Read, Write};
use std::net::TcpStream;

use agave_geyser_plugin_interface::geyser_plugin_interface::{
    GeyserPlugin, GeyserPluginError, SlotStatus,
};

use crate::client::{Subscription, connect};
use crate::validator::Validator;

#[test]
fn it_requests_accounts_transactions_entries_and_nodes_but_not_the_snapshots() {
    let plugin: Box<dyn GeyserPlugin> = Box::<hydrant_geyser::HydrantGeyser>::default();
    assert_eq!(plugin.name(), "hydrant-geyser");
    assert!(plugin.account_data_notifications_enabled());
    assert!(!plugin.account_data_snapshot_notifications_enabled());
    assert!(plugin.transaction_notifications_enabled());
    assert!(plugin.entry_notifications_enabled());
    assert!(plugin.contact_info_notifications_enabled());
    // Before a load there is no client, and nothing fails.
    plugin.update_slot_status(1, None, &SlotStatus::CreatedBank).expect("ignored");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unloaded_plugin_frees_its_port_and_a_reload_serves_on_it_again() {
    let mut validator = Validator::load("");
    let address = validator.address();
    let mut client = connect(address).await;
    let mut updates = Subscription::start(&mut client).await;
    let err = validator.reload().expect_err("it is loaded");
    assert!(err.to_string().contains("loaded already"), "{err}");
    validator.bank(100);
    updates.until("processed 100").await;
    validator.plugin.on_unload();
    assert_eq!(updates.end().await.code(), tonic::Code::Unavailable);
    let mut validator = Validator::new(&format!(r#""address": "{address}""#));
    validator.reload().expect("the port is free again");
    let mut client = connect(address).await;
    let mut updates = Subscription::start(&mut client).await;
    validator.bank(101);
    updates.until("processed 101").await;
    validator.plugin.on_unload();
    // After the end, callbacks that are on their way are ignored.
    validator.bank(102);
}

#[test]
fn a_wrong_configuration_is_refused_with_its_key() {
    let mut validator = Validator::new(r#""address": "127.0.0.1:0", "queue_bytes": 1"#);
    let err = validator.reload().expect_err("unknown key");
    assert!(matches!(err, GeyserPluginError::ConfigFileReadError { .. }), "{err}");
    assert!(err.to_string().contains("queue_bytes"), "{err}");
    let mut validator = Validator::new(r#""address": "192.0.2.1:1""#);
    let err = validator.reload().expect_err("not an address of this machine");
    assert!(err.to_string().contains("192.0.2.1:1"), "{err}");
}

#[test]
fn metrics_are_served_beside_grpc() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let validator = Validator::load(&format!(r#", "metrics_address": "{address}""#));
    validator.bank(100);
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").expect("written");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("a response");
    for line in [
        "hydrant_geyser_updates_total{kind=\"account\"} 1",
        "hydrant_geyser_events_total{event=\"loss\"} 0",
        "hydrant_grpc_subscriptions_open 0",
        "hydrant_memory_bytes{part=\"geyser_queue\"}",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
