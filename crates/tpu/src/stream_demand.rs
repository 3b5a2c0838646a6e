//! The number of streams that a connection needs, measured by how fast it opens them.
//!
//! Shape: a connection starts with [`Config::window_initial`] streams, or with less while there are many. Its demand
//! doubles when it opens two windows of streams within an interval (four round trips, at least [`INTERVAL_MIN`]), and
//! is halved when eight windows took more than sixteen intervals. On a long path, where a window that is too small
//! costs a noticeable round trip, half of a window is enough to double it, and it is never halved. So it grows no later
//! than the congestion window of a new client, which starts with less than 64 streams and doubles in a round trip.
//! Identities with a weight have their whole share at any time.
//! Why: `quinn-proto` assigns the state of a stream, some 400 bytes, when the stream is granted, and uses the
//! states in turn. A connection that opens one stream at a time thus passes through the memory of its whole window,
//! and with 100 connections nothing of it is left in the processor's cache. It frees no state before the connection
//! ends, so a smaller window helps the cache at any time, but the memory only if the window was never larger.
//! Bounds: the initial number to the connection's share. A change takes at least half of a window of streams, so
//! a client that provokes changes pays for them: a frame of the last stream opens all before it, but streams without a
//! transaction are broken ones, and more than `broken_streams_max` of them close the connection.
//! Fairness: a client can delay its acknowledgements, so that its path seems long, and fill the server with its whole
//! share. A near client then waits for the server, which cannot be distinguished from sending little. So the demand is
//! never halved below the initial number, and near clients have at least an eighth of the streams of such a client.
//! Not here: the share of a connection (`stream_window`).

use std::time::{Duration, Instant};

use crate::config::Config;
use crate::stream_window::PeerLoad;

/// While there are many connections, a new one is granted at most one part in this many of its share: thousands that
/// send a little each would otherwise have a state for every stream that they may open.
const SHARE_PARTS: u32 = 4;
/// Minimum interval. A shard receives some 5,000 streams in 8 ms, so the windows of clients that are near stay below
/// about four times that in total, and the states of their streams fit into the cache. A much smaller value would
/// count the time for which datagrams gather as a slow client.
const INTERVAL_MIN: Duration = Duration::from_millis(8);
/// Round trips in an interval, so that a client whose round trips take longer than the minimum is still recognised
/// as limited by its window.
const ROUND_TRIPS_PER_INTERVAL: u32 = 4;
/// A path with at least this minimum RTT is long. While many handshakes are in progress, near clients seem to have such
/// a path. The acknowledgements of the first MAX_STREAMS frames correct this before their demand has grown much.
const LONG_PATH_RTT: Duration = Duration::from_millis(10);
/// Windows within an interval that double the demand, unless the path is long.
const WINDOWS_TO_GROW: u32 = 2;
/// Windows after which the demand may be halved.
const WINDOWS_TO_SHRINK: u32 = 8;
/// Intervals in which a connection must use [`WINDOWS_TO_SHRINK`] windows to keep its demand. This is half of the
/// rate at which the halved demand would double again, so that the demand does not alternate.
const INTERVALS_TO_SHRINK: u32 = 16;

/// The demand of one connection.
pub(crate) struct StreamDemand {
    streams: u32,
    /// The initial number of streams.
    streams_min: u32,
    interval_began: Instant,
    /// Streams opened in this interval.
    interval_streams: u32,
    /// Start of the period after which the demand may be halved.
    period_began: Instant,
    /// Streams opened in that period.
    period_streams: u32,
}

/// Streams that a connection has opened since the last call, and the values on which their effect depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenedStreams {
    pub(crate) count: u32,
    /// The minimum RTT of the path.
    pub(crate) min_rtt: Duration,
    /// Streams that the connection may have open at most.
    pub(crate) share: u32,
}

impl StreamDemand {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let streams = config.window_initial.max(config.window_min);
        Self {
            streams,
            streams_min: streams,
            interval_began: now,
            interval_streams: 0,
            period_began: now,
            period_streams: 0,
        }
    }

    /// Sets the demand of a connection that was admitted and has opened no streams yet. It is all that a connection may
    /// have if its identity has a weight, and less than usual if connections are too many for the largest
    /// share.
    pub(crate) fn set_initial(&mut self, config: &Config, load: PeerLoad, share: u32) {
        if load.weight.is_some() {
            self.streams = config.window_max;
        } else if share < config.window_max {
            self.streams = self.streams.min((share / SHARE_PARTS).max(config.window_min));
        }
        self.streams_min = self.streams;
    }

    /// Returns the number of streams that the connection should be able to have open at once.
    pub(crate) fn streams(&self) -> u32 {
        self.streams
    }

    /// Records opened streams and adapts the demand.
    pub(crate) fn record(&mut self, opened: OpenedStreams, now: Instant) {
        let OpenedStreams { count, min_rtt, share } = opened;
        if count == 0 {
            return;
        }
        let interval = min_rtt.saturating_mul(ROUND_TRIPS_PER_INTERVAL).max(INTERVAL_MIN);
        if now.saturating_duration_since(self.interval_began) > interval {
            self.interval_began = now;
            self.interval_streams = 0;
        }
        self.interval_streams = self.interval_streams.saturating_add(count);
        self.period_streams = self.period_streams.saturating_add(count);
        let window = self.streams.min(share);
        let is_long = min_rtt >= LONG_PATH_RTT;
        let streams_to_grow =
            if is_long { window / 2 } else { window.saturating_mul(WINDOWS_TO_GROW) };
        if self.interval_streams >= streams_to_grow {
            self.streams = self.streams.max(window.saturating_mul(2).min(share));
            self.restart(now);
        } else if self.period_streams >= self.streams.saturating_mul(WINDOWS_TO_SHRINK) {
            let period = now.saturating_duration_since(self.period_began);
            if !is_long && period > interval.saturating_mul(INTERVALS_TO_SHRINK) {
                self.streams = (self.streams / 2).max(self.streams_min);
            }
            self.period_began = now;
            self.period_streams = 0;
        }
    }

    fn restart(&mut self, now: Instant) {
        self.interval_began = now;
        self.interval_streams = 0;
        self.period_began = now;
        self.period_streams = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{clock, stream_window};

    const INITIAL: u32 = 64;
    const SMALLEST: u32 = 16;
    const SHARE: u32 = 512;
    const NEAR: Duration = Duration::from_micros(200);
    const FAR: Duration = Duration::from_millis(150);

    fn config() -> Config {
        Config {
            window_min: SMALLEST,
            window_initial: INITIAL,
            window_max: SHARE,
            ..Config::default()
        }
    }

    fn demand(now: Instant) -> StreamDemand {
        StreamDemand::new(&config(), now)
    }

    /// Returns a connection that was admitted under `load`.
    fn admit(load: PeerLoad) -> Simulated {
        let config = config();
        let mut client = Simulated::new(NEAR);
        client.demand.set_initial(&config, load, stream_window::share(&config, load));
        client
    }

    /// A connection on simulated time.
    struct Simulated {
        demand: StreamDemand,
        now: Instant,
        min_rtt: Duration,
    }

    impl Simulated {
        fn new(min_rtt: Duration) -> Self {
            let now = clock::now();
            Self { demand: demand(now), now, min_rtt }
        }

        /// Opens `count` streams at once, `after` the previous ones. Returns the demand.
        fn open(&mut self, count: u32, after: Duration) -> u32 {
            self.now += after;
            let opened = OpenedStreams { count, min_rtt: self.min_rtt, share: SHARE };
            self.demand.record(opened, self.now);
            self.demand.streams()
        }

        /// Opens a whole window in each round trip of `loop_time`.
        fn fill_windows(&mut self, rounds: u32, loop_time: Duration) -> u32 {
            for _ in 0..rounds {
                self.open(self.demand.streams(), loop_time);
            }
            self.demand.streams()
        }
    }

    #[test]
    fn a_far_client_has_what_a_new_congestion_window_permits() {
        let mut client = Simulated::new(FAR);
        let mut flight = 55;
        for _ in 0..4 {
            assert!(client.demand.streams() >= flight);
            client.open(flight, FAR);
            flight *= 2;
        }
        assert_eq!(client.demand.streams(), SHARE);
        // It keeps it, however little it sends.
        for _ in 0..20_000 {
            client.open(1, Duration::from_millis(100));
        }
        assert_eq!(client.demand.streams(), SHARE);
    }

    #[test]
    fn a_near_client_that_fills_its_window_gets_its_share_in_time() {
        let mut client = Simulated::new(NEAR);
        // Gathering of datagrams makes its round trips longer than the path is.
        assert_eq!(client.fill_windows(8, Duration::from_micros(600)), SHARE);
    }

    #[test]
    fn a_near_client_that_seemed_far_at_first_keeps_a_small_window() {
        let mut client = Simulated::new(3 * LONG_PATH_RTT);
        let at_most_doubled = client.open(INITIAL / 2, Duration::from_millis(5));
        client.min_rtt = NEAR;
        for _ in 0..50_000 {
            assert!(client.open(1, Duration::from_micros(230)) <= at_most_doubled);
        }
        assert!(client.demand.streams() <= INITIAL);
    }

    #[test]
    fn longer_round_trips_than_the_minimum_hide_no_full_window() {
        let min_rtt = Duration::from_millis(5);
        let mut client = Simulated::new(min_rtt);
        assert_eq!(client.fill_windows(10, 3 * min_rtt), SHARE);
    }

    #[test]
    fn clients_that_wait_for_a_busy_server_keep_small_windows() {
        // 100 connections that share 430,000 streams a second: each fills its window every 15 ms.
        let mut client = Simulated::new(NEAR);
        assert!(client.fill_windows(1_000, Duration::from_millis(15)) <= INITIAL);
        // A client opens streams at the same rate, without bursts.
        let mut client = Simulated::new(NEAR);
        for _ in 0..50_000 {
            assert!(client.open(1, Duration::from_micros(230)) <= INITIAL);
        }
    }

    #[test]
    fn a_near_client_at_a_full_server_keeps_its_initial_window() {
        // It waits 150 ms for each window, because the server reads the streams of many clients that seem far.
        let mut client = Simulated::new(NEAR);
        assert_eq!(client.fill_windows(1_000, Duration::from_millis(150)), INITIAL);
    }

    #[test]
    fn a_near_client_that_needs_less_returns_to_its_initial_window() {
        let mut client = Simulated::new(NEAR);
        client.fill_windows(8, Duration::from_micros(600));
        // An idle client costs nothing, so silence alone changes nothing.
        assert_eq!(client.open(1, Duration::from_secs(60)), SHARE);
        for _ in 0..WINDOWS_TO_SHRINK * SHARE * 2 {
            client.open(1, Duration::from_millis(1));
        }
        assert_eq!(client.demand.streams(), INITIAL);
    }

    #[test]
    fn a_rate_that_is_just_enough_does_not_alternate() {
        // Enough to double 128 to 256, but not 256 to 512.
        let mut client = Simulated::new(NEAR);
        for _ in 0..100_000 {
            client.open(8, Duration::from_micros(200));
        }
        for _ in 0..100_000 {
            assert_eq!(client.open(8, Duration::from_micros(200)), 256);
        }
    }

    #[test]
    fn a_new_connection_of_many_has_a_part_of_its_share() {
        let granted = |unweighted_connections| {
            admit(PeerLoad { unweighted_connections, ..PeerLoad::default() }).demand.streams()
        };
        // Shares of 512, 256, 131, 65 and 16 streams.
        assert_eq!([256, 512, 1_000, 2_000, 8_192].map(granted), [64, 64, 32, 16, 16]);
    }

    #[test]
    fn an_identity_with_a_weight_always_has_its_whole_share() {
        let mut client =
            admit(PeerLoad { weight: Some(1), connections: 1, weights: 1, ..PeerLoad::default() });
        assert_eq!(client.demand.streams(), SHARE);
        for _ in 0..WINDOWS_TO_SHRINK * SHARE * 2 {
            client.open(1, Duration::from_millis(1));
        }
        assert_eq!(client.demand.streams(), SHARE);
    }

    #[test]
    fn the_states_of_connections_that_arrive_in_turn_have_a_bound() {
        let config = Config::default();
        let sum = |connections, is_greedy| {
            let granted = |unweighted_connections| {
                let load = PeerLoad { unweighted_connections, ..PeerLoad::default() };
                let share = stream_window::share(&config, load);
                let mut client = admit(load);
                if is_greedy {
                    let all = OpenedStreams { count: share, min_rtt: FAR, share };
                    (0..8).for_each(|_| client.demand.record(all, client.now));
                    assert!(client.demand.streams() >= share);
                }
                client.demand.streams().min(share) as usize
            };
            (1..=connections).map(granted).sum::<usize>()
        };
        // Each fills its share before the next one connects, and keeps the states when its share shrinks.
        assert!(sum(config.connections_max, true) <= 4 * config.streams_max);
        // Thousands that connect at once and send little.
        assert!(sum(2_000, false) <= config.streams_max);
    }

    #[test]
    fn a_smaller_share_limits_growth_and_a_larger_permits_it() {
        let now = clock::now();
        let mut demand = demand(now);
        demand.record(OpenedStreams { count: 16, min_rtt: FAR, share: 16 }, now);
        assert_eq!(demand.streams(), INITIAL);
        demand.record(OpenedStreams { count: 32, min_rtt: FAR, share: 100 }, now);
        assert_eq!(demand.streams(), 100);
        demand.record(OpenedStreams { count: 50, min_rtt: FAR, share: SHARE }, now);
        assert_eq!(demand.streams(), 200);
    }

    proptest! {
        #[test]
        fn a_client_pays_for_each_change_with_streams(
            steps in prop::collection::vec((0u32..600, 0u64..400_000, 0u64..40_000), 1..400),
        ) {
            let mut client = Simulated::new(NEAR);
            let mut opened = 0u64;
            let mut changes = 0u64;
            for (count, after_us, rtt_us) in steps {
                client.min_rtt = Duration::from_micros(rtt_us);
                let before = client.demand.streams();
                let after = client.open(count, Duration::from_micros(after_us));
                opened += u64::from(count);
                changes += u64::from(after != before);
                prop_assert!((INITIAL..=SHARE).contains(&after));
            }
            prop_assert!(changes * u64::from(INITIAL / 2) <= opened);
        }
    }
}
