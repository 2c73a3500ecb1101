//! The report: one self-contained HTML page. It loads nothing and runs no script.

mod axis;
mod plot;

use core::fmt::Write;

use super::numbers::Verdict;
use super::options::{MAX_RUNNING_HANDLERS, SLOW_HANDLER, Scenario};
use super::run::Outcome;
use super::series::Series;
use super::timeline::approximate;
use super::verdict::{Judgement, rss_allowed};
use super::words;
use axis::{Scale, Unit};
use plot::{Bound, Colour, Line, Plot};

/// The whole page.
pub(super) fn page(scenario: &Scenario, outcome: &Outcome, judgement: &Judgement) -> String {
    let mut html = String::with_capacity(PAGE_BYTES_USUAL);
    let class = judgement.verdict;
    let title = format!("ZLink demo: {class}");
    push(&mut html, format_args!("{HEAD_BEFORE_TITLE}{title}{HEAD_AFTER_TITLE}"));
    html.push_str(STYLE);
    html.push_str("</style></head><body><main>");
    push(
        &mut html,
        format_args!(
            "<header class=\"{class}\"><p class=\"badge\"><span aria-hidden=\"true\">{}</span> \
             {class}</p><h1>{}</h1>",
            mark(judgement.verdict),
            escaped(words::headline(judgement.verdict))
        ),
    );
    list(&mut html, judgement.reasons.iter().map(|reason| words::sentence(reason)));
    html.push_str("</header><section><h2>What was seen</h2>");
    list(&mut html, words::facts(&outcome.numbers).into_iter());
    push(&mut html, format_args!("<p>{}</p></section>", escaped(&story(scenario))));
    html.push_str("<section><h2>Over time</h2><p class=\"phases\">Shading: ");
    html.push_str(PHASE_LEGEND);
    html.push_str("</p><div class=\"plots\">");
    draw_all(&mut html, outcome);
    html.push_str("</div></section><section><h2>All numbers</h2><div class=\"scroll\"><table>");
    html.push_str("<thead><tr><th>name</th><th>value</th></tr></thead><tbody>");
    let verdict = ("verdict".to_owned(), judgement.verdict.to_string());
    for (name, value) in core::iter::once(verdict).chain(outcome.numbers.rows()) {
        let (name, value) = (escaped(&name), escaped(&readable(&name, &value)));
        push(&mut html, format_args!("<tr><td>{name}</td><td>{value}</td></tr>"));
    }
    html.push_str("</tbody></table></div></section></main></body></html>\n");
    html
}

fn story(scenario: &Scenario) -> String {
    format!(
        "{} producers, each with one task that sends and one that requests, ran for {} s with \
         payloads of {} against a receiving host in a second process. Its handler took {} ms at \
         first, at most {MAX_RUNNING_HANDLERS} at a time, and no time later. High-water marks: \
         send {}, receive {}; at most {} queued jobs.",
        scenario.producers,
        scenario.run_time.as_secs(),
        scenario.payload,
        SLOW_HANDLER.as_millis(),
        scenario.send_hwm,
        scenario.receive_hwm,
        scenario.max_jobs
    )
}

fn draw_all(html: &mut String, outcome: &Outcome) {
    let (time, numbers) = (&outcome.timeline, &outcome.numbers);
    let bound = |name, value: u64, colour| Bound { name, value: approximate(value), colour };
    let line = |name, series: &'_ Series, colour| Line { name, points: points(series), colour };
    let (first, second) = (Colour::First, Colour::Second);
    let growth = |name, series: &Series, colour| Line { name, points: from_first(series), colour };
    let plots = [
        Plot {
            title: "Bytes in the queues",
            unit: Unit::Bytes,
            scale: Scale::Linear,
            lines: vec![
                line("send queue", &time.send_queue, first),
                line("receive queue", &time.receive_queue, second),
            ],
            bounds: vec![
                bound("send bound", numbers.send_queue_bound_bytes, first),
                bound("receive bound", numbers.receive_queue_bound_bytes, second),
            ],
        },
        Plot {
            title: "Permits in use at the receiver",
            unit: Unit::Count,
            scale: Scale::Linear,
            lines: vec![line("permits", &time.permits, second)],
            bounds: vec![bound("limit", numbers.permit_limit, second)],
        },
        Plot {
            title: "Messages per second",
            unit: Unit::PerSecond,
            scale: Scale::Log,
            lines: vec![
                line("accepted by the sender", &time.accepted_per_second, first),
                line("handled by the receiver", &time.handled_per_second, second),
            ],
            bounds: Vec::new(),
        },
        Plot {
            title: "Sends that wait",
            unit: Unit::Count,
            scale: Scale::Linear,
            lines: vec![line("waiting sends", &time.waiting, first)],
            bounds: Vec::new(),
        },
        Plot {
            title: "Request latency",
            unit: Unit::Millis,
            scale: Scale::Log,
            lines: vec![
                line("median", &time.p50_ms, first),
                line("99th percentile", &time.p99_ms, second),
            ],
            bounds: Vec::new(),
        },
        Plot {
            title: "Growth of resident memory",
            unit: Unit::Bytes,
            scale: Scale::Linear,
            lines: vec![
                growth("sender", &time.sender_rss, first),
                growth("receiver", &time.receiver_rss, second),
            ],
            bounds: vec![bound("allowed", rss_allowed(numbers), Colour::Neutral)],
        },
    ];
    for plot in &plots {
        plot.draw(html, time.phases);
    }
}

fn points(series: &Series) -> Vec<(f64, f64)> {
    series.points().iter().map(|point| (point.seconds, point.value)).collect()
}

/// Values above the first one.
fn from_first(series: &Series) -> Vec<(f64, f64)> {
    let first = series.points().first().map_or(0.0, |point| point.value);
    points(series).into_iter().map(|(x, y)| (x, (y - first).max(0.0))).collect()
}

/// Adds a readable form to numbers of bytes and to large counts.
fn readable(name: &str, value: &str) -> String {
    let Ok(number) = value.parse::<u64>() else { return value.to_owned() };
    if name.ends_with("_bytes") {
        return format!("{} ({})", words::grouped(number), words::bytes(number));
    }
    words::grouped(number)
}

fn list(html: &mut String, items: impl ExactSizeIterator<Item = String>) {
    if items.len() == 0 {
        return;
    }
    html.push_str("<ul>");
    for item in items {
        push(html, format_args!("<li>{}</li>", escaped(&item)));
    }
    html.push_str("</ul>");
}

/// Text for HTML: element content and attribute values.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Appends to a string, which cannot fail.
fn push(html: &mut String, text: core::fmt::Arguments<'_>) {
    let written = html.write_fmt(text);
    debug_assert!(written.is_ok(), "a string takes any text");
}

/// A sign beside the colour, for those who do not see it.
const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "\u{2714}",
        Verdict::Fail => "\u{2718}",
        Verdict::Inconclusive => "?",
    }
}

const HEAD_BEFORE_TITLE: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <meta name=\"color-scheme\" content=\"light dark\"><title>";
const HEAD_AFTER_TITLE: &str = "</title><style>";
const STYLE: &str = include_str!("page.css");
const PHASE_LEGEND: &str = "<span><span class=\"key slow\"></span>slow handler</span> \
    <span><span class=\"key fast\"></span>fast handler</span> \
    <span><span class=\"key drain\"></span>drain</span>";

/// Six plots with some 200 points in each of ten lines.
const PAGE_BYTES_USUAL: usize = 64 * 1024;
