//! Two nodes and their pair: which dial becomes it, what a late hello does to it, and what is
//! certain of its records once it is gone.
//!
//! `rule` and `claims` state the two pure functions over everything that they depend on. `meeting`
//! lets two nodes meet in every way that a few dials, losses and restarts allow.
//!
//! # Mutants
//!
//! Each of these changes was made by hand to `zcore`, and made a test fail:
//!
//! * rule: a stale hello joins; a newer one does not replace; the larger node's dial stays; a silent
//!   dial stays; a former run wins against a pair;
//! * acquaintance: an acceptor does not raise the generation; a dial does not; an agreed generation
//!   is not heard; what was accepted counts as agreed;
//! * claims: the message behind the claimed ones is claimed, too; a statement of another run or of
//!   another generation counts; a claim above what was given is believed; a loss that was told is
//!   counted again.

mod claims;
mod meeting;
mod nodes;
mod rule;
