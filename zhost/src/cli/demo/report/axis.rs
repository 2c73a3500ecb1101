//! Axes: where the ticks are and what they say.

use crate::cli::demo::words;

/// What a value of an axis is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unit {
    Bytes,
    Count,
    PerSecond,
    Millis,
    Seconds,
}

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Scale {
    Linear,
    /// Each step is ten times the one before.
    Log,
}

/// One axis: its ends and its ticks, in rising order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// An axis that shows `lowest..=highest`; linear ones begin at 0.
    pub(super) fn new(scale: Scale, unit: Unit, lowest: f64, highest: f64) -> Self {
        match scale {
            Scale::Linear => Self::linear(unit, highest),
            Scale::Log => Self::log(lowest, highest),
        }
    }

    fn linear(unit: Unit, highest: f64) -> Self {
        let least = if unit == Unit::Count { 4.0 } else { 1e-3 };
        let highest = highest.max(least);
        let step = step(unit, highest / STEPS_USUAL);
        let count =
            if unit == Unit::Seconds { (highest / step).floor() } else { (highest / step).ceil() };
        let ticks: Vec<f64> = (0..=STEPS_MAX)
            .map(|tick| f64::from(tick) * step)
            .take_while(|tick| *tick <= count * step * (1.0 + 1e-9))
            .collect();
        // Time ends where the run ends; values end at a tick.
        let end = ticks.last().copied().unwrap_or(highest);
        let to = if unit == Unit::Seconds { highest } else { end };
        Self { scale: Scale::Linear, from: 0.0, to, ticks }
    }

    fn log(lowest: f64, highest: f64) -> Self {
        let floor = lowest.max(LOG_LEAST).log10().floor();
        let ceiling = highest.max(LOG_LEAST).log10().ceil().max(floor + 1.0);
        let ticks: Vec<f64> = (0..=STEPS_MAX)
            .map(|decade| floor + f64::from(decade))
            .take_while(|decade| *decade <= ceiling)
            .map(|decade| 10.0_f64.powf(decade))
            .collect();
        Self { scale: Scale::Log, from: 10.0_f64.powf(floor), to: 10.0_f64.powf(ceiling), ticks }
    }

    /// Where `value` lies between the ends, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => {
                (value.max(self.from) / self.from).log10() / (self.to / self.from).log10()
            }
        };
        share.clamp(0.0, 1.0)
    }
}

impl Unit {
    /// The name beside the axis.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::PerSecond => "per second",
            Self::Millis => "time",
            Self::Seconds => "seconds since the start",
        }
    }

    /// `value` as a label.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "labels are whole and not negative"
    )]
    pub(super) fn label(self, value: f64) -> String {
        let whole = value.round() as u64;
        match self {
            Self::Bytes => words::bytes(whole).replace(".0 ", " "),
            Self::Count | Self::PerSecond => words::grouped(whole),
            Self::Millis if value >= 1000.0 => format!("{} s", value / 1000.0),
            Self::Millis => format!("{value} ms"),
            Self::Seconds => format!("{value}"),
        }
    }
}

/// The smallest round step that is at least `wanted`: powers of two for bytes, else 1, 2 or 5
/// times a power of ten.
fn step(unit: Unit, wanted: f64) -> f64 {
    if unit == Unit::Bytes {
        return wanted.max(1.0).log2().ceil().exp2();
    }
    let power = 10.0_f64.powf(wanted.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().find(|round| round * power >= wanted * (1.0 - 1e-9));
    let step = round.unwrap_or(10.0) * power;
    if unit == Unit::Count { step.max(1.0) } else { step }
}

const STEPS_USUAL: f64 = 5.0;
const STEPS_MAX: u32 = 12;
const LOG_LEAST: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, unit: Unit) -> Vec<String> {
        axis.ticks.iter().map(|tick| unit.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round() {
        let bytes = Axis::new(Scale::Linear, Unit::Bytes, 0.0, 270_000.0);
        assert_eq!(
            labels(&bytes, Unit::Bytes),
            ["0 B", "64 KiB", "128 KiB", "192 KiB", "256 KiB", "320 KiB"]
        );
        let count = Axis::new(Scale::Linear, Unit::Count, 0.0, 64.0);
        assert_eq!(labels(&count, Unit::Count), ["0", "20", "40", "60", "80"]);
        let rate = Axis::new(Scale::Log, Unit::PerSecond, 15.0, 120_000.0);
        assert_eq!(
            labels(&rate, Unit::PerSecond),
            ["10", "100", "1,000", "10,000", "100,000", "1,000,000"]
        );
        let time = Axis::new(Scale::Log, Unit::Millis, 0.5, 2_000.0);
        assert_eq!(
            labels(&time, Unit::Millis),
            ["0.1 ms", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]
        );
    }

    #[test]
    fn an_axis_without_values_still_stands() {
        for scale in [Scale::Linear, Scale::Log] {
            let axis = Axis::new(scale, Unit::Count, 0.0, 0.0);
            assert!(axis.ticks.len() >= 2, "{axis:?}");
            assert!(axis.place(0.0).abs() < 1e-9, "{axis:?}");
        }
    }

    #[test]
    fn places_run_from_0_to_1() {
        let time = Axis::new(Scale::Linear, Unit::Seconds, 0.0, 6.3);
        assert_eq!(time.ticks, [0.0, 2.0, 4.0, 6.0]);
        assert!((time.place(6.3) - 1.0).abs() < 1e-9, "the run ends at the right edge");
        let rate = Axis::new(Scale::Log, Unit::PerSecond, 1.0, 10_000.0);
        assert!((rate.place(100.0) - 0.5).abs() < 1e-9, "half of four decades");
        assert!(rate.place(0.0).abs() < 1e-9, "what is too small lies at the bottom");
    }
}
