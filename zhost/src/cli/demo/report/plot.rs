//! A line plot over time as inline SVG.

use super::axis::{Axis, Scale, Unit};
use super::{escaped, push};
use crate::cli::demo::timeline::Phases;

/// One plot with a legend.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) unit: Unit,
    pub(super) scale: Scale,
    pub(super) lines: Vec<Line>,
    pub(super) bounds: Vec<Bound>,
}

/// Values over time, as pairs of seconds and value.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) colour: Colour,
}

/// A value that must not be passed: a dashed line across the plot.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) colour: Colour,
}

/// The sender is drawn in the first colour, the receiver in the second.
#[derive(Clone, Copy, Debug)]
pub(super) enum Colour {
    First,
    Second,
    Neutral,
}

impl Plot {
    /// Appends the plot as an HTML figure.
    pub(super) fn draw(&self, html: &mut String, phases: Phases) {
        let time = Axis::new(Scale::Linear, Unit::Seconds, 0.0, phases.end);
        let (lowest, highest) = self.range();
        let values = Axis::new(self.scale, self.unit, lowest, highest);
        push(html, format_args!("<figure><figcaption>{}", escaped(self.title)));
        if self.scale == Scale::Log {
            html.push_str(" <small>(logarithmic)</small>");
        }
        html.push_str("</figcaption>");
        self.draw_legend(html);
        push(
            html,
            format_args!(
                "<div class=\"scroll\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
                 aria-label=\"{} over time\">",
                escaped(self.title)
            ),
        );
        draw_phases(html, &time, phases);
        self.draw_axes(html, &time, &values);
        for bound in &self.bounds {
            let (class, y) = (bound.colour.class(), vertical(&values, bound.value));
            push(
                html,
                format_args!(
                    "<line class=\"bound {class}\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" \
                     y2=\"{y:.1}\"/>"
                ),
            );
        }
        for line in &self.lines {
            line.draw(html, &time, &values);
        }
        html.push_str("</svg></div></figure>");
    }

    fn draw_legend(&self, html: &mut String) {
        html.push_str("<p class=\"legend\">");
        for line in &self.lines {
            let highest = line.points.iter().map(|(_, value)| *value).reduce(f64::max);
            let (class, name) = (line.colour.class(), escaped(line.name));
            let highest = highest.map_or_else(
                || "no value".to_owned(),
                |value| format!("highest {}", escaped(&self.unit.label(rounded(value)))),
            );
            push(
                html,
                format_args!(
                    "<span><span class=\"key line {class}\"></span>{name} \
                     <small>({highest})</small></span> "
                ),
            );
        }
        for bound in &self.bounds {
            let (class, name) = (bound.colour.class(), escaped(bound.name));
            let value = escaped(&self.unit.label(bound.value));
            push(
                html,
                format_args!(
                    "<span><span class=\"key dash {class}\"></span>{name} \
                     <small>({value})</small></span> "
                ),
            );
        }
        html.push_str("</p>");
    }

    fn draw_axes(&self, html: &mut String, time: &Axis, values: &Axis) {
        for tick in &values.ticks {
            let (y, label) = (vertical(values, *tick), self.unit.label(*tick));
            push(
                html,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" \
                     y2=\"{y:.1}\"/><text class=\"y\" x=\"{}\" y=\"{:.1}\">{label}</text>",
                    LEFT - 8.0,
                    y + 4.0
                ),
            );
        }
        for tick in &time.ticks {
            let (x, label) = (horizontal(time, *tick), Unit::Seconds.label(*tick));
            push(
                html,
                format_args!(
                    "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{BOTTOM}\" \
                     y2=\"{}\"/><text class=\"x\" x=\"{x:.1}\" y=\"{}\">{label}</text>",
                    BOTTOM + 5.0,
                    BOTTOM + 19.0
                ),
            );
        }
        push(
            html,
            format_args!(
                "<text class=\"x unit\" x=\"{:.0}\" y=\"{}\">{}</text>\
                 <text class=\"unit\" x=\"4\" y=\"12\">{}</text>",
                f64::midpoint(LEFT, RIGHT),
                HEIGHT - 4.0,
                Unit::Seconds.name(),
                self.unit.name()
            ),
        );
    }

    /// The lowest value above 0 and the highest of all lines and bounds.
    fn range(&self) -> (f64, f64) {
        let lines = self.lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
        let bounds = self.bounds.iter().map(|bound| bound.value);
        let all = || lines.clone().chain(bounds.clone());
        let lowest = all().filter(|value| *value > 0.0).reduce(f64::min);
        (lowest.unwrap_or(1.0), all().fold(0.0, f64::max))
    }
}

impl Line {
    /// Draws the line; where no value was measured for a while it is interrupted, not bridged.
    fn draw(&self, html: &mut String, time: &Axis, values: &Axis) {
        push(html, format_args!("<path class=\"{}\" d=\"", self.colour.class()));
        let pace = self.steps().reduce(f64::min).unwrap_or(0.0);
        let mut before = f64::NEG_INFINITY;
        for &(seconds, value) in &self.points {
            let (x, y) = (horizontal(time, seconds), vertical(values, value));
            if seconds - before > pace * STEPS_PER_GAP {
                // A line of no length is a dot, so that a lonely value is seen.
                push(html, format_args!("M{x:.1} {y:.1}"));
            }
            push(html, format_args!("L{x:.1} {y:.1}"));
            before = seconds;
        }
        html.push_str("\"/>");
    }

    fn steps(&self) -> impl Iterator<Item = f64> {
        let later = self.points.iter().skip(1);
        let steps = self.points.iter().zip(later).map(|((from, _), (to, _))| to - from);
        steps.filter(|step| *step > LEAST_STEP)
    }
}

impl Colour {
    const fn class(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Neutral => "neutral",
        }
    }
}

fn draw_phases(html: &mut String, time: &Axis, phases: Phases) {
    let fast = phases.fast.unwrap_or(phases.end);
    let drain = phases.drain.unwrap_or(phases.end);
    for (class, from, to) in
        [("slow", 0.0, fast), ("fast", fast, drain), ("drain", drain, phases.end)]
    {
        let (from, to) = (horizontal(time, from), horizontal(time, to));
        push(
            html,
            format_args!(
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" \
                 height=\"{}\"><title>{class}</title></rect>",
                (to - from).max(0.0),
                BOTTOM - TOP
            ),
        );
    }
}

fn horizontal(time: &Axis, seconds: f64) -> f64 {
    time.place(seconds).mul_add(RIGHT - LEFT, LEFT)
}

fn vertical(values: &Axis, value: f64) -> f64 {
    BOTTOM - values.place(value) * (BOTTOM - TOP)
}

/// Two digits are enough for a legend of small values.
fn rounded(value: f64) -> f64 {
    if value >= 100.0 { value.round() } else { (value * 100.0).round() / 100.0 }
}

/// A sample may come late on a loaded machine; ten that are missing in a row are a gap.
const STEPS_PER_GAP: f64 = 10.0;

/// Half of the time between two samples; what is less is a sample out of its turn.
const LEAST_STEP: f64 = 0.05;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 628.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 216.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: Vec<(f64, f64)>) -> String {
        let plot = Plot {
            title: "Bytes <in> queues",
            unit: Unit::Bytes,
            scale: Scale::Linear,
            lines: vec![Line { name: "send queue", points, colour: Colour::First }],
            bounds: vec![Bound { name: "bound", value: 1024.0, colour: Colour::First }],
        };
        let mut html = String::new();
        plot.draw(&mut html, Phases { fast: Some(6.0), drain: None, end: 10.0 });
        html
    }

    #[test]
    fn a_line_runs_between_the_axes() {
        let html = drawn(vec![(0.0, 0.0), (10.0, 1024.0)]);
        assert!(html.contains("d=\"M76.0 216.0L76.0 216.0L628.0 22.0\""), "{html}");
        assert!(html.contains("class=\"bound first\" x1=\"76\" x2=\"628\" y1=\"22.0\""), "{html}");
        assert!(html.contains("Bytes &lt;in&gt; queues"), "{html}");
    }

    #[test]
    fn a_gap_interrupts_the_line() {
        let points = [0.0, 0.1, 0.2, 5.0, 5.1].map(|seconds| (seconds, 0.0)).to_vec();
        assert_eq!(drawn(points).matches('M').count(), 2, "two pieces");
    }

    #[test]
    fn a_plot_without_a_point_says_so() {
        assert!(drawn(Vec::new()).contains("(no value)"), "an empty line");
    }
}
