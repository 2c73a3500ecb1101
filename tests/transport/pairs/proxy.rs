//! A line between two hosts that the test slows down and cuts.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use zhost::SocketAddress;

use crate::world::pause;

/// Bytes that pass at a time.
const STEP: usize = 4 << 10;

/// Forwards connections to a host.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    line: Arc<Line>,
}

#[derive(Debug)]
struct Line {
    target: SocketAddr,
    /// How long each step towards the target takes.
    pause: Duration,
    is_cut: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub(crate) fn start(target: SocketAddr, pause: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The line must not hide what the hosts are to account for.
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, STEP).unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, streams) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let line = Arc::new(Line { target, pause, is_cut, streams });
        let accepting = Arc::clone(&line);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                accepting.join(stream.unwrap());
            }
        });
        Self { address, line }
    }

    pub(crate) const fn address(&self) -> SocketAddress {
        SocketAddress::Tcp(self.address)
    }

    /// Ends every connection, and each new one at once.
    pub(crate) fn cut(&self) {
        self.line.is_cut.store(true, Ordering::SeqCst);
        for stream in self.line.streams.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    pub(crate) fn mend(&self) {
        self.line.is_cut.store(false, Ordering::SeqCst);
    }
}

impl Line {
    fn join(&self, near: TcpStream) {
        let Ok(far) = TcpStream::connect(self.target) else { return };
        near.set_nodelay(true).unwrap();
        far.set_nodelay(true).unwrap();
        let ends = [near.try_clone().unwrap(), far.try_clone().unwrap()];
        {
            let mut streams = self.streams.lock().unwrap();
            if self.is_cut.load(Ordering::SeqCst) {
                return;
            }
            streams.extend(ends);
        }
        let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let pause = self.pause;
        std::thread::spawn(move || forward(near, far, pause));
        std::thread::spawn(move || forward(back.0, back.1, Duration::ZERO));
    }
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
