//! The program `zlink`, built once, and its processes.

use core::time::Duration;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Builds `zlink` with the cargo that runs this test and returns its path.
pub(crate) fn zlink() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .args(["build", "--package", "zhost", "--features", "cli", "--bin", "zlink"])
            .arg("--message-format=json-render-diagnostics")
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(built.status.success(), "zlink is built: {}", built.status);
        let lines = String::from_utf8(built.stdout).unwrap();
        let messages = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut programs = messages.filter(|message| message["target"]["name"] == "zlink");
        let program = programs.find_map(|message| Some(message["executable"].as_str()?.into()));
        program.unwrap()
    })
}

/// Whether this machine has `io_uring`; if not, says which test proves less.
pub(crate) fn has_io_uring(test: &str) -> bool {
    let missing = ztests::io_uring_missing();
    if let Some(reason) = &missing {
        ztests::skip(&[test], reason);
    }
    missing.is_none()
}

/// One test at a time keeps the machine busy: each expects its queues to fill and to drain.
pub(crate) fn busy() -> MutexGuard<'static, ()> {
    static BUSY: Mutex<()> = Mutex::new(());
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets another process be for a while.
#[expect(clippy::disallowed_methods, reason = "no clock of ours moves another process")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

/// A running `zlink`. It is killed when this value is dropped before it has ended.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdout: Output,
    stderr: Output,
}

/// What a process has written to one pipe.
#[derive(Debug)]
struct Output {
    text: Arc<Mutex<String>>,
    /// The last process that could write has ended.
    closed: Receiver<()>,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Process {
    /// Starts `zlink` with these words as arguments.
    pub(crate) fn start(arguments: &str) -> Self {
        Self::start_with(arguments, |command| command.env_remove("ZLINK_LOG"))
    }

    /// The same for a demo whose course can be followed with [`Self::until`].
    pub(crate) fn start_followed(arguments: &str) -> Self {
        Self::start_with(arguments, |command| command.env("ZLINK_LOG", "zlink.demo=debug"))
    }

    fn start_with(arguments: &str, tune: impl Fn(&mut Command) -> &mut Command) -> Self {
        let mut child = tune(&mut Command::new(zlink()))
            .args(arguments.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = Output::of(child.stdout.take().unwrap());
        let stderr = Output::of(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Sends a signal to the process itself.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The receiving process, once both processes have their hosts.
    pub(crate) fn receiver(&self) -> Pid {
        let parent = Pid::from_child(&self.child);
        for _ in 0..LOOKS_MAX {
            match child_of(parent) {
                Some(child) if has_a_host(parent) => return child,
                _ => pause(Duration::from_millis(10)),
            }
        }
        panic!("{parent:?} has no child or no host");
    }

    /// Waits until the demo has come this far.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Stand) -> bool) {
        for _ in 0..LOOKS_MAX {
            if self.stderr.last_stand().is_some_and(|stand| holds(&stand)) {
                return;
            }
            pause(Duration::from_millis(10));
        }
        panic!("the demo never came to where {what}: {:?}", self.stderr.last_stand());
    }

    /// Waits for the end of this process and of every process it has started: each of them holds
    /// the other end of the standard error that is read here.
    pub(crate) fn end(mut self) -> Ended {
        let stderr = self.stderr.whole();
        let stdout = self.stdout.whole();
        let status = self.child.wait().unwrap();
        Ended { status, stdout, stderr }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Ended {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
    }

    /// The one JSON object that is all there is on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let line = self.stdout.strip_suffix('\n').unwrap_or_else(|| panic!("a line: {self:#?}"));
        assert!(!line.contains('\n'), "one line: {self:#?}");
        serde_json::from_str(line).unwrap()
    }
}

impl Output {
    /// Reads all of `pipe` on a thread of its own.
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let (close, closed) = sync_channel(1);
        let text = Arc::<Mutex<String>>::default();
        let read = Arc::clone(&text);
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = String::new();
            while pipe.read_line(&mut line).unwrap() > 0 {
                read.lock().unwrap().push_str(&line);
                line.clear();
            }
            close.send(()).ok();
        });
        Self { text, closed }
    }

    /// Waits for the end.
    fn whole(&self) -> String {
        let closed = self.closed.recv_timeout(PATIENCE);
        let text = self.text.lock().unwrap().clone();
        assert!(closed.is_ok(), "the process should have ended; it wrote {text}");
        text
    }

    fn last_stand(&self) -> Option<Stand> {
        self.text.lock().unwrap().lines().rev().find_map(Stand::read)
    }
}

/// How far a demo has come, as its log tells ten times a second.
#[derive(Debug)]
pub(crate) struct Stand {
    /// How many receivers there have been.
    pub(crate) receivers: u64,
    is_slow: bool,
    send_queue_peak_bytes: u64,
    receive_queue_peak_bytes: u64,
    permits_peak: u64,
    sends_waited: u64,
    requests_ok_while_full: u64,
}

impl Stand {
    fn read(line: &str) -> Option<Self> {
        let (_, fields) = line.split_once(" zlink.demo: ")?;
        let text = |key: &str| {
            let mut pairs = fields.split_whitespace().filter_map(|field| field.split_once('='));
            pairs.find_map(|(name, value)| (name == key).then_some(value))
        };
        let number = |key: &str| text(key)?.parse().ok();
        Some(Self {
            receivers: number("receivers")?,
            is_slow: text("phase")? == "\"slow\"",
            send_queue_peak_bytes: number("send_queue_peak_bytes")?,
            receive_queue_peak_bytes: number("receive_queue_peak_bytes")?,
            permits_peak: number("permits_peak")?,
            sends_waited: number("sends_waited")?,
            requests_ok_while_full: number("requests_ok_while_full")?,
        })
    }

    /// Whether all that a verdict wants to see of an overload has been seen, with the demo's
    /// default marks. The present receiver's queue and permits count, all else is of the whole run.
    pub(crate) const fn is_overloaded(&self) -> bool {
        // The verdict's 90 % is of the mark and the control allowance, 16.25 KiB: 95.7 % of 256 KiB.
        let full = (256 << 10) * 96 / 100;
        self.is_slow
            && self.send_queue_peak_bytes >= full
            && self.receive_queue_peak_bytes >= full
            && self.permits_peak == 64
            && self.sends_waited >= 1_000
            && self.requests_ok_while_full > 0
    }
}

fn has_a_host(process: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).unwrap();
    let mut names =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.any(|name| name.starts_with("zlink-shard"))
}

fn child_of(parent: Pid) -> Option<Pid> {
    let line = format!("PPid:\t{}", parent.as_raw_nonzero());
    std::fs::read_dir("/proc").unwrap().find_map(|entry| {
        let entry = entry.ok()?;
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        status.lines().any(|candidate| candidate == line).then(|| Pid::from_raw(pid))?
    })
}

/// No run that works takes as long.
const PATIENCE: Duration = Duration::from_secs(100);
/// Five minutes: a machine that is busy with other things needs long to overload anything.
const LOOKS_MAX: u32 = 30_000;
