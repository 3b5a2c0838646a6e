//! A report as one HTML page: a table, and plots as inline SVG. Nothing is fetched, nothing runs.

use std::fmt::Write;

use crate::process::Sample;
use crate::report::{Report, Row};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 34.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 170.0;

/// Told apart by those who see red and green alike, too.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f"];

/// Lines of one plot are this many at most; more are in the next one.
const LINES_MAX: usize = 8;

const STYLE: &str = "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}\
th:first-child,td:first-child{text-align:left}svg{display:block;margin:1em 0}\
text{font:11px system-ui,sans-serif;fill:#333}.bad{color:#b00}";

/// A line of a plot.
struct Line<'a> {
    name: &'a str,
    points: Vec<(f64, f64)>,
}

/// An axis: how a value becomes a place between 0 and 1, and which values are marked.
struct Axis {
    least: f64,
    most: f64,
    is_log: bool,
    name: &'static str,
}

pub(crate) fn page(report: &Report) -> String {
    let title = escaped(&report.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    for note in &report.notes {
        page.push_str(&format!("<p>{}</p>\n", escaped(note)));
    }
    page.push_str(&table(report));
    for rows in report.rows.chunks(LINES_MAX) {
        page.push_str("<h2>Latency by percentile</h2>\n");
        page.push_str(&latencies(rows));
    }
    for rows in report.rows.chunks(LINES_MAX) {
        page.push_str("<h2>Answers a second</h2>\n");
        page.push_str(&throughput(rows));
    }
    if report.rows.iter().any(|row| !row.samples.is_empty()) {
        for rows in report.rows.chunks(LINES_MAX) {
            page.push_str("<h2>CPU of the server</h2>\n");
            page.push_str(&cpu(rows));
        }
        for rows in report.rows.chunks(LINES_MAX) {
            page.push_str("<h2>Memory of the server</h2>\n");
            page.push_str(&memory(rows));
        }
    }
    page.push_str("</body></html>\n");
    page
}

fn table(report: &Report) -> String {
    let mut table = "<table><tr><th>stream<th>pace<th>right/s<th>least<th>most<th>p50 ms<th>p90\
                     <th>p99<th>p99.9<th>longest<th>refused<th>failed<th>bytes<th>cores</tr>\n"
        .to_owned();
    for row in &report.rows {
        let failed = row.counts.failed() - row.counts.rejected;
        let bad = if failed > 0 { " class=\"bad\"" } else { "" };
        let cores =
            row.cores.map_or_else(|| "–".to_owned(), |cores| format!("{:.2}", cores.median));
        // Writing to a string never fails.
        let _ = writeln!(
            table,
            "<tr><td>{}<td>{}<td>{:.0}<td>{:.0}<td>{:.0}<td>{:.3}<td>{:.3}<td>{:.3}<td>{:.3}<td>{:.3}\
             <td>{}<td{bad}>{failed}<td>{:.0}<td>{cores}</tr>",
            escaped(&row.name),
            escaped(&row.pace),
            row.rate.median,
            row.rate.least,
            row.rate.most,
            row.p50_ms.median,
            row.p90_ms.median,
            row.p99_ms.median,
            row.p999_ms.median,
            row.longest_ms,
            row.counts.rejected,
            row.answer_bytes,
        );
    }
    table.push_str("</table>\n");
    for row in &report.rows {
        if let Some(failure) = &row.failure {
            let (name, failure) = (escaped(&row.name), escaped(failure));
            let _ = writeln!(table, "<p class=\"bad\">{name}: {failure}</p>");
        }
    }
    table
}

/// Milliseconds over 1 / (1 - quantile), both on logarithmic axes, as latencies are best read.
fn latencies(rows: &[Row]) -> String {
    let lines: Vec<Line<'_>> = rows
        .iter()
        .map(|row| {
            let points = row.curve.iter().filter(|(quantile, ms)| *quantile < 1.0 && *ms > 0.0);
            let points = points.map(|(quantile, ms)| (1.0 / (1.0 - quantile), *ms));
            Line { name: &row.name, points: points.collect() }
        })
        .collect();
    let marks = [(2.0, "50 %"), (10.0, "90 %"), (100.0, "99 %"), (1e3, "99.9 %"), (1e4, "99.99 %")];
    let x = Axis { least: 1.0, most: 1e4, is_log: true, name: "percentile" };
    plot(&lines, x, Some(&marks), true, "ms")
}

fn throughput(rows: &[Row]) -> String {
    let lines: Vec<Line<'_>> = rows
        .iter()
        .map(|row| {
            let points = row.seconds.iter().enumerate();
            let points = points.map(|(at, second)| (at as f64 + 0.5, second.right as f64));
            Line { name: &row.name, points: points.collect() }
        })
        .collect();
    let most = rows.iter().map(|row| row.seconds.len()).max().unwrap_or(1).max(1) as f64;
    let x = Axis { least: 0.0, most, is_log: false, name: "seconds" };
    plot(&lines, x, None, false, "answers/s")
}

/// Cores in use from one look at the server to the next.
fn cpu(rows: &[Row]) -> String {
    let cores = |samples: &[Sample], nth: usize| {
        let (before, now) = (samples.get(nth.checked_sub(1)?)?, samples[nth]);
        let took_s = (now.at_ms - before.at_ms) / 1e3;
        (took_s > 0.0).then(|| (now.cpu_s - before.cpu_s) / took_s)
    };
    over_time(rows, "cores", cores)
}

fn memory(rows: &[Row]) -> String {
    over_time(rows, "MB", |samples, nth| Some(samples[nth].resident_bytes as f64 / 1e6))
}

/// What the looks at the server's process tell, each by its place, over the seconds since the first.
fn over_time(
    rows: &[Row],
    name: &'static str,
    value: impl Fn(&[Sample], usize) -> Option<f64>,
) -> String {
    let mut most: f64 = 0.1;
    let mut lines = Vec::new();
    for row in rows {
        let first = row.samples.first().map_or(0.0, |sample| sample.at_ms);
        let points = row.samples.iter().enumerate();
        let points = points.filter_map(|(nth, sample)| {
            Some(((sample.at_ms - first) / 1e3, value(&row.samples, nth)?))
        });
        let points: Vec<_> = points.collect();
        most = points.last().map_or(most, |last| most.max(last.0));
        lines.push(Line { name: &row.name, points });
    }
    plot(&lines, Axis { least: 0.0, most, is_log: false, name: "seconds" }, None, false, name)
}

/// One plot; `y` reaches from what is there to what is there.
fn plot(
    lines: &[Line<'_>],
    x: Axis,
    marks: Option<&[(f64, &str)]>,
    is_log: bool,
    name: &'static str,
) -> String {
    let values = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let most = values().fold(0.0, f64::max);
    let least = if is_log { values().fold(f64::MAX, f64::min) } else { 0.0 };
    let (least, most) = if most > 0.0 { (least.min(most), most) } else { (0.1, 1.0) };
    let most = if most > least { most } else { least * 2.0 + 1.0 };
    let y = Axis { least, most, is_log, name };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">"
    );
    let own: Vec<(f64, String)> = match marks {
        Some(marks) => marks.iter().map(|(at, text)| (*at, (*text).to_owned())).collect(),
        None => x.marks(),
    };
    for (at, text) in own {
        let at = x_of(&x, at);
        let (bottom, under) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM + 14.0);
        let _ = write!(
            svg,
            "<path d=\"M{at:.1} {TOP}V{bottom:.1}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{at:.1}\" y=\"{under:.1}\" text-anchor=\"middle\">{text}</text>"
        );
    }
    for (at, text) in y.marks() {
        let at = y_of(&y, at);
        let (right, text_at) = (WIDTH - RIGHT, LEFT - 6.0);
        let _ = write!(
            svg,
            "<path d=\"M{LEFT} {at:.1}H{right:.1}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{text_at:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            at + 4.0
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text x=\"4\" y=\"{:.1}\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 4.0,
        x.name,
        TOP + 2.0,
        y.name
    );
    for ((nth, line), colour) in lines.iter().enumerate().zip(COLOURS) {
        let points: Vec<String> = line
            .points
            .iter()
            .map(|(at, value)| format!("{:.1},{:.1}", x_of(&x, *at), y_of(&y, *value)))
            .collect();
        let (text_x, text_y) = (WIDTH - RIGHT + 12.0, TOP + 12.0 + nth as f64 * 16.0);
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>\
             <text x=\"{text_x}\" y=\"{text_y}\" style=\"fill:{colour}\">{}</text>",
            points.join(" "),
            escaped(line.name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn x_of(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT)
}

fn y_of(axis: &Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - TOP - BOTTOM)
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let place = if self.is_log {
            (value / self.least).ln() / (self.most / self.least).ln()
        } else {
            (value - self.least) / (self.most - self.least)
        };
        place.clamp(0.0, 1.0)
    }

    /// Round values within it, at most about ten.
    fn marks(&self) -> Vec<(f64, String)> {
        let mut marks = Vec::new();
        if self.is_log {
            let mut decade = 10f64.powf(self.least.log10().floor());
            while decade <= self.most {
                for value in [decade, decade * 2.0, decade * 5.0] {
                    if (self.least..=self.most).contains(&value) {
                        marks.push(value);
                    }
                }
                decade *= 10.0;
            }
            while marks.len() > 10 {
                marks = marks.into_iter().step_by(3).collect();
            }
        } else {
            let decade = 10f64.powf((self.most / 5.0).log10().floor());
            let steps = [decade, decade * 2.0, decade * 5.0, decade * 10.0];
            let step = steps.into_iter().find(|step| self.most / step <= 6.0).unwrap_or(self.most);
            marks.extend((0..).map(|nth| f64::from(nth) * step).take_while(|at| *at <= self.most));
        }
        marks.into_iter().map(|value| (value, round(value))).collect()
    }
}

fn round(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: Axis = Axis { least: 0.0, most: 1.0, is_log: false, name: "" };

    fn marks(least: f64, most: f64, is_log: bool) -> Vec<String> {
        let axis = Axis { least, most, is_log, name: "" };
        axis.marks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn axes_are_marked_at_round_values() {
        assert_eq!(marks(0.0, 27.0, false), ["0", "5", "10", "15", "20", "25"]);
        assert_eq!(marks(0.15, 3.0, true), ["0.2", "0.5", "1", "2"]);
        assert!(marks(0.01, 1e4, true).len() <= 10);
    }

    #[test]
    fn the_servers_cpu_is_plotted_from_look_to_look() {
        let look = |at_ms, cpu_s| Sample { at_ms, cpu_s, resident_bytes: 5_000_000 };
        // Half a core for a second, then two.
        let samples = vec![look(100.0, 7.0), look(1_100.0, 7.5), look(2_100.0, 9.5)];
        let row = Row { name: "slot".to_owned(), samples, ..Row::default() };
        let page = page(&Report { rows: vec![row], ..Report::default() });
        let plot = page.split("<h2>CPU of the server</h2>").nth(1).expect("a plot of CPU");
        let points = plot.split("points=\"").nth(1).and_then(|rest| rest.split('"').next());
        let (x, y) = (Axis { most: 2.0, ..AXIS }, Axis { most: 2.0, ..AXIS });
        let at = |seconds, cores| format!("{:.1},{:.1}", x_of(&x, seconds), y_of(&y, cores));
        assert_eq!(points, Some(&*format!("{} {}", at(1.0, 0.5), at(2.0, 2.0))));
        assert!(page.contains("<h2>Memory of the server</h2>"));
    }

    #[test]
    fn a_plot_of_nothing_is_a_plot() {
        let nothing = [Row::default()];
        let svg = throughput(&nothing) + &latencies(&nothing) + &cpu(&nothing) + &memory(&nothing);
        assert!(svg.contains("</svg>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
