//! Which handler takes which messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use zcore::wire::{Kind, RouteHash};

use super::calls::route_of;
use super::handler::{Call, Handler, HandlerKind};
use crate::options::{ConfigError, ConfigErrors};

/// The handlers of a host, by topology and route.
#[derive(Default)]
pub(crate) struct Routes {
    by_route: BTreeMap<(u16, RouteHash), Route>,
}

impl core::fmt::Debug for Routes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { by_route } = self;
        f.debug_list().entries(by_route.values().map(|route| &route.name)).finish()
    }
}

/// A registered handler and its name in logs.
pub(crate) struct Route {
    pub(crate) name: Arc<str>,
    kind: HandlerKind,
    call: Arc<dyn Call>,
}

impl Routes {
    /// Registers the handlers of a channel.
    pub(crate) fn add(
        &mut self,
        topology: u16,
        channel: &str,
        handlers: Vec<(String, Handler)>,
        errors: &mut ConfigErrors,
    ) {
        for (name, handler) in handlers {
            if let Err(error) = self.add_one(topology, channel, &name, handler) {
                errors.push(error);
            }
        }
    }

    fn add_one(
        &mut self,
        topology: u16,
        channel: &str,
        name: &str,
        handler: Handler,
    ) -> Result<(), ConfigError> {
        let full: Arc<str> = format!("{channel}/{name}").into();
        let key = (topology, route_of(channel, name));
        if let Some(other) = self.by_route.get(&key) {
            // The same name twice, or two names with one hash: either way messages would go astray.
            let problem = format!("has the route of `{}`; use another name", other.name);
            return Err(ConfigError::new(&*full, problem));
        }
        let Handler { kind, call } = handler;
        self.by_route.insert(key, Route { name: full, kind, call });
        Ok(())
    }

    /// The handler of a record.
    pub(crate) fn find(
        &self,
        topology: u16,
        route: RouteHash,
        kind: Kind,
    ) -> Option<(Arc<str>, Arc<dyn Call>)> {
        let found = self.by_route.get(&(topology, route))?;
        let fits = match found.kind {
            HandlerKind::Send => kind == Kind::Send,
            HandlerKind::Request => kind == Kind::Request,
        };
        fits.then(|| (Arc::clone(&found.name), Arc::clone(&found.call)))
    }
}
