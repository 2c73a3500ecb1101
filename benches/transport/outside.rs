//! The system calls of a child process that runs one phase, counted by a tool outside of it.
//!
//! Two runs differ in nothing but the number of messages, so what start and end cost cancels out;
//! the hosts' own count is read off the same two runs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use zhost::{DriverKind, SocketAddress};

use crate::hosts::{self, Server};
use crate::load::{Load, Way, each};

/// The first argument of a child.
pub(crate) const CHILD: &str = "phase";

/// Of both tools, the row with the sum of all.
const TOTAL: &str = "total";

/// What `perf` tells apart in its total.
const NAMED: [&str; 14] = [
    "io_uring_enter",
    "epoll_wait",
    "epoll_pwait",
    "epoll_ctl",
    "recvfrom",
    "sendmsg",
    "futex",
    "read",
    "write",
    "brk",
    "mmap",
    "munmap",
    "madvise",
    "sched_yield",
];

/// A shorter run has this part of the messages.
const SHORTER: u32 = 50;

/// Which hosts are in the child.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sides {
    Both,
    /// The server; in this process are so many client hosts, which share the connections evenly.
    Server {
        clients: u32,
    },
}

/// What counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tool {
    Perf,
    Strace,
}

impl Tool {
    /// The first that works here.
    pub(crate) fn find() -> Option<Self> {
        [Self::Perf, Self::Strace].into_iter().find(|tool| {
            let report = report_path();
            let run = tool.command(&report).arg("true").stdout(Stdio::null()).status();
            run.is_ok_and(|status| status.success()) && tool.read(&report).contains_key(TOTAL)
        })
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf stat -e raw_syscalls:sys_enter",
            Self::Strace => "strace -f -c",
        }
    }

    /// How many times fewer messages do: a call that `strace` sees takes many times as long.
    pub(crate) const fn slowness(self) -> u32 {
        match self {
            Self::Perf => 1,
            Self::Strace => 5,
        }
    }

    /// Runs what is appended to it, and writes a report.
    fn command(self, report: &Path) -> Command {
        let mut command;
        match self {
            Self::Perf => {
                command = Command::new("perf");
                command.args(["stat", "-x,", "-e", "raw_syscalls:sys_enter"]);
                for name in NAMED {
                    command.args(["-e", &format!("syscalls:sys_enter_{name}")]);
                }
                command.arg("-o").arg(report).arg("--");
            }
            Self::Strace => {
                command = Command::new("strace");
                command.args(["-f", "-c", "-o"]).arg(report);
            }
        }
        command.stderr(Stdio::null());
        command
    }

    /// How often each system call was made.
    fn read(self, report: &Path) -> BTreeMap<String, u64> {
        let text = std::fs::read_to_string(report).unwrap_or_default();
        std::fs::remove_file(report).ok();
        text.lines().filter_map(|line| self.row(line)).collect()
    }

    fn row(self, line: &str) -> Option<(String, u64)> {
        let (count, name) = match self {
            Self::Perf => {
                let mut fields = line.split(',');
                let count = fields.next()?;
                let event = fields.nth(1)?;
                (count, event.strip_prefix("syscalls:sys_enter_").unwrap_or(TOTAL))
            }
            Self::Strace => {
                let mut fields = line.split_whitespace();
                (fields.nth(3)?, fields.last()?)
            }
        };
        Some((name.to_owned(), count.parse().ok()?))
    }
}

/// Where a tool writes: the directory that cargo gives benches for such files.
fn report_path() -> PathBuf {
    let name = format!("system-calls-{}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// System calls a message.
#[derive(Debug)]
pub(crate) struct Counted {
    /// As the hosts count.
    pub(crate) own: f64,
    /// As the tool counts, by name and in total.
    pub(crate) outside: Option<Outside>,
}

#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) total: f64,
    pub(crate) by_name: Vec<(String, f64)>,
}

struct Run {
    own: u64,
    outside: BTreeMap<String, u64>,
}

/// Counts a phase in children of this process.
pub(crate) fn count(tool: Option<Tool>, sides: Sides, driver: DriverKind, load: Load) -> Counted {
    let short = Load { messages: load.messages / SHORTER, ..load };
    let (fewer, more) = (run(tool, sides, driver, short), run(tool, sides, driver, load));
    let messages = load.messages - short.messages;
    let own = each(more.own.saturating_sub(fewer.own), messages);
    let difference = |name: &str| {
        let [more, fewer] = [&more, &fewer].map(|run| run.outside.get(name).copied());
        each(more.unwrap_or_default().saturating_sub(fewer.unwrap_or_default()), messages)
    };
    let outside = tool.map(|_| {
        let names = more.outside.keys().filter(|name| *name != TOTAL);
        let by_name = names.map(|name| (name.clone(), difference(name)));
        Outside { total: difference(TOTAL), by_name: by_name.collect() }
    });
    Counted { own, outside }
}

fn run(tool: Option<Tool>, sides: Sides, driver: DriverKind, load: Load) -> Run {
    let report = report_path();
    let exe = std::env::current_exe().unwrap();
    let mut command = match tool {
        Some(tool) => {
            let mut command = tool.command(&report);
            command.arg(exe);
            command
        }
        None => Command::new(exe),
    };
    let kind = match driver {
        DriverKind::Uring => "uring",
        DriverKind::Epoll | DriverKind::Auto => "epoll",
    };
    command.args([CHILD, kind]).args(match (sides, load.way) {
        (Sides::Server { clients }, way) => {
            vec!["server".to_owned(), (way.connections() / clients).to_string()]
        }
        (Sides::Both, Way::Echo { connections }) => {
            vec!["echo".to_owned(), connections.to_string(), load.messages.to_string()]
        }
        (Sides::Both, Way::OneWay) => vec!["one-way".to_owned(), load.messages.to_string()],
    });
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let own = attend(child, sides, driver, load);
    Run { own, outside: tool.map(|tool| tool.read(&report)).unwrap_or_default() }
}

/// Gives a child what it needs and returns its own count. A child ends when its input does.
fn attend(mut child: Child, sides: Sides, driver: DriverKind, load: Load) -> u64 {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    if let Sides::Server { clients } = sides {
        let share = load.way.connections() / clients;
        let listeners = usize::try_from(share).unwrap();
        let addresses: Vec<SocketAddress> =
            lines.by_ref().take(listeners).map(|line| line.parse().unwrap()).collect();
        let load = Load {
            way: Way::Echo { connections: share },
            messages: load.messages / clients,
            ..load
        };
        thread::scope(|scope| {
            for number in 0..clients {
                let node = format!("client-{number}");
                let addresses = &addresses;
                scope.spawn(move || hosts::call(&node, driver, load, addresses, || 0).unwrap());
            }
        });
    }
    drop(child.stdin.take());
    let own = lines.next().unwrap().parse().unwrap();
    assert!(child.wait().unwrap().success(), "the child that was counted ends well");
    own
}

/// What a child does: one phase, and prints its hosts' own count.
pub(crate) fn be_child(arguments: &[String]) -> u64 {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (driver, rest) = match arguments.as_slice() {
        ["uring", rest @ ..] => (DriverKind::Uring, rest),
        ["epoll", rest @ ..] => (DriverKind::Epoll, rest),
        _ => unreachable!("{arguments:?} is not how a child is called"),
    };
    let phase = |way, messages: &str| {
        let messages = messages.parse().unwrap();
        let ever = hosts::run(driver, Load { way, size: 64, warm_up: 0, messages }).ever;
        ever.client + ever.server
    };
    match rest {
        ["echo", connections, messages] => {
            phase(Way::Echo { connections: connections.parse().unwrap() }, messages)
        }
        ["one-way", messages] => phase(Way::OneWay, messages),
        ["server", listeners] => serve(driver, listeners.parse().unwrap()),
        _ => unreachable!("{arguments:?} is not how a child is called"),
    }
}

fn serve(driver: DriverKind, listeners: u32) -> u64 {
    let server = Server::start(driver, listeners);
    for address in &server.addresses {
        crate::say(&address.to_string());
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    hosts::calls(&server.host)
}
