//! The commits of a tick: all that the tasks of one tick wrote to an object is one transaction.
//!
//! Invariants: what waits for a commit is let out once the object's log is synced. An object commits again only
//! after that, so a power failure finds at most one commit of a log that is not complete.
//!
//! Life: planned → committed → synced → known to the registry → let out. While threads that may wait sync logs, this
//! one answers others, whose writes are in the next commit. That commit begins once the answers of the last one have
//! their tasks: so tasks of other threads work meanwhile. It begins before this thread's own tasks write their answers,
//! because both take as long.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::task::JoinHandle;

use super::clock::Turns;
use super::ground::Ground;
use super::place::{Durable, Place};
use super::store::opening::{self, CommitError};

/// The most threads that sync the commits of one tick: each waits for the disk at most of the time.
const SYNCED_AT_ONCE: usize = 4;

/// The most turns between two syncs of a quiet thread. Such a thread syncs by itself: it has nobody else to answer
/// meanwhile, and a lone client would wait for the other thread too.
const TURNS_MIN: u64 = 24;

/// The places that have something to commit.
#[derive(Default)]
pub(crate) struct Commits {
    planned: RefCell<Vec<Rc<Place>>>,
    waker: RefCell<Option<Waker>>,
    /// The number of the turn of the last sync.
    synced_turn: Cell<u64>,
}

impl Commits {
    /// Plans the commit of a place. It follows the tasks that are ready now, so their writes are in it too.
    pub(crate) fn plan(&self, place: Rc<Place>) {
        self.planned.borrow_mut().push(place);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Commits what is planned. Returns the places that have to be synced.
    fn commit(&self) -> Vec<Rc<Place>> {
        let mut committed = self.planned.take();
        committed.retain(Place::commit);
        committed
    }

    /// Commits what is planned, and what these commits plan.
    fn run(self: &Rc<Self>, ground: &Rc<Ground>) {
        loop {
            let committed = self.commit();
            if committed.is_empty() {
                return;
            }
            if self.turns_since_sync(ground) <= TURNS_MIN {
                sync(&logs_of(&committed), ground);
                settle(&committed, ground).let_out();
            } else {
                let (commits, known) = (self.clone(), ground.clone());
                ground.spawn(async move { commits.sync_elsewhere(committed, &known).await });
            }
        }
    }

    /// How many turns there were since the sync before the one that begins now.
    fn turns_since_sync(&self, ground: &Ground) -> u64 {
        let turn = ground.clock.turn();
        turn.wrapping_sub(self.synced_turn.replace(turn))
    }

    /// Syncs commits in other threads, while this one answers others, and so on with what these write meanwhile.
    async fn sync_elsewhere(&self, mut committed: Vec<Rc<Place>>, ground: &Ground) {
        let mut under_way = begin_sync(&committed);
        while !committed.is_empty() {
            for part in under_way {
                match part.await {
                    Ok(Ok(())) => {}
                    Ok(Err(why)) => ground.disk_failed(&why),
                    Err(error) => ground.disk_failed(&error.to_string()),
                }
            }
            settle(&committed, ground).let_out();
            tokio::task::yield_now().await;
            committed = self.commit();
            under_way = begin_sync(&committed);
            self.synced_turn.set(ground.clock.turn());
        }
    }

    /// Commits all that is planned, and returns once nothing of `places` is under way.
    pub(crate) fn end(&self, ground: &Ground, places: &[Rc<Place>]) {
        let under_way = places.iter().filter(|place| place.is_syncing());
        let mut committed: Vec<_> = under_way.cloned().collect();
        loop {
            sync(&logs_of(&committed), ground);
            settle(&committed, ground).let_out();
            committed = self.commit();
            if committed.is_empty() {
                return;
            }
        }
    }
}

fn logs_of(places: &[Rc<Place>]) -> Vec<Arc<File>> {
    places
        .iter()
        .filter_map(|place| place.database.log())
        .collect()
}

/// Writes the logs to the disk. If that fails, nobody knows what the disk has.
fn write_out(logs: &[Arc<File>]) -> Result<(), String> {
    let mut synced = logs.iter().map(|log| log.sync_data());
    synced.try_for_each(|synced| synced.map_err(|error| error.to_string()))
}

fn sync(logs: &[Arc<File>], ground: &Ground) {
    if let Err(why) = write_out(logs) {
        ground.disk_failed(&why);
    }
}

/// Begins to sync the logs in other threads.
fn begin_sync(places: &[Rc<Place>]) -> Vec<JoinHandle<Result<(), String>>> {
    let logs = logs_of(places);
    let parts = logs.chunks(logs.len().div_ceil(SYNCED_AT_ONCE).max(1));
    let begun = parts.map(|part| {
        let part = part.to_vec();
        tokio::task::spawn_blocking(move || write_out(&part))
    });
    begun.collect()
}

/// What waited for commits that are synced, and that the registry knows of.
#[derive(Default)]
struct Settled(Vec<Durable>);

impl Settled {
    fn add(&mut self, place: &Rc<Place>) {
        self.0.push(place.synced());
    }

    fn let_out(self) {
        self.0.into_iter().for_each(Durable::let_out);
    }
}

/// Takes what waited for commits that are synced now. The registry notes all new ones of a tick together.
fn settle(synced: &[Rc<Place>], ground: &Ground) -> Settled {
    let mut settled = Settled::default();
    let synced = synced.iter().filter(|place| place.is_syncing());
    let (unregistered, registered): (Vec<_>, Vec<_>) =
        synced.partition(|place| place.database.is_unregistered());
    registered.iter().for_each(|place| settled.add(place));
    if unregistered.is_empty() {
        return settled;
    }
    let made = unregistered.iter();
    let made = made.filter_map(|place| place.database.unsynced_file());
    let noted = opening::sync_made(made).and_then(|()| {
        let entries = unregistered.iter();
        let entries = entries.map(|place| (&*place.id, place.key.class.folder()));
        let noted = ground.registry.note(entries, true);
        noted.map_err(CommitError::Undone)
    });
    match noted {
        Ok(()) => unregistered.iter().for_each(|place| {
            place.database.registered();
            settled.add(place);
        }),
        Err(CommitError::Undone(why)) => unregistered.iter().for_each(|place| place.refuse(&why)),
        Err(CommitError::Unknown(why)) => ground.disk_failed(&why),
    }
    settled
}

/// Commits, as long as the node lives.
pub(crate) fn run(ground: &Rc<Ground>, commits: &Rc<Commits>) {
    let (commits, known) = (commits.clone(), ground.clone());
    let work = std::future::poll_fn(move |context| {
        commits.run(&known);
        *commits.waker.borrow_mut() = Some(context.waker().clone());
        Poll::<()>::Pending
    });
    tokio::task::spawn_local(Turns::new(&ground.clock, work));
}
