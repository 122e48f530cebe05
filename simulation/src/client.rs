//! Clients: what they ask, and what they see.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tally_host::http::{Body, Response};

use crate::core::Core;
use crate::history::Call;
use crate::isolate::{Isolate, Role};
use crate::network::Site;
use crate::one_shot::OneShot;
use crate::request::{ClientRequest, Incoming};
use crate::streams::{Carrier, Received};

/// How long a client waits for an answer, milliseconds.
const ANSWER_MS_MAX: u64 = 120_000;

/// Why a client has no answer. Whether the service has done what was asked is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAnswer(pub String);

impl fmt::Display for NoAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no answer: {}", self.0)
    }
}

impl std::error::Error for NoAnswer {}

/// An answer, as a client sees it.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, in order, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body, where that is no stream.
    pub body: Vec<u8>,
    /// Its stream, where it is one.
    pub live: Option<Live>,
}

impl Answer {
    fn new(response: Response, client: Site, core: &Rc<Core>) -> Self {
        let named = |(name, value): (&str, &str)| (name.to_ascii_lowercase(), value.to_owned());
        let headers = response.headers().map(named);
        let mut answer = Self {
            status: response.head.status,
            headers: headers.collect(),
            body: Vec::new(),
            live: None,
        };
        match response.body {
            Body::Empty => {}
            Body::Text(text) => answer.body = text.as_bytes().to_vec(),
            Body::Bytes(bytes) => answer.body = bytes.into_owned(),
            Body::Pieces(_) => unreachable!("the edge has collected it"),
            Body::Stream(stream) | Body::Socket(stream) => {
                let carrier = stream.carrier.downcast::<Carrier>();
                let carrier = carrier.expect("streams are made here alone");
                match &*carrier {
                    Carrier::Refusal(why) => answer.body = why.clone().into_bytes(),
                    Carrier::Socket(_) | Carrier::Events(_) => {
                        carrier.set_client(client);
                        answer.live = Some(Live {
                            core: core.clone(),
                            carrier,
                        });
                    }
                }
            }
        }
        answer
    }

    /// A header's value; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text; what is no UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; `null` where it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A stream, as a client sees it. Whoever drops it hangs up.
pub struct Live {
    core: Rc<Core>,
    carrier: Rc<Carrier>,
}

impl fmt::Debug for Live {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Live({} texts)", self.received().len())
    }
}

impl Live {
    /// All that has come so far.
    pub fn received(&self) -> Vec<Received> {
        let arrivals = self.carrier.arrivals();
        arrivals
            .map(|arrivals| arrivals.received.borrow().clone())
            .unwrap_or_default()
    }

    /// All that [`Live::next`] and this have not given yet.
    pub fn take(&self) -> Vec<Received> {
        let Some(arrivals) = self.carrier.arrivals() else {
            return Vec::new();
        };
        let received = arrivals.received.borrow();
        let taken = arrivals.taken.replace(received.len());
        received[taken..].to_vec()
    }

    /// The next text that [`Live::next`] has not given yet; `None` once the stream is closed.
    pub async fn next(&self) -> Option<Received> {
        let arrivals = self.carrier.arrivals()?.clone();
        poll_fn(move |context| {
            let taken = arrivals.taken.get();
            if let Some(received) = arrivals.received.borrow().get(taken) {
                arrivals.taken.set(taken + 1);
                return Poll::Ready(Some(received.clone()));
            }
            if arrivals.closed.borrow().is_some() {
                return Poll::Ready(None);
            }
            *arrivals.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// As [`Live::next`]; `None` also where nothing comes within a time.
    pub async fn next_within_ms(&self, milliseconds: u64) -> Option<Received> {
        let next = std::pin::pin!(self.next());
        let sleep = self.core.executor.sleep(milliseconds * 1_000);
        match futures_util::future::select(next, sleep).await {
            futures_util::future::Either::Left((received, _)) => received,
            futures_util::future::Either::Right(_) => None,
        }
    }

    /// Says a text.
    pub fn send(&self, text: &str) {
        self.carrier.send(Some(text.to_owned()));
    }

    /// Says bytes.
    pub fn send_bytes(&self) {
        self.carrier.send(None);
    }

    /// Closes a socket. [`Live::closed`] tells when the object has answered that.
    pub fn close(&self, code: u16, reason: &str) {
        self.carrier.close(code, reason);
    }

    /// The code and reason that the stream was closed with; [`crate::BROKEN`] where it broke.
    pub fn closed(&self) -> Option<(u16, String)> {
        let arrivals = self.carrier.arrivals()?;
        arrivals.closed.borrow().clone()
    }

    /// Takes no more events for now, or takes all: whoever sends them sees it.
    pub fn pause(&self, is_paused: bool) {
        self.carrier.pause(is_paused);
    }
}

/// A client at a site.
#[derive(Clone)]
pub struct Client {
    pub(crate) core: Rc<Core>,
    pub(crate) site: Site,
    pub(crate) address: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Client {
    /// With a header in each request.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a key in each request.
    pub fn with_key(self, key: &str) -> Self {
        self.with_header("authorization", &format!("Bearer {key}"))
    }

    /// From another address.
    pub fn from_address(mut self, address: &str) -> Self {
        self.address = address.to_owned();
        self
    }

    /// `GET`.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn get(&self, path: &str) -> Result<Answer, NoAnswer> {
        self.ask(ClientRequest::new("GET", path)).await
    }

    /// `POST` of JSON; without a body where that is empty.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn post(&self, path: &str, json: &str) -> Result<Answer, NoAnswer> {
        let ask = ClientRequest::new("POST", path);
        self.ask(if json.is_empty() { ask } else { ask.json(json) })
            .await
    }

    /// Makes a request of an edge of its site. Whoever drops the future hangs up: the handler ends, what it lets go
    /// on does not.
    ///
    /// # Errors
    /// Where no answer comes.
    pub async fn ask(&self, mut ask: ClientRequest) -> Result<Answer, NoAnswer> {
        let core = &self.core;
        ask.headers.extend(self.headers.iter().cloned());
        let edges = core.isolates(Role::Edge, self.site, 0);
        assert!(!edges.is_empty(), "the site has no edge: give it one");
        let chosen = ask.edge.unwrap_or_else(|| core.chance.pick(edges.len()));
        let edge = edges[chosen % edges.len()].clone();
        let call = Call::begin(core, &ask, &core.network.name(self.site));
        let slot = OneShot::new();
        let hangs_up = HangsUp {
            core: core.clone(),
            task: Rc::default(),
        };
        let name = format!("{} {}", ask.method, ask.path);
        core.record(|| format!("client   {name} to {}", edge.label));
        let way_back = WayBack {
            core: core.clone(),
            site: self.site,
            name,
            slot: Some(slot.clone()),
        };
        let incoming = Incoming::new(
            ask,
            core.network.name(self.site),
            &self.address,
            &core.executor,
        );
        let is_lost = core.chance.once_in(core.faults.get().loses_client_once_in);
        let delay_us = core.network.delay_us(self.site, self.site, &core.chance);
        let (known, task) = (core.clone(), hangs_up.task.clone());
        core.after(delay_us, move || {
            if is_lost {
                return way_back.fail("the request got lost");
            }
            known.serve(&edge, incoming, way_back, &task);
        });
        let sleep = core.executor.sleep(ANSWER_MS_MAX * 1_000);
        let answered = std::pin::pin!(slot.wait());
        let outcome = match futures_util::future::select(answered, sleep).await {
            futures_util::future::Either::Left((outcome, _)) => outcome,
            futures_util::future::Either::Right(_) => {
                Err(NoAnswer(format!("none came within {ANSWER_MS_MAX} ms")))
            }
        };
        drop(hangs_up);
        if let Some(call) = call {
            call.end(&outcome);
        }
        outcome
    }
}

/// Ends the handler of a request whose client is gone.
struct HangsUp {
    core: Rc<Core>,
    task: Rc<Cell<Option<u64>>>,
}

impl Drop for HangsUp {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            let core = self.core.clone();
            let known = core.clone();
            core.after(0, move || drop(known.executor.take_task(task)));
        }
    }
}

/// The way back to a client.
pub(crate) struct WayBack {
    core: Rc<Core>,
    site: Site,
    name: String,
    slot: Option<Rc<OneShot<Result<Answer, NoAnswer>>>>,
}

impl WayBack {
    fn answer(mut self, response: Response) {
        let Some(slot) = self.slot.take() else { return };
        let (core, site, name) = (self.core.clone(), self.site, std::mem::take(&mut self.name));
        let is_lost = core.chance.once_in(core.faults.get().loses_client_once_in);
        let delay_us = core.network.delay_us(site, site, &core.chance);
        let known = core.clone();
        core.after(delay_us, move || {
            let status = response.head.status;
            let answer = Answer::new(response, site, &known);
            known.record(|| format!("client   {name} is answered {status}, lost: {is_lost}"));
            slot.fill(match is_lost {
                true => Err(NoAnswer("the answer got lost".to_owned())),
                false => Ok(answer),
            });
        });
    }

    fn fail(mut self, why: &str) {
        if let Some(slot) = self.slot.take() {
            slot.fill(Err(NoAnswer(why.to_owned())));
        }
    }
}

impl Drop for WayBack {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        if !self.core.is_closing() {
            let failed = NoAnswer("the edge has crashed".to_owned());
            self.core.after(0, move || slot.fill(Err(failed)));
        }
    }
}

impl Core {
    fn serve(
        self: &Rc<Self>,
        edge: &Rc<Isolate>,
        incoming: Incoming,
        way_back: WayBack,
        task: &Rc<Cell<Option<u64>>>,
    ) {
        self.journal.count(|figures| figures.requests += 1);
        self.record(|| format!("request  {} at {}", way_back.name, edge.label));
        let handler = self.edge_handler();
        let (host, context, request) = self.enter(edge);
        let ended = task.clone();
        let work = async move {
            let mut response = handler(Box::new(incoming), host, context).await;
            if matches!(response.body, Body::Pieces(_))
                && let Body::Pieces(mut pieces) = std::mem::replace(&mut response.body, Body::Empty)
            {
                let mut all = Vec::new();
                while let Ok(Some(piece)) = pieces.next().await {
                    all.extend(piece);
                }
                response.body = Body::Bytes(all.into());
            }
            ended.set(None);
            way_back.answer(response);
        };
        task.set(Some(self.executor.spawn(
            edge.owner(),
            request,
            Box::pin(work),
        )));
    }
}
