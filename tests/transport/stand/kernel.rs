//! Drivers over the sockets of the kernel that runs the test.

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::time::Duration;
use std::io;
use std::os::fd::OwnedFd;

use tempfile::TempDir;
use zcore::Instant;
use ztransport::clock::{Clock, MonotonicClock};
use ztransport::driver::Driver;
use ztransport::epoll::{Epoll, EpollOptions};
use ztransport::socket::{self, SocketAddress, SocketBuffers};
use ztransport::uring::{Uring, UringOptions};

use super::{Kernel, Rest, Scale, Size, Stand};
use crate::replay::CALM;

/// The sockets of this machine.
pub(crate) struct Machine<D> {
    /// Where socket files are; it goes with everything in it.
    scratch: TempDir,
    files: Cell<u32>,
    /// Bound and silent: it keeps its port from whoever else opens a listener meanwhile.
    silent: RefCell<Vec<OwnedFd>>,
    driver: PhantomData<D>,
}

/// A driver that is built from a size.
pub(crate) trait Built: Driver<Socket = OwnedFd> {
    const NAME: &'static str;

    fn missing() -> Option<String>;

    fn build(size: Size) -> Self;

    fn assert_sound(&self);
}

impl Built for Uring {
    const NAME: &'static str = "uring";

    fn missing() -> Option<String> {
        ztests::io_uring_missing()
    }

    fn build(Size { sockets_max, buffers }: Size) -> Self {
        let options = UringOptions {
            sockets_max,
            application_buffers: buffers,
            completion_buffers: buffers,
            ..UringOptions::default()
        };
        Self::new(options).unwrap()
    }

    fn assert_sound(&self) {
        assert_eq!(self.stale_completions(), 0, "every completion was expected");
    }
}

impl Built for Epoll {
    const NAME: &'static str = "epoll";

    fn missing() -> Option<String> {
        None
    }

    /// It has one buffer, and never runs out of it.
    fn build(Size { sockets_max, buffers: _ }: Size) -> Self {
        Self::new(EpollOptions { sockets_max }).unwrap()
    }

    fn assert_sound(&self) {}
}

impl<D: Built> Stand for Machine<D> {
    type Driver = D;

    const NAME: &'static str = D::NAME;

    const SCALE: Scale = Scale::LARGE;

    fn missing() -> Option<String> {
        D::missing()
    }

    fn seeds() -> Vec<u64> {
        vec![CALM]
    }

    fn new(_seed: u64) -> Self {
        Self {
            scratch: tempfile::tempdir().unwrap(),
            files: Cell::new(0),
            silent: RefCell::default(),
            driver: PhantomData,
        }
    }

    fn driver(&self, size: Size) -> D {
        D::build(size)
    }

    fn listen(
        &self,
        address: &SocketAddress,
        buffers: SocketBuffers,
    ) -> io::Result<(SocketAddress, OwnedFd)> {
        let listening = socket::listen(address, buffers)?;
        Ok((socket::local_address(&listening)?, listening))
    }

    fn tcp(&self) -> SocketAddress {
        SocketAddress::Tcp(ANY.into())
    }

    fn unix(&self) -> SocketAddress {
        let number = self.files.get();
        self.files.set(number + 1);
        SocketAddress::Unix(self.scratch.path().join(number.to_string()))
    }

    fn nobody(&self) -> SocketAddress {
        let bound = socket::open_for(&self.tcp(), SocketBuffers::default()).unwrap();
        rustix::net::bind(&bound, &ANY).unwrap();
        let address = socket::local_address(&bound).unwrap();
        self.silent.borrow_mut().push(bound);
        address
    }

    fn now(&self) -> Instant {
        MonotonicClock.now()
    }

    fn park(&self, driver: &mut D, longest: Duration) {
        driver.park(Some(longest)).unwrap();
    }

    /// Several take turns, so none may sleep for long.
    fn rest(&self, drivers: &mut [D]) -> Rest {
        let park = if drivers.len() > 1 { GLANCE } else { PARK };
        for driver in drivers {
            if driver.is_ready() {
                return Rest::Awake;
            }
            driver.park(Some(park)).unwrap();
        }
        Rest::Slept(park)
    }

    fn pass_a_moment(&self, driver: &mut D) {
        driver.park(Some(MOMENT)).unwrap();
    }

    fn is_quiet(&self, driver: &D) -> bool {
        !driver.is_ready()
    }

    fn assert_sound(driver: &D) {
        driver.assert_sound();
    }
}

impl<D: Built> Kernel for Machine<D> {}

/// How long one sleep lasts at most, alone and among several drivers.
const PARK: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(1);

/// Long enough for the kernel to hand on what it has.
const MOMENT: Duration = Duration::from_millis(20);

/// A port that the kernel chooses.
const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
