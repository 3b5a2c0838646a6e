//! Finds settings of the servers with which a log can lose acknowledged messages.
//!
//! Visible to every client: the replicas, storage and persistence mode of a stream. Whether a server syncs before it
//! acknowledges (`sync_interval: always`) is only in the reply of the system account to `$SYS.REQ.SERVER.PING.JSZ`, so
//! an operator exports that service to the account of the log. Without the export the unknown setting is a fault.
//! Not visible to any client: the disks. A disk that acknowledges a sync before it has the data, servers on one disk or
//! without power protection can lose messages under any setting.
//! Bounds: [`SETTINGS_WAIT`] for the replies of the servers.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::StatusCode;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Config, PersistenceMode, StorageType};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::Value;
use tokio::time::timeout;

use super::connection::Connection;
use super::generation_stream::GenerationStream;
use crate::error::LogError;

/// The service of the system account that returns each server's settings of JetStream.
const SETTINGS_SUBJECT: &str = "$SYS.REQ.SERVER.PING.JSZ";
/// Time for the next server to respond.
const SETTINGS_WAIT: Duration = Duration::from_secs(2);
const ATTEMPT: &str = "read the servers' settings";

/// Returns a sentence for each way to lose acknowledged messages. `newest` is the stream of the newest generation, if
/// there is one.
pub(super) async fn find_faults(
    connection: &Connection,
    replicas: u8,
    newest: Option<&GenerationStream>,
) -> Result<Vec<String>, LogError> {
    let mut faults = Vec::new();
    faults.extend(find_replica_fault("a new generation", usize::from(replicas)));
    if let Some(stream) = newest
        && let Some(settings) = read_stream_settings(connection, stream).await?
    {
        faults.extend(find_stream_faults(&settings));
    }
    faults.extend(find_sync_faults(&read_server_settings(connection).await?));
    Ok(faults)
}

/// Returns the settings of a stream, or `None` if it was deleted.
async fn read_stream_settings(
    connection: &Connection,
    stream: &GenerationStream,
) -> Result<Option<Config>, LogError> {
    match connection.get_stream(&stream.name).await {
        Ok(found) => Ok(Some(found.cached_info().config.clone())),
        Err(err) => match err.kind() {
            GetStreamErrorKind::JetStream(reply)
                if reply.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            _ => Err(connection.error(format!("open stream {}", stream.name), err)),
        },
    }
}

fn find_stream_faults(settings: &Config) -> Vec<String> {
    let name = format!("stream {}", settings.name);
    let mut faults = Vec::new();
    faults.extend(find_replica_fault(&name, settings.num_replicas));
    if settings.storage == StorageType::Memory {
        faults.push(format!("{name} is kept in memory: a restart of its servers loses it"));
    }
    if settings.persist_mode == Some(PersistenceMode::Async) {
        faults.push(format!("{name} acknowledges messages before they are stored"));
    }
    faults
}

fn find_replica_fault(what: &str, replicas: usize) -> Option<String> {
    (replicas < 2).then(|| format!("{what} is stored by one server: the loss of its disk loses it"))
}

/// The settings of a server that matter for durability.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServerSettings {
    syncs_always: bool,
    /// Number of servers of the cluster, as this one knows it.
    cluster_size: usize,
}

/// Asks all servers. The result has one entry for each that responded, by its name.
async fn read_server_settings(
    connection: &Connection,
) -> Result<BTreeMap<String, ServerSettings>, LogError> {
    let client = &connection.client;
    let inbox = client.new_inbox();
    let replies = client.subscribe(inbox.clone()).await;
    let mut replies = replies.map_err(|err| connection.error(ATTEMPT, err))?;
    let sent = client.publish_with_reply(SETTINGS_SUBJECT, inbox, Bytes::new()).await;
    sent.map_err(|err| connection.error(ATTEMPT, err))?;
    let mut servers = BTreeMap::new();
    while let Ok(Some(reply)) = timeout(SETTINGS_WAIT, replies.next()).await {
        if reply.status == Some(StatusCode::NO_RESPONDERS) {
            break;
        }
        if let Some((name, settings)) = parse_settings(&reply.payload) {
            servers.insert(name, settings);
        }
        if servers.len() >= count_servers(&servers) {
            break;
        }
    }
    Ok(servers)
}

/// Parses the reply of a server: its name and settings. `None` without JetStream: the server stores nothing.
fn parse_settings(reply: &[u8]) -> Option<(String, ServerSettings)> {
    let reply = serde_json::from_slice::<Value>(reply).ok()?;
    if reply.pointer("/data/disabled").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let name = reply.pointer("/server/name")?.as_str()?.to_owned();
    let syncs_always = reply.pointer("/data/config/sync_always").and_then(Value::as_bool);
    let cluster_size = reply.pointer("/data/meta_cluster/cluster_size").and_then(Value::as_u64);
    let settings = ServerSettings {
        syncs_always: syncs_always.unwrap_or_default(),
        cluster_size: cluster_size.and_then(|size| usize::try_from(size).ok()).unwrap_or(1),
    };
    Some((name, settings))
}

fn count_servers(servers: &BTreeMap<String, ServerSettings>) -> usize {
    servers.values().map(|server| server.cluster_size).max().unwrap_or(1)
}

fn find_sync_faults(servers: &BTreeMap<String, ServerSettings>) -> Vec<String> {
    let fix = "jetstream { sync_interval: always }";
    if servers.is_empty() {
        return vec![format!(
            "no server reports whether it syncs before it acknowledges ({fix}): export {SETTINGS_SUBJECT} of the system \
             account to the account of the log"
        )];
    }
    let lazy = servers.iter().filter(|(_, settings)| !settings.syncs_always);
    let mut faults: Vec<String> = lazy
        .map(|(name, _)| {
            format!("server {name} acknowledges messages before it syncs them: set {fix}")
        })
        .collect();
    let expected = count_servers(servers);
    if servers.len() < expected {
        faults.push(format!(
            "only {} of {expected} servers told whether they sync before they acknowledge ({fix})",
            servers.len()
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(name: &str, config: &str, meta: &str) -> (String, ServerSettings) {
        let json =
            format!(r#"{{"server":{{"name":"{name}"}},"data":{{"config":{config}{meta}}}}}"#);
        parse_settings(json.as_bytes()).expect("a reply")
    }

    #[test]
    fn each_lazy_or_silent_server_is_a_fault() {
        let meta = r#","meta_cluster":{"cluster_size":3}"#;
        let synced = r#"{"sync_interval":120000000000,"sync_always":true}"#;
        let lazy = r#"{"sync_interval":120000000000}"#;
        let servers =
            [reply("a", synced, meta), reply("b", synced, meta), reply("c", synced, meta)];
        assert_eq!(find_sync_faults(&BTreeMap::from(servers)), [""; 0]);
        let servers = [reply("a", synced, meta), reply("b", lazy, meta)];
        let faults = find_sync_faults(&BTreeMap::from(servers));
        assert!(faults[0].starts_with("server b acknowledges"), "{faults:?}");
        assert!(faults[1].starts_with("only 2 of 3 servers"), "{faults:?}");
        let alone = BTreeMap::from([reply("a", synced, "")]);
        assert_eq!(find_sync_faults(&alone), [""; 0]);
        let disabled = br#"{"server":{"name":"d"},"data":{"disabled":true,"config":{}}}"#;
        assert_eq!(parse_settings(disabled), None);
        let faults = find_sync_faults(&BTreeMap::new());
        assert!(faults[0].contains(SETTINGS_SUBJECT), "{faults:?}");
    }

    #[test]
    fn a_stream_that_can_lose_messages_is_a_fault() {
        let safe = Config { name: "s".to_owned(), num_replicas: 3, ..Config::default() };
        assert_eq!(find_stream_faults(&safe), [""; 0]);
        let risky = Config {
            num_replicas: 1,
            storage: StorageType::Memory,
            persist_mode: Some(PersistenceMode::Async),
            ..safe
        };
        assert_eq!(find_stream_faults(&risky).len(), 3);
    }
}
