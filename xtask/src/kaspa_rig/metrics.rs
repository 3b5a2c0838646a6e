//! Counters of Hydrant, from its page `/metrics`.

/// Counters of a followed chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Chain blocks whose header hash, link and commitment were checked.
    pub(crate) proven_blocks: u64,
    pub(crate) refused_blocks: u64,
    pub(crate) transactions: u64,
    pub(crate) reorganizations: u64,
    pub(crate) removed_blocks: u64,
    pub(crate) too_deep_reorganizations: u64,
    pub(crate) template_matches: u64,
    /// Templates that differ although the virtual set should have been complete.
    pub(crate) template_mismatches: u64,
    /// Templates that came while the virtual set was joining, or before their notification.
    pub(crate) template_incomplete: u64,
    pub(crate) lost_messages: u64,
    pub(crate) sessions: u64,
}

/// A page of metrics.
pub(crate) struct Metrics(String);

impl Metrics {
    /// Wraps the text of a page.
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// Whether the virtual UTXO set was compared with a block template, and is complete.
    pub(crate) fn is_virtual_exact(&self) -> bool {
        self.value("hydrant_kaspa_virtual_exact") == Some(1)
    }

    /// Returns the counters. `None` if the page lacks one of them.
    pub(crate) fn counters(&self) -> Option<Counters> {
        let event =
            |event: &str| self.value(&format!("hydrant_kaspa_events_total{{event=\"{event}\"}}"));
        Some(Counters {
            proven_blocks: event("proven_block")?,
            refused_blocks: event("refused_block")?,
            transactions: event("transaction")?,
            reorganizations: event("reorganization")?,
            removed_blocks: event("removed_block")?,
            too_deep_reorganizations: event("too_deep_reorganization")?,
            template_matches: event("template_match")?,
            template_mismatches: event("template_mismatch")?,
            template_incomplete: event("template_incomplete")?,
            lost_messages: event("lost_message")?,
            sessions: event("session")?,
        })
    }

    fn value(&self, series: &str) -> Option<u64> {
        self.0.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
    }
}

impl Counters {
    /// Returns the sums of both.
    pub(crate) fn add(&self, other: &Self) -> Self {
        Self {
            proven_blocks: self.proven_blocks + other.proven_blocks,
            refused_blocks: self.refused_blocks + other.refused_blocks,
            transactions: self.transactions + other.transactions,
            reorganizations: self.reorganizations + other.reorganizations,
            removed_blocks: self.removed_blocks + other.removed_blocks,
            too_deep_reorganizations: self.too_deep_reorganizations
                + other.too_deep_reorganizations,
            template_matches: self.template_matches + other.template_matches,
            template_mismatches: self.template_mismatches + other.template_mismatches,
            template_incomplete: self.template_incomplete + other.template_incomplete,
            lost_messages: self.lost_messages + other.lost_messages,
            sessions: self.sessions + other.sessions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [&str; 11] = [
        "proven_block",
        "refused_block",
        "transaction",
        "reorganization",
        "removed_block",
        "too_deep_reorganization",
        "template_match",
        "template_mismatch",
        "template_incomplete",
        "lost_message",
        "session",
    ];

    fn page(events: &[&str]) -> Metrics {
        let mut text = "# TYPE hydrant_kaspa_virtual_exact gauge\n".to_owned();
        text.push_str("hydrant_kaspa_virtual_exact 1\n");
        for (event, value) in events.iter().zip(1..) {
            let line = format!("hydrant_kaspa_events_total{{event=\"{event}\"}} {value}\n");
            text.push_str(&line);
        }
        Metrics::new(text)
    }

    #[test]
    fn counters_are_read_and_summed() {
        let page = page(&EVENTS);
        assert!(page.is_virtual_exact());
        let counters = page.counters().unwrap();
        assert_eq!(counters.proven_blocks, 1);
        assert_eq!(counters.sessions, 11);
        let sum = counters.add(&counters);
        assert_eq!((sum.too_deep_reorganizations, sum.lost_messages), (12, 20));
    }

    #[test]
    fn a_page_without_a_counter_has_no_counters() {
        assert_eq!(page(&EVENTS[1..]).counters(), None);
        assert!(!Metrics::new(String::new()).is_virtual_exact());
    }
}
