//! Agreement between the sources: whether our sink is on the selected chain of each of them.
//!
//! In: the sources, our sink. Out: an [`Agreement`] for each source, in the status.
//! Bounds: one connection at a time, for some calls.
//! Not here: which source is followed (`sources`).

use std::sync::Arc;
use std::time::Duration;

use chain_kaspa::ChainReader;
use http_client::describe_error;
use kaspa::Network;

use crate::agreement::Agreement;
use crate::chain_pages::count_blocks_off_chain;
use crate::config::{ConnectionConfig, SourceConfig};
use crate::connection::Connection;
use crate::source_error::SourceError;
use crate::status::FollowStatus;
use crate::writer_queue::WriterHandle;

/// Compares the sources with our chain.
pub(crate) struct AgreementChecks {
    pub(crate) network: Network,
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) connection: ConnectionConfig,
    pub(crate) interval: Duration,
    pub(crate) reader: ChainReader,
    pub(crate) status: Arc<FollowStatus>,
    pub(crate) writer: WriterHandle,
}

impl AgreementChecks {
    /// Runs until the writer has ended.
    pub(crate) async fn run(self) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                () = self.writer.closed() => return,
            }
            if !self.status.is_caught_up() {
                continue;
            }
            let mut agreements = Vec::with_capacity(self.sources.len());
            for source in &self.sources {
                let agreement = self.compare(source).await.unwrap_or_else(|error| {
                    Agreement::Unavailable { reason: describe_error(&error) }
                });
                agreements.push((source.server().to_string(), agreement));
            }
            self.status.set_agreements(agreements);
        }
    }

    async fn compare(&self, source: &SourceConfig) -> Result<Agreement, SourceError> {
        let mut connection = Connection::open(source, &self.connection).await?;
        connection.check_server(self.network).await?;
        let sink = self.reader.status().sink.hash;
        Ok(match count_blocks_off_chain(&mut connection, &sink).await? {
            None => Agreement::Unknown,
            Some(0) => Agreement::Same,
            Some(blocks) => Agreement::Fork { blocks },
        })
    }
}
