//! The Durable Object of one partition of the directory: the roots of its counters, and related tables.
//!
//! Invariants: one part reads and writes each table. Nothing is answered while storage cannot be read. Operations of
//! one counter run one after the other (a lock per counter).

use std::future::Future;
use std::rc::Rc;

use futures_util::future::{FutureExt, LocalBoxFuture};

use super::alarm::Alarm;
use super::claim_store::CLAIMS_SCHEMA;
use super::claims::Claims;
use super::duty_store::DUTIES_SCHEMA;
use super::listings::Listings;
use super::living_counters::LivingCounters;
use super::operation_store::OPERATIONS_SCHEMA;
use super::operations::Operations;
use super::push_receiver::{VIEWS_SCHEMA, Views};
use super::root_bundle::RootBundles;
use super::root_moves::{RootMoves, is_refused, moving};
use super::root_places::{RootLocation, RootPlaces};
use super::root_store::ROOTS_SCHEMA;
use super::root_sweep;
use super::root_sweep::RootSweep;
use super::roots::Roots;
use super::tablets::LeadSpreads;
use super::totals::{DirectoryTotals, totals_schema};
use super::values::{DEPLOYMENT_SCHEMA, DeploymentValues};
use crate::archive::import_steps::ImportSteps;
use crate::archive::snapshot_reads::kept_by_any;
use crate::archive::snapshots::Snapshots;
use crate::board::registry::{BOARDS_SCHEMA, BoardRegistry};
use crate::deployment::alert_store::AlertStore;
use crate::deployment::alerts::Alerts;
use crate::deployment::api_keys::KeyStore;
use crate::deployment::audit_log::AuditLog;
use crate::deployment::fleet_store::FleetStore;
use crate::deployment::gifts::GiftStore;
use crate::deployment::policies::{POLICIES_SCHEMA, PolicyStore};
use crate::deployment::secrets::SecretStore;
use crate::inbox::inboxes::Inboxes;
use crate::inbox::registry::InboxRegistry;
use crate::inbox::sender_sessions::SENDERS_SCHEMA;
use crate::kit::batch::{BatchInFlight, answer_batch, arrived, bytes_of, refusal};
use crate::kit::outbox::Outbox;
use crate::kit::sizes::Sizes;
use crate::kit::storage_guard::StorageGuard;
use crate::kit::store::Store;
use tally_core::cluster::push::PushAnswer;
use tally_core::counter::grant::Grant;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Object, Reply, Shell, reply};
use tally_protocol::audit::CallOutcome;
use tally_protocol::fleet::FleetPart;
use tally_protocol::health::Ailment;
use tally_protocol::messages::{
    AddAuditEntry, AmountOf, AnnounceSizes, Batch, BatchedCall, BeginRun, Call, CallAudited,
    CallPartition, CallRoot, CheckStorage, Claim, CloseSession, DeleteAlert, DeletePolicy,
    DeleteShare, DeliveriesOf, EndAlerts, Fault, FindApiKey, FindClaims, FindHeldKey, FindKey,
    FleetOf, ForgetBoard, GetAlert, GetPolicy, GetSecrets, GetShare, GiveRoot, KeyFound,
    LeadLocation, LetInboxesGo, List, ListAlerts, ListAuditEntries, ListBoards, ListDatacenters,
    ListDeliveries, ListKeys, ListNames, ListPastStates, ListPolicies, ListRows, ListRuns,
    ListShares, LocateLead, LookUp, MakeKey, OpenSession, Operate, PartitionAnswer, PastState,
    PlaceLead, PushView, PutAlert, PutPolicy, PutShare, ReadOwnPastStates, ReadPastStates,
    Reconcile, Register, RegisterBoard, RegisterInbox, RepairRoot, ReplaceKey, ReportCounts,
    ReportSizes, RevokeKey, RootTaken, RotateKey, Secrets, SilenceAlert, SizesOf, StoreAnswer,
    TestAlert, TopOf, UseKey, ViewAnswer, ViewOf, WriteProof, batch, decode,
};
use tally_shared::partitions::ask_some;
use tally_shared::unreadable;

const SCHEMA: &[&str] = &[
    ROOTS_SCHEMA[0],
    ROOTS_SCHEMA[1],
    DUTIES_SCHEMA,
    CLAIMS_SCHEMA,
    OPERATIONS_SCHEMA,
    POLICIES_SCHEMA,
    VIEWS_SCHEMA,
    DEPLOYMENT_SCHEMA,
    SENDERS_SCHEMA,
    BOARDS_SCHEMA,
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

/// One partition of the directory, as the platform sees it.
pub struct Directory(Rc<Partition>);

impl Directory {
    /// Starts the object from what is stored.
    pub fn start(object: Object, host: Host) -> Self {
        Self(Rc::new(Partition::start(object, host)))
    }
}

impl Shell for Directory {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(async move {
            if arrived.path == CallAudited::PATH {
                let done = match decode::<CallAudited>(&arrived.message) {
                    Ok(act) => self.0.run_audited(act).await,
                    Err(fault) => Err(fault),
                };
                return reply::<CallAudited>(&done);
            }
            if arrived.path != Batch::PATH {
                return self.0.answer(arrived, 0).await;
            }
            let answered = match decode::<Batch>(&arrived.message) {
                Ok(batch) => {
                    let (host, object) = (&self.0.host, &self.0.object);
                    answer_batch(host, object, batch, |calls, in_flight| {
                        self.0.begin_together(calls, in_flight)
                    })
                    .await
                }
                Err(fault) => Err(fault),
            };
            reply::<Batch>(&answered)
        })
    }

    fn reload(&self) {
        self.0.reload();
    }

    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.0.ring().await })
    }
}

/// The row and the file that are written to show that storage takes writes.
const PROOF: &str = "proof";

/// The length of that file: a block of most file systems.
const PROOF_BYTES: usize = 4_096;

/// One partition of the directory.
struct Partition {
    host: Host,
    object: Object,
    store: Store,
    storage: StorageGuard,
    alarm: Rc<Alarm>,
    spreads: Rc<LeadSpreads>,
    roots: Rc<Roots>,
    operations: Operations,
    claims: Claims,
    registry: InboxRegistry,
    inboxes: Rc<Inboxes>,
    views: Rc<Views>,
    listings: Listings,
    policies: PolicyStore,
    boards: BoardRegistry,
    secrets: SecretStore,
    fleet: FleetStore,
    living: LivingCounters,
    keys: KeyStore,
    audit_log: AuditLog,
    snapshots: Rc<Snapshots>,
    sizes: Sizes,
    places: Rc<RootPlaces>,
    moves: Rc<RootMoves>,
    alerts: Rc<Alerts>,
}

/// What the parts of a partition share: its tables, and its alarm.
struct PartitionTables {
    store: Store,
    storage: StorageGuard,
    spreads: Rc<LeadSpreads>,
    places: Rc<RootPlaces>,
    alert_store: AlertStore,
    snapshots: Rc<Snapshots>,
    sweep: Rc<RootSweep>,
    alarm: Rc<Alarm>,
}

impl PartitionTables {
    /// Opens the tables, and sets the alarm where something is due.
    fn open(object: &Object, host: &Host) -> Self {
        let store = Store::new(object.clone());
        let storage = StorageGuard::default();
        let spreads = Rc::new(LeadSpreads::new(host, &store));
        let bundles = RootBundles::new(host, &store, DirectoryTotals::wide_columns());
        let places = Rc::new(RootPlaces::new(host, &store, bundles));
        storage.record(prepare(&store, &spreads, &places));
        let alert_store = AlertStore::new(&store);
        let snapshots = Rc::new(Snapshots::new(host, &store, places.clone()));
        let sweep = Rc::new(RootSweep::default());
        let alarm = Rc::new(Alarm::new(
            host,
            &store,
            &alert_store,
            spreads.clone(),
            snapshots.clone(),
            (places.clone(), sweep.clone()),
        ));
        let has_moves = root_sweep::next_due_ms(&places, &sweep).is_some();
        if spreads.next_due_ms().is_some() || has_moves {
            let (alarm, now_ms) = (alarm.clone(), host.now_ms());
            // If the alarm is not set, the next due work sets it.
            object.wait_until(async move { drop(alarm.arm(now_ms).await) });
        }
        if let Ok(Some(due_ms)) = snapshots.next_due_ms() {
            // The same holds here.
            let store = store.clone();
            object.wait_until(async move { drop(store.set_alarm_by(due_ms).await) });
        }
        Self {
            store,
            storage,
            spreads,
            places,
            alert_store,
            snapshots,
            sweep,
            alarm,
        }
    }
}

impl Partition {
    fn start(object: Object, host: Host) -> Self {
        let tables = PartitionTables::open(&object, &host);
        let (store, alarm, places) = (tables.store, tables.alarm, tables.places);
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
            spreads: tables.spreads.clone(),
            alarm: alarm.clone(),
            sweep: tables.sweep,
        });
        let steps = ImportSteps::new(&host, &store);
        let alert_rows = (&tables.alert_store, GiftStore::new(&store), steps.clone());
        let alerts = Alerts::new(&host, object.clone(), alert_rows, alarm.clone());
        Self {
            storage: tables.storage,
            operations: Operations::new(&host, &store, roots.clone()),
            claims: Claims::new(&host, &store, roots.clone(), alarm.clone()),
            registry: InboxRegistry::new(&host, &store, roots.clone(), inboxes.clone()),
            listings: Listings::new(&host, roots.clone(), views.clone(), totals),
            policies: PolicyStore::new(&store, steps),
            boards: BoardRegistry::new(&store),
            secrets: SecretStore::new(&host, &store),
            fleet: FleetStore::new(&host, &store),
            living: LivingCounters::new(&host, &store),
            keys: KeyStore::new(&host, &store),
            audit_log: AuditLog::new(&host, &store),
            snapshots: tables.snapshots,
            sizes: Sizes::new(&host, &store),
            alerts: Rc::new(alerts),
            host,
            object,
            store,
            alarm,
            spreads: tables.spreads,
            roots,
            inboxes,
            views,
            places,
            moves,
        }
    }

    /// Begins some calls of a batch. Their rows are read, and their changes are written, many rows by one statement.
    /// Returns the answers of calls that have ended.
    fn begin_together(
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
            RegisterInbox => self.when_ready(message, |message| self.registry.register(message)).await,
            OpenSession => self.when_ready(message, |message| self.registry.open_session(message)).await,
            CloseSession => self.ready(message).and_then(|message| self.registry.close_session(&message)),
            LetInboxesGo => self.when_ready(message, |message| self.registry.let_go(message)).await,
            LookUp => self.ready(message).and_then(|message| self.roots.listed(&message.counter)),
            Operate => self.when_ready(message, |message| self.operations.operate(message)).await,
            StoreAnswer => self.ready(message).and_then(|message| self.operations.keep(&message)),
            Reconcile => self.when_ready(message, |message| self.roots.reconcile(message)).await,
            CheckStorage => message.map(|_| self.ailment()),
            WriteProof => self.when_ready(message, |_| self.write_proof()).await,
            ListNames => self.ready(message).and_then(|message| self.roots.names(&message)),
            ListDatacenters => self.ready(message).and_then(|_| self.roots.datacenters()),
            RepairRoot => self.when_ready(message, |message| self.roots.repair(message)).await,
            List => self.ready(message).and_then(|message| self.roots.list(message)),
            ListRows => self.ready(message).and_then(|message| self.listings.rows(message)),
            TopOf => self.ready(message).and_then(|message| self.listings.top(message)),
            AmountOf => self.ready(message).and_then(|message| self.listings.amount(message)),
            PushView => self.ready(message).and_then(|message| self.push(message)),
            ViewOf => self.ready(message).and_then(|message| self.view(&message)),
            #[cfg(feature = "limits")]
            GetPolicy => self.ready(message).and_then(|message| self.policies.get(&message.name)),
            #[cfg(feature = "limits")]
            PutPolicy => self.ready(message).and_then(|message| self.policies.put(&message)),
            #[cfg(feature = "limits")]
            DeletePolicy => self.ready(message).and_then(|message| self.policies.delete(&message.name)),
            #[cfg(feature = "limits")]
            ListPolicies => self.ready(message).and_then(|message| self.policies.list(&message)),
        });
        if !matches!(reply, Reply::Unknown) {
            return reply;
        }
        self.answer_of_deployment(arrived).await
    }

    /// Answers a call about the whole deployment, or about the partition itself.
    async fn answer_of_deployment(self: &Rc<Self>, arrived: &IncomingCall) -> Reply {
        dispatch!(arrived, message, {
            PutShare => self.ready(message).and_then(|message| self.keys.put_share(&message)),
            GetShare => self.ready(message).and_then(|message| self.keys.get_share(&message)),
            DeleteShare => self.ready(message).and_then(|message| self.keys.delete_share(message.id)),
            ListShares => self.ready(message).and_then(|_| self.keys.list_shares()),
            MakeKey => self.ready(message).and_then(|message| self.keys.make(&message)),
            UseKey => self.ready(message).and_then(|message| self.keys.used(&message)),
            FindHeldKey => self.ready(message).and_then(|message| self.keys.find_held(&message)),
            FindApiKey => self.ready(message).and_then(|message| self.keys.find(&message)),
            ReplaceKey => self.ready(message).and_then(|message| self.keys.replace(&message)),
            RevokeKey => self.ready(message).and_then(|message| self.keys.revoke(&message)),
            ListKeys => self.ready(message).and_then(|message| self.keys.list(&message)),
            AddAuditEntry => self.ready(message).and_then(|AddAuditEntry { entry, account }| {
                self.audit_log.record(&entry, &account)
            }),
            ListAuditEntries => self.ready(message).and_then(|message| self.audit_log.list(&message)),
            PutAlert => self.when_ready(message, |message| self.alerts.put(message)).await,
            EndAlerts => self.ready(message).and_then(|message| self.alerts.end(&message)),
            GetAlert => self.ready(message).and_then(|message| self.alerts.get(message)),
            DeleteAlert => self.ready(message).and_then(|message| self.alerts.delete(&message)),
            SilenceAlert => self.when_ready(message, |message| self.alerts.silence(message)).await,
            TestAlert => self.when_ready(message, |message| self.alerts.test(message)).await,
            DeliveriesOf => self.ready(message).and_then(|message| self.alerts.deliveries(&message)),
            ListAlerts => self.ready(message).and_then(|_| self.alerts.list()),
            ListDeliveries => self.ready(message).and_then(|list| self.alerts.all_deliveries(&list)),
            #[cfg(feature = "boards")]
            RegisterBoard => self.ready(message).and_then(|message| self.boards.register(&message)),
            #[cfg(feature = "boards")]
            ForgetBoard => self.ready(message).and_then(|message| self.boards.forget(&message)),
            #[cfg(feature = "boards")]
            ListBoards => self.ready(message).and_then(|message| self.boards.list(&message)),
            FindKey => self.ready(message).and_then(|message| self.find_key(&message)),
            BeginRun => self.when_ready(message, |_| self.begin_run()).await,
            ListRuns => self.when_ready(message, |message| self.snapshots.list(message)).await,
            ReadPastStates => self.when_ready(message, |message| self.kept_on(message)).await,
            ReadOwnPastStates => self.when_ready(message, |message| self.snapshots.on(message.query)).await,
            ListPastStates => self.when_ready(message, |message| self.snapshots.rows(message)).await,
            GetSecrets => self.when_ready(message, |message| self.secrets(message)).await,
            ReportCounts => self.ready(message).and_then(|message| self.fleet.take(message)),
            ReportSizes => self.ready(message).and_then(|message| self.sizes.take(&message)),
            FleetOf => self.ready(message).and_then(|_| self.fleet_part()),
            RotateKey => self.ready(message).and_then(|message| self.secrets.rotate_key(&message)),
            GiveRoot => self.when_ready(message, |message| self.moves.on_give_root(message)).await,
            RootTaken => self.ready(message).and_then(|message| self.moves.on_root_taken(&message)),
            CallRoot => self.when_ready(message, |message| self.on_call_root(message)).await,
            AnnounceSizes => self.when_ready(message, |message| self.moves.on_swept_of(message)).await,
            SizesOf => self.ready(message).map(|message| self.moves.on_sizes_of(&message)),
            CallPartition => self.when_ready(message, |message| self.on_in_partition(message)).await,
        })
    }

    /// Answers a call: here, or in another partition if its root belongs there. `forwarded`: how often it was forwarded
    /// before.
    async fn answer(self: &Rc<Self>, arrived: IncomingCall, forwarded: u8) -> Reply {
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
    async fn run_audited(self: &Rc<Self>, audited: CallAudited) -> Result<Vec<u8>, Fault> {
        let CallAudited {
            mut entry,
            path,
            message,
            account,
        } = audited;
        self.readable()?;
        self.audit_log.record(&entry, &account)?;
        let call = arrived(BatchedCall { path, message });
        let Reply::Answer(bytes) = self.answer_here(&call).await else {
            return Err(Fault::Broken("an act that is no call".to_owned()));
        };
        // The encoding of a successful result begins with a zero.
        if bytes.first() != Some(&0) {
            entry.outcome = CallOutcome::Refused(FAILED);
            self.audit_log.record(&entry, &account)?;
        }
        Ok(bytes)
    }

    fn find_key(&self, message: &FindKey) -> Result<KeyFound, Fault> {
        Ok(KeyFound {
            is_counter: self.roots.listed(&message.key)?.is_some(),
            is_board: self.boards.has(&message.key)?,
        })
    }

    /// The former states of a counter. If the number of partitions was changed, or the files are of a deployment with
    /// more partitions, its root may have been in another one. The files of that time are there.
    async fn kept_on(&self, message: ReadPastStates) -> Result<Vec<PastState>, Fault> {
        let own = self.snapshots.on(message.clone()).await?;
        let has_all = !own.is_empty() && own.iter().all(|then| then.kept.is_some());
        if self.places.is_ever_plain()? || (has_all && !message.is_range) {
            return Ok(own);
        }
        let others = 0..self.places.ever()?;
        let others = others.filter(|partition| !self.places.is_me(*partition));
        let ask = |partition: u32| ReadOwnPastStates {
            partition,
            query: message.clone(),
        };
        let answered = ask_some(&self.host, others, ask).await;
        match answered.fault {
            // The missing state may be the requested one.
            Some(fault) => Err(fault),
            None => {
                let states = answered.answers.into_iter().flat_map(|(_, states)| states);
                let mut days = kept_by_any(own.into_iter().chain(states));
                // The latest one is the state on a day, or before.
                let first = if message.is_range {
                    0
                } else {
                    days.len().saturating_sub(1)
                };
                days.drain(..first);
                Ok(days)
            }
        }
    }

    async fn begin_run(&self) -> Result<(), Fault> {
        self.snapshots.begin().await?;
        self.store.set_alarm_by(self.host.now_ms()).await
    }

    /// Handles the alarm.
    async fn ring(self: &Rc<Self>) -> Result<(), Fault> {
        if let Err(fault) = self.run_due_work().await {
            self.host.fail(&format!("the directory's alarm: {fault}"));
        }
        if let Err(fault) = self.spreads.sweep(&self.host, &self.store).await {
            self.host.fail(&format!("leads that move: {fault}"));
        }
        if let Err(fault) = self.readable().and_then(|()| self.alerts.ring()) {
            self.host.fail(&format!("alerts: {fault}"));
        }
        if self.readable().is_ok()
            && let Err(fault) = self.snapshots.step().await
        {
            self.host.fail(&format!("a snapshot: {fault}"));
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
        self.storage.check(|| self.reload())
    }

    fn reload(&self) {
        let read = prepare(&self.store, &self.spreads, &self.places);
        self.moves.totals.kept.clear();
        self.storage.record(read);
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

    /// A fault that only the operator can mend, if any.
    fn ailment(&self) -> Option<Ailment> {
        let why = match self.readable() {
            Ok(()) => {
                return match self.host.check_settings() {
                    Ok(()) => unreadable::ailment(&self.host),
                    Err(wrong) => Some(Ailment::NotConfigured(wrong.detail().to_owned())),
                };
            }
            Err(Fault::Unavailable(why) | Fault::Broken(why) | Fault::Unreadable(why)) => why,
            Err(fault) => fault.to_string(),
        };
        Some(Ailment::Unreadable(why))
    }

    /// Writes a row here, and a file where the deployment has a place for files: a database that has room of its own
    /// takes rows also on a disk that is full.
    async fn write_proof(&self) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        DeploymentValues::new(&self.store).put(PROOF, now_ms.to_le_bytes().to_vec())?;
        match self.host.platform().files() {
            Some(files) => {
                let written = files.put(PROOF, vec![0; PROOF_BYTES]).await;
                written.map_err(Fault::Unavailable)
            }
            None => Ok(()),
        }
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
        self.fleet.add_to(&mut part)?;
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

    async fn secrets(&self, get: GetSecrets) -> Result<Secrets, Fault> {
        let (secrets, is_made) = self.secrets.get(&get)?;
        if is_made {
            self.alarm.arm(self.host.now_ms()).await?;
        }
        Ok(secrets)
    }

    async fn run_due_work(&self) -> Result<(), Fault> {
        self.readable()?;
        self.operations.delete_old(self.host.now_ms())?;
        self.secrets.delete_old(self.host.now_ms())?;
        self.audit_log.delete_old()?;
        self.roots.run_due_work().await
    }
}

/// Creates the tables where there are none.
///
/// # Errors
/// `Unreadable` for a schema that this build does not know, `Unavailable` where SQLite refuses.
fn prepare(store: &Store, spreads: &LeadSpreads, places: &RootPlaces) -> Result<(), Fault> {
    let is_new = !store.has_schema()?;
    if is_new {
        let totals = totals_schema();
        store.create_schema(&[SCHEMA, &[totals.as_str()]].concat())?;
    }
    // First, because a new partition has no counts yet.
    spreads.open(is_new)?;
    places.open(is_new)
}

/// Whether a call is for a root, whose name is the first field of its message.
fn is_of_root(path: &str) -> bool {
    [
        PushView::PATH,
        Register::PATH,
        ViewOf::PATH,
        LookUp::PATH,
        Claim::PATH,
        FindClaims::PATH,
        LocateLead::PATH,
        PlaceLead::PATH,
        Operate::PATH,
        StoreAnswer::PATH,
        Reconcile::PATH,
        AmountOf::PATH,
        FindKey::PATH,
        RegisterBoard::PATH,
        ForgetBoard::PATH,
        ReadPastStates::PATH,
        RegisterInbox::PATH,
        LetInboxesGo::PATH,
        OpenSession::PATH,
        CloseSession::PATH,
    ]
    .contains(&path)
}

/// Whether a call is one that all partitions are asked together.
fn is_of_all(path: &str) -> bool {
    [
        List::PATH,
        ListRows::PATH,
        TopOf::PATH,
        ListBoards::PATH,
        BeginRun::PATH,
        ListRuns::PATH,
        ListPastStates::PATH,
    ]
    .contains(&path)
}
