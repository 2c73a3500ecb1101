//! The locks and atomics of the wake protocol, and what a model checker puts in their place.
//!
//! They are those of the standard library. Only a test that is built with `--cfg loom` gets
//! `loom`'s, which are tried in every order that the memory model allows: see `models`.

#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64, fence};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::AtomicBool;
#[cfg(all(test, loom))]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(all(test, loom))]
pub(crate) use modelled::{AtomicU64, Fences, OnceLock, fence};

#[cfg(all(test, loom))]
mod modelled {
    use core::cell::Cell;
    use core::sync::atomic::Ordering;

    use loom::sync::atomic::{self, AtomicBool};

    /// Whether fences do anything. A protocol that passes without them was not tested.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub(crate) enum Fences {
        Kept,
        Removed,
    }

    std::thread_local! {
        /// All threads of a model are coroutines of the thread that runs its test.
        static FENCES: Cell<Fences> = const { Cell::new(Fences::Kept) };
    }

    impl Fences {
        pub(crate) fn apply(self) {
            FENCES.set(self);
        }
    }

    pub(crate) fn fence(order: Ordering) {
        match FENCES.get() {
            Fences::Kept => atomic::fence(order),
            Fences::Removed => {}
        }
    }

    /// `loom` lets a store of one thread slip in between what an exchange of another has read and
    /// what it writes (its issue 254). A store that is an exchange itself cannot.
    #[derive(Debug)]
    pub(crate) struct AtomicU64(atomic::AtomicU64);

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            Self(atomic::AtomicU64::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            self.0.swap(value, order);
        }

        pub(crate) fn swap(&self, value: u64, order: Ordering) -> u64 {
            self.0.swap(value, order)
        }

        pub(crate) fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
            self.0.fetch_or(bits, order)
        }
    }

    /// `loom` has none. What the standard library promises of its own: whoever sees the value
    /// sees what was done before it was set, and nobody has to see it at once.
    #[derive(Debug)]
    pub(crate) struct OnceLock<T> {
        is_set: AtomicBool,
        value: std::sync::OnceLock<T>,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self { is_set: AtomicBool::new(false), value: std::sync::OnceLock::new() }
        }

        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            self.value.set(value)?;
            self.is_set.store(true, Ordering::Release);
            Ok(())
        }

        pub(crate) fn get(&self) -> Option<&T> {
            self.is_set.load(Ordering::Acquire).then(|| self.value.get())?
        }
    }
}
