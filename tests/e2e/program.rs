//! The program `zlink`, built once, and its processes.

use core::time::Duration;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
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

/// Whether this machine can run hosts; if not, says which ids are not proved.
pub(crate) fn can_run(ids: &[&str]) -> bool {
    let probed = ztransport::probe::probe();
    if let Err(unavailable) = &probed {
        ztests::skip(ids, &unavailable.to_string());
    }
    probed.is_ok()
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
    stdout: Receiver<String>,
    stderr: Receiver<String>,
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
        let mut child = Command::new(zlink())
            .args(arguments.split_whitespace())
            .env_remove("ZLINK_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = whole(child.stdout.take().unwrap());
        let stderr = whole(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Sends a signal to the process itself.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The receiving process, once both processes have their hosts.
    pub(crate) fn receiver(&self) -> Pid {
        let parent = Pid::from_child(&self.child);
        for _ in 0..3_000 {
            match child_of(parent) {
                Some(child) if has_a_host(parent) => return child,
                _ => pause(Duration::from_millis(10)),
            }
        }
        panic!("{parent:?} has no child or no host");
    }

    /// Waits for the end of this process and of every process it has started: each of them holds
    /// the other end of the standard error that is read here.
    pub(crate) fn end(mut self) -> Ended {
        let stderr = self.stderr.recv_timeout(PATIENCE).unwrap();
        let stdout = self.stdout.recv_timeout(PATIENCE).unwrap();
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

/// Reads all of `pipe` on a thread of its own.
fn whole(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (done, text) = sync_channel(1);
    thread::spawn(move || {
        let mut all = String::new();
        pipe.read_to_string(&mut all).unwrap();
        done.send(all).ok();
    });
    text
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
