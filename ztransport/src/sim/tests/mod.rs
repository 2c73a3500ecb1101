//! The simulated network keeps the contract of a driver, and does what its faults say.

mod contract;
mod faults;
mod lab;
mod resets;
mod scripts;
mod shards;
mod transfers;
