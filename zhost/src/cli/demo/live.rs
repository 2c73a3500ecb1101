//! What the demo shows while it runs: a live view on a terminal, lines of progress elsewhere.

use std::io::{self, IsTerminal, Stderr};

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Gauge, Paragraph, Sparkline};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

use super::options::Output;
use super::words;
use crate::cli::print;

/// How the run stands.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// What happens now.
    pub(super) phase: &'static str,
    /// Seconds since the start.
    pub(super) seconds: f64,
    /// Sends that the sender's host accepted.
    pub(super) accepted: u64,
    /// Sends that the receiver's handlers took.
    pub(super) handled: u64,
    /// Sends that wait for room.
    pub(super) waiting: u64,
    /// Bytes in the send queue, and its bound.
    pub(super) send_queue: Level,
    /// Bytes in the receive queue, and its bound.
    pub(super) receive_queue: Level,
    /// Permits in use, and their limit.
    pub(super) permits: Level,
    /// The median latency of requests.
    pub(super) p50_ms: Option<f64>,
    /// Sends accepted in each second, the last one at the end.
    pub(super) accepted_rates: Vec<u64>,
    /// Sends handled in each second, alike.
    pub(super) handled_rates: Vec<u64>,
}

/// A level and what bounds it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// Now.
    pub(super) now: u64,
    /// At most.
    pub(super) bound: u64,
}

impl Level {
    fn percent(self) -> u64 {
        self.now.saturating_mul(100) / self.bound.max(1)
    }

    fn ratio(self) -> f64 {
        let percent = u32::try_from(self.percent().min(100)).unwrap_or(100);
        f64::from(percent) / 100.0
    }
}

/// Where the view goes.
#[derive(Debug)]
pub(super) enum Screen {
    /// Nowhere: another program reads the outcome.
    Silent,
    /// Lines on standard error, one a second.
    Lines {
        /// The second at which the next one is due.
        next: f64,
    },
    /// A part of the terminal, drawn anew each time.
    Live(Box<Terminal<CrosstermBackend<Stderr>>>),
}

/// Lines of the terminal that the live view takes.
const HEIGHT: u16 = 9;

impl Screen {
    /// A live view if people watch, lines if they may, nothing if a program reads.
    pub(super) fn open(output: Output) -> Self {
        if output == Output::Json {
            return Self::Silent;
        }
        if !io::stderr().is_terminal() {
            return Self::Lines { next: 1.0 };
        }
        let options = TerminalOptions { viewport: Viewport::Inline(HEIGHT) };
        match Terminal::with_options(CrosstermBackend::new(io::stderr()), options) {
            Ok(terminal) => Self::Live(Box::new(terminal)),
            // A terminal that does not say where its cursor is still takes lines.
            Err(_) => Self::Lines { next: 1.0 },
        }
    }

    /// Shows how the run stands.
    pub(super) fn show(&mut self, view: &View) {
        match self {
            Self::Lines { next } if view.seconds >= *next => {
                *next = view.seconds.floor() + 1.0;
                print::note(&line(view));
            }
            Self::Silent | Self::Lines { .. } => {}
            Self::Live(terminal) => {
                // A terminal that went away is no reason to end the run.
                drop(terminal.draw(|frame| draw(frame, view)));
            }
        }
    }
}

impl Drop for Screen {
    /// Leaves the last view standing and the cursor below it.
    fn drop(&mut self) {
        if let Self::Live(terminal) = self {
            drop(terminal.show_cursor());
            drop(terminal.backend_mut().append_lines(1));
            print::note("");
        }
    }
}

/// One line of progress.
fn line(view: &View) -> String {
    format!(
        "{:>5.0} s  {:<5}  accepted {:>9}  handled {:>9}  waiting {:>4}  send queue {:>3} %  \
         permits {:>5}/{}  request p50 {}",
        view.seconds.floor(),
        view.phase,
        view.accepted,
        view.handled,
        view.waiting,
        view.send_queue.percent(),
        view.permits.now,
        view.permits.bound,
        latency(view),
    )
}

fn latency(view: &View) -> String {
    view.p50_ms.map_or_else(|| "-".to_owned(), words::millis)
}

fn draw(frame: &mut Frame<'_>, view: &View) {
    let rows: [Rect; 7] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(2),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(headline(view)), rows[0]);
    gauge(frame, rows[1], "send queue", view.send_queue, Color::Blue);
    gauge(frame, rows[2], "receive queue", view.receive_queue, Color::Yellow);
    gauge(frame, rows[3], "permits", view.permits, Color::Magenta);
    let waiting = format!("{:>9} sends wait, requests take {}", view.waiting, latency(view));
    frame.render_widget(Paragraph::new(waiting), rows[4]);
    rates(frame, rows[5], "accepted/s", &view.accepted_rates, Color::Blue);
    rates(frame, rows[6], "handled/s", &view.handled_rates, Color::Yellow);
}

fn headline(view: &View) -> Line<'_> {
    let doing = match view.phase {
        "drain" => "draining".to_owned(),
        phase => format!("{phase} handlers"),
    };
    let counts = format!(
        "{} accepted, {} handled",
        words::grouped(view.accepted),
        words::grouped(view.handled)
    );
    Line::from(vec![
        Span::from(format!("{:>5.1} s  ", view.seconds)).dim(),
        Span::from(format!("{doing:<13}  ")).bold(),
        Span::from(counts),
    ])
}

/// The label's column and the rest of a row.
fn labelled(frame: &mut Frame<'_>, area: Rect, label: &str) -> Rect {
    let [left, right] =
        Layout::horizontal([Constraint::Length(15), Constraint::Min(10)]).areas(area);
    frame.render_widget(Paragraph::new(label), left);
    right
}

fn gauge(frame: &mut Frame<'_>, area: Rect, label: &str, level: Level, color: Color) {
    let bar = labelled(frame, area, label);
    let text = format!("{} of {}", words::grouped(level.now), words::grouped(level.bound));
    let style = Style::default().fg(color);
    frame.render_widget(Gauge::default().ratio(level.ratio()).label(text).gauge_style(style), bar);
}

fn rates(frame: &mut Frame<'_>, area: Rect, label: &str, rates: &[u64], color: Color) {
    let last = rates.last().copied().unwrap_or(0);
    let plot = labelled(frame, area, &format!("{label}\n{}", words::grouped(last)));
    let shown = rates.len().saturating_sub(usize::from(plot.width));
    let data = rates.get(shown..).unwrap_or_default();
    frame.render_widget(Sparkline::default().data(data).style(Style::default().fg(color)), plot);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;

    fn view() -> View {
        View {
            phase: "slow",
            seconds: 3.25,
            accepted: 12_345,
            handled: 9_876,
            waiting: 256,
            send_queue: Level { now: 131_072, bound: 262_144 },
            receive_queue: Level { now: 262_144, bound: 262_144 },
            permits: Level { now: 64, bound: 64 },
            p50_ms: Some(4.5),
            accepted_rates: vec![0, 1, 2, 3],
            handled_rates: vec![3, 2, 1, 0],
        }
    }

    fn screen(view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(80, HEIGHT)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_live_view_shows_every_level_with_its_bound() {
        let screen = screen(&view());
        for text in [
            "3.2 s",
            "slow handlers",
            "12,345 accepted, 9,876 handled",
            "131,072 of 262,144",
            "262,144 of 262,144",
            "64 of 64",
            "256 sends wait",
        ] {
            assert!(screen.contains(text), "{text} is not in\n{screen}");
        }
    }

    #[test]
    fn a_level_above_its_bound_or_without_one_is_still_drawn() {
        let over = Level { now: 10, bound: 4 };
        let unbounded = Level { now: 10, bound: 0 };
        let view = View { send_queue: over, receive_queue: unbounded, ..view() };
        assert!(screen(&view).contains("10 of 4"), "the number says what the bar cannot");
    }

    #[test]
    fn a_narrow_terminal_loses_history_and_not_the_present() {
        let rates: Vec<u64> = (0..500).collect();
        let view = View { accepted_rates: rates, ..view() };
        assert!(screen(&view).contains("499"), "the last rate is shown as a number");
    }

    #[test]
    fn a_line_of_progress_says_the_same_in_words() {
        let line = line(&view());
        assert!(line.contains("accepted     12345"), "{line}");
        assert!(line.contains("send queue  50 %"), "{line}");
        assert!(line.contains("permits    64/64"), "{line}");
    }
}
