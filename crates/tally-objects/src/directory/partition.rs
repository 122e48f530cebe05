//! The Durable Object of one partition of the directory: the roots of its counters, and related tables.
//!
//! Invariants: one part reads and writes each table. Nothing is answered while storage cannot be read. Operations of
//! one counter run one after the other (a lock per counter).

use std::future::Future;
use std::rc::Rc;

use futures_util::future::FutureExt;

use super::alarm::Alarm;
use super::claim_store::CLAIMS_SCHEMA;
use super::claims::Claims;
use super::duty_store::DUTIES_SCHEMA;
use super::inboxes::Inboxes;
use super::listings::Listings;
use super::living_counters::LivingCounters;
use super::operation_store::OPERATIONS_SCHEMA;
use super::operations::Operations;
use super::push_receiver::{VIEWS_SCHEMA, Views};
use super::root_moves::{RootMoves, is_refused, moving};
use super::root_places::{RootLocation, RootPlaces};
use super::root_store::ROOTS_SCHEMA;
use super::root_sweep::progress::RootSweep;
use super::roots::Roots;
use super::tablets::LeadSpreads;
use super::totals::DirectoryTotals;
use super::values::DEPLOYMENT_SCHEMA;
use crate::kit::batch::{BatchInFlight, arrived, bytes_of, refusal};
use crate::kit::object_sizes::ObjectSizes;
use crate::kit::outbox::Outbox;
use crate::kit::store::Store;
use addressed::{is_of_all, is_of_root};
use features::{FeatureSet, Features, PartitionParts};
use health::{ailment, write_proof};
use tables::PartitionTables;
use tally_core::cluster::push::PushAnswer;
use tally_core::counter::grant::Grant;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Object, Reply};
use tally_wire::audit::CallOutcome;
use tally_wire::fleet::FleetPart;
use tally_wire::messages::{
    AmountOf, AnnounceSizes, BatchedCall, Call, CallAudited, CallPartition, CallRoot, CheckStorage,
    Claim, Fault, FindClaims, FindKey, FleetOf, GiveRoot, KeyFound, LeadLocation, List,
    ListDatacenters, ListNames, ListRows, LocateLead, LookUp, Operate, PartitionAnswer, PlaceLead,
    PushView, Reconcile, Register, RepairRoot, ReportSizes, RootTaken, SizesOf, StoreAnswer, TopOf,
    ViewAnswer, ViewOf, WriteProof, batch,
};

mod addressed;
pub(crate) mod features;
mod health;
mod tables;

/// The tables of a partition, without those of features.
const SCHEMA: &[&str] = &[
    ROOTS_SCHEMA[0],
    ROOTS_SCHEMA[1],
    DUTIES_SCHEMA,
    CLAIMS_SCHEMA,
    OPERATIONS_SCHEMA,
    VIEWS_SCHEMA,
    DEPLOYMENT_SCHEMA,
];

/// The shortest time between two alarms, so that work that stays due does not spin.
const ALARM_SPACING_MS: i64 = 100;

/// The most messages to one tablet in flight at once. Meanwhile notifications for leads are collected for the next one.
/// It is more than one, because a lost message blocks until its time limit.
const MESSAGES_AT_ONCE: usize = 4;

/// The most look-ups of a call's root before the call is refused: the root may move on while the call waits.
const LOOKED_MAX: usize = 4;

/// The fewest calls of a batch whose rows are read together. In a smaller batch each call reads its own rows.
const AHEAD_MIN: usize = 4;

/// The status of an act that storage refused.
const FAILED: u16 = 503;

/// One partition of the directory.
pub(super) struct Partition {
    pub(super) host: Host,
    pub(super) object: Object,
    store: Store,
    tables: PartitionTables,
    alarm: Rc<Alarm>,
    spreads: Rc<LeadSpreads>,
    roots: Rc<Roots>,
    operations: Operations,
    claims: Claims,
    inboxes: Rc<Inboxes>,
    views: Rc<Views>,
    listings: Listings,
    living: LivingCounters,
    sizes: ObjectSizes,
    places: Rc<RootPlaces>,
    moves: Rc<RootMoves>,
    features: Rc<dyn Features>,
}

impl Partition {
    /// Starts the object from what is stored, and sets the alarm where something is due.
    pub(super) fn start(object: Object, host: Host, features: &FeatureSet) -> Self {
        let tables = PartitionTables::open([SCHEMA, features.schema], &object, &host);
        let (store, places) = (tables.store.clone(), tables.places.clone());
        let (spreads, sweep) = (tables.spreads.clone(), Rc::new(RootSweep::default()));
        let alarm = Rc::new(Alarm::new(
            &host,
            &store,
            spreads.clone(),
            (places.clone(), sweep.clone()),
        ));
        let totals = Rc::new(DirectoryTotals::new(&store));
        let views = Rc::new(Views::new(&host, object.clone(), &store, totals.clone()));
        let inboxes = Rc::new(Inboxes::new(&host, object.clone()));
        let outbox = Outbox::new(object.clone(), host.clone(), MESSAGES_AT_ONCE);
        let roots = Roots::new(
            &host,
            &store,
            alarm.clone(),
            views.clone(),
            inboxes.clone(),
            outbox,
            places.clone(),
        );
        let roots = Rc::new(roots);
        let moves = Rc::new(RootMoves {
            host: host.clone(),
            object: object.clone(),
            store: store.clone(),
            places: places.clone(),
            roots: roots.clone(),
            views: views.clone(),
            totals: totals.clone(),
            inboxes: inboxes.clone(),
            spreads: spreads.clone(),
            alarm: alarm.clone(),
            sweep: sweep.clone(),
        });
        let partition = Self {
            tables,
            operations: Operations::new(&host, &store, roots.clone()),
            claims: Claims::new(&host, &store, roots.clone(), alarm.clone()),
            listings: Listings::new(&host, roots.clone(), views.clone(), totals),
            living: LivingCounters::new(&host, &store),
            sizes: ObjectSizes::new(&host, &store),
            features: (features.begin)(&PartitionParts {
                host: &host,
                object: &object,
                store: &store,
                alarm: &alarm,
                roots: &roots,
                inboxes: &inboxes,
                places: &places,
            }),
            host,
            object,
            store,
            alarm,
            spreads,
            roots,
            inboxes,
            views,
            places,
            moves,
        };
        partition.arm_where_due(&sweep);
        partition
    }

    /// Sets the alarm where something is due. If it cannot be set, the next due work sets it.
    fn arm_where_due(&self, sweep: &RootSweep) {
        let has_moves = sweep.next_due_ms(&self.places).is_some();
        if self.spreads.next_due_ms().is_some() || has_moves {
            let (alarm, now_ms) = (self.alarm.clone(), self.host.now_ms());
            (self.object).wait_until(async move { drop(alarm.arm(now_ms).await) });
        }
    }

    /// Begins some calls of a batch. Their rows are read, and their changes are written, many rows by one statement.
    /// Returns the answers of calls that have ended.
    pub(super) fn begin_together(
        self: &Rc<Self>,
        calls: Vec<(usize, BatchedCall)>,
        in_flight: &BatchInFlight,
    ) -> Vec<(usize, Reply)> {
        self.read_ahead(&calls);
        let mut ended = Vec::with_capacity(calls.len());
        let mut counters = Vec::new();
        for (index, call) in calls {
            let is_push = call.path == PushView::PATH;
            if is_push {
                counters.extend(batch::prefix::<CounterId>(&call.message));
            }
            // Other calls may send messages that depend on their writes.
            self.store.gather(is_push || call.path == Register::PATH);
            let partition = self.clone();
            let call = async move { partition.answer(arrived(call), 0).await };
            ended.extend(in_flight.begin(index, call.boxed_local()));
        }
        if let Err(fault) = self.store.write_gathered() {
            // Memory holds changes that were not written.
            counters
                .iter()
                .for_each(|counter| self.views.forget(counter));
            for (_, reply) in &mut ended {
                *reply = refusal(&fault);
            }
        }
        self.forget_ahead();
        ended
    }

    /// Reads the rows that the calls of a batch need, many by one statement. Rows that cannot be read now are read by
    /// each call itself.
    fn read_ahead(&self, calls: &[(usize, BatchedCall)]) {
        if calls.len() < AHEAD_MIN || self.readable().is_err() {
            return;
        }
        let counter = |call: &BatchedCall| batch::prefix::<CounterId>(&call.message).ok();
        let of = |paths: &[&str]| -> Vec<CounterId> {
            let calls = calls.iter().map(|(_, call)| call);
            let calls = calls.filter(|call| paths.contains(&call.path.as_str()));
            calls.filter_map(counter).collect()
        };
        let roots = self
            .roots
            .read_ahead(&of(&[Register::PATH, LookUp::PATH, PushView::PATH]));
        let _ = roots.and_then(|()| self.views.read_ahead(&of(&[PushView::PATH])));
    }

    fn forget_ahead(&self) {
        self.roots.forget_ahead();
        self.views.forget_ahead();
    }

    /// Answers a call whose root is here, see [`Partition::answer`].
    async fn answer_here(self: &Rc<Self>, arrived: &IncomingCall) -> Reply {
        let reply = dispatch!(arrived, message, {
            Register => self.when_ready(message, |message| self.register(message)).await,
            LocateLead => self.ready(message).and_then(|message| self.locate(&message)),
            PlaceLead => self.ready(message).and_then(|message| self.place_lead(&message)),
            FindClaims => self.when_ready(message, |message| self.claims.find(message)).await,
            Claim => self.when_ready(message, |message| self.claims.claim(message)).await,
            LookUp => self.ready(message).and_then(|message| self.roots.listed(&message.counter)),
            Operate => self.when_ready(message, |message| self.operations.operate(message)).await,
            StoreAnswer => self.ready(message).and_then(|message| self.operations.keep(&message)),
            Reconcile => self.when_ready(message, |message| self.roots.reconcile(message)).await,
            CheckStorage => message.map(|_| ailment(&self.host, self.readable())),
            WriteProof => self.when_ready(message, |_| write_proof(&self.host, &self.store)).await,
            ListNames => self.ready(message).and_then(|message| self.roots.names(&message)),
            ListDatacenters => self.ready(message).and_then(|_| self.roots.datacenters()),
            RepairRoot => self.when_ready(message, |message| self.roots.repair(message)).await,
            List => self.ready(message).and_then(|message| self.roots.list(message)),
            ListRows => self.ready(message).and_then(|message| self.listings.rows(message)),
            TopOf => self.ready(message).and_then(|message| self.listings.top(message)),
            AmountOf => self.ready(message).and_then(|message| self.listings.amount(message)),
            PushView => self.ready(message).and_then(|message| self.push(message)),
            ViewOf => self.ready(message).and_then(|message| self.view(&message)),
        });
        if !matches!(reply, Reply::Unknown) {
            return reply;
        }
        if let Err(fault) = self.readable() {
            return refusal(&fault);
        }
        match self.features.answer(arrived).await {
            Reply::Unknown => self.answer_of_partition(arrived).await,
            reply => reply,
        }
    }

    /// Answers a call about the partition itself.
    async fn answer_of_partition(self: &Rc<Self>, arrived: &IncomingCall) -> Reply {
        dispatch!(arrived, message, {
            FindKey => message.and_then(|message| self.find_key(&message)),
            ReportSizes => message.and_then(|message| self.sizes.take(&message)),
            FleetOf => message.and_then(|_| self.fleet_part()),
            GiveRoot => async { self.moves.on_give_root(message?).await }.await,
            RootTaken => message.and_then(|message| self.moves.on_root_taken(&message)),
            CallRoot => async { self.on_call_root(message?).await }.await,
            AnnounceSizes => async { self.moves.on_swept_of(message?).await }.await,
            SizesOf => message.map(|message| self.moves.on_sizes_of(&message)),
            CallPartition => async { self.on_in_partition(message?).await }.await,
        })
    }

    /// Answers a call: here, or in another partition if its root belongs there. `forwarded`: how often it was forwarded
    /// before.
    pub(super) async fn answer(self: &Rc<Self>, arrived: IncomingCall, forwarded: u8) -> Reply {
        if !is_of_root(&arrived.path) {
            let has_read = self.readable().is_ok();
            if has_read && is_of_all(&arrived.path) && !self.places.is_plain() {
                return refusal(&Fault::Repartitioned);
            }
            return self.answer_here(&arrived).await;
        }
        let name = match batch::prefix::<CounterId>(&arrived.message) {
            Ok(name) => name,
            Err(fault) => return refusal(&fault),
        };
        for _ in 0..LOOKED_MAX {
            let location = self
                .ready(Ok(()))
                .and_then(|()| self.places.location(&name));
            match location {
                Err(fault) => return refusal(&fault),
                Ok(RootLocation::Here) => {
                    let reply = self.answer_here(&arrived).await;
                    if !is_refused(&reply) {
                        return reply;
                    }
                }
                Ok(RootLocation::Away(to)) => {
                    return self.moves.forward(to, &arrived, forwarded).await;
                }
                Ok(RootLocation::Unknown) => match self.moves.locate(&name).await {
                    Ok(()) | Err(Fault::Repartitioned) => {}
                    Err(fault) => return refusal(&fault),
                },
            }
        }
        refusal(&moving())
    }

    /// Answers a call that another partition has forwarded, or only moves the root here.
    async fn on_call_root(self: &Rc<Self>, call: CallRoot) -> Result<Vec<u8>, Fault> {
        self.places.is_number(call.to);
        self.moves.adopt_sizes(&call.sizes).await?;
        if call.path.is_empty() {
            let name = batch::prefix::<CounterId>(&call.message)?;
            if self.places.location(&name)? == RootLocation::Unknown {
                self.moves.locate(&name).await?;
            }
            return Ok(Vec::new());
        }
        let arrived = IncomingCall::within(call.path, call.message);
        if !is_of_root(&arrived.path) {
            return Err(Fault::Broken("a call that no root answers".to_owned()));
        }
        let answered = self.answer(arrived, call.forwarded).boxed_local();
        Ok(bytes_of(answered.await))
    }

    /// Answers a question that is put to all partitions together.
    async fn on_in_partition(
        self: &Rc<Self>,
        call: CallPartition,
    ) -> Result<PartitionAnswer, Fault> {
        self.places.is_number(call.partition);
        if !is_of_all(&call.path) {
            return Err(Fault::Broken(
                "a call that partitions answer by themselves".to_owned(),
            ));
        }
        if call.holds {
            self.places.hold();
        }
        let moved = self.places.moved()?;
        let arrived = IncomingCall::within(call.path, call.message);
        let answer = bytes_of(self.answer_here(&arrived).boxed_local().await);
        Ok(PartitionAnswer {
            sizes: self.places.sizes(),
            moved,
            is_torn: self.places.moved()? != moved,
            answer,
        })
    }

    /// Writes an entry of the audit log and does its call, in one commit: there is no await in between.
    pub(super) async fn run_audited(
        self: &Rc<Self>,
        audited: CallAudited,
    ) -> Result<Vec<u8>, Fault> {
        let CallAudited {
            mut entry,
            path,
            message,
            account,
        } = audited;
        self.readable()?;
        self.features.record(&entry, &account)?;
        let call = arrived(BatchedCall { path, message });
        let Reply::Answer(bytes) = self.answer_here(&call).await else {
            return Err(Fault::Broken("an act that is no call".to_owned()));
        };
        // The encoding of a successful result begins with a zero.
        if bytes.first() != Some(&0) {
            entry.outcome = CallOutcome::Refused(FAILED);
            self.features.record(&entry, &account)?;
        }
        Ok(bytes)
    }

    fn find_key(&self, message: &FindKey) -> Result<KeyFound, Fault> {
        Ok(KeyFound {
            is_counter: self.roots.listed(&message.key)?.is_some(),
            is_board: self.features.has_board(&message.key)?,
        })
    }

    /// Handles the alarm.
    pub(super) async fn ring(self: &Rc<Self>) -> Result<(), Fault> {
        if let Err(fault) = self.run_due_work().await {
            self.host.fail(&format!("the directory's alarm: {fault}"));
        }
        if let Err(fault) = self.spreads.sweep(&self.host, &self.store).await {
            self.host.fail(&format!("leads that move: {fault}"));
        }
        match self.readable() {
            Ok(()) => self.features.ring().await,
            Err(fault) => self.host.fail(&format!("alerts and snapshots: {fault}")),
        }
        if let Err(fault) = self.see_to_moves().await {
            self.host.fail(&format!("roots that move: {fault}"));
        }
        // The platform repeats a failing alarm a few times only. So this one never fails, and always sets the next.
        (self.alarm)
            .arm(self.host.now_ms() + ALARM_SPACING_MS)
            .await?;
        Ok(())
    }

    async fn see_to_moves(&self) -> Result<(), Fault> {
        self.readable()?;
        self.moves.see_to_moves().await
    }

    fn readable(&self) -> Result<(), Fault> {
        self.tables.check(|| self.reload())
    }

    /// Reads again what memory holds of the rows.
    pub(super) fn reload(&self) {
        self.moves.totals.kept.clear();
        self.tables.reload();
    }

    /// Returns the message, once storage can be read.
    fn ready<Q>(&self, message: Result<Q, Fault>) -> Result<Q, Fault> {
        let message = message?;
        self.readable()?;
        Ok(message)
    }

    /// Answers the message, once storage can be read.
    async fn when_ready<Q, A, Answer: Future<Output = Result<A, Fault>>>(
        &self,
        message: Result<Q, Fault>,
        answer: impl FnOnce(Q) -> Answer,
    ) -> Result<A, Fault> {
        answer(self.ready(message)?).await
    }

    /// A lead asks for a grant.
    async fn register(&self, register: Register) -> Result<Grant, Fault> {
        self.spreads.admit(&register)?;
        self.roots.register(register).await
    }

    fn locate(&self, message: &LocateLead) -> Result<LeadLocation, Fault> {
        self.spreads
            .locate(&message.counter, message.datacenter.as_ref())
    }

    /// A lead leaves its tablet, or goes back. Returns whether it may.
    fn place_lead(&self, message: &PlaceLead) -> Result<bool, Fault> {
        let may = self.spreads.place_lead(message)?;
        if !may && message.apart {
            let (spreads, datacenter) = (self.spreads.clone(), message.datacenter.clone());
            self.object.wait_until(async move {
                // If it fails, the next refused lead tries again.
                let _ = spreads.make_room(&datacenter).await;
            });
        }
        Ok(may)
    }

    /// The deployment's data in this partition.
    fn fleet_part(&self) -> Result<FleetPart, Fault> {
        let mut part = FleetPart {
            now_ms: self.host.now_ms(),
            counters: self.living.count()?,
            moving: self.spreads.moving(&self.store)?,
            stored: self.sizes.sum()?,
            ..FleetPart::default()
        };
        self.features.add_to(&mut part)?;
        Ok(part)
    }

    fn push(&self, push: PushView) -> Result<PushAnswer, Fault> {
        let root = self.roots.admit_push(&push)?;
        self.views.take(push, &root)
    }

    fn view(&self, message: &ViewOf) -> Result<Option<ViewAnswer>, Fault> {
        let counter = &message.counter;
        let Some(root) = self.roots.listed(counter)? else {
            return Ok(None);
        };
        if !root.inboxes.is_empty() {
            self.inboxes.look_for_drained(counter, &root);
        }
        let is_one = !message.of_one && root.datacenters.len() <= 1;
        let (view, is_watched) = if is_one {
            (None, false)
        } else {
            let (view, is_watched) = self.views.view(counter, &root, message.watches)?;
            (Some(view), is_watched)
        };
        Ok(Some(ViewAnswer {
            root,
            view,
            is_watched,
            now_ms: self.host.now_ms(),
        }))
    }

    async fn run_due_work(&self) -> Result<(), Fault> {
        self.readable()?;
        self.operations.delete_old(self.host.now_ms())?;
        self.features.delete_old()?;
        self.roots.run_due_work().await
    }
}
