//! The resident memory of this process.

use std::fs;

/// Largest growth of resident memory since a baseline.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    baseline: Option<u64>,
    peak: u64,
}

impl Growth {
    /// Takes in one sample; growth counts from the first one.
    pub(super) fn sample(&mut self, resident: u64) {
        self.baseline.get_or_insert(resident);
        self.peak = self.peak.max(resident);
    }

    /// The largest sample minus the first one, in bytes.
    pub(super) fn bytes(self) -> u64 {
        self.peak.saturating_sub(self.baseline.unwrap_or(self.peak))
    }
}

/// Resident bytes of this process; 0 where the kernel does not tell.
pub(super) fn resident() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|text| resident_in(&text)).unwrap_or(0)
}

/// `status` gives kibibytes; `statm` counts pages, whose size this process would have to ask for.
fn resident_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_understood() {
        assert_eq!(resident_in("VmHWM:\t  9 kB\nVmRSS:\t    5000 kB\n"), Some(5_120_000));
        assert_eq!(resident_in("VmHWM:\t  9 kB\n"), None);
        assert!(resident() > 0, "this process has memory");
    }

    #[test]
    fn growth_counts_from_the_first_sample_to_the_largest() {
        let mut growth = Growth::default();
        assert_eq!(growth.bytes(), 0);
        for resident in [100, 90, 130, 110] {
            growth.sample(resident);
        }
        assert_eq!(growth.bytes(), 30);
    }
}
