//! A page of metrics, and the sums of its samples.

/// The text of a page `/metrics`.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricsPage(String);

impl MetricsPage {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the value of a sample, by its name with all labels as on the page.
    pub(crate) fn value(&self, sample: &str) -> Option<f64> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.trim().parse().ok())
    }

    /// Returns the value of a sample as a whole number.
    pub(crate) fn count(&self, sample: &str) -> Option<u64> {
        self.value(sample).map(|value| value as u64)
    }

    /// Returns the label `label` and the value of each sample of a family that is above zero.
    pub(crate) fn read_labelled(&self, family: &str, label: &str) -> Vec<(String, u64)> {
        let prefix = format!("{family}{{");
        let pattern = format!("{label}=\"");
        let samples = self.0.lines().filter_map(|line| {
            let (labels, value) = line.strip_prefix(&prefix)?.rsplit_once("} ")?;
            let name = labels.split_once(&pattern)?.1.split('"').next()?;
            let value = value.trim().parse::<f64>().ok()? as u64;
            Some((name.to_owned(), value))
        });
        samples.filter(|(_, value)| *value > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_by_name_and_by_label() {
        let text = "# TYPE a counter\na_total 7\na 3.5\n\
                    broken{what=\"sum\"} 2\nbroken{what=\"gone\"} 0\nbroken{x=\"1\",what=\"chain\"} 4\n";
        let page = MetricsPage::new(text.to_owned());
        assert_eq!(page.value("a"), Some(3.5));
        assert_eq!(page.count("a_total"), Some(7));
        assert_eq!(page.count("broken{what=\"gone\"}"), Some(0));
        assert_eq!(page.value("b"), None);
        let broken = [("sum".to_owned(), 2), ("chain".to_owned(), 4)];
        assert_eq!(page.read_labelled("broken", "what"), broken);
    }
}
