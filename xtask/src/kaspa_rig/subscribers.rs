//! The subscribers of the rig: for each encoding and set of addresses one to Hydrant and one to kaspad.
//!
//! Output: comparisons of their states with that of kaspad, and the times at which both got the same changes.
//! Invariant: subscribers connect while nothing is mined, with the state of that time.
//! Not here: one connection (`subscriber`), the tables (`report`, `notification_times`).

use std::net::SocketAddr;

use anyhow::Result;
use kaspa::{Encoding, KaspaAddress};

use crate::kaspa_rig::comparison::Comparison;
use crate::kaspa_rig::hydrant::Endpoints;
use crate::kaspa_rig::kaspad::{Kaspad, Submission};
use crate::kaspa_rig::notification_times::{MeasuredBlock, NotificationTimes};
use crate::kaspa_rig::report::StreamReport;
use crate::kaspa_rig::stream_state::{NodeState, SharedSets};
use crate::kaspa_rig::subscriber::{Server, Subscriber};

/// All subscribers, and the times of their notifications.
pub(crate) struct Subscribers {
    pairs: Vec<SubscriberPair>,
    times: NotificationTimes,
}

/// A subscriber to each node, with the same subscription.
struct SubscriberPair {
    hydrant: Subscriber,
    kaspad: Subscriber,
}

impl Subscribers {
    /// Creates subscribers to all UTXOs and to those of some addresses. They are not connected.
    pub(crate) fn new(addresses: &[KaspaAddress]) -> Self {
        let mut pairs = Vec::new();
        for encoding in Encoding::ALL {
            for set in [None, Some(addresses)] {
                let create =
                    |server| Subscriber::new(server, encoding, set.map(<[KaspaAddress]>::to_vec));
                let hydrant = create(Server::Hydrant);
                let kaspad = create(Server::Kaspad);
                pairs.push(SubscriberPair { hydrant, kaspad });
            }
        }
        Self { pairs, times: NotificationTimes::default() }
    }

    /// Connects the subscribers that are not connected, while nothing is mined.
    pub(crate) fn connect(
        &mut self,
        endpoints: Endpoints,
        kaspad: &Kaspad,
        state: &NodeState,
    ) -> Result<()> {
        for subscriber in self.all_mut().filter(|subscriber| !subscriber.is_connected()) {
            let address = find_address(subscriber, endpoints, kaspad);
            subscriber.connect(address, state)?;
        }
        Ok(())
    }

    /// Disconnects the subscribers to a node.
    pub(crate) fn disconnect(&mut self, server: Server) {
        let of_server = |subscriber: &&mut Subscriber| subscriber.server == server;
        self.all_mut().filter(of_server).for_each(Subscriber::disconnect);
    }

    /// Compares the state of each connected subscriber with that of kaspad.
    pub(crate) fn compare(&mut self, comparison: &mut Comparison, state: &NodeState) {
        for subscriber in self.all().filter(|subscriber| subscriber.is_connected()) {
            let difference = subscriber.wait_for(state);
            let name = format!("notifications: {}", subscriber.name());
            comparison.check(&name, &None, &difference);
        }
        self.report_lost_connections(comparison);
    }

    /// Counts a difference for each subscriber whose connection was ended by its server.
    pub(crate) fn report_lost_connections(&mut self, comparison: &mut Comparison) {
        for subscriber in self.all_mut() {
            if let Some(end) = subscriber.end() {
                subscriber.disconnect();
                let name = format!("connections: {}", subscriber.name());
                comparison.add_difference(&name, || end);
            }
        }
    }

    /// Records how long the subscribers to all UTXOs waited for the change of a block. All of them had the state of
    /// kaspad before it was sent, so the first new set is that of this block.
    pub(crate) fn record_change(&mut self, block: MeasuredBlock, submission: Submission) {
        self.times.add_submission(block, submission.time);
        for SubscriberPair { hydrant, kaspad } in &self.pairs {
            let find_change = |subscriber: &Subscriber| {
                subscriber.read_arrivals(|arrivals| arrivals.find_first_after(submission.sent))
            };
            if hydrant.has_all_utxos()
                && let Some(kaspad_time) = find_change(kaspad)
                && let Some(hydrant_time) = find_change(hydrant)
            {
                let subscription = hydrant.subscription();
                self.times.add_change(block, &subscription, kaspad_time, hydrant_time);
            }
        }
    }

    /// Returns the results of all subscribers.
    pub(crate) fn stream_reports(&self) -> Vec<StreamReport> {
        self.pairs.iter().flat_map(SubscriberPair::stream_reports).collect()
    }

    /// Returns the times of all notifications so far.
    pub(crate) fn notification_times(&self) -> NotificationTimes {
        let mut times = self.times.clone();
        for SubscriberPair { hydrant, kaspad } in &self.pairs {
            let delays = hydrant.read_arrivals(|own| {
                kaspad.read_arrivals(|reference| own.measure_delays(reference))
            });
            times.set_delays(hydrant.subscription(), delays);
        }
        times
    }

    fn all(&self) -> impl Iterator<Item = &Subscriber> {
        self.pairs.iter().flat_map(|pair| [&pair.hydrant, &pair.kaspad])
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Subscriber> {
        self.pairs.iter_mut().flat_map(|pair| [&mut pair.hydrant, &mut pair.kaspad])
    }
}

impl SubscriberPair {
    fn stream_reports(&self) -> [StreamReport; 2] {
        let Self { hydrant, kaspad } = self;
        let own = kaspad.read(|stream| stream.compare_sets(stream));
        let shared = hydrant.read(|own| kaspad.read(|other| own.compare_sets(other)));
        [report_stream(hydrant, shared), report_stream(kaspad, own)]
    }
}

fn report_stream(subscriber: &Subscriber, sets: SharedSets) -> StreamReport {
    StreamReport {
        name: subscriber.name(),
        server: subscriber.server,
        counters: subscriber.read(|stream| stream.counters.clone()),
        examples: subscriber.read(|stream| stream.examples.clone()),
        sets,
    }
}

fn find_address(subscriber: &Subscriber, endpoints: Endpoints, kaspad: &Kaspad) -> SocketAddr {
    match (subscriber.server, subscriber.encoding) {
        (Server::Hydrant, Encoding::Borsh) => endpoints.wrpc_borsh,
        (Server::Hydrant, Encoding::Json) => endpoints.wrpc_json,
        (Server::Kaspad, Encoding::Borsh) => kaspad.borsh(),
        (Server::Kaspad, Encoding::Json) => kaspad.json(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rig::clock::now;

    #[test]
    fn each_subscription_has_a_subscriber_to_each_node() {
        let subscribers = Subscribers::new(&[]);
        let names: Vec<String> = subscribers.all().map(Subscriber::name).collect();
        assert_eq!(names.len(), 8);
        for pair in names.chunks(2) {
            assert_eq!(pair[0].strip_prefix("Hydrant"), pair[1].strip_prefix("Kaspad"));
        }
        assert_eq!(subscribers.stream_reports().len(), names.len());
    }

    #[test]
    fn a_block_without_notifications_has_the_time_of_its_submission_only() {
        let mut subscribers = Subscribers::new(&[]);
        let submission = Submission { sent: now(), time: Duration::from_millis(3) };
        subscribers.record_change(MeasuredBlock::Merging, submission);
        let tables = subscribers.notification_times().tables();
        let row = "block that merges two branches | 1 | 3.000 | 3.000 |";
        assert!(tables.contains(row), "{tables}");
        assert_eq!(tables.matches("| 1 |").count(), 1, "{tables}");
    }
}
