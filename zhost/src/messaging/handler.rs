//! Handlers: what the user wrote, with its types erased.

use core::fmt;
use core::future::Future;
use std::sync::Arc;

use zcore::wire::Fault;
use ztransport::Permit;

use super::message::Message;
use super::payload::{FromMessage, IntoPayload};
use super::reply::Duty;
use crate::dispatch::{HandlerFuture, Start};

/// A handler's refusal: the caller gets [`crate::ErrorKind::Rejected`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rejection;

/// Whether a handler answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HandlerKind {
    /// It takes one-way messages.
    Send,
    /// It takes requests.
    Request,
}

/// A registered handler.
pub struct Handler {
    pub(crate) kind: HandlerKind,
    pub(crate) call: Arc<dyn Call>,
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, call: _ } = self;
        f.debug_struct("Handler").field("kind", kind).finish_non_exhaustive()
    }
}

/// Starts a handler.
pub(crate) trait Call: Send + Sync {
    /// Decodes, returns the permit, and calls the user's code: in this order, so that nothing lies
    /// between the last two (B-11).
    fn start(&self, message: Message, permit: Permit, duty: Duty) -> HandlerFuture;
}

/// Becomes a handler of one-way messages. `M` is what it takes.
pub trait IntoSendHandler<M> {
    /// Erases the types.
    fn into_handler(self) -> Handler;
}

/// Becomes a handler of requests. `M` is what it takes.
pub trait IntoRequestHandler<M> {
    /// Erases the types.
    fn into_handler(self) -> Handler;
}

struct SendCall<F>(F);

struct RequestCall<F>(F);

/// A handler's code, for what it takes; the type of its argument lives in the trait objects only.
struct Typed<C, M> {
    call: C,
    takes: core::marker::PhantomData<fn(M)>,
}

impl<F, M, Answer> IntoSendHandler<M> for F
where
    F: Fn(M) -> Answer + Send + Sync + 'static,
    M: FromMessage + 'static,
    Answer: Future<Output = ()> + Send + 'static,
{
    fn into_handler(self) -> Handler {
        let typed = Typed { call: SendCall(self), takes: core::marker::PhantomData };
        Handler { kind: HandlerKind::Send, call: Arc::new(typed) }
    }
}

impl<F, M, Answer, R> IntoRequestHandler<M> for F
where
    F: Fn(M) -> Answer + Send + Sync + 'static,
    M: FromMessage + 'static,
    Answer: Future<Output = Result<R, Rejection>> + Send + 'static,
    R: IntoPayload + Send + 'static,
{
    fn into_handler(self) -> Handler {
        let typed = Typed { call: RequestCall(self), takes: core::marker::PhantomData };
        Handler { kind: HandlerKind::Request, call: Arc::new(typed) }
    }
}

impl<F, M, Answer> Call for Typed<SendCall<F>, M>
where
    F: Fn(M) -> Answer + Send + Sync,
    M: FromMessage,
    Answer: Future<Output = ()> + Send + 'static,
{
    fn start(&self, message: Message, permit: Permit, mut duty: Duty) -> HandlerFuture {
        let Ok(value) = M::from_message(message) else {
            return Box::pin(duty.fail(Fault::TypeMismatch));
        };
        duty.begin();
        permit.start();
        let running = (self.call.0)(value);
        Box::pin(async move {
            running.await;
            duty.done();
        })
    }
}

impl<F, M, Answer, R> Call for Typed<RequestCall<F>, M>
where
    F: Fn(M) -> Answer + Send + Sync,
    M: FromMessage,
    Answer: Future<Output = Result<R, Rejection>> + Send + 'static,
    R: IntoPayload + Send + 'static,
{
    fn start(&self, message: Message, permit: Permit, mut duty: Duty) -> HandlerFuture {
        let Ok(value) = M::from_message(message) else {
            return Box::pin(duty.fail(Fault::TypeMismatch));
        };
        duty.begin();
        permit.start();
        let running = (self.call.0)(value);
        Box::pin(async move {
            match running.await.map(IntoPayload::into_payload) {
                Ok(Ok(payload)) => duty.reply(payload).await,
                Ok(Err(_)) => duty.fail(Fault::InternalFailure).await,
                Err(Rejection) => duty.fail(Fault::Rejected).await,
            }
        })
    }
}

/// A message that has its permit, for an executor.
pub(crate) struct HandlerJob {
    pub(crate) name: Arc<str>,
    pub(crate) call: Arc<dyn Call>,
    pub(crate) message: Message,
    pub(crate) permit: Permit,
    pub(crate) duty: Duty,
}

impl Start for HandlerJob {
    fn start(self: Box<Self>) -> HandlerFuture {
        let Self { name: _, call, message, permit, duty } = *self;
        call.start(message, permit, duty)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
