//! What an error number means to a connection, in one table.

use rustix::io::Errno;

/// What an error number asks for. Texts say what to do about it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meaning {
    /// Nothing happened; the same operation is simply started again.
    Again,
    /// We ended the operation ourselves.
    Cancelled,
    /// The link is gone. Whether the peer saw what was sent last cannot be known from here.
    LinkLost,
    /// Nobody could be reached under the address.
    Unreachable(&'static str),
    /// Trying again will not help until somebody changes something.
    Refused(&'static str),
    /// Trying again helps once something has been given back.
    ResourceExhausted(&'static str),
    /// Not an error that sockets are known to return here.
    Unexpected,
}

/// Looks `errno` up.
pub const fn meaning(errno: Errno) -> Meaning {
    match errno {
        Errno::AGAIN | Errno::INTR => Meaning::Again,
        Errno::CANCELED => Meaning::Cancelled,
        // A reset shows on whichever operation comes next, so none of them says more than that.
        Errno::CONNRESET
        | Errno::CONNABORTED
        | Errno::PIPE
        | Errno::NOTCONN
        | Errno::SHUTDOWN
        | Errno::NETRESET => Meaning::LinkLost,
        Errno::CONNREFUSED => {
            Meaning::Unreachable("nobody listens there: start the peer or correct the address")
        }
        Errno::NOENT => Meaning::Unreachable(
            "the socket file does not exist: start the peer or correct the path",
        ),
        Errno::TIMEDOUT => Meaning::Unreachable(
            "no answer: look for a firewall that drops packets, or a dead host",
        ),
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN => {
            Meaning::Unreachable("no route: check `ip route get` for the peer's address")
        }
        Errno::ACCESS | Errno::PERM => Meaning::Refused(
            "not permitted: check the socket file's mode, ports below 1024, and firewall rules",
        ),
        Errno::ADDRINUSE => {
            Meaning::Refused("the address is taken: `ss -lxtp` shows by which process")
        }
        Errno::ADDRNOTAVAIL => {
            Meaning::Refused("no interface of this host has the address: check `ip address`")
        }
        Errno::AFNOSUPPORT => {
            Meaning::Refused("this kernel lacks the address family: IPv6 may be switched off")
        }
        Errno::NAMETOOLONG => Meaning::Refused("a socket path has at most 107 bytes: shorten it"),
        Errno::MFILE => {
            Meaning::ResourceExhausted("the process is out of descriptors: raise `ulimit -n`")
        }
        Errno::NFILE => {
            Meaning::ResourceExhausted("the host is out of descriptors: raise `fs.file-max`")
        }
        Errno::NOBUFS | Errno::NOMEM => Meaning::ResourceExhausted(
            "the kernel is out of memory for sockets: raise `net.ipv4.tcp_mem` or the memory limit",
        ),
        _ => Meaning::Unexpected,
    }
}

#[cfg(test)]
mod tests {
    use super::{Meaning, meaning};
    use rustix::io::Errno;

    #[test]
    fn only_interruptions_are_started_again() {
        for errno in (1..134).map(Errno::from_raw_os_error) {
            let again = matches!(meaning(errno), Meaning::Again);
            assert_eq!(again, errno == Errno::INTR || errno == Errno::AGAIN, "{errno:?}");
        }
    }

    #[test]
    fn texts_are_plain_and_say_what_to_do() {
        for errno in (1..134).map(Errno::from_raw_os_error) {
            let text = match meaning(errno) {
                Meaning::Unreachable(text)
                | Meaning::Refused(text)
                | Meaning::ResourceExhausted(text) => text,
                Meaning::Again | Meaning::Cancelled | Meaning::LinkLost | Meaning::Unexpected => {
                    continue;
                }
            };
            assert!(text.starts_with(char::is_lowercase), "{text}");
            assert!(text.contains(':'), "cause, colon, remedy: {text}");
            assert!(!text.ends_with('.'), "{text}");
        }
    }
}
