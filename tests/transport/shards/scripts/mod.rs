//! What a host relies on, one script for each thing.

pub(super) mod breaking;
pub(super) mod draining;
pub(super) mod flowing;
pub(super) mod pressure;
