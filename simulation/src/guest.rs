//! The platform as an isolate, or an object in it, sees it: the traits of `tally_host`.

use std::rc::Rc;

use tally_host::object::{Events, IncomingCall, ObjectPlatform, Reply, Rows, Socket, SqlValue};
use tally_host::{File, Files, Later, Level, Platform, Point, Stream, Target};
use tally_wire::alerts::Outgoing;
use tally_wire::names::Placement;

use crate::bucket::Bucket;
use crate::builds::Build;
use crate::core::Core;
use crate::executor::{Owner, RequestId};
use crate::files;
use crate::isolate::Isolate;
use crate::network::Site;
use crate::place::{Incarnation, Place};
use crate::streams::Carrier;
use crate::{events, sockets};

/// The last time of a JavaScript `Date`, unix milliseconds: a platform sets no alarm for later ones. Source:
/// ECMAScript, "Time Values and Time Range".
const DATE_MS_MAX: i64 = 8_640_000_000_000_000;

/// One incarnation's view of the platform.
#[derive(Clone)]
pub(crate) struct Guest {
    core: Rc<Core>,
    isolate: Rc<Isolate>,
    owner: Owner,
    /// Where it is an object.
    place: Option<Rc<Place>>,
}

impl Guest {
    pub(crate) fn of_isolate(core: &Rc<Core>, isolate: &Rc<Isolate>) -> Self {
        Self {
            core: core.clone(),
            isolate: isolate.clone(),
            owner: isolate.owner(),
            place: None,
        }
    }

    pub(crate) fn of_object(place: &Rc<Place>, incarnation: &Rc<Incarnation>) -> Self {
        Self {
            core: place.core.clone(),
            isolate: incarnation.isolate.clone(),
            owner: incarnation.owner,
            place: Some(place.clone()),
        }
    }

    fn site(&self) -> Site {
        self.place
            .as_ref()
            .map_or(self.isolate.site, |place| place.site)
    }

    /// Which build runs here.
    fn build(&self) -> Build {
        let place = self.place.as_ref().map(|place| place.build.get());
        place.unwrap_or_else(|| self.isolate.build.get())
    }

    fn label(&self) -> String {
        let place = self.place.as_ref().map(|place| place.label());
        place.unwrap_or_else(|| self.isolate.label.clone())
    }

    /// Sends something out: from an object only once its writes are durable.
    fn release(&self, action: impl FnOnce() + 'static) {
        match &self.place {
            Some(place) => place.release(self.owner, action),
            None => action(),
        }
    }

    fn place(&self) -> &Rc<Place> {
        self.place.as_ref().expect("objects alone are asked this")
    }

    /// The storage, of an incarnation that runs and where it is not out.
    fn store(&self) -> Result<&Rc<Place>, String> {
        let place = self.place();
        if !place.is_alive(self.owner) {
            return Err("this incarnation of the object is over".to_owned());
        }
        match place.is_storage_out() {
            true => Err("storage is out".to_owned()),
            false => Ok(place),
        }
    }

    async fn call(self, to: Target, arrived: IncomingCall) -> Result<Reply, String> {
        let (core, site) = (self.core.clone(), self.site());
        let slot = crate::one_shot::OneShot::new();
        let (known, from) = (slot.clone(), self.label());
        let journal = &self.core.journal;
        let noted = journal.note_call(
            &arrived.path,
            &arrived.message,
            || from.clone(),
            core.now_ms(),
        );
        self.release(move || core.send(site, &from, to, arrived, known));
        let outcome = slot.wait().await;
        // Postcard writes the number of a variant first; that of `Ok` is 0.
        let is_answered = matches!(&outcome, Ok(Reply::Answer(bytes)) if bytes.first() == Some(&0));
        journal.note_end(noted, is_answered, self.core.now_ms());
        outcome
    }

    /// Lets other tasks of this instant run before it goes on, half of the time.
    async fn step_aside(core: Rc<Core>) {
        if core.chance.once_in(2) {
            let mut has_waited = false;
            std::future::poll_fn(move |context| {
                if has_waited {
                    return std::task::Poll::Ready(());
                }
                has_waited = true;
                context.waker().wake_by_ref();
                std::task::Poll::Pending
            })
            .await;
        }
    }
}

impl Platform for Guest {
    fn now_ms(&self) -> i64 {
        let clocks = &self.core.clocks;
        let set_ms = clocks.off_ms(self.site()) + clocks.off_ms(self.isolate.role);
        self.core.now_ms() + self.isolate.skew_ms() + set_ms
    }

    fn random(&self) -> u64 {
        self.core.chance.bits()
    }

    fn fill_secret(&self, secret: &mut [u8]) -> Result<(), String> {
        if self.core.faults.get().secrets_fail {
            return Err("the source is closed".to_owned());
        }
        for part in secret.chunks_mut(8) {
            part.copy_from_slice(&self.random().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }

    fn sleep(&self, milliseconds: u64) -> Later<()> {
        let late_us = self
            .core
            .chance
            .below(self.core.faults.get().timer_late_us_max + 1);
        let us = milliseconds.saturating_mul(1_000).saturating_add(late_us);
        Box::pin(self.core.executor.sleep(us))
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.core.setting(self.isolate.role, name)
    }

    fn send(
        &self,
        to: Target,
        protocol: u8,
        path: &'static str,
        message: Vec<u8>,
    ) -> Later<Result<Vec<u8>, String>> {
        let build = self.build();
        let arrived = IncomingCall {
            protocol: build.says_in(protocol),
            path: path.to_owned(),
            message: build.message(message),
            upgrade: None,
        };
        let call = self.clone().call(to, arrived);
        Box::pin(async move {
            let answer = call.await?.into_bytes();
            answer.map(|bytes| build.hear(bytes))
        })
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
            protocol: self.build().says_in(protocol),
            path: path.to_owned(),
            message,
            upgrade,
        };
        let call = self.clone().call(Target::Object(to), arrived);
        let refused = |status: u16, why: String| {
            let carrier = Rc::new(Carrier::Refusal(why));
            Stream { status, carrier }
        };
        Box::pin(async move { call.await?.into_stream(refused) })
    }

    fn has_queue(&self) -> bool {
        self.core.options.has_queue
    }

    fn enqueue(&self, messages: Rc<[Vec<u8>]>) -> Later<Result<(), String>> {
        let guest = self.clone();
        Box::pin(async move {
            let (core, site) = (guest.core.clone(), guest.site());
            let slot = crate::one_shot::OneShot::new();
            let known = slot.clone();
            guest.release(move || core.enqueue(site, messages, known));
            slot.wait().await
        })
    }

    fn has_points(&self) -> bool {
        self.core.outside.has_points()
    }

    fn write_points(&self, points: &[Point]) {
        self.core.outside.add_points(points);
    }

    fn post(&self, request: Outgoing) -> Later<Result<u16, String>> {
        let guest = self.clone();
        Box::pin(async move {
            let (core, site, owner) = (guest.core.clone(), guest.site(), guest.owner);
            let slot = crate::one_shot::OneShot::new();
            let known = slot.clone();
            guest.release(move || core.post(site, owner, request, known));
            slot.wait().await
        })
    }

    fn file(&self, name: &str) -> Result<Option<File>, String> {
        Ok(files::find(name))
    }

    fn files(&self) -> Option<Rc<dyn Files>> {
        let has_bucket = self.core.options.has_bucket;
        has_bucket.then(|| -> Rc<dyn Files> { Rc::new(self.clone()) })
    }

    fn log(&self, level: Level, text: &str) {
        self.core.journal.count(|figures| match level {
            Level::Warning => figures.log_counts.0 += 1,
            Level::Error => figures.log_counts.1 += 1,
        });
        if level == Level::Error {
            self.core.journal.error(text);
        }
        self.core
            .record(|| format!("{level:?}  {}: {text}", self.label()));
    }
}

impl Guest {
    /// Runs an operation of the bucket, which is remote.
    fn with_bucket<T: 'static>(
        &self,
        work: impl FnOnce(&Bucket) -> T + 'static,
    ) -> Later<Result<T, String>> {
        let (guest, core) = (self.clone(), self.core.clone());
        Box::pin(async move {
            let slot = crate::one_shot::OneShot::new();
            let known = slot.clone();
            guest.release(move || Bucket::work(&core, work, known));
            slot.wait().await
        })
    }
}

impl Files for Guest {
    fn put(&self, name: &str, bytes: Vec<u8>) -> Later<Result<(), String>> {
        let name = name.to_owned();
        self.with_bucket(move |bucket| bucket.put(&name, Some(bytes)))
    }

    fn get(&self, name: &str) -> Later<Result<Option<Vec<u8>>, String>> {
        let name = name.to_owned();
        self.with_bucket(move |bucket| bucket.get(&name))
    }

    fn list(&self, folder: &str) -> Later<Result<Vec<String>, String>> {
        let folder = folder.to_owned();
        self.with_bucket(move |bucket| bucket.names_in(&folder))
    }

    fn delete(&self, name: &str) -> Later<Result<(), String>> {
        let name = name.to_owned();
        self.with_bucket(move |bucket| bucket.put(&name, None))
    }
}

impl ObjectPlatform for Guest {
    fn id(&self) -> String {
        self.place().id()
    }

    fn is_at(&self, placement: &Placement) -> bool {
        let place = self.place();
        (place.binding, place.name.as_str()) == (placement.binding, placement.name.as_str())
    }

    fn wait_until(&self, work: Later<()>) {
        if self.place().is_alive(self.owner) {
            self.core.executor.spawn(self.owner, 0, work);
        }
    }

    fn database_bytes(&self) -> u64 {
        self.place().storage.bytes()
    }

    fn run(&self, statement: &str, values: Vec<SqlValue>) -> Result<Rows, String> {
        let place = self.store()?;
        let before = place.storage.figures();
        let ran = place.storage.run(statement, &values);
        let after = place.storage.figures();
        self.core.journal.count(|figures| {
            figures.statements += after.0 - before.0;
            figures.rows_written += after.1 - before.1;
        });
        place.plan_commit();
        if let Err(error) = &ran {
            self.core
                .record(|| format!("sql      {} refuses {statement}: {error}", place.label()));
        }
        ran
    }

    fn atomically(&self, body: &mut dyn FnMut() -> bool) -> Result<(), String> {
        let place = self.store()?;
        let ended = place.storage.atomically(body);
        place.plan_commit();
        ended
    }

    fn sync(&self) -> Later<Result<(), String>> {
        let guest = self.clone();
        Box::pin(async move {
            let synced = guest.store()?.sync();
            synced.await;
            Ok(())
        })
    }

    fn delete_all(&self) -> Later<Result<(), String>> {
        let guest = self.clone();
        Box::pin(async move {
            let place = guest.store()?;
            place.storage.delete_all()?;
            place.alarm.clear();
            place.plan_commit();
            Self::step_aside(guest.core.clone()).await;
            Ok(())
        })
    }

    fn alarm(&self) -> Later<Result<Option<i64>, String>> {
        let guest = self.clone();
        Box::pin(async move {
            let at_ms = guest.store()?.alarm.get();
            Self::step_aside(guest.core.clone()).await;
            Ok(at_ms)
        })
    }

    fn set_alarm(&self, at_ms: i64) -> Later<Result<(), String>> {
        let guest = self.clone();
        Box::pin(async move {
            let place = guest.store()?;
            if at_ms > DATE_MS_MAX {
                return Err("TypeError: the alarm's time is not a valid Date".to_owned());
            }
            place.alarm.set(at_ms);
            place.storage.touch();
            place.plan_commit();
            Self::step_aside(guest.core.clone()).await;
            Ok(())
        })
    }

    fn sockets(&self) -> Vec<Rc<dyn Socket>> {
        sockets::sockets(self.place(), self.owner)
    }

    fn accept(&self, name: &str, kept: String) -> Result<(Rc<dyn Socket>, Stream), String> {
        sockets::accept(self.place(), self.owner, name, kept)
    }

    fn events(&self) -> Result<(Rc<dyn Events>, Stream), String> {
        Ok(events::events(self.place(), self.owner))
    }
}

/// Lets work of one request of an isolate go on after its answer.
pub(crate) struct Backing {
    pub(crate) core: Rc<Core>,
    pub(crate) owner: Owner,
    pub(crate) request: RequestId,
}

impl tally_host::http::Background for Backing {
    fn wait_until(&self, work: Later<()>) {
        self.core.executor.spawn(self.owner, self.request, work);
    }
}
