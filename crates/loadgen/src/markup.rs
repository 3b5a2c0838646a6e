//! Numbers and text in HTML and SVG.

/// With commas between thousands, and as many decimals as make sense for the number of digits.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = match value.abs() {
        10_000.0.. => 0,
        1_000.0.. => 1,
        100.0.. => 2,
        _ => 3,
    };
    let text = format!("{value:.*}", digits.min(decimals));
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (nth, digit) in whole.chars().enumerate() {
        if nth > 0 && (whole.len() - nth).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// A round value in as few characters as it needs.
pub(crate) fn round(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 {
        return format!("{value:e}");
    }
    let text = number(value, 3);
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// Text within markup and within its attributes.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_people_read_them() {
        let formatted = [(0.0123, 3), (1234.567, 3), (1_234_567.0, 0), (12.0, 1), (f64::NAN, 1)];
        let formatted = formatted.map(|(value, decimals)| number(value, decimals));
        assert_eq!(formatted, ["0.012", "1,234.6", "1,234,567", "12.0", "–"]);
        let rounded = [0.5, 20.0, 0.0, 0.001, 0.000_02].map(round);
        assert_eq!(rounded, ["0.5", "20", "0", "0.001", "2e-5"]);
    }
}
