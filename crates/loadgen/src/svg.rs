//! Plots of lines as SVG: parts of a page, or a document of their own.
//!
//! In: a [`Plot`], which is an `x` axis and lines of points. Its `y` axis covers all values, up to round ones. Out:
//! text. A point shows its values on hover.
//! Shape: colours are variables, of light and of dark, in [`STYLE`]; plots scale with what they are in.
//! Bounds: a plot has up to [`LINES_MAX`] lines, as there are as many colours.

use std::fmt::Write;

use crate::markup::{escaped, number, round};

/// Maximum number of lines in a plot.
pub const LINES_MAX: usize = 8;

/// Size of a plot in SVG units; a line of its text has 12.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 58.0;
const BOTTOM: f64 = 44.0;
const TOP: f64 = 30.0;
const RIGHT: f64 = 16.0;

/// Lines with more points than this show no separate points.
const POINTS_SHOWN_MAX: usize = 64;

/// In a document: height of its title with the legend, height of a plot's title, and width of a character.
const HEAD: f64 = 60.0;
const TITLE: f64 = 26.0;
const CHARACTER: f64 = 7.0;

/// The style of plots. The colours differ also for people who do not distinguish red and green.
pub const STYLE: &str = "
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--dim:#5b6570;--rule:#e2e6ea;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b8629a;--c4:#c98a00;--c5:#3b9fdb;--c6:#1b1f24;--c7:#858b92}
@media(prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e7eaee;--dim:#9aa4af;--rule:#2c333b;
--c0:#4aa5e6;--c1:#f5853f;--c2:#2fc398;--c3:#e294c6;--c4:#f0b93c;--c5:#9ad4f7;--c6:#e7eaee;--c7:#8b939c}}
svg text{font:12px system-ui,sans-serif;fill:var(--dim)}
.grid{stroke:var(--rule);fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}
.c4{color:var(--c4)}.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}
svg .line{stroke:currentColor}svg circle{fill:currentColor}
";

/// A plot of lines over a common `x` axis.
pub struct Plot<'a> {
    /// Its horizontal axis.
    pub x: Axis,
    /// The scale of its vertical axis.
    pub y_scale: Scale,
    /// The unit of its vertical axis.
    pub unit: &'static str,
    /// Its lines, in the order of the colours.
    pub lines: Vec<Line<'a>>,
}

/// A line of a plot.
pub struct Line<'a> {
    /// Name of the line in the legend.
    pub name: &'a str,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// A point of a line.
pub struct Point {
    /// Its value on the horizontal axis.
    pub x: f64,
    /// Value on the vertical axis.
    pub y: f64,
    /// Text of `x`.
    pub label: String,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal lengths.
    Linear,
    /// Equal ratios have equal lengths.
    Logarithmic,
}

/// An axis: maps a value to a position from 0 to 1, and has the marked values.
pub struct Axis {
    min: f64,
    max: f64,
    scale: Scale,
    name: String,
    marks: Option<Vec<(f64, String)>>,
}

/// The plots of a document, in rows.
pub struct Document<'a> {
    /// Title of the document.
    pub title: &'a str,
    /// Plots in a row.
    pub columns: usize,
    /// Titles of plots, and the plots. Their lines have the same names in the same order.
    pub plots: Vec<(String, Plot<'a>)>,
}

impl Document<'_> {
    /// The text of an SVG file. The legend is that of the first plot.
    pub fn svg(&self) -> String {
        let columns = self.columns.max(1);
        let width = columns as f64 * WIDTH;
        let height = HEAD + self.plots.len().div_ceil(columns) as f64 * (TITLE + HEIGHT);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\">\n<style>{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" style=\"fill:var(--paper)\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" style=\"font-size:16px;fill:var(--ink)\">{}</text>\n",
            escaped(self.title)
        );
        svg.push_str(&self.legend());
        for (nth, (title, plot)) in self.plots.iter().enumerate() {
            let x = (nth % columns) as f64 * WIDTH;
            let y = HEAD + (nth / columns) as f64 * (TITLE + HEIGHT) + TITLE;
            // Writing to a string never fails.
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" style=\"fill:var(--ink)\">{}</text>",
                x + LEFT,
                y - 8.0,
                escaped(title)
            );
            let place = format!("x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\"");
            svg.push_str(&plot.element(&place));
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn legend(&self) -> String {
        let lines = self.plots.first().map_or(&[][..], |(_, plot)| &plot.lines);
        let mut legend = String::new();
        let mut x = LEFT;
        for (nth, line) in lines.iter().enumerate() {
            let _ = writeln!(
                legend,
                "<g class=\"c{nth}\"><path class=\"line\" d=\"M{x:.1} 42h16\"/>\
                 <text x=\"{:.1}\" y=\"46\">{}</text></g>",
                x + 22.0,
                escaped(line.name)
            );
            x += 40.0 + CHARACTER * line.name.chars().count() as f64;
        }
        legend
    }
}

impl Plot<'_> {
    /// An element of a page that has [`STYLE`].
    pub fn svg(&self) -> String {
        self.element("xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"")
    }

    /// An `svg` element with these attributes.
    fn element(&self, attributes: &str) -> String {
        let x = &self.x;
        let y = &self.y();
        let mut svg = format!("<svg {attributes} viewBox=\"0 0 {WIDTH} {HEIGHT}\">");
        let bottom = HEIGHT - BOTTOM;
        let right = WIDTH - RIGHT;
        for (at, text) in x.marks() {
            let at = x_of(x, at);
            let under = bottom + 16.0;
            // Writing to a string never fails.
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
                 <text x=\"{at:.1}\" y=\"{under}\" text-anchor=\"middle\">{text}</text>"
            );
        }
        for (at, text) in y.marks() {
            let at = y_of(y, at);
            let text_at = LEFT - 8.0;
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
             <text x=\"4\" y=\"14\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 6.0,
            x.name,
            y.name
        );
        for (nth, line) in self.lines.iter().enumerate() {
            let _ = write!(svg, "<g class=\"c{nth}\">");
            line.draw(&mut svg, x, y);
            svg.push_str("</g>");
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The vertical axis: over all values, up to the next round ones.
    pub(crate) fn y(&self) -> Axis {
        let values = || self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.y));
        let max = values().fold(0.0, f64::max);
        let max = if max > 0.0 { max } else { 1.0 };
        if self.y_scale == Scale::Logarithmic {
            // A logarithmic axis has no 0; such a point is drawn at the lower end.
            let min = values().filter(|value| *value > 0.0).fold(max, f64::min);
            let min = rounds(min).rfind(|round| *round <= min * 1.001).unwrap_or(min);
            let max = rounds(max).find(|round| *round >= max * 0.999).unwrap_or(max);
            let max = if max > min { max } else { min * 2.0 };
            return Axis::logarithmic(self.unit, min, max);
        }
        let step = step(max);
        Axis::linear(self.unit, 0.0, (max / step - 0.001).ceil() * step)
    }
}

impl Line<'_> {
    fn draw(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let positions = self.points.iter().map(|point| (x_of(x, point.x), y_of(y, point.y)));
        let text: Vec<_> =
            positions.clone().map(|(at, value)| format!("{at:.1},{value:.1}")).collect();
        let _ = write!(svg, "<polyline class=\"line\" points=\"{}\"/>", text.join(" "));
        if self.points.len() > POINTS_SHOWN_MAX {
            return;
        }
        for (point, (at, value)) in self.points.iter().zip(positions) {
            let label = if point.y < 0.001 { round(point.y) } else { number(point.y, 3) };
            let _ = write!(
                svg,
                "<circle cx=\"{at:.1}\" cy=\"{value:.1}\" r=\"2.6\">\
                 <title>{}, {}: {label} {}</title></circle>",
                escaped(self.name),
                point.label,
                y.name
            );
        }
    }
}

impl Axis {
    /// An axis of equal differences.
    pub fn linear(name: &str, min: f64, max: f64) -> Self {
        Self { min, max, scale: Scale::Linear, name: name.to_owned(), marks: None }
    }

    /// An axis of equal ratios. Both ends are above 0.
    pub fn logarithmic(name: &str, min: f64, max: f64) -> Self {
        Self { scale: Scale::Logarithmic, ..Self::linear(name, min, max) }
    }

    /// Sets these marks instead of round values.
    #[must_use]
    pub fn with_marks(self, marks: impl IntoIterator<Item = (f64, String)>) -> Self {
        Self { marks: Some(marks.into_iter().collect()), ..self }
    }

    fn position(&self, value: f64) -> f64 {
        let position = match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            Scale::Logarithmic => (value / self.min).ln() / (self.max / self.min).ln(),
        };
        position.clamp(0.0, 1.0)
    }

    /// The marks, or round values within the axis, at most about ten.
    fn marks(&self) -> Vec<(f64, String)> {
        if let Some(marks) = &self.marks {
            return marks.clone();
        }
        // A tolerance at both ends, as sums of tenths are not exact.
        let within = self.min * 0.999..=self.max * 1.001;
        let mut marks: Vec<f64> = Vec::new();
        if self.scale == Scale::Logarithmic {
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

pub(crate) fn x_of(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.position(value) * (WIDTH - LEFT - RIGHT)
}

pub(crate) fn y_of(axis: &Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - axis.position(value) * (HEIGHT - TOP - BOTTOM)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(axis: &Axis) -> Vec<String> {
        axis.marks().into_iter().map(|(_, text)| text).collect()
    }

    fn plot(y_scale: Scale, values: &[f64]) -> Plot<'static> {
        let point = |value: &f64| Point { x: 0.5, y: *value, label: String::new() };
        let lines = vec![Line { name: "<a>", points: values.iter().map(point).collect() }];
        Plot { x: Axis::linear("seconds", 0.0, 1.0), y_scale, unit: "ms", lines }
    }

    #[test]
    fn axes_are_marked_at_round_values() {
        assert_eq!(marks(&Axis::linear("", 0.0, 27.0)), ["0", "5", "10", "15", "20", "25"]);
        assert_eq!(marks(&Axis::logarithmic("", 0.15, 3.0)), ["0.2", "0.5", "1", "2"]);
        let decades = ["0.1", "1", "10", "100", "1,000", "10,000"];
        assert_eq!(marks(&Axis::logarithmic("", 0.02, 1e4)), decades);
        assert_eq!(marks(&Axis::logarithmic("", 1e-5, 4e-5)), ["1e-5", "2e-5"]);
        let named = Axis::linear("", 0.0, 9.0).with_marks([(3.0, "1k".to_owned())]);
        assert_eq!(marks(&named), ["1k"]);
    }

    #[test]
    fn an_axis_reaches_over_what_is_there_to_round_values() {
        use Scale::{Linear, Logarithmic};
        let reach = |values: &[f64], scale| {
            let axis = plot(scale, values).y();
            (round(axis.min), round(axis.max))
        };
        let of = |min: &str, max: &str| (min.to_owned(), max.to_owned());
        assert_eq!(reach(&[0.3, 41.0, 7.0], Logarithmic), of("0.2", "50"));
        assert_eq!(reach(&[2.0, 2.0], Logarithmic), of("2", "4"));
        assert_eq!(reach(&[0.0, 0.3, 41.0], Logarithmic), of("0.2", "50"));
        assert_eq!(reach(&[0.3, 41.0], Linear), of("0", "50"));
        assert_eq!(reach(&[12_345.0], Linear), of("0", "15,000"));
        assert_eq!(reach(&[], Logarithmic), of("1", "2"));
    }

    #[test]
    fn a_document_has_its_plots_in_rows_and_one_legend() {
        let panel = |title: &str| (title.to_owned(), plot(Scale::Linear, &[1.0, 2.0]));
        let plots = vec![panel("one"), panel("two"), panel("three")];
        let svg = Document { title: "a & b", columns: 2, plots }.svg();
        assert!(svg.contains("viewBox=\"0 0 1280 752\"") && svg.contains("a &amp; b"), "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 3, "{svg}");
        assert_eq!(svg.matches(">&lt;a&gt;</text>").count(), 1, "{svg}");
        assert!(svg.contains("<svg x=\"0\" y=\"432\"") && svg.contains(">three</text>"), "{svg}");
        assert!(svg.contains("<title>&lt;a&gt;, : 2.000 ms</title>"), "{svg}");
    }
}
