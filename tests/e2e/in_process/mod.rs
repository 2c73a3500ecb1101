//! Several hosts in one process, over real sockets.

mod bursts;
mod neighbours;
mod replies;
mod stages;
mod world;
