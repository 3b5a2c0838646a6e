//! A report as one HTML page: a table, and plots as inline SVG. Nothing is fetched, nothing runs.
//!
//! Shape: colours are variables, of light and of dark; plots scale with the page and stand side by
//! side where there is room. A point of a plot shows its values on hover.

use std::fmt::Write;

use crate::report::{Report, Row};
use crate::resource_usage::Sample;

/// Size of a plot in SVG units; a line of its text has 12.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 58.0;
const BOTTOM: f64 = 44.0;
const TOP: f64 = 30.0;
const RIGHT: f64 = 16.0;

/// Maximum number of lines in a plot, as there are as many colours. More lines are in the next
/// plot.
const LINES_MAX: usize = 8;

/// Lines with more points than this show no separate points.
const POINTS_SHOWN_MAX: usize = 64;

/// The colours differ also for people who do not distinguish red and green.
const STYLE: &str = "
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--dim:#5b6570;--rule:#e2e6ea;--band:#f6f8fa;--bad:#b3261e;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b8629a;--c4:#c98a00;--c5:#3b9fdb;--c6:#1b1f24;--c7:#858b92}
@media(prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e7eaee;--dim:#9aa4af;--rule:#2c333b;--band:#1c2127;
--bad:#ff8f84;--c0:#4aa5e6;--c1:#f5853f;--c2:#2fc398;--c3:#e294c6;--c4:#f0b93c;--c5:#9ad4f7;--c6:#e7eaee;--c7:#8b939c}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:0;background:var(--paper);color:var(--ink)}
main{max-width:90rem;margin:0 auto;padding:2.5rem 1.5rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .6rem}
h2{font-size:1.15rem;margin:2.4rem 0 .8rem}
.notes p{color:var(--dim);margin:.2rem 0;max-width:60rem;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin-top:1.6rem;border:1px solid var(--rule);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:.8rem;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:.38rem .5rem;text-align:right}
th{font-weight:600;color:var(--dim);background:var(--band)}
thead tr:first-child th{padding-bottom:0;text-align:center;color:var(--ink)}
tbody tr{border-top:1px solid var(--rule)}
tbody tr.why{border-top:0}
tbody th,th:first-child,td.text,th.text,tr.why td{text-align:left}
tbody th{background:none;color:var(--ink)}
.first{border-left:1px solid var(--rule)}
.main{font-weight:600}
.dim{color:var(--dim)}
.bad,tr.why td{color:var(--bad)}
tr.why td{padding-top:0;white-space:normal;overflow-wrap:anywhere}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(34rem,100%),1fr));gap:1.2rem;margin-top:1.6rem}
figure{margin:0;padding:1rem 1.2rem;border:1px solid var(--rule);border-radius:8px;min-width:0}
figcaption b{display:block;font-size:1.05rem}
figcaption{color:var(--dim);font-size:.87rem}
figcaption b{color:var(--ink)}
svg{display:block;width:100%;height:auto;margin:.6rem 0}
svg text{font:12px system-ui,sans-serif;fill:var(--dim)}
.grid{stroke:var(--rule);fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:0;padding:0;font-size:.87rem}
.legend i{display:inline-block;width:.9rem;height:.25rem;border-radius:2px;margin-right:.45rem;vertical-align:middle}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}
.c4{color:var(--c4)}.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}
.legend i{background:currentColor}svg .line{stroke:currentColor}svg circle{fill:currentColor}
";

/// Columns of the table, in groups.
const COLUMNS: &str = "<thead>\
<tr><th colspan=\"2\"></th><th colspan=\"3\" class=\"first\">ok responses per second</th>\
<th colspan=\"5\" class=\"first\">latency, ms</th><th colspan=\"3\" class=\"first\">requests, all runs</th>\
<th class=\"first\">response</th><th colspan=\"2\" class=\"first\">server</th></tr>\n\
<tr><th>stream</th><th class=\"text\">arrival</th><th class=\"first\">median</th><th>min</th><th>max</th>\
<th class=\"first\">p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>longest</th>\
<th class=\"first\">ok</th><th>rejected</th><th>failed</th><th class=\"first\">bytes</th>\
<th class=\"first\">cores</th><th>peak MB</th></tr></thead>\n";
const COLUMNS_COUNT: usize = 16;

/// A line of a plot.
struct Line<'a> {
    name: &'a str,
    points: Vec<Point>,
}

struct Point {
    at: f64,
    value: f64,
    /// Text of `at`.
    label: String,
}

/// An axis: maps a value to a position from 0 to 1, and has the marked values.
struct Axis {
    min: f64,
    max: f64,
    is_log: bool,
    name: &'static str,
}

pub(crate) fn page(report: &Report) -> String {
    let title = escaped(&report.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <style>{STYLE}</style></head><body><main>\n<h1>{title}</h1>\n<div class=\"notes\">\n"
    );
    for note in &report.notes {
        page.push_str(&format!("<p>{}</p>\n", escaped(note)));
    }
    page.push_str("</div>\n");
    page.push_str(&table(report));
    page.push_str("<div class=\"plots\">\n");
    let mut plots = |rows: &[&Row], name: &str, about: &str, draw: fn(&[&Row]) -> String| {
        for rows in rows.chunks(LINES_MAX) {
            page.push_str(&figure(name, about, rows, &draw(rows)));
        }
    };
    let mut rows: Vec<&Row> = report.rows.iter().collect();
    plots(&rows, "Latency by percentile", "Of all runs; both axes are logarithmic.", latencies);
    plots(&rows, "Ok responses per second", "Second by second of the last run.", throughput);
    rows.retain(|row| !row.samples.is_empty());
    // Streams that ran at once are of one server.
    rows.dedup_by(|next, row| next.samples == row.samples);
    plots(&rows, "CPU of the server", "Cores in use, in the last run.", cpu);
    plots(&rows, "Memory of the server", "Resident memory in the last run.", memory);
    page.push_str("</div>\n</main></body></html>\n");
    page
}

/// A plot with its title and legend.
fn figure(name: &str, about: &str, rows: &[&Row], svg: &str) -> String {
    let names = rows
        .iter()
        .enumerate()
        .map(|(nth, row)| format!("<li><i class=\"c{nth}\"></i>{}</li>", escaped(&row.name)));
    format!(
        "<figure><figcaption><b>{name}</b>{about}</figcaption>\n{svg}<ul class=\"legend\">{}</ul></figure>\n",
        names.collect::<String>()
    )
}

fn table(report: &Report) -> String {
    let mut table = format!("<div class=\"scroll\"><table>{COLUMNS}<tbody>\n");
    for row in &report.rows {
        let failed = row.counts.failed() - row.counts.rejected;
        let bad = |count: u64| if count > 0 { " class=\"bad\"" } else { "" };
        let none = || "–".to_owned();
        let cores = row.cores.map_or_else(none, |cores| number(cores.median, 2));
        let mb = row.peak_resident_bytes.map_or_else(none, |max| number(max as f64 / 1e6, 1));
        let rate = |value: f64| number(value, if row.rate.max < 100.0 { 1 } else { 0 });
        // Writing to a string never fails.
        let _ = writeln!(
            table,
            "<tr><th>{}</th><td class=\"text dim\">{}</td>\
             <td class=\"first main\">{}</td><td class=\"dim\">{}</td><td class=\"dim\">{}</td>\
             <td class=\"first\">{}</td><td>{}</td><td class=\"main\">{}</td><td>{}</td><td>{}</td>\
             <td class=\"first\">{}</td><td{}>{}</td><td{}>{}</td>\
             <td class=\"first\">{}</td><td class=\"first\">{cores}</td><td>{mb}</td></tr>",
            escaped(&row.name),
            escaped(&row.arrival),
            rate(row.rate.median),
            rate(row.rate.min),
            rate(row.rate.max),
            number(row.p50_ms.median, 3),
            number(row.p90_ms.median, 3),
            number(row.p99_ms.median, 3),
            number(row.p999_ms.median, 3),
            number(row.longest_ms, 3),
            number(row.counts.ok as f64, 0),
            bad(row.counts.rejected),
            number(row.counts.rejected as f64, 0),
            bad(failed),
            number(failed as f64, 0),
            number(row.response_bytes, 0),
        );
        if let Some(failures) = row.failures() {
            let failures = escaped(&failures);
            let _ = writeln!(
                table,
                "<tr class=\"why\"><td colspan=\"{COLUMNS_COUNT}\">{failures}</td></tr>"
            );
        }
    }
    table.push_str("</tbody></table></div>\n");
    table
}

/// Milliseconds over 1 / (1 - quantile), both on logarithmic axes.
fn latencies(rows: &[&Row]) -> String {
    let lines = rows.iter().map(|row| {
        let Row { name, curve, .. } = row;
        let points = curve.iter().filter(|(quantile, ms)| *quantile < 1.0 && *ms > 0.0);
        let points = points.map(|(quantile, ms)| Point {
            at: 1.0 / (1.0 - quantile),
            value: *ms,
            label: format!("{} %", round(quantile * 100.0)),
        });
        Line { name, points: points.collect() }
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let marks =
        [(1.0, "0"), (2.0, "50"), (10.0, "90"), (100.0, "99"), (1e3, "99.9"), (1e4, "99.99")];
    let name = "percentile: share of requests with at most this latency";
    let x = Axis { min: 1.0, max: 1e4, is_log: true, name };
    plot(&lines, &x, Some(&marks), true, "ms")
}

fn throughput(rows: &[&Row]) -> String {
    let lines = rows.iter().map(|row| {
        let Row { name, seconds, took_s, .. } = row;
        let points = seconds.iter().enumerate().map(|(nth, second)| {
            // The last one may be shorter.
            let long = (took_s - nth as f64).clamp(0.001, 1.0);
            let label = format!("second {}", nth + 1);
            Point { at: nth as f64 + long / 2.0, value: second.ok as f64 / long, label }
        });
        Line { name, points: points.collect() }
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let max = rows.iter().map(|row| row.took_s).fold(0.1, f64::max);
    let x = Axis { min: 0.0, max, is_log: false, name: "seconds since the warm-up" };
    plot(&lines, &x, None, false, "responses/s")
}

/// Cores in use between two samples.
fn cpu(rows: &[&Row]) -> String {
    let cores = |samples: &[Sample], nth: usize| {
        let (before, now) = (samples.get(nth.checked_sub(1)?)?, samples[nth]);
        let took_s = (now.at_ms - before.at_ms) / 1e3;
        (took_s > 0.0).then(|| (now.cpu_s - before.cpu_s) / took_s)
    };
    over_time(rows, "cores", cores)
}

fn memory(rows: &[&Row]) -> String {
    over_time(rows, "MB", |samples, nth| Some(samples[nth].resident_bytes as f64 / 1e6))
}

/// A value of each sample of the server's process, by the sample's index, over the seconds since
/// the first.
fn over_time(
    rows: &[&Row],
    unit: &'static str,
    value: impl Fn(&[Sample], usize) -> Option<f64>,
) -> String {
    let mut max: f64 = 0.1;
    let mut lines = Vec::new();
    for row in rows {
        let first = row.samples.first().map_or(0.0, |sample| sample.at_ms);
        let points = row.samples.iter().enumerate();
        let points = points.filter_map(|(nth, sample)| {
            let at = (sample.at_ms - first) / 1e3;
            let label = format!("{} s", round(at));
            Some(Point { at, value: value(&row.samples, nth)?, label })
        });
        let points: Vec<_> = points.collect();
        max = points.last().map_or(max, |last| max.max(last.at));
        lines.push(Line { name: &row.name, points });
    }
    let x = Axis { min: 0.0, max, is_log: false, name: "seconds since the warm-up" };
    plot(&lines, &x, None, false, unit)
}

/// One plot. Its `y` axis covers all values, up to round ones.
fn plot(
    lines: &[Line<'_>],
    x: &Axis,
    marks: Option<&[(f64, &str)]>,
    is_log: bool,
    unit: &'static str,
) -> String {
    let y = Axis::from_lines(lines, is_log, unit);
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">"
    );
    let own: Vec<(f64, String)> = match marks {
        Some(marks) => marks.iter().map(|(at, text)| (*at, (*text).to_owned())).collect(),
        None => x.marks(),
    };
    for (at, text) in own {
        let (at, under) = (x_of(x, at), bottom + 16.0);
        // Writing to a string never fails.
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{under}\" text-anchor=\"middle\">{text}</text>"
        );
    }
    for (at, text) in y.marks() {
        let (at, text_at) = (y_of(&y, at), LEFT - 8.0);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
             <text x=\"{text_at}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            at + 4.0
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text x=\"4\" y=\"14\">{unit}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 6.0,
        x.name,
    );
    for (nth, line) in lines.iter().enumerate() {
        let positions = line.points.iter().map(|point| (x_of(x, point.at), y_of(&y, point.value)));
        let text: Vec<_> =
            positions.clone().map(|(at, value)| format!("{at:.1},{value:.1}")).collect();
        let _ = write!(
            svg,
            "<g class=\"c{nth}\"><polyline class=\"line\" points=\"{}\"/>",
            text.join(" ")
        );
        if line.points.len() <= POINTS_SHOWN_MAX {
            for (point, (at, value)) in line.points.iter().zip(positions) {
                let label = number(point.value, 3);
                let _ = write!(
                    svg,
                    "<circle cx=\"{at:.1}\" cy=\"{value:.1}\" r=\"2.6\">\
                     <title>{}, {}: {label} {unit}</title></circle>",
                    escaped(line.name),
                    point.label
                );
            }
        }
        svg.push_str("</g>");
    }
    svg.push_str("</svg>\n");
    svg
}

fn x_of(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.position(value) * (WIDTH - LEFT - RIGHT)
}

fn y_of(axis: &Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - axis.position(value) * (HEIGHT - TOP - BOTTOM)
}

impl Axis {
    /// An axis over all values of these lines, up to the next round values.
    fn from_lines(lines: &[Line<'_>], is_log: bool, name: &'static str) -> Self {
        let values = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.value));
        let max = values().fold(0.0, f64::max);
        let max = if max > 0.0 { max } else { 1.0 };
        if is_log {
            let min = values().fold(max, f64::min);
            let min = rounds(min).rfind(|round| *round <= min * 1.001).unwrap_or(min);
            let max = rounds(max).find(|round| *round >= max * 0.999).unwrap_or(max);
            let max = if max > min { max } else { min * 2.0 };
            return Self { min, max, is_log, name };
        }
        let step = step(max);
        Self { min: 0.0, max: (max / step - 0.001).ceil() * step, is_log, name }
    }

    fn position(&self, value: f64) -> f64 {
        let position = if self.is_log {
            (value / self.min).ln() / (self.max / self.min).ln()
        } else {
            (value - self.min) / (self.max - self.min)
        };
        position.clamp(0.0, 1.0)
    }

    /// Round values within the axis, at most about ten.
    fn marks(&self) -> Vec<(f64, String)> {
        // A tolerance at both ends, as sums of tenths are not exact.
        let within = self.min * 0.999..=self.max * 1.001;
        let mut marks: Vec<f64> = Vec::new();
        if self.is_log {
            let mut decade = 10f64.powf(self.min.log10().floor());
            while decade <= self.max * 1.001 {
                marks.extend([decade, decade * 2.0, decade * 5.0]);
                decade *= 10.0;
            }
            let decades: Vec<f64> = marks.iter().step_by(3).copied().collect();
            marks.retain(|value| within.contains(value));
            if marks.len() > 10 {
                marks = decades.into_iter().filter(|value| within.contains(value)).collect();
            }
        } else {
            let step = step(self.max);
            marks.extend(
                (0..).map(|nth| f64::from(nth) * step).take_while(|at| within.contains(at)),
            );
        }
        marks.into_iter().map(|value| (value, round(value))).collect()
    }
}

/// Distance of about five marks from 0 to `max`.
fn step(max: f64) -> f64 {
    let decade = 10f64.powf((max / 5.0).log10().floor());
    let steps = [decade, decade * 2.0, decade * 5.0, decade * 10.0];
    steps.into_iter().find(|step| max / step <= 6.0).unwrap_or(max)
}

/// 1, 2 and 5 of the decades about a value, ascending.
fn rounds(value: f64) -> impl DoubleEndedIterator<Item = f64> {
    let decade = 10f64.powf(value.log10().floor());
    [0.5, 1.0, 2.0, 5.0, 10.0].into_iter().map(move |round| round * decade)
}

/// With commas between thousands, and as many decimals as make sense for the number of digits.
fn number(value: f64, decimals: usize) -> String {
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

fn round(value: f64) -> String {
    let text = number(value, 3);
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: Axis = Axis { min: 0.0, max: 1.0, is_log: false, name: "" };

    fn marks(min: f64, max: f64, is_log: bool) -> Vec<String> {
        let axis = Axis { min, max, is_log, name: "" };
        axis.marks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn axes_are_marked_at_round_values() {
        assert_eq!(marks(0.0, 27.0, false), ["0", "5", "10", "15", "20", "25"]);
        assert_eq!(marks(0.15, 3.0, true), ["0.2", "0.5", "1", "2"]);
        assert_eq!(marks(0.02, 1e4, true), ["0.1", "1", "10", "100", "1,000", "10,000"]);
    }

    #[test]
    fn an_axis_reaches_over_what_is_there_to_round_values() {
        let reach = |values: &[f64], is_log| {
            let point = |value: &f64| Point { at: 0.0, value: *value, label: String::new() };
            let points = values.iter().map(point).collect();
            let axis = Axis::from_lines(&[Line { name: "", points }], is_log, "");
            (round(axis.min), round(axis.max))
        };
        let of = |min: &str, max: &str| (min.to_owned(), max.to_owned());
        assert_eq!(reach(&[0.3, 41.0, 7.0], true), of("0.2", "50"));
        assert_eq!(reach(&[2.0, 2.0], true), of("2", "4"));
        assert_eq!(reach(&[0.3, 41.0], false), of("0", "50"));
        assert_eq!(reach(&[12_345.0], false), of("0", "15,000"));
        assert_eq!(reach(&[], true), of("1", "2"));
    }

    #[test]
    fn numbers_are_formatted_as_people_read_them() {
        let formatted = [(0.0123, 3), (1234.567, 3), (1_234_567.0, 0), (12.0, 1), (f64::NAN, 1)];
        let formatted = formatted.map(|(value, decimals)| number(value, decimals));
        assert_eq!(formatted, ["0.012", "1,234.6", "1,234,567", "12.0", "–"]);
    }

    #[test]
    fn the_last_part_of_a_second_counts_as_what_it_is() {
        let second = |right| crate::Second { ok: right, ..crate::Second::default() };
        let seconds = vec![second(100), second(25)];
        let row = Row { seconds, took_s: 1.25, ..Row::default() };
        let svg = throughput(&[&row]);
        assert_eq!(svg.matches(": 100.00 responses/s</title>").count(), 2, "{svg}");
    }

    #[test]
    fn the_servers_cpu_is_plotted_from_sample_to_sample() {
        let sample = |at_ms, cpu_s| Sample { at_ms, cpu_s, resident_bytes: 5_000_000 };
        // Half a core for a second, then two.
        let samples = vec![sample(100.0, 7.0), sample(1_100.0, 7.5), sample(2_100.0, 9.5)];
        let row = Row { name: "slot".to_owned(), samples, ..Row::default() };
        // The second row ran at the same time.
        let page = page(&Report { rows: vec![row.clone(), row], ..Report::default() });
        let plot = page.split("<b>CPU of the server</b>").nth(1).expect("a plot of CPU");
        let points = plot.split("points=\"").nth(1).and_then(|rest| rest.split('"').next());
        let (x, y) = (Axis { max: 2.0, ..AXIS }, Axis { max: 2.0, ..AXIS });
        let at = |seconds, cores| format!("{:.1},{:.1}", x_of(&x, seconds), y_of(&y, cores));
        assert_eq!(points, Some(&*format!("{} {}", at(1.0, 0.5), at(2.0, 2.0))));
        assert_eq!(
            plot.split("</figure>").next().expect("its end").matches("<polyline").count(),
            1
        );
        assert!(page.contains("<b>Memory of the server</b>"));
    }

    #[test]
    fn a_plot_of_nothing_is_a_plot() {
        let row = Row::default();
        let nothing = [&row];
        let svg = throughput(&nothing) + &latencies(&nothing) + &cpu(&nothing) + &memory(&nothing);
        assert!(svg.contains("</svg>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
