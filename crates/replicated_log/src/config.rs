//! Configuration of a log, for all implementations.
//!
//! Not here: the choice of an implementation (`open`).

use std::fmt;
use std::time::Duration;

use crate::error::LogError;

/// Maximum length of a cluster's name: it is part of the names of streams and directories.
const CLUSTER_NAME_BYTES_MAX: usize = 64;

/// Stands for a URL in an error if a part of it may be a password.
const HIDDEN: &str = "(hidden)";

/// Settings of all implementations. An implementation ignores the settings that it does not need.
///
/// The URL may contain passwords: `Debug` and errors show its hosts only.
#[derive(Clone)]
pub struct LogConfig {
    /// `nats://a:4222,nats://b:4222`, `file:///dir` or `s3://bucket/prefix`.
    pub url: String,
    /// Name of the cluster: letters, digits, `_` and `-`.
    pub cluster: String,
    /// Number of servers that store each message. NATS only.
    pub replicas: u8,
    /// Age at which messages are removed.
    pub max_age: Duration,
    /// Size of the log at which the oldest messages are removed.
    pub max_bytes: u64,
    /// Memory for messages in transit, for each writer and each reader. One batch may exceed it.
    pub in_flight_bytes: usize,
    /// Time limit of one request to the log.
    pub request_timeout: Duration,
}

impl LogConfig {
    /// Returns an error if the cluster's name cannot be part of a stream's or directory's name.
    pub(crate) fn check_cluster(&self) -> Result<(), LogError> {
        let name = &self.cluster;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !name.is_empty() && name.len() <= CLUSTER_NAME_BYTES_MAX && name.bytes().all(is_allowed)
        {
            return Ok(());
        }
        Err(LogError::with_reason(
            describe_url(&self.url),
            "open the log",
            format!(
                "cluster `{name}` is not a name of 1 to {CLUSTER_NAME_BYTES_MAX} letters, digits, `_` and `-`"
            ),
        ))
    }
}

impl fmt::Debug for LogConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, cluster, replicas, max_age, max_bytes, in_flight_bytes, request_timeout } =
            self;
        f.debug_struct("LogConfig")
            .field("url", &describe_url(url))
            .field("cluster", cluster)
            .field("replicas", replicas)
            .field("max_age", max_age)
            .field("max_bytes", max_bytes)
            .field("in_flight_bytes", in_flight_bytes)
            .field("request_timeout", request_timeout)
            .finish()
    }
}

/// Returns the scheme and the hosts of a URL, which may be a list that commas separate. Everything that may be a user, a
/// password, a path or a query is left out.
pub fn describe_url(url: &str) -> String {
    let hosts = url.split(',').map(|url| {
        let url = url.trim();
        let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
        let after_slashes = rest.strip_prefix("//").unwrap_or(rest);
        let (_, host) = rest.rsplit_once('@').unwrap_or(("", after_slashes));
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        match (scheme, host) {
            (scheme, "") if is_word(scheme) => format!("{scheme}:"),
            (scheme, host) if is_word(scheme) && is_host(host) => format!("{scheme}://{host}"),
            _ => HIDDEN.to_owned(),
        }
    });
    hosts.collect::<Vec<_>>().join(",")
}

fn is_word(scheme: &str) -> bool {
    !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns whether a text can be a host with or without a port. In any other text, a password may follow the colon.
fn is_host(text: &str) -> bool {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    host.bytes().all(is_name) && port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use futures_util::FutureExt;

    use super::*;
    use crate::open_log_space;

    fn config(url: &str, cluster: &str) -> LogConfig {
        LogConfig {
            url: url.to_owned(),
            cluster: cluster.to_owned(),
            replicas: 1,
            max_age: Duration::from_secs(60),
            max_bytes: 1 << 20,
            in_flight_bytes: 1 << 20,
            request_timeout: Duration::from_secs(5),
        }
    }

    /// Returns the texts of an error and of all its sources.
    fn describe(error: &(dyn Error + 'static)) -> String {
        let mut texts = vec![error.to_string()];
        let mut source = error.source();
        while let Some(error) = source {
            texts.push(error.to_string());
            source = error.source();
        }
        texts.join(": ")
    }

    #[test]
    fn no_error_and_no_debug_text_has_a_password() {
        let urls = [
            "nat://u:SECRET@a",
            "nat://u:SECRET@a,nat://u:SECRET@b:4222/x",
            "nat://u:SEC,SECRET@a",
            "u:SECRET@a",
            "SECRET",
            "nat://u:SECRET",
            "nat:u:SECRET@a?token=SECRET",
            "nats://u:SECRET@a",
            "s3://u:SECRET@bucket/SECRET",
        ];
        for url in urls {
            let config = config(url, "a b");
            let opened = open_log_space(&config).now_or_never().expect("no wait");
            let error = describe(&opened.err().expect("the name of the cluster is invalid"));
            assert!(error.contains("cluster `a b`") && !error.contains("SEC"), "{error}");
            let debug = format!("{config:?}");
            assert!(debug.contains("a b") && !debug.contains("SEC"), "{debug}");
        }
        for url in &urls[..6] {
            let opened = open_log_space(&config(url, "c")).now_or_never().expect("no wait");
            let error = describe(&opened.err().expect("the scheme is unknown"));
            assert!(error.contains("does not begin with") && !error.contains("SEC"), "{error}");
        }
    }

    #[test]
    fn the_hosts_of_a_url_are_shown() {
        let shown = describe_url("nats://u:p@a:4222, tls://b.example:4223/x,nats://[::1]:4222");
        assert_eq!(shown, "nats://a:4222,tls://b.example:4223,nats://[::1]:4222");
        assert_eq!(describe_url("memory:"), "memory:");
        assert_eq!(describe_url("file:///var/log"), "file:");
        assert_eq!(describe_url("s3://bucket/prefix"), "s3://bucket");
    }
}
