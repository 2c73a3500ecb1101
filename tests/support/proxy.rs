//! A line between two parties that the test slows down and cuts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zcore::wire::{HELLO_BYTES, Hello, Lane};
use ztransport::socket::SocketAddress;

/// Bytes that pass at a time.
const STEP: usize = 4 << 10;

/// Between two looks whether a target has ended.
const REST: Duration = Duration::from_millis(5);

/// Forwards connections to whoever listens.
///
/// A test that cannot set it up fails by panicking.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    line: Arc<Line>,
}

#[derive(Debug)]
struct Line {
    target: SocketAddr,
    /// How long each step towards the target takes.
    pause: Duration,
    is_cut: AtomicBool,
    /// Bytes behind the hello that still pass towards the target on the next Application connection.
    budget: Mutex<Option<usize>>,
    /// Both ends of each connection, the oldest first.
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Forwards to `target`; each step of 4 KiB towards it takes `pause`.
    ///
    /// # Panics
    ///
    /// When there is no port to listen on.
    pub fn start(target: SocketAddr, pause: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The line must not hide what the hosts are to account for.
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, STEP).unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, streams) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let budget = Mutex::new(None);
        let line = Arc::new(Line { target, pause, is_cut, budget, streams });
        let accepting = Arc::clone(&line);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                accepting.join(stream.unwrap());
            }
        });
        Self { address, line }
    }

    /// Where to connect to.
    pub const fn address(&self) -> SocketAddress {
        SocketAddress::Tcp(self.address)
    }

    /// Ends every connection, and each new one at once.
    pub fn cut(&self) {
        self.line.is_cut.store(true, Ordering::SeqCst);
        end(self.line.streams().drain(..));
    }

    /// Ends the connection that has been there for longest. What it carries is lost.
    pub fn cut_oldest(&self) {
        let mut streams = self.line.streams();
        let ends = streams.len().min(2);
        end(streams.drain(..ends));
    }

    /// Ends the way to the target on the Application connection that comes next, behind so many bytes
    /// of records. The target sees the end of the connection there, and whoever dialed that of the
    /// target.
    pub fn cut_behind(&self, bytes: usize) {
        *self.line.budget() = Some(bytes);
    }

    /// Lets connections come about again.
    pub fn mend(&self) {
        self.line.is_cut.store(false, Ordering::SeqCst);
    }
}

impl Line {
    fn streams(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budget(&self) -> MutexGuard<'_, Option<usize>> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, near: TcpStream) {
        let Ok(far) = TcpStream::connect(self.target) else { return };
        near.set_nodelay(true).unwrap();
        far.set_nodelay(true).unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&far, STEP).unwrap();
        let ends = [near.try_clone().unwrap(), far.try_clone().unwrap()];
        {
            let mut streams = self.streams();
            if self.is_cut.load(Ordering::SeqCst) {
                return;
            }
            streams.extend(ends);
        }
        let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let pause = self.pause;
        std::thread::spawn(move || forward(back.0, back.1, Duration::ZERO));
        let budget = self.budget().is_some();
        if !budget {
            std::thread::spawn(move || forward(near, far, pause));
            return;
        }
        let mut hello = [0; HELLO_BYTES];
        let (mut from, mut to) = (near, far);
        if from.read_exact(&mut hello).is_err() || to.write_all(&hello).is_err() {
            return;
        }
        let is_application = Hello::decode(&hello).unwrap().lane == Lane::Application;
        let budget = is_application.then(|| self.budget().take()).flatten();
        std::thread::spawn(move || match budget {
            Some(bytes) => forward_part(&mut from, &mut to, bytes),
            None => forward(from, to, pause),
        });
    }
}

/// Forwards so many bytes and then the end; what comes behind them is left where it is.
fn forward_part(from: &mut TcpStream, to: &mut TcpStream, mut left: usize) {
    let mut bytes = [0; STEP];
    if left == 0 {
        // Not before the pair is up.
        from.peek(&mut bytes).ok();
    }
    while left > 0 {
        let part = left.min(STEP);
        let Ok(length @ 1..) = from.read(&mut bytes[..part]) else { break };
        to.write_all(&bytes[..length]).unwrap();
        left -= length;
    }
    to.shutdown(Shutdown::Write).ok();
    // Held until the target has ended, too: closed with bytes in it, it would reset the connection.
    while to.peek(&mut [0]).is_ok_and(|length| length > 0) {
        pause(REST);
    }
}

fn end(streams: impl Iterator<Item = TcpStream>) {
    for stream in streams {
        // One that has ended already is not connected.
        stream.shutdown(Shutdown::Both).ok();
    }
}

#[expect(clippy::disallowed_methods, reason = "how fast a line is, is the test's choice")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

fn forward(mut from: TcpStream, mut to: TcpStream, step: Duration) {
    let mut bytes = [0; STEP];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
        pause(step);
    }
    to.shutdown(Shutdown::Write).ok();
}
