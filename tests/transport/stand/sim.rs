//! A network of this process: the same seed and the same script give the same events.

use core::cell::Cell;
use core::time::Duration;
use std::io;

use zcore::Instant;
use ztransport::clock::{Clock, VirtualClock};
use ztransport::driver::Driver;
use ztransport::sim::{Sim, SimFaults, SimNetwork, SimOptions, SimSocket};
use ztransport::socket::{SocketAddress, SocketBuffers};

use super::{Rest, Scale, Size, Stand};
use crate::replay::{CALM, seeds};

/// A simulated network.
pub(crate) struct SimStand {
    network: SimNetwork,
    /// Moved by sleeps that nothing ends.
    clock: VirtualClock,
    files: Cell<u32>,
}

impl Stand for SimStand {
    type Driver = Sim;

    const NAME: &'static str = "sim";

    const SCALE: Scale = Scale::SMALL;

    fn missing() -> Option<String> {
        None
    }

    fn seeds() -> Vec<u64> {
        seeds(SEEDS)
    }

    fn new(seed: u64) -> Self {
        let faults = if seed == CALM { SimFaults::none() } else { SimFaults::benign() };
        Self {
            network: SimNetwork::new(seed, faults),
            clock: VirtualClock::new(),
            files: Cell::new(0),
        }
    }

    fn driver(&self, size: Size) -> Sim {
        let Size { sockets_max, buffers } = size;
        self.network.driver(SimOptions { sockets_max, buffers, ..SimOptions::default() })
    }

    fn listen(
        &self,
        address: &SocketAddress,
        buffers: SocketBuffers,
    ) -> io::Result<(SocketAddress, SimSocket)> {
        let socket = self.network.listen(address, buffers)?;
        Ok((socket.local_address().unwrap(), socket))
    }

    fn tcp(&self) -> SocketAddress {
        "127.0.0.1:0".parse().unwrap()
    }

    fn unix(&self) -> SocketAddress {
        let number = self.files.get();
        self.files.set(number + 1);
        format!("unix:/sim/{number}").parse().unwrap()
    }

    fn nobody(&self) -> SocketAddress {
        "127.0.0.1:9".parse().unwrap()
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    /// A simulated driver does not sleep. One that is not ready would have, to the end.
    fn park(&self, driver: &mut Sim, longest: Duration) {
        if !driver.is_ready() {
            self.clock.advance(longest);
        }
        driver.park(Some(longest)).unwrap();
    }

    /// Whatever is late comes with more polls.
    fn rest(&self, _drivers: &mut [Sim]) -> Rest {
        if self.network.is_quiet() { Rest::ForEver } else { Rest::Awake }
    }

    fn pass_a_moment(&self, driver: &mut Sim) {
        driver.park(None).unwrap();
    }

    fn is_quiet(&self, _driver: &Sim) -> bool {
        self.network.is_quiet()
    }

    fn assert_sound(_driver: &Sim) {}
}

/// Enough for each fault to strike at each step of a short script.
const SEEDS: u64 = 40;
