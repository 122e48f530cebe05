//! How messages travel between isolates and objects.
//!
//! Invariant: a call is answered at most once. A receiver that ends without an answer drops its [`WayBack`], and the
//! caller sees a failure at a drawn time. A lost call fails at a drawn time too, or never ends: its caller has a time
//! limit of its own.

use std::borrow::Cow;
use std::rc::Rc;

use tally_host::Target;
use tally_host::object::{IncomingCall, Reply};
use tally_wire::messages::{Call, CallRoot, decode};

use crate::builds::Build;
use crate::core::Core;
use crate::intervention::{Verdict, judged};
use crate::isolate::{Isolate, Role};
use crate::network::Site;
use crate::one_shot::OneShot;
use crate::place::Place;

/// How long a lost call may take to fail, milliseconds. Half of them never do.
const LOST_MS_MAX: u64 = 20_000;

/// How long after its end the callers of an object or isolate see it, milliseconds.
const GONE_MS_MAX: u64 = 500;

/// The outcome of a call.
pub(crate) type Outcome = Result<Reply, String>;

/// The path of a message, or of the one that it forwards to another partition.
fn carried(arrived: &IncomingCall) -> Cow<'_, str> {
    let forwarded = (arrived.path == CallRoot::PATH).then(|| decode(&arrived.message));
    match forwarded {
        Some(Ok(CallRoot { path, .. })) => path.into(),
        _ => (&arrived.path).into(),
    }
}

impl Core {
    /// Sends a message on its way.
    pub(crate) fn send(
        self: &Rc<Self>,
        from: Site,
        label: &str,
        to: Target,
        arrived: IncomingCall,
        slot: Rc<OneShot<Outcome>>,
    ) {
        let target = match to {
            Target::Object(placement) => Receiver::Place(self.place(&placement, from)),
            Target::Aggregator => Receiver::Isolate(self.aggregator_at(from)),
        };
        let faults = self.faults.get();
        let path = arrived.path.clone();
        self.record(|| format!("send     {path} from {label} to {}", target.label()));
        let may_repeat = !self.options.once.contains(&&*carried(&arrived));
        let is_spared = faults.spares_sites && from == target.site();
        if may_repeat && !is_spared && self.chance.once_in(faults.repeats_once_in) {
            self.journal.count(|figures| figures.repeated += 1);
            let copy = IncomingCall {
                protocol: arrived.protocol,
                path: arrived.path.clone(),
                message: arrived.message.clone(),
                upgrade: arrived.upgrade.clone(),
            };
            self.carry(from, &target, copy, OneShot::new());
        }
        self.carry(from, &target, arrived, slot);
    }

    /// An isolate of the aggregator at a site.
    pub(crate) fn aggregator_at(self: &Rc<Self>, site: Site) -> Rc<Isolate> {
        let isolates = self.isolates(Role::Aggregator, site, self.options.aggregators.max(1));
        isolates[self.chance.pick(isolates.len())].clone()
    }

    fn carry(
        self: &Rc<Self>,
        from: Site,
        target: &Receiver,
        arrived: IncomingCall,
        slot: Rc<OneShot<Outcome>>,
    ) {
        let way_back = WayBack {
            core: self.clone(),
            from: target.site(),
            to: from,
            path: arrived.path.clone(),
            slot: Some(slot),
        };
        let faults = self.faults.get();
        let is_spared = faults.spares_sites && from == target.site();
        let is_lost = !is_spared && self.chance.once_in(faults.loses_request_once_in);
        let (core, target) = (self.clone(), target.clone());
        let delay_us = self.delay_us(from, target.site());
        self.after(delay_us, move || {
            if is_lost || core.is_cut(from, target.site()) {
                return way_back.lose("request");
            }
            core.journal
                .count_message(&arrived.path, arrived.message.len());
            core.record(|| format!("arrive   {} at {}", arrived.path, target.label()));
            core.deliver(&target, arrived, way_back);
        });
    }

    /// Draws how long a message takes.
    pub(crate) fn delay_us(&self, from: Site, to: Site) -> u64 {
        let faults = self.faults.get();
        let slow_us = match self.chance.once_in(faults.slow_once_in) {
            true => self.chance.below(faults.slow_ms_max.saturating_mul(1_000)),
            false => 0,
        };
        self.network.delay_us(from, to, &self.chance) + slow_us
    }

    pub(crate) fn is_cut(&self, from: Site, to: Site) -> bool {
        self.network.is_cut(from, to, self.executor.now_us())
    }

    fn deliver(self: &Rc<Self>, target: &Receiver, arrived: IncomingCall, way_back: WayBack) {
        let (binding, name) = target.address();
        let verdict = self.intervention.verdict(binding, name, &arrived.path);
        let Some(verdict) = verdict else {
            return self.carry_out(target, arrived, way_back, Verdict::Answered);
        };
        let (core, target) = (self.clone(), target.clone());
        // It has no receiver yet, so it outlives a crash of the receiver.
        let held = async move {
            let verdict = verdict.await;
            core.carry_out(&target, arrived, way_back, verdict);
        };
        let owner = self.executor.owner();
        self.executor.spawn(owner, 0, Box::pin(held));
    }

    fn carry_out(
        self: &Rc<Self>,
        target: &Receiver,
        arrived: IncomingCall,
        way_back: WayBack,
        verdict: Verdict,
    ) {
        let core = self.clone();
        let build = target.build();
        let arrived = match build.receive(arrived) {
            Ok(arrived) => arrived,
            Err(refusal) => return self.end_call(target, Ok(refusal), way_back),
        };
        let reply_of = move |ended: Result<Reply, Verdict>| match ended {
            Ok(Reply::Answer(bytes)) => Ok(Reply::Answer(build.answer(bytes))),
            ended => ended,
        };
        match target {
            Receiver::Place(place) => {
                let incarnation = place.incarnation();
                let (place, owner, shell) = (place.clone(), incarnation.owner, incarnation.shell());
                let work = async move {
                    let ended = reply_of(judged(&core, verdict, || shell.answer(arrived)).await);
                    let answerer = Receiver::Place(place.clone());
                    place.release(owner, move || core.end_call(&answerer, ended, way_back));
                };
                self.executor.spawn(owner, 0, Box::pin(work));
            }
            Receiver::Isolate(isolate) => {
                let aggregator = self.aggregator();
                let (host, context, request) = self.enter(isolate);
                let answerer = target.clone();
                let work = async move {
                    let answer = judged(&core, verdict, || aggregator(host, arrived, context));
                    core.end_call(&answerer, reply_of(answer.await), way_back);
                };
                self.executor
                    .spawn(isolate.owner(), request, Box::pin(work));
            }
        }
    }

    /// Ends a call as it was judged.
    fn end_call(&self, target: &Receiver, ended: Result<Reply, Verdict>, way_back: WayBack) {
        let (binding, name) = target.address();
        match ended {
            Ok(reply) => match self.intervention.hold_answer(binding, name, &way_back.path) {
                None => way_back.answer(reply),
                Some(held) => {
                    // It was sent, so it outlives a crash of its sender.
                    let held = async move {
                        held.await;
                        way_back.answer(reply);
                    };
                    let owner = self.executor.owner();
                    self.executor.spawn(owner, 0, Box::pin(held));
                }
            },
            Err(Verdict::Unanswered) => self.intervention.leave_unanswered(way_back),
            Err(verdict) => way_back.fail(&format!("it was judged {verdict:?}")),
        }
    }
}

/// The receiver of a message.
#[derive(Clone)]
enum Receiver {
    Place(Rc<Place>),
    Isolate(Rc<Isolate>),
}

impl Receiver {
    /// Its binding and its name, as a test calls it.
    fn address(&self) -> (&'static str, &str) {
        match self {
            Self::Place(place) => (place.binding, &place.name),
            Self::Isolate(_) => ("AGGREGATOR", ""),
        }
    }

    fn build(&self) -> Build {
        match self {
            Self::Place(place) => place.build.get(),
            Self::Isolate(isolate) => isolate.build.get(),
        }
    }

    fn site(&self) -> Site {
        match self {
            Self::Place(place) => place.site,
            Self::Isolate(isolate) => isolate.site,
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Place(place) => place.label(),
            Self::Isolate(isolate) => isolate.label.clone(),
        }
    }
}

/// The way back of one call.
pub(crate) struct WayBack {
    core: Rc<Core>,
    from: Site,
    to: Site,
    path: String,
    slot: Option<Rc<OneShot<Outcome>>>,
}

impl WayBack {
    /// Answers the call.
    fn answer(mut self, reply: Reply) {
        let Some(slot) = self.slot.take() else { return };
        let (core, from, to) = (self.core.clone(), self.from, self.to);
        let faults = core.faults.get();
        let is_spared = faults.spares_sites && from == to;
        let is_lost = !is_spared && core.chance.once_in(faults.loses_answer_once_in);
        if let Reply::Answer(bytes) = &reply {
            core.journal.count_answer(&self.path, bytes.len());
        }
        let delay_us = core.delay_us(from, to);
        let path = std::mem::take(&mut self.path);
        let known = core.clone();
        core.after(delay_us, move || {
            if is_lost || known.is_cut(from, to) {
                drop(reply);
                return lose(&known, &path, "answer", slot);
            }
            known.record(|| format!("answered {path}"));
            slot.fill(Ok(reply));
        });
    }

    /// The caller is told that it failed.
    fn fail(mut self, why: &str) {
        let Some(slot) = self.slot.take() else { return };
        let (delay_us, why) = (self.core.delay_us(self.from, self.to), why.to_owned());
        self.core.after(delay_us, move || slot.fill(Err(why)));
    }

    /// The call is lost.
    fn lose(mut self, what: &str) {
        if let Some(slot) = self.slot.take() {
            lose(&self.core, &self.path, what, slot);
        }
    }
}

fn lose(core: &Rc<Core>, path: &str, what: &str, slot: Rc<OneShot<Outcome>>) {
    core.journal.count(|figures| figures.lost += 1);
    core.record(|| format!("lose     {what} of {path}"));
    if core.chance.once_in(2) {
        let after_us = core.chance.below(LOST_MS_MAX * 1_000);
        core.after(after_us, move || {
            slot.fill(Err("the network lost it".to_owned()))
        });
    }
}

impl Drop for WayBack {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        if !self.core.is_closing() {
            let after_us = self.core.chance.below(GONE_MS_MAX * 1_000);
            let failed = "whoever should answer has crashed";
            self.core
                .after(after_us, move || slot.fill(Err(failed.to_owned())));
        }
    }
}
