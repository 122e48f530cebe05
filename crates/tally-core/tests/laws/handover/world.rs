//! Three places of one bundle, the messages between them, and all that may happen next. The decisions are those of the
//! shipped code; this file carries them out as the shells do.
//!
//! Two dialects: partitions store the layout that they know and adopt newer ones from requests (roots); places of leads
//! ask one partition, and void their own searches in memory.

use tally_core::handover::giver::{Given, GiverRequest, asked};
use tally_core::handover::taker::{GiverAnswer, Taker, TakerStep};
use tally_core::handover::{Debt, Holding, IfNowhere, Sealed};
use tally_testing::search::MessageEvent::{self, Deliver, Double, Late, Lose};
use tally_testing::search::Model;

const PLACES: u8 = 3;
const PAGES: usize = 2;
const ASKS_MAX: u8 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    Roots,
    Leads,
}

/// A guard that a broken variant is without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Rows are sealed before they are given.
    Seal,
    /// A sealed bundle is given to another place only with the proof that the first one has nothing.
    Proof,
    /// A search ends when its place has promised something else meanwhile.
    Mark,
    /// A bundle is given on only after the former place has deleted its copy.
    Debt,
    /// Rows of an earlier try are deleted: before the first page is stored (roots), or before the place answers that it
    /// has nothing (leads).
    Clear,
    /// The former place learns that the rows are stored after the last page is.
    Last,
}

/// Rows: how often each of two writes is counted. Each write is a page.
type Rows = [u8; PAGES];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Search {
    taker: Taker<u8, u8, u8>,
    version: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    // Durable.
    known: u8,
    holding: Holding<u8, u8>,
    debt: Option<Debt<u8>>,
    rows: Rows,
    /// Rows of a lead are arriving. What was acknowledged when the first page came.
    arriving: Option<Rows>,
    // In memory.
    located: Option<u8>,
    has_promised: bool,
    has_grant: bool,
    search: Option<Search>,
    pays: bool,
}

/// A live message is one that somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    Ask {
        at: u8,
        by: u8,
        version: u8,
        failed: Option<u64>,
        nothing_at: Vec<u8>,
        page: Option<(u64, u8)>,
        is_live: bool,
    },
    Nothing {
        to: u8,
    },
    Elsewhere {
        to: u8,
        place: u8,
        seal: Option<u64>,
    },
    Rows {
        to: u8,
        seal: u64,
        rows: u8,
        next: Option<u8>,
    },
    Taken {
        at: u8,
        by: u8,
        seal: u64,
        is_live: bool,
    },
    Deleted {
        to: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The layout changes.
    Change,
    /// A place learns a layout.
    Learn(u8, u8),
    /// A place searches for the bundle.
    Search(u8),
    /// A lead gets a grant, and the place takes it.
    Register(u8),
    Granted(u8),
    /// A write is acknowledged.
    Write(u8),
    /// A place pays its debt.
    Pay(u8),
    /// Something happens to a message.
    Message(MessageEvent),
    Crash(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    dialect: Dialect,
    removed: Option<Guard>,
    layouts: &'static [u8],
    newest: u8,
    has_root: bool,
    acknowledged: Rows,
    places: [Place; 3],
    messages: Vec<Message>,
    message_faults: u8,
    crashes: u8,
    /// Whether rows went to the place of a layout that is no newer than the one they had come by.
    has_gone_back: bool,
}

fn at(place: u8) -> usize {
    usize::from(place)
}

impl World {
    pub fn new(
        dialect: Dialect,
        layouts: &'static [u8],
        is_written: bool,
        removed: Option<Guard>,
        faults: u8,
    ) -> Self {
        let empty = Place {
            known: 0,
            holding: Holding::Nothing,
            debt: None,
            rows: [0; PAGES],
            arriving: None,
            located: None,
            has_promised: false,
            has_grant: false,
            search: None,
            pays: false,
        };
        let mut world = Self {
            dialect,
            removed,
            layouts,
            newest: 0,
            has_root: is_written,
            acknowledged: [0; PAGES],
            places: [empty.clone(), empty.clone(), empty],
            messages: Vec::new(),
            message_faults: faults,
            crashes: faults,
            has_gone_back: false,
        };
        if is_written {
            let first = &mut world.places[at(layouts[0])];
            first.holding = Holding::Here { since: None };
            first.rows[0] = 1;
            world.acknowledged[0] = 1;
        }
        world
    }

    fn is_without(&self, guard: Guard) -> bool {
        self.removed == Some(guard)
    }

    /// The places by earlier layouts, the latest first.
    fn former(&self, version: u8) -> Vec<u8> {
        let mut former = Vec::new();
        for before in (0..version).rev() {
            let place = self.layouts[at(before)];
            if place != self.layouts[at(version)] && !former.contains(&place) {
                former.push(place);
            }
        }
        former
    }

    /// The layout that a place acts by.
    fn version_at(&self, place: u8) -> u8 {
        match self.dialect {
            Dialect::Roots => self.places[at(place)].known,
            Dialect::Leads => self.newest,
        }
    }

    fn is_mine(&self, place: u8) -> bool {
        self.layouts[at(self.version_at(place))] == place
    }

    /// Whether a write would be counted here.
    fn may_count(&self, number: u8) -> bool {
        let place = &self.places[at(number)];
        if matches!(place.holding, Holding::Here { .. }) {
            return true;
        }
        if self.dialect == Dialect::Leads {
            return place.has_grant;
        }
        let is_located = place.known == 0 || place.located == Some(place.known);
        let is_first =
            self.former(place.known).is_empty() && matches!(place.holding, Holding::Nothing);
        self.is_mine(number) && (is_located || is_first)
    }

    fn must_search(&self, number: u8) -> bool {
        let place = &self.places[at(number)];
        place.search.is_none()
            && self.is_mine(number)
            && !self.may_count(number)
            && (self.dialect == Dialect::Roots
                || place.located != Some(self.newest)
                || matches!(place.holding, Holding::Sealed(_)))
    }

    fn may_register(&self, number: u8) -> bool {
        let place = &self.places[at(number)];
        let is_located = self.former(self.newest).is_empty()
            || place.located == Some(self.newest)
            || !self.has_root;
        self.dialect == Dialect::Leads
            && self.is_mine(number)
            && !place.has_grant
            && place.holding == Holding::Nothing
            && is_located
    }

    fn begin(&mut self, place: u8) {
        let place = &mut self.places[at(place)];
        place.has_grant = false;
        place.holding = Holding::Here { since: None };
    }

    fn write(&mut self, place: u8) {
        if self.places[at(place)].holding == Holding::Nothing {
            self.begin(place);
        }
        let write = usize::from(self.acknowledged[0] == 1);
        self.places[at(place)].rows[write] += 1;
        self.acknowledged[write] = 1;
    }

    fn learn(&mut self, place: u8, version: u8) {
        let place = &mut self.places[at(place)];
        place.known = version;
        place.located = None;
    }

    /// Voids what a place has begun: it has given rows away, or has answered that it has none.
    fn promise(&mut self, place: u8) {
        let place = &mut self.places[at(place)];
        place.located = None;
        place.has_grant = false;
        place.has_promised = place.search.is_some();
    }

    fn mark(&self, place: u8) -> u8 {
        let place = &self.places[at(place)];
        match self.dialect {
            Dialect::Roots => place.known,
            Dialect::Leads => u8::from(place.has_promised),
        }
    }

    fn begin_search(&mut self, place: u8) {
        let version = self.version_at(place);
        self.places[at(place)].has_promised = false;
        let given_to = match self.places[at(place)].holding {
            Holding::Sealed(sealed) => Some(sealed.to),
            _ => None,
        };
        let former = self.former(version).into_iter();
        let places: Vec<u8> = match self.dialect {
            Dialect::Roots => former.collect(),
            Dialect::Leads => given_to.into_iter().chain(former).collect(),
        };
        let taker = Taker::new(place, self.mark(place), places, ASKS_MAX);
        self.places[at(place)].search = Some(Search { taker, version });
        self.go_on(place, |taker| taker.advance());
    }

    /// Takes the next step of a search, until it waits for an answer or ends.
    fn go_on(
        &mut self,
        place: u8,
        step: impl FnOnce(&mut Taker<u8, u8, u8>) -> TakerStep<u8, u8, u8>,
    ) {
        let mark = self.mark(place);
        let Some(mut search) = self.places[at(place)].search.take() else {
            return;
        };
        let is_here = matches!(self.places[at(place)].holding, Holding::Here { .. });
        if !self.is_without(Guard::Mark) && !search.taker.may_go_on(&mark, is_here) {
            return;
        }
        let mut step = step(&mut search.taker);
        loop {
            match step {
                TakerStep::Ask { from, failed, page } => {
                    self.messages.push(Message::Ask {
                        at: from,
                        by: place,
                        version: search.version,
                        failed,
                        nothing_at: search.taker.nothing_at().to_vec(),
                        page,
                        is_live: true,
                    });
                    self.places[at(place)].search = Some(search);
                    return;
                }
                TakerStep::Store {
                    rows,
                    is_first,
                    debt,
                } => {
                    self.store(place, search.version, (rows, is_first), debt);
                    if debt.is_some() {
                        return;
                    }
                    step = search.taker.advance();
                }
                TakerStep::Nowhere => return self.nowhere(place, search.version),
                TakerStep::Fail => return,
            }
        }
    }

    fn store(&mut self, place: u8, version: u8, page: (u8, bool), debt: Option<Debt<u8>>) {
        let (rows, is_first) = page;
        let page = usize::from(!is_first);
        let since = (self.dialect == Dialect::Leads).then_some(version);
        let clears = is_first && !self.is_without(Guard::Clear);
        let it = &mut self.places[at(place)];
        match self.dialect {
            Dialect::Roots => {
                if clears {
                    it.rows = [0; PAGES];
                }
                it.rows[page] += rows;
            }
            // Rows of an earlier try are replaced: they are of the same bundle.
            Dialect::Leads => {
                it.rows[page] = rows;
                let first = it.arriving.unwrap_or(self.acknowledged);
                it.arriving = debt.is_none().then_some(first);
            }
        }
        if debt.is_some() {
            it.holding = Holding::Here { since };
            it.debt = debt;
            it.located = Some(version);
        }
    }

    fn nowhere(&mut self, place: u8, version: u8) {
        let since = (self.dialect == Dialect::Leads).then_some(version);
        let it = &mut self.places[at(place)];
        match it.holding.if_nowhere(version) {
            IfNowhere::Stays => return,
            IfNowhere::Begins => {}
            IfNowhere::Returns { .. } => it.holding = Holding::Here { since },
        }
        it.located = Some(version);
    }

    fn pay(&mut self, place: u8) {
        let Some(debt) = self.places[at(place)].debt else {
            return;
        };
        self.places[at(place)].pays = true;
        self.messages.push(Message::Taken {
            at: debt.from,
            by: place,
            seal: debt.seal,
            is_live: true,
        });
    }

    fn deliver(&mut self, number: u8, crashes: bool) {
        let message = self.messages.remove(at(number));
        let kept = self.messages.len();
        let place = match message {
            Message::Ask { at, .. } | Message::Taken { at, .. } => at,
            Message::Nothing { to }
            | Message::Elsewhere { to, .. }
            | Message::Rows { to, .. }
            | Message::Deleted { to } => to,
        };
        match message {
            Message::Nothing { to } => self.go_on(to, |it| it.answered(GiverAnswer::Nothing)),
            Message::Elsewhere { to, place, seal } => {
                self.go_on(to, |it| it.answered(GiverAnswer::Elsewhere(place, seal)));
            }
            Message::Rows {
                to,
                seal,
                rows,
                next,
            } => self.go_on(to, |it| it.answered(GiverAnswer::Rows { seal, rows, next })),
            Message::Taken {
                at: place,
                by,
                seal,
                is_live,
            } => self.taken(place, seal, is_live.then_some(by)),
            Message::Deleted { to } => {
                let it = &mut self.places[at(to)];
                it.pays = false;
                it.debt = None;
            }
            ask @ Message::Ask { .. } => self.asked(ask),
        }
        if crashes {
            self.crashes -= 1;
            // What is stored stays; what was to be sent is not.
            for message in self.messages.split_off(kept) {
                self.gone(&message);
            }
            self.crash(place);
        }
    }

    fn taken(&mut self, place: u8, seal: u64, by: Option<u8>) {
        let it = &mut self.places[at(place)];
        if it.holding.may_delete(seal) {
            it.holding = Holding::Nothing;
            it.rows = [0; PAGES];
        }
        self.messages.extend(by.map(|to| Message::Deleted { to }));
    }

    fn asked(&mut self, ask: Message) {
        let Message::Ask {
            at: place,
            by,
            version,
            failed,
            nothing_at,
            page,
            is_live,
        } = ask
        else {
            return;
        };
        if self.dialect == Dialect::Roots {
            let known = self.places[at(place)].known;
            if known > version {
                return self.refuse(by, is_live);
            }
            if known < version {
                self.learn(place, version);
            }
        }
        let holding = self.places[at(place)].holding;
        let mut request = GiverRequest {
            to: by,
            version,
            failed,
            continued: page.map(|(seal, _)| seal),
        };
        if let Holding::Sealed(sealed) = holding {
            // The messages of roots name no seal.
            let is_proof = self.dialect == Dialect::Roots && nothing_at.contains(&sealed.to);
            if is_proof || self.is_without(Guard::Proof) {
                request.failed = Some(sealed.seal);
            }
        }
        let has_debt = self.places[at(place)].debt.is_some() && !self.is_without(Guard::Debt);
        let given = match page {
            Some((seal, _)) if self.is_without(Guard::Seal) => Given::Rows { seal },
            _ => asked(&holding, has_debt, &request),
        };
        self.give(place, &request, given, (page.is_some(), is_live));
    }

    fn give(
        &mut self,
        place: u8,
        request: &GiverRequest<u8, u8>,
        given: Given<u8>,
        (is_second, is_live): (bool, bool),
    ) {
        let to = request.to;
        let seal = match given {
            Given::Old => return self.refuse(to, is_live),
            Given::Pay => {
                if !self.places[at(place)].pays {
                    self.pay(place);
                }
                return self.refuse(to, is_live);
            }
            Given::Nothing => {
                self.promise(place);
                let it = &mut self.places[at(place)];
                if self.removed != Some(Guard::Clear) && it.arriving.take().is_some() {
                    it.rows = [0; PAGES];
                }
                self.messages
                    .extend(is_live.then_some(Message::Nothing { to }));
                return;
            }
            Given::Elsewhere { to: other, seal } => {
                let seal = (self.dialect == Dialect::Leads).then_some(seal);
                let answer = Message::Elsewhere {
                    to,
                    place: other,
                    seal,
                };
                self.messages.extend(is_live.then_some(answer));
                return;
            }
            Given::Seal { .. } => {
                let seal = self.unused_seal();
                self.has_gone_back |= self.goes_back(place, request.version);
                if !self.is_without(Guard::Seal) {
                    self.promise(place);
                    let version = (self.dialect == Dialect::Leads).then_some(request.version);
                    self.places[at(place)].holding = Holding::Sealed(Sealed { to, version, seal });
                }
                seal
            }
            Given::Rows { seal } => seal,
        };
        let rows = self.places[at(place)].rows;
        let (rows, next) = match is_second {
            false => (rows[0], Some(1)),
            true => (rows[1], None),
        };
        let answer = Message::Rows {
            to,
            seal,
            rows,
            next,
        };
        self.messages.extend(is_live.then_some(answer));
        if self.is_without(Guard::Last) && is_live && !is_second {
            self.messages.push(Message::Taken {
                at: place,
                by: to,
                seal,
                is_live: false,
            });
        }
    }

    /// Whether rows came here, or are sealed, by a layout that is not older than this one.
    fn goes_back(&self, place: u8, version: u8) -> bool {
        let known = match self.places[at(place)].holding {
            Holding::Here { since } => since,
            Holding::Sealed(sealed) => sealed.version,
            Holding::Nothing => None,
        };
        known.is_some_and(|known| known >= version)
    }

    /// The first number that nobody knows as a seal.
    fn unused_seal(&self) -> u64 {
        let mut known = Vec::new();
        for place in &self.places {
            if let Holding::Sealed(sealed) = place.holding {
                known.push(sealed.seal);
            }
            known.extend(place.debt.map(|debt| debt.seal));
        }
        for message in &self.messages {
            match message {
                Message::Ask { failed, page, .. } => {
                    known.extend(failed.iter().chain(page.iter().map(|(seal, _)| seal)));
                }
                Message::Elsewhere { seal, .. } => known.extend(*seal),
                Message::Rows { seal, .. } | Message::Taken { seal, .. } => known.push(*seal),
                Message::Nothing { .. } | Message::Deleted { .. } => {}
            }
        }
        // What a search knows is private.
        let searches = self.places.iter().filter_map(|place| place.search.as_ref());
        let searches = searches.map(|search| format!("{:?}", search.taker));
        let text = searches.collect::<String>();
        let is_used = |seal: u64| {
            known.contains(&seal)
                || text.contains(&format!("seal: {seal}"))
                || text.contains(&format!("seal: Some({seal})"))
                || text.contains(&format!("failed: Some({seal})"))
        };
        (1..).find(|seal| !is_used(*seal)).unwrap_or(u64::MAX)
    }

    fn refuse(&mut self, to: u8, is_live: bool) {
        if is_live {
            self.places[at(to)].search = None;
        }
    }

    /// A message will never arrive, so nobody waits for it or for its answer any more.
    fn gone(&mut self, message: &Message) {
        match message {
            Message::Ask { by, is_live, .. } => self.refuse(*by, *is_live),
            Message::Nothing { to } | Message::Elsewhere { to, .. } | Message::Rows { to, .. } => {
                self.refuse(*to, true)
            }
            Message::Taken { by, is_live, .. } => {
                if *is_live {
                    self.places[at(*by)].pays = false;
                }
            }
            Message::Deleted { to } => self.places[at(*to)].pays = false,
        }
    }

    fn lose(&mut self, number: u8) {
        self.message_faults -= 1;
        let message = self.messages.remove(at(number));
        self.gone(&message);
    }

    fn double(&mut self, number: u8) -> Option<()> {
        self.message_faults -= 1;
        let mut copy = self.messages[at(number)].clone();
        copy.leave()?;
        self.messages.push(copy);
        Some(())
    }

    fn late(&mut self, number: u8) -> Option<()> {
        self.message_faults -= 1;
        let message = self.messages[at(number)].clone();
        self.messages[at(number)].leave()?;
        self.gone(&message);
        (self.messages[at(number)] != message).then_some(())
    }

    fn crash(&mut self, number: u8) {
        let place = &mut self.places[at(number)];
        *place = place.woken(self.dialect);
        self.messages.retain_mut(|message| match message {
            Message::Ask { by, is_live, .. } | Message::Taken { by, is_live, .. } => {
                *is_live &= *by != number;
                true
            }
            Message::Nothing { to }
            | Message::Elsewhere { to, .. }
            | Message::Rows { to, .. }
            | Message::Deleted { to } => *to != number,
        });
    }
}

impl Model for World {
    type Event = Event;

    fn title(&self) -> String {
        let has = if self.has_root { "rows" } else { "nothing" };
        format!("layouts {:?}, first with {has}", self.layouts)
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if at(self.newest) + 1 < self.layouts.len() {
            events.push(Event::Change);
        }
        for place in 0..PLACES {
            let it = &self.places[at(place)];
            if self.dialect == Dialect::Roots {
                events.extend((it.known + 1..=self.newest).map(|to| Event::Learn(place, to)));
            }
            if self.must_search(place) {
                events.push(Event::Search(place));
            }
            if self.may_register(place) {
                events.push(Event::Register(place));
            }
            if it.has_grant {
                events.push(Event::Granted(place));
            }
            if self.may_count(place) && !it.has_grant && self.acknowledged[PAGES - 1] == 0 {
                events.push(Event::Write(place));
            }
            if it.debt.is_some() && !it.pays {
                events.push(Event::Pay(place));
            }
            if self.crashes > 0 && *it != it.woken(self.dialect) {
                events.push(Event::Crash(place));
            }
        }
        let (crashes, faults) = (self.crashes > 0, self.message_faults > 0);
        let arrive = self.messages.iter().map(|_| true);
        events.extend(MessageEvent::of_each(arrive, crashes, faults).map(Event::Message));
        events
    }

    fn calm_event(&self) -> Option<Event> {
        if !self.messages.is_empty() {
            return Some(Event::Message(Deliver(0, false)));
        }
        let calm = |event: &Event| match event {
            Event::Learn(_, to) => *to == self.newest,
            Event::Search(_) | Event::Pay(_) | Event::Granted(_) => true,
            _ => false,
        };
        self.events().into_iter().find(calm)
    }

    fn after(&self, event: Event) -> Option<Self> {
        let mut world = self.clone();
        match event {
            Event::Change => world.newest += 1,
            Event::Learn(place, version) => world.learn(place, version),
            Event::Search(place) => world.begin_search(place),
            Event::Register(place) => {
                world.has_root = true;
                world.places[at(place)].has_grant = true;
            }
            Event::Granted(place) => world.begin(place),
            Event::Write(place) => world.write(place),
            Event::Pay(place) => world.pay(place),
            Event::Message(Deliver(number, crashes)) => world.deliver(number, crashes),
            Event::Message(Lose(number)) => world.lose(number),
            Event::Message(Double(number)) => world.double(number)?,
            Event::Message(Late(number)) => world.late(number)?,
            Event::Crash(place) => {
                world.crashes -= 1;
                world.crash(place);
            }
        }
        world.messages.sort();
        Some(world)
    }

    fn check(&self) -> Result<(), String> {
        if self.has_gone_back {
            return Err("rows go back to an older layout".to_owned());
        }
        let mut arriving = self.places.iter().filter_map(|place| place.arriving);
        let is_old = arriving.any(|first| first != self.acknowledged);
        // Without another guard this happens too, before what its test looks for.
        if is_old && matches!(self.removed, None | Some(Guard::Clear)) {
            let what = "rows of an earlier bundle are left for the next one";
            return Err(format!("{what}: a write is missing or counted twice"));
        }
        let counting: Vec<u8> = (0..PLACES).filter(|place| self.may_count(*place)).collect();
        if counting.len() > 1 {
            return Err(format!("two places count: {counting:?}"));
        }
        for place in counting {
            let rows = self.places[at(place)].rows;
            if rows != self.acknowledged {
                return Err(format!(
                    "place {place} counts {rows:?}, acknowledged are {:?}: a write is missing or counted twice",
                    self.acknowledged
                ));
            }
        }
        let is_somewhere =
            |place: &Place| place.holding != Holding::Nothing && place.rows == self.acknowledged;
        if self.acknowledged[0] == 1 && !self.places.iter().any(is_somewhere) {
            return Err("no place has the rows: a write is missing or counted twice".to_owned());
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<(), String> {
        for (number, place) in (0..).zip(&self.places) {
            let is_here = matches!(place.holding, Holding::Here { .. }) && place.debt.is_none();
            let is_mine = self.layouts[at(self.newest)] == number;
            let is_right = match is_mine && self.acknowledged[0] == 1 {
                true => is_here && place.rows == self.acknowledged,
                false => place.holding == Holding::Nothing || (is_mine && is_here),
            };
            if !is_right || place.search.is_some() {
                return Err(format!("a move does not end: place {number} is {place:?}"));
            }
        }
        Ok(())
    }

    fn tell(&self, event: Event) -> String {
        match event {
            Event::Message(event) => event.tell(&format!("{:?}", self.messages[event.number()])),
            event => format!("{event:?}"),
        }
    }
}

impl Place {
    /// The place after a crash.
    fn woken(&self, dialect: Dialect) -> Self {
        let clears = dialect == Dialect::Leads && self.arriving.is_some();
        Self {
            known: self.known,
            holding: self.holding,
            debt: self.debt,
            rows: if clears { [0; PAGES] } else { self.rows },
            arriving: None,
            located: None,
            has_promised: false,
            has_grant: false,
            search: None,
            pays: false,
        }
    }
}

impl Message {
    /// Nobody waits for it any more. `None` for an answer: it would have no effect.
    fn leave(&mut self) -> Option<()> {
        match self {
            Self::Ask { is_live, .. } | Self::Taken { is_live, .. } => {
                *is_live = false;
                Some(())
            }
            _ => None,
        }
    }
}
