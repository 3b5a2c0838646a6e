//! The sources, one after another: connects, runs a session, and after its end connects again.
//!
//! Invariant: a source that serves stays in use, unless it sends no new block for a while and others exist. After a
//! failure the next source is tried at once; after a round without success there is a pause, which doubles. If no source
//! continues our chain, and one of them has a start of it, the follower ends and starts again (`restart`).
//! Not here: the content of a session (`session`).

use http_client::describe_error;

use crate::backoff::Backoff;
use crate::config::{ConnectionConfig, SourceConfig};
use crate::connection::Connection;
use crate::restart_point::{RestartOptions, RestartPoint};
use crate::session::{Session, SessionContext};
use crate::source_error::SourceError;
use crate::writer_queue::WriterMessage;

/// The sources of a follower.
pub(crate) struct Sources {
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) connection: ConnectionConfig,
    pub(crate) context: SessionContext,
    pub(crate) restart: RestartOptions,
}

struct SessionEnd {
    error: SourceError,
    /// A start that is on the chain of the source, if its chain is another one than ours.
    restart_point: Option<RestartPoint>,
}

impl Sources {
    /// Runs until the writer has ended.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::new(self.sources.len(), &self.context.config);
        // Of each source: whether its next session requests the first pages block by block.
        let mut in_pieces = vec![false; self.sources.len()];
        // Of each source: whether it had no success since the last session with success.
        let mut has_failed = vec![false; self.sources.len()];
        let mut restart_point = None;
        let mut at = 0;
        loop {
            let source = &self.sources[at];
            let SessionEnd { error, restart_point: found } =
                self.run_session(source, in_pieces[at]).await;
            if matches!(error, SourceError::WriterEnded) {
                return;
            }
            let status = &self.context.status;
            let is_success = status.is_caught_up() && !error.is_lie();
            let end = format!("{}: {}", source.server(), describe_error(&error));
            if matches!(error, SourceError::Closed) {
                tracing::info!("{end}");
            } else {
                tracing::warn!("{end}");
            }
            status.close_session(end);
            // One that sends too long messages in pieces, too, has failed.
            in_pieces[at] = !in_pieces[at] && matches!(error, SourceError::MessageTooLong { .. });
            let stays = is_success && !matches!(error, SourceError::Stalled { .. });
            if is_success {
                has_failed.fill(false);
                restart_point = None;
            } else {
                has_failed[at] |= !in_pieces[at];
                restart_point = found.or(restart_point);
            }
            if let Some(point) = restart_point
                && has_failed.iter().all(|it| *it)
            {
                // It fails only if the writer has ended.
                let _ = self.context.writer.send(WriterMessage::Restart(point)).await;
                return;
            }
            if !stays && !in_pieces[at] {
                at = (at + 1) % self.sources.len();
            }
            let delay =
                if is_success { backoff.record_success() } else { backoff.record_failure() };
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = self.context.writer.closed() => return,
            }
        }
    }

    async fn run_session(&self, source: &SourceConfig, is_in_pieces: bool) -> SessionEnd {
        let mut session = match self.open_session(source, is_in_pieces).await {
            Ok(session) => session,
            Err(error) => return SessionEnd { error, restart_point: None },
        };
        let Err(error) = session.run().await;
        if !error.is_halt() {
            return SessionEnd { error, restart_point: None };
        }
        // The snapshot files are not replaced between the search and the restart.
        self.context.status.set_halt(error.public_text());
        let found = session.find_restart_point(&self.restart).await;
        let restart_point = found.unwrap_or_else(|error| {
            let server = source.server();
            tracing::warn!(%server, "the chain does not start again: {}", describe_error(&error));
            None
        });
        SessionEnd { error, restart_point }
    }

    async fn open_session(
        &self,
        source: &SourceConfig,
        is_in_pieces: bool,
    ) -> Result<Session<'_>, SourceError> {
        let connection = Connection::open(source, &self.connection).await?;
        Session::open(&self.context, source, connection, is_in_pieces).await
    }
}
