//! A bucket of S3 or of a compatible store, configured by the environment.
//!
//! `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` and the other
//! variables of `object_store`. Without keys the machine's metadata service provides them.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::{ObjectStore, RetryConfig};

use crate::http_connector::HyperConnector;
use crate::redact::reason;
use crate::tls;

/// Opens a bucket. No request is sent.
///
/// # Errors
///
/// The environment is invalid. The text has no credentials.
pub(crate) fn open(bucket: &str) -> Result<Arc<dyn ObjectStore>, String> {
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    for key in [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint] {
        // Errors of `object_store` may have the URL.
        let endpoint = builder.get_config_value(&key);
        if endpoint.is_some_and(|url| url.contains(['@', '?'])) {
            return Err("AWS_ENDPOINT_URL has a user or a query".to_owned());
        }
    }
    // One attempt: the depot retries, and knows which requests may have been applied.
    let retries =
        RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() };
    let builder = builder
        .with_allow_http(true)
        .with_retry(retries)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        // A list of keys in one request is an extension that some stores lack.
        .with_disable_bulk_delete(true)
        .with_http_connector(HyperConnector { tls: tls::client_config() });
    let store = builder.build().map_err(|err| reason(&err))?;
    Ok(Arc::new(store))
}
