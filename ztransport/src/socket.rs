//! Addresses, and sockets set up the way ZLink needs them.
//!
//! Buffer sizes are set before `listen` and `connect`, because TCP agrees on its window then. Every
//! descriptor is closed on exec.

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use zcore::ByteCount;
use zcore::wire::Lane;

/// Where a peer listens: `127.0.0.1:7400`, `[::1]:7400` or `unix:/run/x.sock`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum SocketAddress {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// The path of a socket file.
    Unix(PathBuf),
}

impl SocketAddress {
    const fn family(&self) -> AddressFamily {
        match self {
            Self::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Self::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Self::Unix(_) => AddressFamily::UNIX,
        }
    }

    /// The form that the kernel reads.
    pub(crate) fn encode(&self) -> Result<SocketAddrAny, Errno> {
        match self {
            Self::Tcp(address) => Ok((*address).into()),
            Self::Unix(path) => SocketAddrUnix::new(path.as_path()).map(Into::into),
        }
    }

    fn decode(address: SocketAddrAny) -> Result<Self, Errno> {
        if address.address_family() != AddressFamily::UNIX {
            return SocketAddr::try_from(address).map(Self::Tcp);
        }
        let address = SocketAddrUnix::try_from(address)?;
        let path = address.path_bytes().unwrap_or_default();
        Ok(Self::Unix(PathBuf::from(std::ffi::OsStr::from_bytes(path))))
    }
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

impl FromStr for SocketAddress {
    type Err = AddressError;

    /// Reads an address. Host names are not looked up: that would block.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let Some(path) = text.strip_prefix(UNIX_PREFIX) else {
            return text.parse().map(Self::Tcp).map_err(|_| AddressError::Shape);
        };
        match path.len() {
            0 => Err(AddressError::EmptyPath),
            1..=UNIX_PATH_MAX => Ok(Self::Unix(PathBuf::from(path))),
            length => Err(AddressError::PathTooLong { length }),
        }
    }
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AddressError {
    /// It is neither IP and port nor `unix:` and a path.
    Shape,
    /// Nothing follows `unix:`.
    EmptyPath,
    /// The kernel takes no path of this length.
    PathTooLong {
        /// Its bytes.
        length: usize,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => f.write_str(
                "not an address: must be IP:PORT (`127.0.0.1:7400`, `[::1]:7400`) or \
                 unix:PATH (`unix:/run/x.sock`)",
            ),
            Self::EmptyPath => f.write_str("`unix:` must be followed by a path"),
            Self::PathTooLong { length } => {
                write!(f, "the socket path has {length} bytes, must be at most {UNIX_PATH_MAX}")
            }
        }
    }
}

impl core::error::Error for AddressError {}

/// What the kernel may hold for one socket, as asked for.
///
/// Without these the kernel hides about 4 MB from the byte marks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SocketBuffers {
    /// `SO_SNDBUF`.
    pub send: ByteCount,
    /// `SO_RCVBUF`.
    pub receive: ByteCount,
}

impl From<Lane> for Watch {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Application => Self::Application,
            Lane::Completion => Self::Completion,
        }
    }
}

impl Default for SocketBuffers {
    fn default() -> Self {
        Self { send: BUFFER_DEFAULT, receive: BUFFER_DEFAULT }
    }
}

/// Which of a pair's two connections a socket carries: they are watched differently (D-16).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Watch {
    /// Keepalive only. A peer that is alive but does not read must not be cut off, and
    /// `TCP_USER_TIMEOUT` would do just that.
    Application,
    /// Keepalive, and unacknowledged bytes end the connection: this lane is always read.
    Completion,
}

/// Opens a listening socket.
///
/// A socket file that nobody listens on is replaced; it is what a killed process leaves behind.
///
/// # Errors
///
/// What socket(2), bind(2) and listen(2) say; `AddrInUse` for a socket file that is in use, and
/// for a path that holds something other than a socket.
pub fn listen(address: &SocketAddress, buffers: SocketBuffers) -> io::Result<OwnedFd> {
    let listener = open_for(address, buffers)?;
    let encoded = address.encode()?;
    match address {
        SocketAddress::Tcp(_) => {
            // Connections of the process before us may still be in TIME_WAIT.
            sockopt::set_socket_reuseaddr(&listener, true)?;
            net::bind(&listener, &encoded)?;
        }
        SocketAddress::Unix(path) => match net::bind(&listener, &encoded) {
            Err(Errno::ADDRINUSE) if is_stale(path, &encoded) => {
                std::fs::remove_file(path)?;
                net::bind(&listener, &encoded)?;
            }
            bound => bound?,
        },
    }
    net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Opens a socket to be connected to `address`.
///
/// # Errors
///
/// What socket(2) and setsockopt(2) say.
pub fn open_for(address: &SocketAddress, buffers: SocketBuffers) -> io::Result<OwnedFd> {
    // Blocking, although nothing ever blocks: io_uring waits on a blocking socket by itself, but
    // hands EAGAIN through on a non-blocking one.
    let socket =
        net::socket_with(address.family(), SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    prepare(&socket, buffers)?;
    Ok(socket)
}

/// Opens a socket to be connected to `address` that carries one lane of a pair.
///
/// # Errors
///
/// As [`open_for`].
pub fn open_lane(
    address: &SocketAddress,
    buffers: SocketBuffers,
    watch: Watch,
) -> io::Result<OwnedFd> {
    let socket = open_for(address, buffers)?;
    keep_alive(&socket, watch)?;
    Ok(socket)
}

/// Sets up a socket that was accepted. Until it says otherwise it is watched like an Application
/// lane.
///
/// # Errors
///
/// What setsockopt(2) says.
pub fn prepare_accepted(socket: &OwnedFd, buffers: SocketBuffers) -> io::Result<()> {
    prepare(socket, buffers)?;
    keep_alive(socket, Watch::Application)
}

/// Sizes a socket's buffers, and has it send at once.
///
/// # Errors
///
/// What setsockopt(2) says.
pub fn prepare(socket: &OwnedFd, buffers: SocketBuffers) -> io::Result<()> {
    let bytes = |count: ByteCount| usize::try_from(count.get()).unwrap_or(usize::MAX);
    sockopt::set_socket_send_buffer_size(socket, bytes(buffers.send).min(BUFFER_MAX))?;
    sockopt::set_socket_recv_buffer_size(socket, bytes(buffers.receive).min(BUFFER_MAX))?;
    if is_tcp(socket.as_fd())? {
        // Batches are put together before they are sent; waiting for more gains nothing.
        sockopt::set_tcp_nodelay(socket, true)?;
    }
    Ok(())
}

/// Has the kernel notice a peer that is gone (D-16). Does nothing on a Unix socket: its peer cannot
/// vanish unnoticed.
///
/// # Errors
///
/// What setsockopt(2) says.
pub fn keep_alive(socket: &OwnedFd, watch: Watch) -> io::Result<()> {
    if !is_tcp(socket.as_fd())? {
        return Ok(());
    }
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    sockopt::set_socket_keepalive(socket, true)?;
    match watch {
        Watch::Application => {}
        Watch::Completion => sockopt::set_tcp_user_timeout(socket, USER_TIMEOUT_MS)?,
    }
    Ok(())
}

/// What the kernel really grants: it doubles what was asked for, for its own bookkeeping, after
/// cutting it to `net.core.wmem_max` and `net.core.rmem_max`.
///
/// # Errors
///
/// What getsockopt(2) says.
pub fn kernel_buffers(socket: &OwnedFd) -> io::Result<SocketBuffers> {
    Ok(SocketBuffers {
        send: ByteCount::new(sockopt::socket_send_buffer_size(socket)? as u64),
        receive: ByteCount::new(sockopt::socket_recv_buffer_size(socket)? as u64),
    })
}

/// What the kernel grants a connection for which these buffers are asked: read back from a socket
/// that is set up like one.
///
/// # Errors
///
/// What socket(2), setsockopt(2) and getsockopt(2) say.
pub fn granted(buffers: SocketBuffers) -> io::Result<SocketBuffers> {
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    prepare(&socket, buffers)?;
    kernel_buffers(&socket)
}

/// The address that a socket is bound to, with the port that the kernel chose for port 0.
///
/// # Errors
///
/// What getsockname(2) says.
pub fn local_address(socket: &OwnedFd) -> io::Result<SocketAddress> {
    Ok(SocketAddress::decode(net::getsockname(socket)?)?)
}

/// Whether `path` is a socket file that nobody listens on. Between this answer and the removal
/// another process may start to listen there; two servers that share a path need a lock of their
/// own anyway.
fn is_stale(path: &Path, address: &SocketAddrAny) -> bool {
    // Connecting to a plain file is refused as well, and that one is not ours to remove.
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket {
        return false;
    }
    // Not waiting: a listener with a full backlog is alive.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .is_ok_and(|probe| net::connect(probe, address) == Err(Errno::CONNREFUSED))
}

fn is_tcp(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(sockopt::socket_domain(socket)? != AddressFamily::UNIX)
}

const UNIX_PREFIX: &str = "unix:";

/// `sun_path` has 108 bytes, the last of which is zero.
const UNIX_PATH_MAX: usize = 107;

/// Connections that wait to be accepted. The kernel cuts it to `net.core.somaxconn`, 4,096 by
/// default, which is also the default of the peers that a host takes (D-26).
const BACKLOG: i32 = 4_096;

/// Enough for a gigabit at 2 ms, and small enough that the byte marks mean something.
const BUFFER_DEFAULT: ByteCount = ByteCount::kib(256);

/// Half of the largest number that setsockopt(2) takes, since the kernel doubles it.
const BUFFER_MAX: usize = 1 << 30;

const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 2;

/// The time in which keepalive notices a dead peer, for one that owes acknowledgements.
const USER_TIMEOUT_MS: u32 = 15_000;

const _: () = {
    let noticed =
        KEEPALIVE_IDLE.as_millis() + KEEPALIVE_INTERVAL.as_millis() * (KEEPALIVE_PROBES as u128);
    assert!(noticed == USER_TIMEOUT_MS as u128, "a dead peer is noticed alike, idle or not");
};

#[cfg(test)]
mod tests {
    use super::{
        AddressError, SocketAddress, SocketBuffers, Watch, granted, keep_alive, kernel_buffers,
        listen, local_address, open_for,
    };
    use rustix::net::sockopt;
    use std::io::ErrorKind;
    use zcore::ByteCount;

    fn scratch(name: &str) -> SocketAddress {
        let file = format!("zlink-socket-{}-{name}.sock", std::process::id());
        SocketAddress::Unix(std::env::temp_dir().join(file))
    }

    fn remove(address: &SocketAddress) {
        if let SocketAddress::Unix(path) = address {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn an_address_reads_as_it_prints() {
        for text in ["127.0.0.1:7400", "[::1]:7400", "unix:/run/x.sock", "unix:x"] {
            let address: SocketAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text, "round trip");
        }
    }

    #[test]
    fn a_wrong_address_is_told_its_shape() {
        for text in ["localhost", "127.0.0.1", "::1:7400", "", "/run/x.sock"] {
            assert_eq!(text.parse::<SocketAddress>(), Err(AddressError::Shape), "{text}");
        }
        assert!(AddressError::Shape.to_string().contains("[::1]:7400"), "an example");
        assert_eq!("unix:".parse::<SocketAddress>(), Err(AddressError::EmptyPath), "no path");
        let long = format!("unix:{}", "x".repeat(108));
        assert_eq!(
            long.parse::<SocketAddress>(),
            Err(AddressError::PathTooLong { length: 108 }),
            "one too many"
        );
    }

    #[test]
    fn the_longest_path_that_reads_can_be_encoded() {
        let address: SocketAddress = format!("unix:{}", "x".repeat(107)).parse().unwrap();
        assert!(address.encode().is_ok(), "107 bytes fit");
    }

    #[test]
    fn a_stale_socket_file_is_replaced_and_a_live_one_is_not() {
        let address = scratch("stale");
        let first = listen(&address, SocketBuffers::default()).unwrap();
        let refused = listen(&address, SocketBuffers::default()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse, "somebody listens");
        drop(first);
        let second = listen(&address, SocketBuffers::default()).unwrap();
        assert_eq!(local_address(&second).unwrap(), address, "bound there");
        remove(&address);
    }

    #[test]
    fn a_plain_file_is_never_removed() {
        let address = scratch("file");
        let SocketAddress::Unix(path) = &address else { panic!("a path") };
        std::fs::write(path, "precious").unwrap();
        let refused = listen(&address, SocketBuffers::default()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse, "not a socket");
        assert_eq!(std::fs::read(path).unwrap(), b"precious", "untouched");
        remove(&address);
    }

    #[test]
    fn the_kernel_grants_what_was_asked_for_doubled() {
        let address = "127.0.0.1:0".parse().unwrap();
        let asked = SocketBuffers { send: ByteCount::kib(32), receive: ByteCount::kib(64) };
        let socket = open_for(&address, asked).unwrap();
        let granted = kernel_buffers(&socket).unwrap();
        assert_eq!(granted.send, ByteCount::kib(64), "send");
        assert_eq!(granted.receive, ByteCount::kib(128), "receive");
        assert!(sockopt::tcp_nodelay(&socket).unwrap(), "no delay");
    }

    #[test]
    fn what_will_be_granted_is_known_without_a_connection() {
        let address = "127.0.0.1:0".parse().unwrap();
        // The third is less than the kernel grants at least, the last more than it grants at most.
        for (send, receive) in [(256, 256), (16, 64), (0, 1), (1 << 20, 1 << 20)] {
            let asked =
                SocketBuffers { send: ByteCount::kib(send), receive: ByteCount::kib(receive) };
            let socket = open_for(&address, asked).unwrap();
            assert_eq!(granted(asked).unwrap(), kernel_buffers(&socket).unwrap(), "{asked:?}");
        }
    }

    #[test]
    fn only_the_completion_lane_has_a_user_timeout() {
        let address = "127.0.0.1:0".parse().unwrap();
        for (watch, timeout_ms) in [(Watch::Application, 0), (Watch::Completion, 15_000)] {
            let socket = open_for(&address, SocketBuffers::default()).unwrap();
            keep_alive(&socket, watch).unwrap();
            assert!(sockopt::socket_keepalive(&socket).unwrap(), "keepalive is on");
            assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), timeout_ms, "{watch:?}");
        }
        let local = open_for(&scratch("none"), SocketBuffers::default()).unwrap();
        assert!(keep_alive(&local, Watch::Completion).is_ok(), "nothing to do");
    }

    #[test]
    fn the_port_that_the_kernel_chose_is_known() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap(), SocketBuffers::default()).unwrap();
        let SocketAddress::Tcp(address) = local_address(&listener).unwrap() else { panic!("TCP") };
        assert_ne!(address.port(), 0, "chosen");
    }
}
