//! Names of what the kernel holds for us: slot and generation, never a pointer.

/// A socket that a driver holds.
///
/// The generation makes a name of a closed socket harmless: whatever still arrives under it is
/// recognised and ignored.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SocketId {
    slot: u32,
    generation: u32,
}

impl SocketId {
    /// Names the socket in `slot`; a driver raises `generation` each time it reuses the slot.
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    /// The place in the driver's table.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// How often the slot was taken before.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}
