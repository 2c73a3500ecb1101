//! Messages, requests and replies.

mod calls;
mod handler;
mod ingress;
mod message;
mod payload;
mod pending;
mod reply;
mod routes;

pub(crate) use calls::Target;
pub use calls::{Caller, Reply, RequestCall};
pub use handler::{Handler, IntoRequestHandler, IntoSendHandler, Rejection};
pub(crate) use ingress::HostIngress;
pub use message::Message;
pub use payload::{FromMessage, IntoPayload, Json, Mismatch, Payload};
pub(crate) use pending::Pending;
pub(crate) use routes::Routes;
