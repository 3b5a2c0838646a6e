//! The streams that each server was sent in all rounds of a part, and those that it has received.
//!
//! Shape: a row for each start of a server: `delivered.csv`. It is replaced after each cell, before the cell's own rows
//! are written, so that no stream of a measured cell is missing after a stop.
//! Not here: the streams of a fresh server (`cold`, which ends with an error if one is missing).

use anyhow::Result;

use crate::report::{Report, Rows, table_head};
use crate::threshold;
use crate::tpu::stream_cost::{Contender, Delivery};

pub(super) const OURS: &str = "ours";

/// The deliveries of all parts.
pub(super) struct Deliveries(Rows);

/// The key of a start of a server.
pub(super) struct ServerStart([String; 3]);

impl Deliveries {
    pub(super) fn open(report: &Report) -> Result<Self> {
        let columns = ["part", "server", "start", "sent", "received"];
        Ok(Self(report.rows("delivered.csv", 3, &columns)?))
    }

    /// Returns the key of a server that was started for a part.
    pub(super) fn new_start(&self, part: &str, server: &str) -> ServerStart {
        let start = self.0.keys().filter(|key| key[0] == part && key[1] == server).count();
        ServerStart([part.to_owned(), server.to_owned(), start.to_string()])
    }

    /// Writes the streams of a server since its start.
    pub(super) fn record(&mut self, start: &ServerStart, contender: &mut Contender) -> Result<()> {
        self.write(start, contender.delivery()?)
    }

    fn write(&mut self, start: &ServerStart, delivery: Delivery) -> Result<()> {
        let Delivery { sent, received } = delivery;
        self.0.push(&start.0, &[sent.to_string(), received.to_string()])
    }

    /// Returns the table of all servers, and prints the bar. No stream of ours may be lost.
    pub(super) fn table(&self, servers: &[&str]) -> String {
        let mut lines = String::new();
        for name in servers.iter().rev() {
            let Some(Delivery { sent, received }) = self.sum(name) else { continue };
            let lost = sent.saturating_sub(received);
            lines.push_str(&format!("| {name} | {sent} | {received} | {lost} |\n"));
            if *name == OURS {
                threshold::line("streams_lost", lost, "streams", "<=", 0);
            }
        }
        if lines.is_empty() {
            return lines;
        }
        let about = format!(
            "Streams that were sent and acknowledged in all rounds of `warm` and `cells`, and those that the server \
             has received whole. Commits: {}.",
            self.0.commits()
        );
        table_head("Delivered", &about, &["server", "sent", "received", "lost"]) + &lines
    }

    /// Returns the streams of a server in all parts; `None` if it has no row.
    fn sum(&self, server: &str) -> Option<Delivery> {
        let mut all: Option<Delivery> = None;
        for key in self.0.keys().filter(|key| key[1] == server) {
            let number = |at| self.0.number(key, at).unwrap_or(0.0) as u64;
            let sum = all.get_or_insert_default();
            sum.sent += number(0);
            sum.received += number(1);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_server_are_summed_up() -> Result<()> {
        let report = Report::open("streams", &[], true)?;
        let mut deliveries = Deliveries::open(&report)?;
        let warm = deliveries.new_start("warm", OURS);
        // The streams of a start are counted once, after each of its cells.
        for streams in [4, 10] {
            deliveries.write(&warm, Delivery { sent: streams, received: streams })?;
        }
        for delivery in [Delivery { sent: 2, received: 2 }, Delivery { sent: 3, received: 1 }] {
            let cells = deliveries.new_start("cells", OURS);
            deliveries.write(&cells, delivery)?;
        }
        assert_eq!(deliveries.sum(OURS), Some(Delivery { sent: 15, received: 13 }));
        assert_eq!(deliveries.sum("quinn"), None);
        assert!(deliveries.table(&[OURS, "quinn"]).ends_with("| ours | 15 | 13 | 2 |\n"));
        Ok(())
    }
}
