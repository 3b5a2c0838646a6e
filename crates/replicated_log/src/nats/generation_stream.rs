//! Names and settings of the stream of a generation.
//!
//! The stream `hydrant-<cluster>-<generation>` has two subjects, `<stream>.head` and `<stream>.body`: the subject of a
//! message is its kind.

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};

use crate::config::LogConfig;
use crate::message::MessageKind;

/// The names of a generation's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GenerationStream {
    pub(super) name: String,
    pub(super) head_subject: String,
    body_subject: String,
}

impl GenerationStream {
    pub(super) fn new(cluster: &str, generation: u64) -> Self {
        let name = format!("{}{generation}", name_prefix(cluster));
        Self { head_subject: format!("{name}.head"), body_subject: format!("{name}.body"), name }
    }

    /// Returns the subject of the messages of a kind.
    pub(super) fn subject(&self, kind: MessageKind) -> &str {
        match kind {
            MessageKind::Head => &self.head_subject,
            MessageKind::Body => &self.body_subject,
        }
    }

    /// Returns the kind of the messages of a subject, or `None` if the subject is not one of the stream.
    pub(super) fn find_kind(&self, subject: &str) -> Option<MessageKind> {
        let kinds = [MessageKind::Head, MessageKind::Body];
        kinds.into_iter().find(|kind| self.subject(*kind) == subject)
    }

    /// Returns the settings that the stream is created with. Payloads are compressed already, and only the retention
    /// limits remove messages.
    pub(super) fn settings(&self, config: &LogConfig, creation_id: &str) -> Config {
        Config {
            name: self.name.clone(),
            description: Some(format!("Log of Hydrant, creation {creation_id}")),
            subjects: vec![self.head_subject.clone(), self.body_subject.clone()],
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::Old,
            storage: StorageType::File,
            num_replicas: usize::from(config.replicas),
            max_age: config.max_age,
            max_bytes: i64::try_from(config.max_bytes).unwrap_or(i64::MAX),
            allow_atomic_publish: true,
            allow_direct: true,
            deny_delete: true,
            deny_purge: true,
            ..Config::default()
        }
    }

    /// Returns why appends to a stream with these settings would fail, or `None` if they would not.
    pub(super) fn find_unusable_setting(&self, settings: &Config) -> Option<&'static str> {
        let has_subject = |kind| settings.subjects.iter().any(|name| name == self.subject(kind));
        if !settings.allow_atomic_publish {
            return Some("it does not allow atomic batches");
        }
        if !has_subject(MessageKind::Head) || !has_subject(MessageKind::Body) {
            return Some("it has other subjects");
        }
        (settings.discard != DiscardPolicy::Old).then_some("it refuses messages when it is full")
    }
}

/// Returns the generation in the name of a stream, or `None` if it is not a stream of the cluster.
pub(super) fn parse_generation(cluster: &str, stream_name: &str) -> Option<u64> {
    let digits = stream_name.strip_prefix(&name_prefix(cluster))?;
    let generation = digits.parse::<u64>().ok()?;
    // Other spellings of the number are not names that this crate gives.
    (generation.to_string() == digits).then_some(generation)
}

fn name_prefix(cluster: &str) -> String {
    format!("hydrant-{cluster}-")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_generation_is_parsed_from_the_name() {
        let stream = GenerationStream::new("main-net", 12);
        assert_eq!(parse_generation("main-net", &stream.name), Some(12));
        assert_eq!(parse_generation("main", &stream.name), None);
        for other in ["hydrant-main-net-", "hydrant-main-net-+1", "hydrant-main-net-01", "KV_main"]
        {
            assert_eq!(parse_generation("main-net", other), None, "{other}");
        }
    }

    #[test]
    fn the_subject_is_the_kind() {
        let stream = GenerationStream::new("c", 0);
        for kind in [MessageKind::Head, MessageKind::Body] {
            assert_eq!(stream.find_kind(stream.subject(kind)), Some(kind));
        }
        assert_eq!(stream.find_kind("hydrant-c-1.head"), None);
    }

    #[test]
    fn unusable_settings_are_named() {
        let config = LogConfig {
            url: "nats://a:4222".to_owned(),
            cluster: "c".to_owned(),
            replicas: 3,
            max_age: Duration::from_secs(60),
            max_bytes: u64::MAX,
            in_flight_bytes: 4 << 20,
            request_timeout: Duration::from_secs(5),
        };
        let stream = GenerationStream::new("c", 0);
        let settings = stream.settings(&config, "x");
        assert_eq!(settings.max_bytes, i64::MAX);
        assert_eq!(stream.find_unusable_setting(&settings), None);
        let without_batches = Config { allow_atomic_publish: false, ..settings.clone() };
        let reason = stream.find_unusable_setting(&without_batches);
        assert_eq!(reason, Some("it does not allow atomic batches"));
        let other = GenerationStream::new("c", 1);
        assert_eq!(other.find_unusable_setting(&settings), Some("it has other subjects"));
    }
}
