//! Writer of Prometheus' text format, version 0.0.4.
//!
//! In: metric families one after another, each with its samples. Out: one text. A family without samples is
//! written too, so its help text is always present.

use std::fmt::{Display, Write};

use crate::Histogram;

/// The media type of the format.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text of a scrape, family by family.
#[derive(Default)]
pub struct Exposition(String);

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, except that a restart resets it. The name ends in `_total`.
    Counter,
    /// The current value, which may fall.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
}

/// A metric family that is being written.
pub struct MetricFamily<'t> {
    text: &'t mut String,
    name: &'t str,
}

/// Names and values of the labels of a sample.
pub type Labels<'l> = &'l [(&'l str, &'l str)];

impl Exposition {
    /// Starts a family. Each name is used once.
    pub fn family<'t>(
        &'t mut self,
        name: &'t str,
        kind: MetricKind,
        help: &str,
    ) -> MetricFamily<'t> {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        MetricFamily { text: &mut self.0, name }
    }

    /// Writes a family with a single sample without labels.
    pub fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.family(name, kind, help).put(&[], value);
    }

    /// Returns the text of all families.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl MetricFamily<'_> {
    /// Writes a sample with its labels.
    pub fn put(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Writes a histogram of seconds.
    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        self.buckets(labels, histogram.buckets(), histogram.sum().as_secs_f64());
    }

    /// Writes a histogram from its buckets: upper bound, and count without the lower buckets. The bound of the last one
    /// is infinite.
    fn buckets(
        &mut self,
        labels: Labels<'_>,
        buckets: impl Iterator<Item = (f64, u64)>,
        sum: impl Display,
    ) {
        let mut cumulative = 0;
        for (bound, count) in buckets {
            cumulative += count;
            let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
            self.line("_bucket", labels, Some(&bound), cumulative);
        }
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, cumulative);
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, le: Option<&str>, value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        let le = le.map(|le| ("le", le));
        let mut before = '{';
        for (name, value) in labels.iter().copied().chain(le) {
            let _ = write!(self.text, "{before}{name}=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    plain => self.text.push(plain),
                }
            }
            self.text.push('"');
            before = ',';
        }
        let end = if before == '{' { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_buckets_add_up() {
        let mut text = Exposition::default();
        text.single("a", MetricKind::Gauge, "One.", 1.5);
        text.family("b_total", MetricKind::Counter, "Two.").put(&[("x", "\"\\\n"), ("y", "z")], 2);
        let buckets = [(0.0000015, 1), (f64::INFINITY, 2)];
        text.family("c", MetricKind::Histogram, "Three.").buckets(
            &[("m", "n")],
            buckets.into_iter(),
            9,
        );
        text.family("d", MetricKind::Gauge, "None.");
        let expected = "# HELP a One.\n# TYPE a gauge\na 1.5\n\
            # HELP b_total Two.\n# TYPE b_total counter\nb_total{x=\"\\\"\\\\\\n\",y=\"z\"} 2\n\
            # HELP c Three.\n# TYPE c histogram\n\
            c_bucket{m=\"n\",le=\"0.0000015\"} 1\nc_bucket{m=\"n\",le=\"+Inf\"} 3\n\
            c_sum{m=\"n\"} 9\nc_count{m=\"n\"} 3\n\
            # HELP d None.\n# TYPE d gauge\n";
        assert_eq!(text.into_string(), expected);
    }
}
