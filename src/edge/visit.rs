//! One request and what is known of it.

use std::cell::Cell;
use std::rc::Rc;

use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::web_sys::Request;
use worker::{Context, Env};

use super::incoming::Incoming;
use super::isolate::Datacenters;
use super::{body, isolate};
use crate::cluster::region::region_of;
use crate::counter::id::Datacenter;
use crate::platform::clock::now_ms;
use crate::protocol::access::{Caller, origin_of_referrer};
use crate::protocol::problem::Problem;

#[wasm_bindgen]
extern "C" {
    /// A request as the platform gives it. The SDK's `Cf` panics where there is no colo, as on plain
    /// workerd.
    type Located;

    #[wasm_bindgen(method, getter)]
    fn cf(this: &Located) -> Option<Facts>;

    type Facts;

    #[wasm_bindgen(method, getter)]
    fn colo(this: &Facts) -> Option<String>;
}

/// One request of a client.
pub struct Visit {
    /// The request; its body can be read once.
    pub request: Incoming,
    /// Bindings.
    pub env: Env,
    context: Rc<Context>,
    arrived_ms: i64,
    waited_ms: Cell<i64>,
    path: String,
    query: String,
}

impl Visit {
    /// Takes a request apart.
    pub fn new(request: Request, env: Env, context: Context) -> Self {
        let request = Incoming::new(request);
        let (path, query) = path_and_query(request.url());
        Self {
            path: path.to_owned(),
            query: query.to_owned(),
            request,
            env,
            context: Rc::new(context),
            arrived_ms: now_ms(),
            waited_ms: Cell::new(0),
        }
    }

    /// The method, upper case.
    pub fn method(&self) -> &str {
        self.request.method()
    }

    /// The path as it stands in the URL, percent-encoded.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query without its question mark, percent-encoded.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<String> {
        self.request.header(name)
    }

    /// Where the request entered: `cf.colo` or its region, or `LOCAL` where the platform gives none. Its `cf` is JSON that
    /// is parsed at the first look: 7 µs even where it holds no more than an address.
    pub fn datacenter(&self) -> Datacenter {
        let datacenters = isolate::datacenters(&self.env);
        if datacenters == Datacenters::One {
            return Datacenter::local();
        }
        let cf = self.request.raw.unchecked_ref::<Located>().cf();
        let colo = cf.and_then(|cf| cf.colo());
        match colo.and_then(|colo| Datacenter::parse(&colo)) {
            Some(colo) if datacenters == Datacenters::Regions => region_of(colo),
            Some(colo) => colo,
            None => Datacenter::local(),
        }
    }

    /// Who asks.
    ///
    /// # Errors
    /// `not-configured`, `unauthorized`.
    pub fn caller(&self) -> Result<Caller, Problem> {
        let access = isolate::access(&self.env)?;
        let authorization = self.header("authorization");
        let origin = self.header("origin");
        access.identify(authorization.as_deref(), origin.as_deref())
    }

    /// Who asks for an image, which is sent without an `Origin`: its `Referer` stands for it.
    ///
    /// # Errors
    /// As [`Self::caller`].
    pub fn caller_of_image(&self) -> Result<Caller, Problem> {
        let access = isolate::access(&self.env)?;
        let authorization = self.header("authorization");
        let referrer = self.header("referer");
        let origin = self.header("origin");
        let origin = origin.as_deref();
        let origin = origin.or_else(|| referrer.as_deref().and_then(origin_of_referrer));
        access.identify(authorization.as_deref(), origin)
    }

    /// How long ago the request arrived, in milliseconds. The platform moves the clock only when I/O
    /// happens, so what was computed since the last await is not in it.
    pub fn age_ms(&self) -> i64 {
        now_ms().saturating_sub(self.arrived_ms).max(0)
    }

    /// How much of that it waited for cells, roots and the aggregator.
    pub fn waited_ms(&self) -> i64 {
        self.waited_ms.get()
    }

    /// Notes the time from now until it is dropped as waited. One at a time, or it is noted twice.
    pub fn waiting(&self) -> Waiting<'_> {
        Waiting {
            visit: self,
            since_ms: now_ms(),
        }
    }

    /// Lets work go on after the answer, even if the client is gone.
    pub fn wait_until(&self, future: impl Future<Output = ()> + 'static) {
        self.context.wait_until(future);
    }

    /// Reads the rest of a body that was refused, up to a limit, and throws it away.
    pub async fn drain(&self) {
        body::drain(&self.request).await;
    }
}

/// A wait that is under way.
pub struct Waiting<'a> {
    visit: &'a Visit,
    since_ms: i64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited_ms = now_ms().saturating_sub(self.since_ms).max(0);
        let all_ms = self.visit.waited_ms.get().saturating_add(waited_ms);
        self.visit.waited_ms.set(all_ms);
    }
}

/// The path and the query of an absolute URL, without its fragment.
fn path_and_query(url: &str) -> (&str, &str) {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let rest = &url[after_scheme..];
    let rest = &rest[rest.find('/').unwrap_or(rest.len())..];
    let rest = rest.split('#').next().unwrap_or_default();
    rest.split_once('?').unwrap_or((rest, ""))
}
