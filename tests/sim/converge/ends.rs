//! What a lead's, a root's and a view's shell does with the state machines.

use std::rc::Rc;

use tally::core::cluster::delta::{Delta, Have, Taken};
use tally::core::cluster::push::{Push, Pushed};
use tally::core::cluster::view::{DatacenterState, View};
use tally::core::counter::merge::CellTotals;

use super::figures::Kind;
use super::places::home_of;
use super::world::{Event, Ticket, World};

impl World {
    /// Asks for the lead to be looked at when its next push is due.
    pub fn arm_lead(&mut self, number: usize) {
        let lead = &mut self.leads[number];
        let skew_ms = self.skew_ms[lead.datacenter];
        let due_ms = lead.pusher.due_ms(self.air.now_ms + skew_ms);
        let due_ms = due_ms.map(|at_ms| (at_ms - skew_ms).max(self.air.now_ms));
        if let Some(due_ms) = due_ms
            && lead.armed_ms.is_none_or(|armed| due_ms < armed)
        {
            lead.armed_ms = Some(due_ms);
            self.air.at(due_ms, Event::LeadDue(number));
        }
    }

    pub fn lead_due(&mut self, number: usize) {
        let lead = &mut self.leads[number];
        let now_ms = self.air.now_ms + self.skew_ms[lead.datacenter];
        if lead.armed_ms.is_none_or(|armed| armed > self.air.now_ms) {
            // An earlier one came first.
            return;
        }
        lead.armed_ms = None;
        let state = lead.pusher.wants_state(now_ms).then(|| {
            let totals = CellTotals {
                generation: 1,
                sequence: lead.sequence,
                added: lead.added.into(),
                removed: 0.into(),
            };
            View::of(DatacenterState {
                generation: 1,
                datacenter: &self.names[lead.datacenter],
                cells: &[(0, totals)],
                as_of_ms: now_ms,
                last_write_ms: lead.last_write_ms,
                uniques: lead.uniques.clone(),
            })
        });
        if let Some(push) = lead.pusher.take(now_ms, state.as_ref()) {
            if !lead.pusher.is_watched(now_ms) {
                let interval_ms = self.air.now_ms - lead.pushed_ms.unwrap_or(i64::MIN / 2);
                lead.cold_interval_ms = lead.cold_interval_ms.min(interval_ms);
            }
            lead.pushed_ms = Some(self.air.now_ms);
            let (from, counter) = (lead.datacenter, lead.counter);
            let home = self.home(counter);
            self.traffic.note(
                self.plan.is_hot(counter),
                Kind::Push,
                &(&self.ids[counter], &self.names[from], &push),
            );
            self.air
                .send(from, home, Event::Push(number, Rc::new(push)));
        }
        self.arm_lead(number);
    }

    pub fn on_push(&mut self, number: usize, push: &Push) {
        let (counter, from) = (self.leads[number].counter, self.leads[number].datacenter);
        let home = self.home(counter);
        let now_ms = self.local_ms(home);
        let root = &mut self.roots[counter];
        let Taken::Over(have, applied) = root.gathering.take(&self.names[from], &push.delta) else {
            unreachable!("there is one generation");
        };
        root.watch
            .heard(now_ms, &self.names[from], push.watched_for_ms);
        let pushed = Pushed {
            number: push.number,
            have,
            watch_for_ms: root.watch.lease_ms(now_ms),
        };
        let partition = root.partition;
        let is_hot = self.plan.is_hot(counter);
        self.traffic.note(is_hot, Kind::Pushed, &pushed);
        self.air
            .send(home, from, Event::Pushed(number, Rc::new(pushed)));
        if applied.news && is_hot {
            for place in 0..self.plan.datacenters {
                for ticket in self.held[partition][place].release() {
                    self.answer(place, partition, &ticket);
                }
            }
        }
        self.arm_root(counter);
    }

    pub fn on_pushed(&mut self, number: usize, pushed: &Pushed) {
        let now_ms = self.local_ms(self.leads[number].datacenter);
        self.leads[number].pusher.confirmed(now_ms, pushed);
        self.arm_lead(number);
    }

    pub fn on_watch(&mut self, number: usize, for_ms: u32) {
        let now_ms = self.local_ms(self.leads[number].datacenter);
        self.leads[number].pusher.watch(now_ms, for_ms);
        self.arm_lead(number);
    }

    /// Asks for the root to be looked at when a lead must be told that somebody watches.
    fn arm_root(&mut self, counter: usize) {
        let home = self.home(counter);
        let (now_ms, skew_ms) = (self.local_ms(home), self.skew_ms[home]);
        let root = &mut self.roots[counter];
        let due_ms = root.watch.due_ms(now_ms, root.leads.iter());
        let due_ms = due_ms.map(|at_ms| (at_ms - skew_ms).max(self.air.now_ms));
        if let Some(due_ms) = due_ms
            && root.armed_ms.is_none_or(|armed| due_ms < armed)
        {
            root.armed_ms = Some(due_ms);
            self.air.at(due_ms, Event::RootDue(counter));
        }
    }

    pub fn root_due(&mut self, counter: usize) {
        let home = self.home(counter);
        let now_ms = self.local_ms(home);
        let root = &mut self.roots[counter];
        if root.armed_ms.is_none_or(|armed| armed > self.air.now_ms) {
            return;
        }
        root.armed_ms = None;
        let told = root.watch.tell(now_ms, root.leads.iter());
        let lease_ms = root.watch.lease_ms(now_ms);
        for name in told {
            let leads = &self.leads_of[counter];
            let lead = leads
                .iter()
                .find(|lead| self.names[self.leads[**lead].datacenter] == name);
            let lead = *lead.expect("a lead of the counter");
            self.traffic
                .note(true, Kind::Watch, &(&self.ids[counter], lease_ms));
            let to = self.leads[lead].datacenter;
            self.air.send(home, to, Event::WatchLead(lead, lease_ms));
        }
        self.arm_root(counter);
    }

    pub fn poll_due(&mut self, place: usize, partition: usize) {
        let now_ms = self.local_ms(place);
        if !self.is_viewing || self.viewed[partition].is_empty() {
            return;
        }
        if self.places[place].armed_ms[partition].is_none_or(|armed| armed > self.air.now_ms) {
            return;
        }
        self.places[place].armed_ms[partition] = None;
        if self.places[place].pollers[partition].due_ms(now_ms) <= now_ms {
            self.places[place].pollers[partition].sent(now_ms);
            let replicas = &self.places[place].replicas;
            let viewed = self.viewed[partition].iter();
            let haves: Vec<(usize, Have)> = viewed
                .map(|counter| (*counter, replicas[*counter].have()))
                .collect();
            let named: Vec<_> = haves
                .iter()
                .map(|(counter, have)| (&self.ids[*counter], have))
                .collect();
            self.traffic.note(true, Kind::Poll, &(u64::MAX, named));
            let home = home_of(partition) % self.plan.datacenters;
            let poll = Event::Poll(place, partition, Rc::new(haves));
            self.air.send(place, home, poll);
        }
        self.arm_place(place, partition);
    }

    fn arm_place(&mut self, place: usize, partition: usize) {
        let skew_ms = self.skew_ms[place];
        let view = &mut self.places[place];
        let due_ms = view.pollers[partition].due_ms(self.air.now_ms + skew_ms) - skew_ms;
        let due_ms = due_ms.max(self.air.now_ms);
        if view.armed_ms[partition].is_none_or(|armed| due_ms < armed) {
            view.armed_ms[partition] = Some(due_ms);
            self.air.at(due_ms, Event::PollDue(place, partition));
        }
    }

    pub fn on_poll(&mut self, place: usize, partition: usize, ticket: Ticket) {
        let home = home_of(partition) % self.plan.datacenters;
        let now_ms = self.local_ms(home);
        for (counter, _) in ticket.iter() {
            self.roots[*counter].watch.asked(now_ms);
            self.arm_root(*counter);
        }
        let has_news = |(counter, have): &(usize, Have)| {
            self.roots[*counter].gathering.feed().has_news_for(have)
        };
        if ticket.iter().any(has_news) {
            self.answer(place, partition, &ticket);
            return;
        }
        if let Some(over) = self.held[partition][place].hold(now_ms, ticket) {
            self.answer(place, partition, &over);
        }
        self.arm_hold(place, partition);
    }

    fn arm_hold(&mut self, place: usize, partition: usize) {
        let home = home_of(partition) % self.plan.datacenters;
        if let Some(due_ms) = self.held[partition][place].due_ms() {
            let at_ms = due_ms - self.skew_ms[home];
            self.air.at(at_ms, Event::HoldDue(place, partition));
        }
    }

    pub fn hold_due(&mut self, place: usize, partition: usize) {
        let home = home_of(partition) % self.plan.datacenters;
        let now_ms = self.local_ms(home);
        for ticket in self.held[partition][place].expired(now_ms) {
            self.answer(place, partition, &ticket);
        }
    }

    fn answer(&mut self, place: usize, partition: usize, ticket: &Ticket) {
        let mut news: Vec<(usize, Delta)> = Vec::new();
        for (counter, have) in ticket.iter() {
            let feed = self.roots[*counter].gathering.feed();
            if feed.is_ahead_of(have) {
                news.push((*counter, feed.since(have)));
            }
        }
        let named: Vec<_> = news
            .iter()
            .map(|(counter, delta)| (&self.ids[*counter], delta))
            .collect();
        self.traffic.note(true, Kind::Polled, &named);
        let home = home_of(partition) % self.plan.datacenters;
        let polled = Event::Polled(place, partition, Rc::new(news));
        self.air.send(home, place, polled);
    }

    pub fn on_polled(&mut self, place: usize, partition: usize, news: &[(usize, Delta)]) {
        let now_ms = self.local_ms(place);
        let mut is_news = false;
        for (counter, delta) in news {
            let replica = &mut self.places[place].replicas[*counter];
            is_news |= replica.apply(delta).news;
            let rest = &mut self.rests[*counter];
            if rest.writing > 0 || rest.agreed_ms.get(place).is_none_or(Option::is_some) {
                continue;
            }
            let flushes: u64 = (replica.view().cells().iter())
                .map(|(_, totals)| totals.sequence)
                .sum();
            assert!(flushes <= rest.flushes, "a view has more than was written");
            if flushes == rest.flushes && *replica.view().uniques() == rest.uniques {
                rest.agreed_ms[place] = Some(self.air.now_ms);
            }
        }
        self.places[place].pollers[partition].answered(now_ms, is_news);
        self.arm_place(place, partition);
    }
}
