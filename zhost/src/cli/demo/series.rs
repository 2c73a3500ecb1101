//! Values over time in a fixed amount of memory.

use serde::{Deserialize, Serialize};

/// What one plotted point stands for when two neighbours become one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Merge {
    /// The larger: for levels, whose peaks matter.
    Peak,
    /// The mean: for rates.
    Mean,
}

/// One line of a plot. When it is full, neighbours are merged and later points come at half the
/// pace, so that it covers any run.
#[derive(Clone, Debug)]
pub(super) struct Series {
    merge: Merge,
    points: Vec<Point>,
    /// How many samples make one point.
    samples_per_point: u32,
    /// Samples of the point that is not complete yet.
    partial: Option<(Point, u32)>,
}

/// A value at a time, in seconds since the start.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Point {
    pub(super) seconds: f64,
    pub(super) value: f64,
}

impl Series {
    /// An empty line; all of its memory is taken now.
    pub(super) fn new(merge: Merge) -> Self {
        let points = Vec::with_capacity(POINTS_MAX);
        Self { merge, points, samples_per_point: 1, partial: None }
    }

    /// Appends a sample. Times must not go back.
    pub(super) fn push(&mut self, seconds: f64, value: f64) {
        let sample = Point { seconds, value };
        let (point, count) = match self.partial.take() {
            None => (sample, 1),
            Some((point, count)) => (self.merge.join((point, count), (sample, 1)), count + 1),
        };
        if count < self.samples_per_point {
            self.partial = Some((point, count));
            return;
        }
        self.points.push(point);
        // Now, not before the next point: then every point stands for the same number of samples.
        if self.points.len() == POINTS_MAX {
            self.halve();
        }
    }

    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    fn halve(&mut self) {
        let merge = self.merge;
        let mut kept = 0;
        for pair in 0..self.points.len() / 2 {
            if let [left, right] = self.points[2 * pair..2 * pair + 2] {
                self.points[pair] = merge.join((left, 1), (right, 1));
                kept += 1;
            }
        }
        self.points.truncate(kept);
        self.samples_per_point = self.samples_per_point.saturating_mul(2);
    }
}

impl Merge {
    /// One point for two; each comes with the number of samples it stands for.
    fn join(self, (left, left_count): (Point, u32), (right, right_count): (Point, u32)) -> Point {
        let value = match self {
            Self::Peak => left.value.max(right.value),
            Self::Mean => {
                let (left_count, right_count) = (f64::from(left_count), f64::from(right_count));
                let sum = left.value.mul_add(left_count, right.value * right_count);
                sum / (left_count + right_count)
            }
        };
        Point { seconds: right.seconds, value }
    }
}

/// A point for each pixel of a wide plot; even, so that halving leaves none over.
const POINTS_MAX: usize = 1200;

const _: () = assert!(POINTS_MAX.is_multiple_of(2), "halving joins pairs");

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(merge: Merge, samples: u32) -> Series {
        let mut series = Series::new(merge);
        for sample in 0..samples {
            series.push(f64::from(sample), f64::from(sample % 4));
        }
        series
    }

    #[test]
    fn up_to_the_limit_every_sample_is_kept() {
        let series = filled(Merge::Peak, 1199);
        assert_eq!(series.points().len(), 1199);
        assert_eq!(series.points()[7], Point { seconds: 7.0, value: 3.0 });
    }

    #[test]
    fn memory_stays_flat_and_peaks_stay_visible() {
        let series = filled(Merge::Peak, 100_000);
        assert_eq!(series.points.capacity(), POINTS_MAX);
        assert!(series.points().len() >= POINTS_MAX / 2, "half of the points are in use");
        assert!(series.points().iter().all(|point| point.value >= 3.0), "each holds a peak");
        assert!(series.points().is_sorted_by(|a, b| a.seconds < b.seconds), "time only rises");
    }

    #[test]
    fn rates_keep_their_mean() {
        let series = filled(Merge::Mean, 100_000);
        for point in series.points() {
            assert!((point.value - 1.5).abs() < 1e-9, "{point:?}");
        }
    }
}
