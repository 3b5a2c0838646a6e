//! A report as one HTML page: a table, and plots as inline SVG. Nothing is fetched, nothing runs.
//!
//! Shape: plots scale with the page and stand side by side where there is room.
//! Not here: how a plot is drawn, and its colours (`svg`).

use std::fmt::Write;

use crate::markup::{escaped, number, round};
use crate::report::{Report, Row};
use crate::resource_usage::Sample;
use crate::svg::{self, Axis, Line, Plot, Point, Scale};

/// The style of the page, in addition to that of plots.
const STYLE: &str = "
:root{--band:#f6f8fa;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--band:#1c2127;--bad:#ff8f84}}
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
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:0;padding:0;font-size:.87rem}
.legend i{display:inline-block;width:.9rem;height:.25rem;border-radius:2px;margin-right:.45rem;vertical-align:middle}
.legend i{background:currentColor}
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

/// The horizontal axis of plots over time.
const SECONDS: &str = "seconds since the warm-up";

/// The page of a report, without external resources.
pub fn page(report: &Report) -> String {
    let title = escaped(&report.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <style>{}{STYLE}</style></head><body><main>\n<h1>{title}</h1>\n<div class=\"notes\">\n",
        svg::STYLE
    );
    for note in &report.notes {
        page.push_str(&format!("<p>{}</p>\n", escaped(note)));
    }
    page.push_str("</div>\n");
    page.push_str(&table(report));
    page.push_str("<div class=\"plots\">\n");
    let mut plots = |rows: &[&Row], name: &str, about: &str, draw: fn(&[&Row]) -> String| {
        for rows in rows.chunks(svg::LINES_MAX) {
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
            x: 1.0 / (1.0 - quantile),
            y: *ms,
            label: format!("{} %", round(quantile * 100.0)),
        });
        Line { name, points: points.collect() }
    });
    let lines = lines.collect();
    let marks =
        [(1.0, "0"), (2.0, "50"), (10.0, "90"), (100.0, "99"), (1e3, "99.9"), (1e4, "99.99")];
    let name = "percentile: share of requests with at most this latency";
    let x = Axis::logarithmic(name, 1.0, 1e4);
    let x = x.with_marks(marks.map(|(at, text)| (at, text.to_owned())));
    Plot { x, y_scale: Scale::Logarithmic, unit: "ms", lines }.svg()
}

fn throughput(rows: &[&Row]) -> String {
    let lines = rows.iter().map(|row| {
        let Row { name, seconds, took_s, .. } = row;
        let points = seconds.iter().enumerate().map(|(nth, second)| {
            // The last one may be shorter.
            let long = (took_s - nth as f64).clamp(0.001, 1.0);
            let label = format!("second {}", nth + 1);
            Point { x: nth as f64 + long / 2.0, y: second.ok as f64 / long, label }
        });
        Line { name, points: points.collect() }
    });
    let lines = lines.collect();
    let max = rows.iter().map(|row| row.took_s).fold(0.1, f64::max);
    let x = Axis::linear(SECONDS, 0.0, max);
    Plot { x, y_scale: Scale::Linear, unit: "responses/s", lines }.svg()
}

/// Cores in use between two samples.
fn cpu(rows: &[&Row]) -> String {
    let cores = |samples: &[Sample], nth: usize| {
        let before = samples.get(nth.checked_sub(1)?)?;
        let now = samples[nth];
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
            let x = (sample.at_ms - first) / 1e3;
            let label = format!("{} s", round(x));
            Some(Point { x, y: value(&row.samples, nth)?, label })
        });
        let points: Vec<_> = points.collect();
        max = points.last().map_or(max, |last| max.max(last.x));
        lines.push(Line { name: &row.name, points });
    }
    let x = Axis::linear(SECONDS, 0.0, max);
    Plot { x, y_scale: Scale::Linear, unit, lines }.svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counts, Spread};

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
        let axis = Axis::linear("", 0.0, 2.0);
        let at = |x, y| format!("{:.1},{:.1}", svg::x_of(&axis, x), svg::y_of(&axis, y));
        assert_eq!(points, Some(&*format!("{} {}", at(1.0, 0.5), at(2.0, 2.0))));
        assert_eq!(
            plot.split("</figure>").next().expect("its end").matches("<polyline").count(),
            1
        );
        assert!(page.contains("<b>Memory of the server</b>"));
    }

    #[test]
    fn the_page_has_every_row_and_no_external_resources() {
        let counts = Counts { ok: 5, errors: 1, ..Counts::default() };
        let failure = Some("500 no\x1b[2J\nsuch <thing>".to_owned());
        let row = Row {
            name: "slot <&>".to_owned(),
            rate: Spread { median: f64::NAN, min: f64::NAN, max: f64::NAN },
            counts,
            peak_resident_bytes: Some(7_000_000),
            failure,
            ..Row::default()
        };
        let page = page(&Report { rows: vec![row], ..Report::default() });
        assert!(page.contains("slot &lt;&amp;&gt;") && page.contains("<svg"), "{page}");
        assert!(page.contains("errors: 1; first: 500 no [2J such &lt;thing&gt;"), "{page}");
        assert!(page.contains("<td>7.0</td>"), "its memory: {page}");
        for outside in ["<script", "http://", "https://", "<link", "<img", "NaN"] {
            let inside = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!inside.contains(outside), "{outside} in {inside}");
        }
    }

    #[test]
    fn a_plot_of_nothing_is_a_plot() {
        let row = Row::default();
        let nothing = [&row];
        let svg = throughput(&nothing) + &latencies(&nothing) + &cpu(&nothing) + &memory(&nothing);
        assert!(svg.contains("</svg>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
