//! Whether `io_uring` works here, and if not, what to change.
//!
//! Three things switch it off in the field: an old kernel, the sysctl, and the seccomp profile of a
//! container. They return the same few error numbers, so the answer needs all three facts.

use core::fmt;

use rustix::io::Errno;

use crate::uring;

/// The oldest kernel with everything that the driver uses (deferred task run; 6.0 brought
/// multishot receive and single issuer).
pub const KERNEL_MIN: KernelVersion = KernelVersion { major: 6, minor: 1 };

/// A kernel release, as far as features depend on it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct KernelVersion {
    /// `6` of `6.1.0-13-amd64`.
    pub major: u32,
    /// `1` of `6.1.0-13-amd64`.
    pub minor: u32,
}

impl KernelVersion {
    /// Reads the text of `uname -r`.
    pub fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Self { major, minor })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// `io_uring` works here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Support {
    /// The kernel, where its release can be read.
    pub kernel: Option<KernelVersion>,
}

/// What a machine says about `io_uring` besides the error number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Machine {
    /// `kernel.io_uring_disabled`; kernels before 6.6 have none.
    pub disabled: Option<u8>,
    /// The kernel, where its release can be read.
    pub kernel: Option<KernelVersion>,
}

impl Machine {
    /// Reads both from `/proc`.
    pub fn read() -> Self {
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            disabled: text("/proc/sys/kernel/io_uring_disabled").trim().parse().ok(),
            kernel: KernelVersion::parse(&text("/proc/sys/kernel/osrelease")),
        }
    }
}

/// Why there is no `io_uring` driver. Its text names the remedy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unavailable {
    /// The kernel lacks what the driver needs.
    KernelTooOld {
        /// What runs.
        found: KernelVersion,
    },
    /// `kernel.io_uring_disabled` forbids it: 1 to all without a group or capability, 2 to all.
    SwitchedOff {
        /// The sysctl's value.
        disabled: u8,
    },
    /// A system call filter, most likely a container's, answers in the kernel's place.
    Filtered {
        /// What it answers.
        errno: Errno,
    },
    /// The limit on locked memory is used up.
    LockedMemory,
    /// There is no descriptor left for a ring.
    OutOfDescriptors,
    /// An option of the driver is out of its range.
    InvalidOption {
        /// Its name.
        option: &'static str,
        /// What it was set to.
        value: u32,
        /// What it must be.
        range: &'static str,
    },
    /// Nothing of the above explains it.
    Other {
        /// What the kernel says.
        errno: Errno,
    },
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KernelTooOld { found } => write!(
                f,
                "kernel {found} is too old for the io_uring driver: run {KERNEL_MIN} or newer, \
                 or use the epoll driver"
            ),
            Self::SwitchedOff { disabled: 1 } => f.write_str(
                "io_uring is off for this user (kernel.io_uring_disabled is 1): run \
                 `sysctl -w kernel.io_uring_disabled=0`, or add the user to the group of \
                 kernel.io_uring_group",
            ),
            Self::SwitchedOff { disabled } => write!(
                f,
                "io_uring is off for everybody (kernel.io_uring_disabled is {disabled}): run \
                 `sysctl -w kernel.io_uring_disabled=0`",
            ),
            Self::Filtered { errno } => write!(
                f,
                "io_uring is blocked by a system call filter ({}), as in the default profile of \
                 Docker 25 and containerd: run with a seccomp profile that allows io_uring_setup, \
                 io_uring_enter and io_uring_register",
                name(*errno)
            ),
            Self::LockedMemory => f.write_str(
                "the limit on locked memory is used up: raise RLIMIT_MEMLOCK (`ulimit -l`, or \
                 LimitMEMLOCK= of the systemd unit)",
            ),
            Self::OutOfDescriptors => f.write_str(
                "no descriptor is left for a ring: raise RLIMIT_NOFILE (`ulimit -n`, or \
                 LimitNOFILE= of the systemd unit)",
            ),
            Self::InvalidOption { option, value, range } => {
                write!(f, "`{option}` is {value}, must be {range}")
            }
            Self::Other { errno } => write!(
                f,
                "io_uring cannot be set up ({}): use the epoll driver, and report this with \
                 `uname -r`",
                name(*errno)
            ),
        }
    }
}

impl core::error::Error for Unavailable {}

/// Tries a ring of the kind that the driver uses.
///
/// # Errors
///
/// [`Unavailable`] says what is missing and how to allow it.
pub fn probe() -> Result<Support, Unavailable> {
    let machine = Machine::read();
    uring::try_out().map_err(|errno| explain(errno, machine))?;
    Ok(Support { kernel: machine.kernel })
}

/// What `errno` of a ring's set-up means on `machine`.
pub fn explain(errno: Errno, machine: Machine) -> Unavailable {
    if let Some(found) = machine.kernel.filter(|found| *found < KERNEL_MIN) {
        return Unavailable::KernelTooOld { found };
    }
    match (errno, machine.disabled) {
        (Errno::PERM, Some(disabled @ 1..)) => Unavailable::SwitchedOff { disabled },
        // A kernel of this age has the calls, so it is not the kernel that denies them.
        (Errno::PERM | Errno::ACCESS | Errno::NOSYS, _) => Unavailable::Filtered { errno },
        (Errno::NOMEM, _) => Unavailable::LockedMemory,
        (Errno::MFILE | Errno::NFILE, _) => Unavailable::OutOfDescriptors,
        _ => Unavailable::Other { errno },
    }
}

fn name(errno: Errno) -> std::io::Error {
    errno.into()
}

#[cfg(test)]
mod tests {
    use super::{KERNEL_MIN, KernelVersion, Machine, Unavailable, explain, probe};
    use rustix::io::Errno;

    const OLD: KernelVersion = KernelVersion { major: 5, minor: 15 };

    const fn machine(disabled: Option<u8>, kernel: Option<KernelVersion>) -> Machine {
        Machine { disabled, kernel }
    }

    #[test]
    fn each_cause_is_told_from_the_others() {
        let new = Some(KERNEL_MIN);
        for (errno, machine, expected) in [
            (Errno::INVAL, machine(None, Some(OLD)), Unavailable::KernelTooOld { found: OLD }),
            (Errno::NOSYS, machine(None, Some(OLD)), Unavailable::KernelTooOld { found: OLD }),
            (Errno::PERM, machine(Some(1), new), Unavailable::SwitchedOff { disabled: 1 }),
            (Errno::PERM, machine(Some(2), new), Unavailable::SwitchedOff { disabled: 2 }),
            (Errno::PERM, machine(Some(0), new), Unavailable::Filtered { errno: Errno::PERM }),
            (Errno::PERM, machine(None, None), Unavailable::Filtered { errno: Errno::PERM }),
            (Errno::NOSYS, machine(Some(2), new), Unavailable::Filtered { errno: Errno::NOSYS }),
            (Errno::NOMEM, machine(Some(0), new), Unavailable::LockedMemory),
            (Errno::MFILE, machine(Some(0), new), Unavailable::OutOfDescriptors),
            (Errno::INVAL, machine(Some(0), new), Unavailable::Other { errno: Errno::INVAL }),
        ] {
            assert_eq!(explain(errno, machine), expected, "{errno:?} on {machine:?}");
        }
    }

    #[test]
    fn each_text_names_its_remedy() {
        for (cause, remedy) in [
            (Unavailable::KernelTooOld { found: OLD }, "6.1"),
            (Unavailable::SwitchedOff { disabled: 1 }, "io_uring_group"),
            (Unavailable::SwitchedOff { disabled: 2 }, "sysctl -w kernel.io_uring_disabled=0"),
            (Unavailable::Filtered { errno: Errno::PERM }, "io_uring_register"),
            (Unavailable::LockedMemory, "ulimit -l"),
            (Unavailable::OutOfDescriptors, "ulimit -n"),
            (Unavailable::Other { errno: Errno::INVAL }, "epoll"),
        ] {
            let text = cause.to_string();
            assert!(text.contains(remedy), "{text}");
            assert!(text.starts_with(char::is_lowercase), "{text}");
            assert!(!text.ends_with('.'), "{text}");
        }
    }

    #[test]
    fn a_release_is_read_as_distributions_write_it() {
        let version = |major, minor| Some(KernelVersion { major, minor });
        assert_eq!(KernelVersion::parse("6.1.0-13-amd64"), version(6, 1), "Debian");
        assert_eq!(KernelVersion::parse("5.14.0-427.el9.x86_64"), version(5, 14), "Red Hat");
        assert_eq!(KernelVersion::parse("6.18-rc1"), version(6, 18), "a candidate");
        assert_eq!(KernelVersion::parse("Linux"), None, "no number");
    }

    #[test]
    fn the_probe_agrees_with_this_machine() {
        let machine = Machine::read();
        if machine.disabled == Some(2) {
            assert_eq!(probe(), Err(Unavailable::SwitchedOff { disabled: 2 }), "off");
        } else if let Ok(support) = probe() {
            assert!(support.kernel >= Some(KERNEL_MIN), "it works");
        }
    }
}
