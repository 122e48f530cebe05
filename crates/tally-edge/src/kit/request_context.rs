//! One request, its caller and its times.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::isolate::{Datacenters, EdgeSettings};
use super::visitors::Visitor;
use tally_api::access::{Access, Caller, Right, origin_of_referrer};
use tally_api::keyed_routes::KeyRoom;
use tally_api::public::Rounding;
use tally_api::routes::{Route, is_gate};
use tally_core::callers::account::AccountId;
use tally_core::cluster::region::region_of;
use tally_core::counter::id::Datacenter;
use tally_core::counter::ledger::KeySource;
use tally_core::limit::owner::Owner;
use tally_host::http::{Context, Request};
use tally_host::{Host, State};
use tally_wire::audit::AuditEntry;
use tally_wire::messages::AddAuditEntry;
use tally_wire::names::CLIENT_ADDRESS_HEADER;
use tally_wire::problem::{Code, Problem};
use tally_wire::visitor::ClientAddress;

/// Headers by which a proxy identifies itself.
const FORWARDED: [&str; 3] = ["cf-connecting-ip", "x-forwarded-for", "x-real-ip"];

/// The numbers of this isolate's requests. The isolate's part is random, so that two isolates share no id.
struct RequestIds {
    isolate: u64,
    last: Cell<u64>,
}

impl State for RequestIds {
    fn begin(host: &Host) -> Self {
        Self {
            isolate: host.random(),
            last: Cell::new(0),
        }
    }
}

/// What an isolate does after a report of its counts, in that datacenter.
pub type AfterReport = fn(Host, Datacenter) -> LocalBoxFuture<'static, ()>;

/// One request of a client.
pub struct RequestContext {
    /// The request; its body can be read once.
    pub request: Box<dyn Request>,
    /// The platform, and the isolate's shared state.
    pub host: Host,
    settings: Rc<EdgeSettings>,
    background: Context,
    /// Called after each report.
    pub after_report: AfterReport,
    arrived_ms: i64,
    waited_ms: Cell<i64>,
    is_public: Cell<bool>,
    /// Whether the budgets of its address bound the caller.
    is_visitor: Cell<bool>,
    /// The party under which limits account for the caller.
    key_owner: Cell<Owner>,
    account: Cell<AccountId>,
    visitor: OnceCell<Visitor>,
    /// The caller, if it was identified before: by a share, or by a key that is looked up or has a budget.
    known_caller: OnceCell<Caller>,
    /// The state of the key's budget, as two headers.
    budget_headers: RefCell<Option<(String, Option<String>)>>,
    /// The entry of the audit log for this request, if there is one.
    audit_entry: RefCell<Option<AddAuditEntry>>,
    path: String,
    query: String,
    id: OnceCell<String>,
}

impl RequestContext {
    /// Parses a request.
    pub fn new(
        request: Box<dyn Request>,
        host: Host,
        background: Context,
        after_report: AfterReport,
    ) -> Self {
        let (path, query) = path_and_query(request.url());
        Self {
            path: path.to_owned(),
            query: query.to_owned(),
            arrived_ms: host.now_ms(),
            settings: EdgeSettings::of(&host),
            request,
            host,
            background,
            after_report,
            waited_ms: Cell::new(0),
            is_public: Cell::new(false),
            is_visitor: Cell::new(false),
            key_owner: Cell::default(),
            account: Cell::default(),
            visitor: OnceCell::new(),
            known_caller: OnceCell::new(),
            budget_headers: RefCell::default(),
            audit_entry: RefCell::default(),
            id: OnceCell::new(),
        }
    }

    /// The id of the request in its answer and in the log: 16 hexadecimal digits of the isolate, and a number.
    pub fn id(&self) -> &str {
        self.id.get_or_init(|| {
            let ids = self.host.state::<RequestIds>();
            ids.last.set(ids.last.get().wrapping_add(1));
            format!("{:016x}-{}", ids.isolate, ids.last.get())
        })
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

    /// The value of `If-Match` of a write.
    ///
    /// # Errors
    /// `invalid-precondition` for `If-None-Match`: if it were ignored, a write would be done that its client forbids.
    pub fn precondition(&self) -> Result<Option<String>, Problem> {
        if self.header("if-none-match").is_some() {
            let detail =
                "writes take `If-Match`; leave `If-None-Match` to reads; nothing was written";
            return Err(Problem::new(Code::InvalidPrecondition, detail));
        }
        Ok(self.header("if-match"))
    }

    /// Succeeds if the request has no precondition. For writes that read none: if it were ignored, a write would be
    /// done that its client forbids.
    ///
    /// # Errors
    /// `invalid-precondition`.
    pub fn refuse_preconditions(&self) -> Result<(), Problem> {
        let sent = [("if-match", "If-Match"), ("if-none-match", "If-None-Match")];
        let Some((_, name)) = sent.iter().find(|(name, _)| self.header(name).is_some()) else {
            return Ok(());
        };
        let detail = format!("this call takes no `{name}`: leave it out; nothing was written");
        Err(Problem::new(Code::InvalidPrecondition, detail))
    }

    /// The datacenter where the request entered: its colo or the region of that, or `LOCAL` where the platform names
    /// none.
    pub fn datacenter(&self) -> Datacenter {
        let datacenters = self.settings.datacenters();
        if datacenters == Datacenters::One {
            return Datacenter::local();
        }
        let colo = self.request.colo();
        match colo.and_then(|colo| Datacenter::parse(&colo)) {
            Some(colo) if datacenters == Datacenters::Regions => region_of(colo),
            Some(colo) => colo,
            None => Datacenter::local(),
        }
    }

    /// The jurisdiction in which all data is stored, if one is set.
    pub fn jurisdiction(&self) -> Option<&str> {
        self.settings.jurisdiction()
    }

    /// The access rules.
    ///
    /// # Errors
    /// As [`EdgeSettings::access`].
    pub fn access(&self) -> Result<Rc<Access>, Problem> {
        self.settings.access()
    }

    /// The caller.
    ///
    /// # Errors
    /// `not-configured`, `unauthorized`.
    pub fn caller(&self) -> Result<Caller, Problem> {
        if let Some(caller) = self.known_caller.get() {
            return Ok(caller.clone());
        }
        let authorization = self.header("authorization");
        let origin = self.page_header("origin");
        self.identified(authorization.as_deref(), origin.as_deref())
    }

    /// Stores the caller, who was identified.
    pub fn set_caller(&self, caller: Caller) {
        self.set_caller_kind(&caller);
        let _ = self.known_caller.set(caller);
    }

    fn set_caller_kind(&self, caller: &Caller) {
        self.is_public.set(caller.is_public());
        self.is_visitor.set(caller.is_visitor());
        self.key_owner.set(caller.owner());
        self.account.set(caller.writer_account());
    }

    /// Stores the state of the key's budget, as two headers.
    pub fn set_budget_headers(&self, policy: String, left: Option<String>) {
        self.budget_headers.replace(Some((policy, left)));
    }

    /// The state of the key's budget, if it has one.
    pub fn take_budget_headers(&self) -> Option<(String, Option<String>)> {
        self.budget_headers.take()
    }

    /// Stores the entry of the audit log.
    pub fn set_audit_entry(&self, entry: AddAuditEntry) {
        self.audit_entry.replace(Some(entry));
    }

    /// The entry of the audit log, if there is one.
    pub fn audit_entry(&self) -> Option<AddAuditEntry> {
        self.audit_entry.borrow().clone()
    }

    /// Changes the entry.
    pub fn change_audit_entry(&self, change: impl FnOnce(&mut AuditEntry)) {
        if let Some(entry) = &mut *self.audit_entry.borrow_mut() {
            change(&mut entry.entry);
        }
    }

    /// Whether there is an entry.
    pub fn has_audit_entry(&self) -> bool {
        self.audit_entry.borrow().is_some()
    }

    /// Takes the entry, once.
    pub fn take_audit_entry(&self) -> Option<AddAuditEntry> {
        self.audit_entry.take()
    }

    /// The caller, by a key that was not sent in the header.
    ///
    /// # Errors
    /// As [`Self::caller`].
    pub fn caller_with_key(&self, key: &str) -> Result<Caller, Problem> {
        let authorization = ["Bearer ", key].concat();
        let origin = self.page_header("origin");
        self.identified(Some(&authorization), origin.as_deref())
    }

    fn identified(
        &self,
        authorization: Option<&str>,
        origin: Option<&str>,
    ) -> Result<Caller, Problem> {
        let access = self.access()?;
        let caller = access.identify(authorization, origin, self.host.now_ms());
        if let Ok(caller) = &caller {
            self.set_caller_kind(caller);
        }
        caller
    }

    /// Whether the caller was identified and has no key.
    pub fn is_public(&self) -> bool {
        self.is_public.get()
    }

    /// Whether the caller was identified, and the budgets of its address bound it: it has no key, or a share.
    pub fn is_visitor(&self) -> bool {
        self.is_visitor.get()
    }

    /// The source of the caller's idempotency keys.
    pub fn keys(&self) -> KeySource {
        if self.is_public() {
            KeySource::Public
        } else {
            KeySource::Clients
        }
    }

    /// Whose room the caller's idempotency keys take.
    pub fn key_room(&self) -> KeyRoom {
        KeyRoom {
            source: self.keys(),
            account: self.account.get(),
        }
    }

    /// The account whose part of a table of writes the caller fills.
    pub fn account(&self) -> AccountId {
        self.account.get()
    }

    /// The party under which limits account for the caller's keys. To be called after [`Self::caller`].
    pub fn owner(&self) -> Owner {
        if self.is_public() {
            self.visitor().owner()
        } else {
            self.key_owner.get()
        }
    }

    /// The caller as a limited visitor. To be called after [`Self::caller`].
    pub fn visitor(&self) -> &Visitor {
        self.visitor.get_or_init(|| {
            let host = self.host.clone();
            match self.is_visitor() {
                true => Visitor::at(host, &self.address_bytes()),
                false => Visitor::unlimited(host),
            }
        })
    }

    /// Succeeds where the request may be handled: a deployment without keys serves this machine only.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn check_local(&self) -> Result<(), Problem> {
        // An unreadable configuration is reported where keys are needed.
        let Ok(access) = self.access() else {
            return Ok(());
        };
        let site = self.page_header("sec-fetch-site");
        access.check_local(host_of(self.request.url()), site.as_deref(), || self.page())
    }

    /// A header by which a browser says which page sends a request. A proxy that asks the gate sends those of its own
    /// client: they say nothing of who asks.
    fn page_header(&self, name: &str) -> Option<String> {
        let header = (!is_gate(self.path())).then(|| self.header(name));
        header.flatten()
    }

    /// The origin of the page: from `Referer` where there is no `Origin`, as for images.
    fn page(&self) -> Option<String> {
        let referrer = || self.header("referer");
        let of_referrer = || origin_of_referrer(&referrer()?).map(str::to_owned);
        self.header("origin").or_else(of_referrer)
    }

    /// The caller, if it may make a call.
    ///
    /// # Errors
    /// As [`Self::caller`] and [`Caller::may_begin`].
    pub fn caller_with(&self, route: &Route) -> Result<Caller, Problem> {
        let caller = match route.right() {
            Right::Everybody => Caller::nobody(),
            Right::Image(..) => self.caller_of_image()?,
            _ => self.caller()?,
        };
        caller.may_begin(route)?;
        Ok(caller)
    }

    /// The caller of an image, which is requested without an `Origin`: its `Referer` is used instead.
    ///
    /// # Errors
    /// As [`Self::caller`].
    fn caller_of_image(&self) -> Result<Caller, Problem> {
        if let Some(caller) = self.known_caller.get() {
            return Ok(caller.clone());
        }
        let authorization = self.header("authorization");
        let page = self.page();
        self.identified(authorization.as_deref(), page.as_deref())
    }

    /// The rounding of the uniques in this client's answers. Answers are shared only among clients with the same
    /// rounding.
    ///
    /// # Errors
    /// `not-configured`, `unauthorized`.
    pub fn rounding(&self) -> Result<Rounding, Problem> {
        let rounding = self.settings.rounding()?;
        // The caller is looked up again only if it matters.
        if rounding.is_off() || self.caller()?.has_key() {
            return Ok(Rounding::OFF);
        }
        Ok(rounding)
    }

    /// The address of the client, empty where it is unknown. Its length identifies its family.
    pub fn address_bytes(&self) -> Vec<u8> {
        let address = self.address().ok();
        address.map_or_else(Vec::new, |address| address.as_bytes().to_vec())
    }

    /// The client's address: from the header that a setting names; else from the connection, which plain workerd gives;
    /// else from Cloudflare's header. In that order, because any client can send a header.
    ///
    /// # Errors
    /// `no-client-address` where there is none.
    pub fn address(&self) -> Result<ClientAddress, Problem> {
        if let Some(named) = self.settings.address_header() {
            let value = self.header(named);
            return value.and_then(|value| ClientAddress::of_header(&value)).ok_or_else(|| {
                no_address(&format!(
                    "{CLIENT_ADDRESS_HEADER} names the header `{named}`, which this request does not have, or not with an address; \
                     have the proxy in front set it"
                ))
            });
        }
        let of_connection = self.request.client_address();
        let parsed = match &of_connection {
            Some(text) => ClientAddress::parse(text),
            None => ClientAddress::parse(&self.header("cf-connecting-ip").unwrap_or_default()),
        };
        let address = parsed.ok_or_else(|| {
            no_address(&format!(
                "the platform does not say it; set {CLIENT_ADDRESS_HEADER} to the header that the proxy in front writes it \
                 into, or send the visitor's `ip` and `user_agent`"
            ))
        })?;
        // All visitors behind a proxy would count as one.
        if of_connection.is_some() && address.is_loopback() {
            let forwarded = FORWARDED.iter().find(|name| self.header(name).is_some());
            if let Some(name) = forwarded {
                return Err(no_address(&format!(
                    "a proxy on this machine sends `{name}`; set {CLIENT_ADDRESS_HEADER} to it if clients cannot write it themselves"
                )));
            }
        }
        Ok(address)
    }

    /// When the request arrived, unix milliseconds.
    pub fn arrived_ms(&self) -> i64 {
        self.arrived_ms
    }

    /// How long ago the request arrived, in milliseconds. The platform advances the clock only at I/O, so computation
    /// since the last await is not included.
    pub fn age_ms(&self) -> i64 {
        self.host.now_ms().saturating_sub(self.arrived_ms).max(0)
    }

    /// How much of that it waited for cells, roots and the aggregator.
    pub fn waited_ms(&self) -> i64 {
        self.waited_ms.get()
    }

    /// Counts the time from now until this is dropped as waited. One at a time, otherwise it is counted twice.
    pub fn waiting(&self) -> WaitTimer<'_> {
        WaitTimer {
            context: self,
            since_ms: self.host.now_ms(),
        }
    }

    /// Lets work continue after the answer, even if the client is gone.
    pub fn wait_until(&self, future: impl Future<Output = ()> + 'static) {
        self.background.wait_until(future);
    }
}

fn no_address(why: &str) -> Problem {
    Problem::new(Code::NoClientAddress, why)
}

/// A wait that is under way.
pub struct WaitTimer<'a> {
    context: &'a RequestContext,
    since_ms: i64,
}

impl Drop for WaitTimer<'_> {
    fn drop(&mut self) {
        let waited_ms = self
            .context
            .host
            .now_ms()
            .saturating_sub(self.since_ms)
            .max(0);
        let all_ms = self.context.waited_ms.get().saturating_add(waited_ms);
        self.context.waited_ms.set(all_ms);
    }
}

/// The host of an absolute URL, with its port where it has one.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// The path and the query of an absolute URL, without its fragment.
fn path_and_query(url: &str) -> (&str, &str) {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let rest = &url[after_scheme..];
    let rest = &rest[rest.find('/').unwrap_or(rest.len())..];
    let rest = rest.split('#').next().unwrap_or_default();
    rest.split_once('?').unwrap_or((rest, ""))
}
