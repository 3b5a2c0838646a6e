//! The choice of an implementation by the scheme of a URL.

use std::sync::Arc;

use crate::config::{LogConfig, describe_url};
use crate::error::LogError;
use crate::log::LogSpace;
use crate::nats::NatsLogSpace;
use crate::object_log::ObjectLogSpace;

/// Opens the log at a URL. Creates no generation.
pub async fn open_log_space(config: &LogConfig) -> Result<Arc<dyn LogSpace>, LogError> {
    config.check_cluster()?;
    let scheme = config.url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        "nats" | "tls" => Ok(Arc::new(NatsLogSpace::open(config).await?)),
        "file" | "s3" => Ok(Arc::new(ObjectLogSpace::open(config)?)),
        _ => Err(LogError::with_reason(
            describe_url(&config.url),
            "open the log",
            "the URL does not begin with nats:, tls:, file: or s3:",
        )),
    }
}
