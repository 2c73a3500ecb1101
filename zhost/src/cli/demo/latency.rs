//! How long requests took.

use core::time::Duration;

use hdrhistogram::Histogram;

/// Latencies of the whole run and of the interval since they were last looked at.
#[derive(Debug)]
pub(super) struct Latency {
    whole: Histogram<u64>,
    interval: Histogram<u64>,
}

/// Median and 99th percentile in milliseconds; `None` if nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Percentiles {
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

impl Latency {
    /// Empty histograms of fixed size.
    ///
    /// # Errors
    ///
    /// As of `hdrhistogram`; these bounds cannot cause one.
    pub(super) fn new() -> Result<Self, hdrhistogram::CreationError> {
        let empty = Histogram::new_with_bounds(1, MICROS_MAX, SIGNIFICANT_DIGITS)?;
        Ok(Self { whole: empty.clone(), interval: empty })
    }

    /// Adds one latency; what is longer than two minutes counts as two minutes.
    pub(super) fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(MICROS_MAX);
        self.whole.saturating_record(micros);
        self.interval.saturating_record(micros);
    }

    pub(super) fn whole(&self) -> Percentiles {
        percentiles(&self.whole)
    }

    /// The interval since the last call.
    pub(super) fn take_interval(&mut self) -> Percentiles {
        let taken = percentiles(&self.interval);
        self.interval.reset();
        taken
    }
}

fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    let millis = |quantile: f64| {
        let micros = u32::try_from(histogram.value_at_quantile(quantile)).unwrap_or(u32::MAX);
        (!histogram.is_empty()).then(|| f64::from(micros) / 1000.0)
    };
    Percentiles { p50_ms: millis(0.5), p99_ms: millis(0.99) }
}

/// Two minutes, four times the limit of a request.
const MICROS_MAX: u64 = 120_000_000;

/// One part in a hundred; the histogram then takes some 20 KiB.
const SIGNIFICANT_DIGITS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_milliseconds() {
        let mut latency = Latency::new().unwrap();
        assert_eq!(latency.whole(), Percentiles::default());
        for millis in 1..=100 {
            latency.record(Duration::from_millis(millis));
        }
        let interval = latency.take_interval();
        assert_eq!(interval, latency.whole());
        assert!((interval.p50_ms.unwrap() - 50.0).abs() < 1.0, "{interval:?}");
        assert!((interval.p99_ms.unwrap() - 99.0).abs() < 1.5, "{interval:?}");
        assert_eq!(latency.take_interval(), Percentiles::default(), "the interval was taken");
    }

    #[test]
    fn a_very_long_latency_is_kept_at_the_end_of_the_scale() {
        let mut latency = Latency::new().unwrap();
        latency.record(Duration::from_secs(1_000_000));
        assert!(latency.whole().p50_ms.unwrap() >= 120_000.0, "{latency:?}");
    }
}
