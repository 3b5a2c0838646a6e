//! A realistic mix of requests: methods by weight, addresses by Zipf's law, random times.
//!
//! Invariant: the same seed gives the same mix.

use std::time::Duration;

use http_client::Endpoint;
use serde_json::Value;

use crate::LogEntry;

/// Number of calls in a mix's sequence: enough that each method has its weight.
const SEQUENCE_CALLS: f64 = 10_000.0;

/// Zipf's law for random numbers below a bound: the n-th has a weight of 1 / (n + 1).
#[derive(Clone, Debug)]
struct Zipf {
    /// Sums of the weights up to each.
    sums: Vec<f64>,
}

/// Kinds of requests with their weights, and the requests of each.
#[derive(Clone, Debug, Default)]
pub struct Mix {
    kinds: Vec<Kind>,
    seed: u64,
}

#[derive(Clone, Debug)]
struct Kind {
    weight: f64,
    requests: Vec<LogEntry>,
    zipf: Zipf,
}

impl Zipf {
    /// Creates a distribution of numbers below `count`.
    fn new(count: usize) -> Self {
        let mut sum = 0.0;
        let sums = (0..count).map(|nth| {
            sum += 1.0 / (nth + 1) as f64;
            sum
        });
        Self { sums: sums.collect() }
    }

    /// The number for a draw from 0 to 1; 0 if `count` is 0.
    fn pick(&self, draw: f64) -> usize {
        let Some(all) = self.sums.last() else { return 0 };
        let at = self.sums.partition_point(|sum| *sum <= draw * all);
        at.min(self.sums.len() - 1)
    }
}

impl Mix {
    /// An empty mix.
    pub fn new(seed: u64) -> Self {
        Self { kinds: Vec::new(), seed }
    }

    /// Adds a method with a weight. Its parameters are drawn by Zipf's law, the first ones most
    /// often. A method without parameters or weight is left out.
    pub fn add(&mut self, weight: f64, method: &str, params: Vec<Value>) {
        let call = |params: &Value| LogEntry::call(Duration::ZERO, method, params);
        self.add_requests(weight, params.iter().map(call).collect());
    }

    /// Adds a kind of requests with a weight. Each is drawn by Zipf's law, the first ones most often. A kind without
    /// requests or weight is left out. Their times are not used.
    pub fn add_requests(&mut self, weight: f64, requests: Vec<LogEntry>) {
        if weight > 0.0 && !requests.is_empty() {
            let zipf = Zipf::new(requests.len());
            self.kinds.push(Kind { weight, requests, zipf });
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Its calls in a fixed order, for any arrival process.
    pub fn requests(&self, endpoint: &Endpoint) -> Vec<Vec<u8>> {
        let log = self.log(SEQUENCE_CALLS, Duration::from_secs(1));
        log.iter().map(|entry| entry.request(endpoint)).collect()
    }

    /// Calls at `rate` per second during `span`, as from independent clients: the times between
    /// them are exponentially distributed.
    pub fn log(&self, rate: f64, span: Duration) -> Vec<LogEntry> {
        let mut entries = Vec::new();
        let mut chance = RandomDraw(self.seed);
        let weights: f64 = self.kinds.iter().map(|kind| kind.weight).sum();
        let mut at = 0.0;
        loop {
            at += -(1.0 - chance.draw()).ln() / rate;
            if self.kinds.is_empty() || !at.is_finite() || at >= span.as_secs_f64() {
                return entries;
            }
            let mut draw = chance.draw() * weights;
            let kind = self.kinds.iter().find(|kind| {
                draw -= kind.weight;
                draw < 0.0
            });
            let Some(kind) = kind.or_else(|| self.kinds.last()) else { continue };
            let request = &kind.requests[kind.zipf.pick(chance.draw())];
            entries.push(LogEntry { at_ms: at * 1e3, ..request.clone() });
        }
    }
}

/// SplitMix64.
struct RandomDraw(u64);

impl RandomDraw {
    /// A number from 0 to 1, without 1.
    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mix_has_its_weights_its_rate_and_its_favourites() {
        let mut mix = Mix::new(7);
        mix.add(3.0, "a", (0..100).map(|nth| json!([nth])).collect());
        mix.add(1.0, "b", vec![json!([])]);
        mix.add(1.0, "no parameters", Vec::new());
        let log = mix.log(1_000.0, Duration::from_secs(10));
        let count = |method: &str| {
            log.iter()
                .filter(|entry| entry.body.as_ref().expect("a call")["method"] == method)
                .count()
        };
        assert!((9_600..10_400).contains(&log.len()), "{} in ten seconds", log.len());
        let share = count("a") as f64 / log.len() as f64;
        assert!((0.73..0.77).contains(&share), "{share}");
        assert_eq!(count("a") + count("b"), log.len());
        let of = |nth: u64| {
            log.iter()
                .filter(|entry| entry.body.as_ref().expect("a call")["params"] == json!([nth]))
                .count()
        };
        assert!(of(0) > 5 * of(9) && of(9) > of(99), "{} {} {}", of(0), of(9), of(99));
        assert!(log.is_sorted_by(|one, next| one.at_ms <= next.at_ms));
        assert_eq!(log, mix.log(1_000.0, Duration::from_secs(10)));
    }

    #[test]
    fn every_number_can_be_picked_and_none_beyond() {
        let zipf = Zipf::new(3);
        assert_eq!([0.0, 0.5, 0.6, 0.9, 1.0].map(|draw| zipf.pick(draw)), [0, 0, 1, 2, 2]);
        assert_eq!(Zipf::new(0).pick(0.5), 0);
    }
}
