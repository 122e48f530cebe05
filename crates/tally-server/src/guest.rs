//! The platform as a Worker, or an object, sees it: the traits of `tally_host`.

use std::rc::Rc;
use std::time::Duration;

use futures_channel::oneshot;
use tally_host::metrics::ProcessMetrics;
use tally_host::object::{Events, IncomingCall, ObjectPlatform, Rows, Socket, SqlValue};
use tally_host::{File, Files, Later, Level, Platform, Stream, Target};
use tally_wire::alerts::Outgoing;
use tally_wire::names::{Placement, ROLE, ROLE_AGGREGATOR};
use tracing::{error, warn};

use super::event_writer;
use super::far::Answer;
use super::ground::Ground;
use super::pages;
use super::place::{Home, Place};
use super::socket;
use super::store::folder::FileFolder;

/// How the setting of the role calls an edge.
const ROLE_EDGE: &str = "edge";

/// What an object has of its place.
#[derive(Clone)]
struct Seat {
    place: Rc<Place>,
    /// The incarnation: one that has ended does nothing any more.
    number: u64,
}

/// One Worker's, or one incarnation's, view of the platform.
#[derive(Clone)]
pub(crate) struct Guest {
    ground: Rc<Ground>,
    home: Rc<dyn Home>,
    role: &'static str,
    seat: Option<Seat>,
}

impl Guest {
    fn new(home: Rc<dyn Home>, role: &'static str, seat: Option<Seat>) -> Self {
        let ground = home.ground().clone();
        Self {
            ground,
            home,
            role,
            seat,
        }
    }

    pub(crate) fn of_edge(home: Rc<dyn Home>) -> Self {
        Self::new(home, ROLE_EDGE, None)
    }

    pub(crate) fn of_aggregator(home: Rc<dyn Home>) -> Self {
        Self::new(home, ROLE_AGGREGATOR, None)
    }

    pub(crate) fn of_object(place: &Rc<Place>, number: u64) -> Self {
        let seat = Seat {
            place: place.clone(),
            number,
        };
        Self::new(place.home.clone(), ROLE_AGGREGATOR, Some(seat))
    }

    /// Sends something out: from an object only once its writes are durable.
    fn release(&self, action: impl FnOnce() + 'static) {
        match &self.seat {
            Some(seat) => seat.place.release(seat.number, action),
            None => action(),
        }
    }

    /// The place, of an incarnation that runs.
    fn place(&self) -> Result<&Rc<Place>, String> {
        match &self.seat {
            Some(seat) if seat.place.is_alive(seat.number) => Ok(&seat.place),
            Some(_) => Err("this incarnation of the object is over".to_owned()),
            None => Err("a Worker has no storage".to_owned()),
        }
    }

    async fn call(self, to: Target, arrived: IncomingCall) -> Answer {
        let (answer, answered) = oneshot::channel();
        let home = self.home.clone();
        self.release(move || home.deliver(to, arrived, answer));
        let failed = || "the receiver has failed".to_owned();
        answered.await.map_err(|_| failed())?.answer().await
    }

    /// Runs work once this object's writes are durable.
    fn released<T: 'static>(
        &self,
        work: impl Future<Output = Result<T, String>> + 'static,
    ) -> Later<Result<T, String>> {
        let (go, gone) = oneshot::channel::<()>();
        self.release(move || {
            let _ = go.send(());
        });
        Box::pin(async move {
            gone.await.map_err(|_| "the object has failed".to_owned())?;
            work.await
        })
    }
}

impl Platform for Guest {
    fn now_ms(&self) -> i64 {
        self.ground.clock.now_ms()
    }

    fn random(&self) -> u64 {
        match self.ground.randomness.bits() {
            Ok(bits) => bits,
            Err(why) => self
                .ground
                .end_at_once(&format!("the system has no randomness: {why}")),
        }
    }

    fn fill_secret(&self, secret: &mut [u8]) -> Result<(), String> {
        getrandom::fill(secret).map_err(|error| error.to_string())
    }

    fn sleep(&self, milliseconds: u64) -> Later<()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(milliseconds)))
    }

    fn wakes_requests(&self) -> bool {
        true
    }

    fn closes_at_need(&self) -> bool {
        true
    }

    fn metrics(&self) -> Option<&ProcessMetrics> {
        let metrics = &self.ground.metrics;
        Some(match self.role {
            ROLE_EDGE => &metrics.edges,
            _ => &metrics.objects,
        })
    }

    fn setting(&self, name: &str) -> Option<String> {
        match name {
            ROLE => Some(self.role.to_owned()),
            _ => self.ground.settings.get(name),
        }
    }

    fn send(
        &self,
        to: Target,
        protocol: u8,
        path: &'static str,
        message: Vec<u8>,
    ) -> Later<Result<Vec<u8>, String>> {
        let arrived = IncomingCall {
            protocol,
            path: path.to_owned(),
            message,
            upgrade: None,
        };
        let call = self.clone().call(to, arrived);
        Box::pin(async move { call.await?.into_bytes() })
    }

    fn open(
        &self,
        to: Placement,
        protocol: u8,
        path: &'static str,
        message: Vec<u8>,
        upgrade: Option<String>,
    ) -> Later<Result<Stream, String>> {
        let arrived = IncomingCall {
            protocol,
            path: path.to_owned(),
            message,
            upgrade,
        };
        let call = self.clone().call(Target::Object(to), arrived);
        let refused = |status: u16, why: String| Stream {
            status,
            carrier: Rc::new(why),
        };
        Box::pin(async move { call.await?.into_stream(refused) })
    }

    /// The deployment's own inboxes hold what is queued.
    fn has_queue(&self) -> bool {
        false
    }

    fn enqueue(&self, _messages: Rc<[Vec<u8>]>) -> Later<Result<(), String>> {
        Box::pin(std::future::ready(Err(
            "this server has no queue of a platform".to_owned(),
        )))
    }

    fn post(&self, request: Outgoing) -> Later<Result<u16, String>> {
        self.released(self.ground.webhooks.post(request))
    }

    fn file(&self, name: &str) -> Result<Option<File>, String> {
        Ok(pages::find(name))
    }

    fn files(&self) -> Option<Rc<dyn Files>> {
        Some(Rc::new(self.clone()))
    }

    fn log(&self, level: Level, text: &str) {
        match level {
            Level::Warning => warn!("{text}"),
            Level::Error => error!("{text}"),
        }
    }
}

impl Files for Guest {
    fn put(&self, name: &str, bytes: Vec<u8>) -> Later<Result<(), String>> {
        self.released(FileFolder::of(&self.ground.files).put(name, bytes))
    }

    fn get(&self, name: &str) -> Later<Result<Option<Vec<u8>>, String>> {
        self.released(FileFolder::of(&self.ground.files).get(name))
    }

    fn list(&self, folder: &str) -> Later<Result<Vec<String>, String>> {
        self.released(FileFolder::of(&self.ground.files).list(folder))
    }

    fn delete(&self, name: &str) -> Later<Result<(), String>> {
        self.released(FileFolder::of(&self.ground.files).delete(name))
    }
}

impl ObjectPlatform for Guest {
    fn id(&self) -> String {
        self.seat
            .as_ref()
            .map_or_else(String::new, |seat| seat.place.id.clone())
    }

    fn is_at(&self, placement: &Placement) -> bool {
        self.seat.as_ref().is_some_and(|seat| {
            let key = &seat.place.key;
            (key.class.binding(), &*key.name) == (placement.binding, placement.name.as_str())
        })
    }

    fn wait_until(&self, work: Later<()>) {
        if let Some(seat) = &self.seat {
            seat.place.spawn_for(seat.number, work);
        }
    }

    fn run(&self, statement: &str, values: Vec<SqlValue>) -> Result<Rows, String> {
        let place = self.place()?;
        let ran = place.database.run(statement, &values);
        place.plan_commit();
        ran
    }

    fn database_bytes(&self) -> u64 {
        self.seat
            .as_ref()
            .map_or(0, |seat| seat.place.database.bytes())
    }

    fn atomically(&self, body: &mut dyn FnMut() -> bool) -> Result<(), String> {
        let place = self.place()?;
        let ended = place.database.atomically(body);
        place.plan_commit();
        ended
    }

    fn sync(&self) -> Later<Result<(), String>> {
        let number = self.seat.as_ref().map_or(0, |seat| seat.number);
        match self.place() {
            Ok(place) => Box::pin(place.sync(number)),
            Err(why) => Box::pin(std::future::ready(Err(why))),
        }
    }

    fn delete_all(&self) -> Later<Result<(), String>> {
        let deleted = self.place().and_then(|place| {
            place.database.delete_all()?;
            place.alarm.set(None)?;
            place.database.touch();
            place.plan_commit();
            Ok(())
        });
        Box::pin(std::future::ready(deleted))
    }

    fn alarm(&self) -> Later<Result<Option<i64>, String>> {
        let at_ms = self.place().map(|place| place.alarm.get());
        Box::pin(std::future::ready(at_ms))
    }

    fn set_alarm(&self, at_ms: i64) -> Later<Result<(), String>> {
        let set = self.place().and_then(|place| {
            place.alarm.set(Some(at_ms))?;
            place.database.touch();
            place.plan_commit();
            Ok(())
        });
        Box::pin(std::future::ready(set))
    }

    fn sockets(&self) -> Vec<Rc<dyn Socket>> {
        self.seat
            .as_ref()
            .map_or_else(Vec::new, |seat| socket::open_of(&seat.place, seat.number))
    }

    fn accept(&self, name: &str, kept: String) -> Result<(Rc<dyn Socket>, Stream), String> {
        let place = self.place()?;
        socket::accept(place, place.number(), name, kept)
    }

    fn events(&self) -> Result<(Rc<dyn Events>, Stream), String> {
        let place = self.place()?;
        Ok(event_writer::begin(place, place.number()))
    }
}
