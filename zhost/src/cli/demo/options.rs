//! The options of `demo`, and the scenario they describe.

use core::time::Duration;
use std::path::{Path, PathBuf};

use crate::cli::values::{ByteSize, Driver, count, size};

/// The command line of `demo`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How long the producers run: 60 % against a slow handler, the rest against a fast one.
    #[arg(long, value_name = "N", default_value = "10", value_parser = count::<2, 3600>)]
    seconds: u32,
    /// Print one JSON object on one line instead of the verdict in words.
    #[arg(long)]
    json: bool,
    /// Size of each message's payload.
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = size::<16, PAYLOAD_MAX>)]
    payload: ByteSize,
    /// The sender's high-water mark: bytes it queues for the receiver before `send` waits.
    #[arg(long, value_name = "SIZE", default_value = "256KiB", value_parser = size::<HWM_MIN, HWM_MAX>)]
    send_hwm: ByteSize,
    /// The receiver's high-water mark: bytes it takes in before it stops reading.
    #[arg(long, value_name = "SIZE", default_value = "256KiB", value_parser = size::<HWM_MIN, HWM_MAX>)]
    receive_hwm: ByteSize,
    /// The receiver's limit of jobs that are reserved or queued (its permits).
    #[arg(long, value_name = "N", default_value = "64", value_parser = count::<1, 65_536>)]
    max_jobs: u32,
    /// Number of producers; each has one task that sends and one that requests.
    #[arg(long, value_name = "N", default_value = "256", value_parser = count::<1, PRODUCERS_MAX>)]
    producers: u32,
    /// What moves the bytes of both processes.
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    driver: Driver,
    #[command(flatten)]
    recovery: Recovery,
    /// Where to write the HTML report [default: a file in the directory for temporary files;
    /// with --json: no report].
    #[arg(long, value_name = "PATH")]
    report: Option<PathBuf>,
}

/// What happens when the receiving process dies.
#[derive(Clone, Debug, clap::Args)]
struct Recovery {
    /// When the receiving process dies, start another at the same address and go on. Up to what
    /// its queue, its handlers and the connection held may then be lost; nothing else may.
    #[arg(long)]
    reconnect: bool,
}

impl Options {
    /// Checks the rules between options.
    ///
    /// # Errors
    ///
    /// A sentence that names the options, their values and what is valid.
    pub(crate) fn scenario(&self) -> Result<Scenario, String> {
        let payload = self.payload;
        for (option, mark) in [("send-hwm", self.send_hwm), ("receive-hwm", self.receive_hwm)] {
            let most = ByteSize::new(mark.get() / MESSAGES_PER_MARK_MIN);
            if payload > most {
                return Err(format!(
                    "invalid value '{payload}' for '--payload <SIZE>': with '--{option} {mark}' \
                     valid is 16 B to {most}, so that a full queue is seen as full"
                ));
            }
        }
        // Both are memory beside the queues' bounds, for which the verdict allows a fixed amount.
        let most = PAYLOAD_ASIDE_MAX.get() / payload.get();
        for (option, value, holders) in [
            ("producers", self.producers, "waiting producers"),
            ("max-jobs", self.max_jobs, "queued jobs"),
        ] {
            if u64::from(value) > most {
                return Err(format!(
                    "invalid value '{value}' for '--{option} <N>': with '--payload {payload}' \
                     valid is 1 to {most}, so that the payloads of {holders} stay within \
                     {PAYLOAD_ASIDE_MAX}"
                ));
            }
        }
        self.check_report()?;
        Ok(Scenario {
            run_time: Duration::from_secs(u64::from(self.seconds)),
            payload,
            send_hwm: self.send_hwm,
            receive_hwm: self.receive_hwm,
            max_jobs: self.max_jobs,
            producers: self.producers,
            driver: self.driver,
            reconnect: self.recovery.reconnect,
        })
    }

    fn check_report(&self) -> Result<(), String> {
        let Some(path) = &self.report else { return Ok(()) };
        let directory = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => Path::new("/"),
        };
        if directory.is_dir() && !path.is_dir() {
            return Ok(());
        }
        Err(format!(
            "invalid value '{}' for '--report <PATH>': valid is a file in a directory that exists",
            path.display()
        ))
    }

    /// How the result leaves the program.
    pub(crate) const fn output(&self) -> Output {
        if self.json { Output::Json } else { Output::Words }
    }

    /// Where the report goes; `None`: it is not written.
    pub(crate) fn report(&self) -> Option<PathBuf> {
        match (&self.report, self.output()) {
            (Some(path), _) => Some(path.clone()),
            (None, Output::Json) => None,
            (None, Output::Words) => {
                let name = format!("zlink-demo-{}.html", std::process::id());
                Some(std::env::temp_dir().join(name))
            }
        }
    }
}

/// How the result leaves the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Output {
    Json,
    Words,
}

/// What one run does. Valid by construction.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// How long the producers run.
    pub(crate) run_time: Duration,
    pub(crate) payload: ByteSize,
    pub(crate) send_hwm: ByteSize,
    pub(crate) receive_hwm: ByteSize,
    pub(crate) max_jobs: u32,
    pub(crate) producers: u32,
    pub(crate) driver: Driver,
    /// A receiver that died is followed by another at the same address.
    pub(crate) reconnect: bool,
}

impl Scenario {
    /// When the handler turns fast, counted from the start.
    pub(crate) fn slow_time(&self) -> Duration {
        self.run_time * 3 / 5
    }

    /// The most one-way messages that a killed receiver can take with it: those in flight, in the
    /// kernel's buffers and in the receive queue, those whose handlers waited and those whose
    /// handlers ran.
    pub(crate) fn losable(&self) -> u64 {
        let bytes = self.send_hwm.get() + self.receive_hwm.get() + KERNEL_BUFFERS;
        bytes / self.payload.get() + u64::from(self.max_jobs + MAX_RUNNING_HANDLERS)
    }
}

/// Handlers that may run at once; few, so that permits run out.
pub(crate) const MAX_RUNNING_HANDLERS: u32 = 4;

/// What the slow handler sleeps. Four at a time then handle at most 2,000 messages a second, far
/// less than any machine sends.
pub(crate) const SLOW_HANDLER: Duration = Duration::from_millis(2);

/// The limit of one send. Far above a full queue's drain time, so that a send that ends without
/// room means that nothing moved.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The limit of one request. Under overload a request stands in the same queue as the sends; a
/// limit far above that queue's drain time makes every failed request a real failure.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Two buffers of 256 KiB, which the kernel doubles.
const KERNEL_BUFFERS: u64 = MIB;

/// The verdict wants 90 % of a mark and the allowance for control records (16.25 KiB) to be seen in
/// use, while a queue of equal messages may stay one message below its mark. From here on it can.
const HWM_MIN: u64 = 256 << 10;
const MESSAGES_PER_MARK_MIN: u64 = 64;

/// Memory that one allocator arena got back may stay resident while the next message comes from
/// another arena, so a process may hold twice what its queue accounts. Up to here that fits into
/// what the verdict allows beside the bounds.
const HWM_MAX: u64 = 8 * MIB;

const PAYLOAD_MAX: u64 = HWM_MAX / MESSAGES_PER_MARK_MIN;

const _: () = {
    let bound = HWM_MIN + zcore::limits::CONTROL_ALLOWANCE.get();
    let message = HWM_MIN / MESSAGES_PER_MARK_MIN + zcore::limits::RECORD_HEAD_MAX + 64;
    assert!((HWM_MIN - message) * 100 >= bound * 90, "the smallest marks can be seen as full");
};

/// One target may hold 3/4 of a host's 4,096 places to wait in; a producer without a place would be
/// refused at once instead of waiting.
const PRODUCERS_MAX: u32 = 2_048;

const _: () = {
    let places = zcore::limits::WAITING_OPERATIONS_DEFAULT / 4 * 3;
    assert!(PRODUCERS_MAX <= places, "every producer finds a place to wait in");
};

/// Half of the memory growth that the verdict allows beside the queues' bounds.
const PAYLOAD_ASIDE_MAX: ByteSize = ByteSize::new(4 * MIB);

const MIB: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &str) -> Options {
        let words = core::iter::once("demo").chain(arguments.split_whitespace());
        <Line as clap::Parser>::try_parse_from(words).unwrap().options
    }

    #[test]
    fn defaults_are_a_valid_scenario() {
        let scenario = options("").scenario().unwrap();
        assert_eq!(scenario.run_time, Duration::from_secs(10));
        assert_eq!(scenario.slow_time(), Duration::from_secs(6));
    }

    #[test]
    fn a_bad_value_names_option_value_and_range() {
        for (line, option, range) in [
            ("--seconds 0", "--seconds <N>", "valid is 2 to 3600"),
            ("--payload 2MiB", "--payload <SIZE>", "valid is 16 B to 128 KiB"),
            ("--send-hwm 1", "--send-hwm <SIZE>", "valid is 256 KiB to 8 MiB"),
            ("--receive-hwm x", "--receive-hwm <SIZE>", "valid is 256 KiB to 8 MiB"),
            ("--max-jobs 0", "--max-jobs <N>", "valid is 1 to 65536"),
            ("--producers 0", "--producers <N>", "valid is 1 to 2048"),
        ] {
            let words = core::iter::once("demo").chain(line.split_whitespace());
            let error = <Line as clap::Parser>::try_parse_from(words).unwrap_err();
            let (text, value) = (error.to_string(), line.split_whitespace().nth(1).unwrap());
            assert_eq!(error.exit_code(), 2, "{line}");
            for part in [option, value, range] {
                assert!(text.contains(part), "{line}: `{part}` is not in: {text}");
            }
        }
    }

    #[test]
    fn rules_between_options_name_both() {
        assert_eq!(
            options("--payload 16KiB --send-hwm 1MiB").scenario().unwrap_err(),
            "invalid value '16 KiB' for '--payload <SIZE>': with '--receive-hwm 256 KiB' valid is \
             16 B to 4 KiB, so that a full queue is seen as full"
        );
        assert_eq!(
            options("--payload 4KiB --producers 1025").scenario().unwrap_err(),
            "invalid value '1025' for '--producers <N>': with '--payload 4 KiB' valid is 1 to \
             1024, so that the payloads of waiting producers stay within 4 MiB"
        );
        assert_eq!(
            options("--max-jobs 4097").scenario().unwrap_err(),
            "invalid value '4097' for '--max-jobs <N>': with '--payload 1 KiB' valid is 1 to 4096, \
             so that the payloads of queued jobs stay within 4 MiB"
        );
        assert_eq!(
            options("--report /nowhere/a.html").scenario().unwrap_err(),
            "invalid value '/nowhere/a.html' for '--report <PATH>': valid is a file in a directory \
             that exists"
        );
    }

    #[test]
    fn json_writes_a_report_only_when_a_path_is_given() {
        assert_eq!(options("--json").report(), None);
        assert_eq!(options("--json --report a.html").report(), Some("a.html".into()));
        assert!(options("").report().is_some(), "words come with a report");
    }
}
