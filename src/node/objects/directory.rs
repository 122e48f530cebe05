//! The Durable Object of one partition of the directory: the roots of its counters, and what belongs to them.
//!
//! Invariants: each table has one part that reads and writes it; nothing is answered while storage cannot be read; operations of one
//! counter run one after the other (a lock per counter).

use std::future::Future;
use std::rc::Rc;

use futures_util::future::FutureExt;

use super::alarm::Alarm;
use super::batch::{UnderWay, answer_batch, arrived, refusal};
use super::board_registry::{BOARDS_SCHEMA, BoardRegistry};
use super::claim_store::CLAIMS_SCHEMA;
use super::claims::Claims;
use super::deployment_values::DEPLOYMENT_SCHEMA;
use super::directory_tablets::LeadSpreads;
use super::directory_totals::DirectoryTotals;
use super::duty_store::DUTIES_SCHEMA;
use super::inbox_registry::InboxRegistry;
use super::inboxes::Inboxes;
use super::listings::Listings;
use super::operation_store::OPERATIONS_SCHEMA;
use super::operations::Operations;
use super::outbox::Outbox;
use super::policies::{POLICIES_SCHEMA, PolicyStore};
use super::push_receiver::{VIEWS_SCHEMA, Views};
use super::readable::Readable;
use super::root_store::ROOTS_SCHEMA;
use super::roots::Roots;
use super::secrets::SecretStore;
use super::sender_sessions::SENDERS_SCHEMA;
use super::shares::ShareStore;
use super::store::Store;
use crate::core::cluster::push::Pushed;
use crate::core::counter::grant::Grant;
use crate::core::counter::id::CounterId;
use crate::host::Host;
use crate::host::object::{Arrived, Object, Reply, Shell, dispatch, reply};
use crate::node::shared::unreadable;
use crate::protocol::health::Ailment;
use crate::protocol::messages::{
    AmountOf, Batch, BatchedCall, Call, CheckStorage, Claim, CloseSession, DeletePolicy,
    DeleteShare, Fault, FindClaims, FindKey, ForgetBoard, GetPolicy, GetSecrets, GetShare, Keep,
    KeyFound, LetInboxesGo, List, ListBoards, ListPolicies, ListRows, ListShares, LocateLead,
    LookUp, OpenSession, Operate, Push, PutPolicy, PutShare, Register, RegisterBoard,
    RegisterInbox, RotateKey, Secrets, Settle, TopOf, ViewOf, Viewed, batch, decode,
};

/// Since this schema settings name the hash of a counter.
const SCHEMA_VERSION_MIN: i64 = 5;

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

/// The shortest time between two alarms, so that something that stays due does not spin.
const ALARM_SPACING_MS: i64 = 100;

/// Messages to one tablet that are under way at once: what leads are told meanwhile travels in the next. More than one, as a message that
/// is lost is waited for.
const MESSAGES_AT_ONCE: usize = 4;

/// What fewer calls of a batch need is read by each itself.
const AHEAD_MIN: usize = 4;

/// One partition of the directory, as the platform sees it.
pub struct Directory(Rc<Partition>);

impl Shell for Directory {
    fn start(object: Object, host: Host) -> Self {
        Self(Rc::new(Partition::start(object, host)))
    }

    async fn answer(&self, arrived: Arrived) -> Reply {
        if arrived.path != Batch::PATH {
            return self.0.answer(arrived).await;
        }
        let answered = match decode::<Batch>(&arrived.message) {
            Ok(batch) => {
                let (host, object) = (&self.0.host, &self.0.object);
                answer_batch(host, object, batch, |calls, under_way| {
                    self.0.begin_together(calls, under_way)
                })
                .await
            }
            Err(fault) => Err(fault),
        };
        reply::<Batch>(&answered)
    }

    async fn alarm(&self) -> Result<(), Fault> {
        self.0.ring().await
    }
}

/// One partition of the directory.
struct Partition {
    host: Host,
    object: Object,
    store: Store,
    storage: Readable,
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
    shares: ShareStore,
}

impl Partition {
    fn start(object: Object, host: Host) -> Self {
        let store = Store::new(object.clone());
        let storage = Readable::default();
        let spreads = Rc::new(LeadSpreads::new(&host, &store));
        storage.note(prepare(&store, &spreads));
        let alarm = Rc::new(Alarm::new(&host, &store, spreads.clone()));
        if spreads.next_due_ms().is_some() {
            let (alarm, now_ms) = (alarm.clone(), host.now_ms());
            // Where it fails the next thing that is due sets it.
            object.wait_until(async move { drop(alarm.arm(now_ms).await) });
        }
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
        );
        let roots = Rc::new(roots);
        Self {
            storage,
            operations: Operations::new(&host, &store, roots.clone()),
            claims: Claims::new(&host, &store, roots.clone(), alarm.clone()),
            registry: InboxRegistry::new(&host, &store, roots.clone(), inboxes.clone()),
            listings: Listings::new(&host, &store, roots.clone(), views.clone(), totals),
            policies: PolicyStore::new(&store),
            boards: BoardRegistry::new(&store),
            secrets: SecretStore::new(&host, &store),
            shares: ShareStore::new(&host, &store),
            host,
            object,
            store,
            alarm,
            spreads,
            roots,
            inboxes,
            views,
        }
    }

    /// Begins some calls of a batch: what they need is read, and what they write is written, many rows by one statement. Returns the
    /// answers of those that have ended.
    fn begin_together(
        self: &Rc<Self>,
        calls: Vec<(usize, BatchedCall)>,
        under_way: &UnderWay,
    ) -> Vec<(usize, Reply)> {
        self.read_ahead(&calls);
        let mut ended = Vec::with_capacity(calls.len());
        let mut told = Vec::new();
        for (place, call) in calls {
            let is_push = call.path == Push::PATH;
            if is_push {
                told.extend(batch::prefix::<CounterId>(&call.message));
            }
            // Others may send something that says what they have written.
            self.store.gather(is_push || call.path == Register::PATH);
            let partition = self.clone();
            let call = async move { partition.answer(arrived(call)).await };
            ended.extend(under_way.begin(place, call.boxed_local()));
        }
        if let Err(fault) = self.store.write_gathered() {
            // Memory holds what was not written.
            told.iter().for_each(|counter| self.views.forget(counter));
            for (_, reply) in &mut ended {
                *reply = refusal(&fault);
            }
        }
        self.forget_ahead();
        ended
    }

    /// Reads what the calls of a batch need, many by one statement. What cannot be read is read by each call itself.
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
            .read_ahead(&of(&[Register::PATH, LookUp::PATH, Push::PATH]));
        let _ = roots.and_then(|()| self.views.read_ahead(&of(&[Push::PATH])));
    }

    fn forget_ahead(&self) {
        self.roots.forget_ahead();
        self.views.forget_ahead();
    }

    async fn answer(&self, arrived: Arrived) -> Reply {
        dispatch!(&arrived, asked, {
            Register => self.when_ready(asked, |asked| self.register(asked)).await,
            LocateLead => self.ready(asked).map(|asked| self.spreads.locate(&asked.counter)),
            FindClaims => self.when_ready(asked, |asked| self.claims.find(asked)).await,
            Claim => self.when_ready(asked, |asked| self.claims.claim(asked)).await,
            RegisterInbox => self.when_ready(asked, |asked| self.registry.register(asked)).await,
            OpenSession => self.when_ready(asked, |asked| self.registry.open_session(asked)).await,
            CloseSession => self.ready(asked).and_then(|asked| self.registry.close_session(&asked)),
            LetInboxesGo => self.when_ready(asked, |asked| self.registry.let_go(asked)).await,
            LookUp => self.ready(asked).and_then(|asked| self.roots.listed(&asked.counter)),
            Operate => self.when_ready(asked, |asked| self.operations.operate(asked)).await,
            Keep => self.ready(asked).and_then(|asked| self.operations.keep(&asked)),
            Settle => self.when_ready(asked, |asked| self.roots.settle(asked)).await,
            CheckStorage => asked.map(|_| self.ailment()),
            List => self.ready(asked).and_then(|asked| self.roots.list(asked)),
            ListRows => self.when_ready(asked, |asked| self.listings.rows(asked)).await,
            TopOf => self.when_ready(asked, |asked| self.listings.top(asked)).await,
            AmountOf => self.ready(asked).and_then(|asked| self.listings.amount(asked)),
            Push => self.ready(asked).and_then(|asked| self.push(asked)),
            ViewOf => self.ready(asked).and_then(|asked| self.view(&asked)),
            GetPolicy => self.ready(asked).and_then(|asked| self.policies.get(&asked.name)),
            PutPolicy => self.ready(asked).and_then(|asked| self.policies.put(&asked)),
            DeletePolicy => self.ready(asked).and_then(|asked| self.policies.delete(&asked.name)),
            ListPolicies => self.ready(asked).and_then(|asked| self.policies.list(&asked)),
            PutShare => self.ready(asked).and_then(|asked| self.shares.put(&asked)),
            GetShare => self.ready(asked).and_then(|asked| self.shares.get(&asked)),
            DeleteShare => self.ready(asked).and_then(|asked| self.shares.delete(&asked)),
            ListShares => self.ready(asked).and_then(|asked| self.shares.list(&asked)),
            RegisterBoard => self.ready(asked).and_then(|asked| self.boards.register(&asked)),
            ForgetBoard => self.ready(asked).and_then(|asked| self.boards.forget(&asked)),
            ListBoards => self.ready(asked).and_then(|asked| self.boards.list(&asked)),
            FindKey => self.ready(asked).and_then(|asked| self.find_key(&asked)),
            GetSecrets => self.when_ready(asked, |asked| self.secrets(asked)).await,
            RotateKey => self.ready(asked).and_then(|asked| self.secrets.rotate_key(&asked)),
        })
    }

    fn find_key(&self, asked: &FindKey) -> Result<KeyFound, Fault> {
        Ok(KeyFound {
            is_counter: self.roots.listed(&asked.key)?.is_some(),
            is_board: self.boards.has(&asked.key)?,
        })
    }

    /// The alarm rings.
    async fn ring(&self) -> Result<(), Fault> {
        if let Err(fault) = self.look_at_what_is_due().await {
            self.host.fail(&format!("the directory's alarm: {fault}"));
        }
        if let Err(fault) = self.spreads.sweep(&self.host, &self.store).await {
            self.host.fail(&format!("leads that move: {fault}"));
        }
        // An alarm that fails is tried a few times and then never again: so this one never fails,
        // and always sets the next.
        (self.alarm)
            .arm(self.host.now_ms() + ALARM_SPACING_MS)
            .await?;
        if let Err(fault) = self.listings.see_to_totals().await {
            self.host
                .fail(&format!("the totals of the directory: {fault}"));
        }
        Ok(())
    }

    fn readable(&self) -> Result<(), Fault> {
        self.storage
            .check(|| self.storage.note(prepare(&self.store, &self.spreads)))
    }

    /// What is asked, once storage can be read.
    fn ready<Q>(&self, asked: Result<Q, Fault>) -> Result<Q, Fault> {
        let asked = asked?;
        self.readable()?;
        Ok(asked)
    }

    /// Answers what is asked, once storage can be read.
    async fn when_ready<Q, A, Answer: Future<Output = Result<A, Fault>>>(
        &self,
        asked: Result<Q, Fault>,
        answer: impl FnOnce(Q) -> Answer,
    ) -> Result<A, Fault> {
        answer(self.ready(asked)?).await
    }

    /// A lead asks for a grant.
    async fn register(&self, register: Register) -> Result<Grant, Fault> {
        self.spreads.admit(&register)?;
        self.roots.register(register).await
    }

    /// What only the operator can mend, if anything.
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

    fn push(&self, push: Push) -> Result<Pushed, Fault> {
        let root = self.roots.admit_push(&push)?;
        self.views.take(push, &root)
    }

    fn view(&self, asked: &ViewOf) -> Result<Option<Viewed>, Fault> {
        let counter = &asked.counter;
        let Some(root) = self.roots.listed(counter)? else {
            return Ok(None);
        };
        if !root.inboxes.is_empty() {
            self.inboxes.look_for_drained(counter, &root);
        }
        let is_one = !asked.of_one && root.datacenters.len() <= 1;
        let (view, is_watched) = if is_one {
            (None, false)
        } else {
            let (view, is_watched) = self.views.view(counter, &root, asked.watches)?;
            (Some(view), is_watched)
        };
        Ok(Some(Viewed {
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

    async fn look_at_what_is_due(&self) -> Result<(), Fault> {
        self.readable()?;
        self.operations.delete_old(self.host.now_ms())?;
        self.secrets.delete_old(self.host.now_ms())?;
        self.roots.look_at_what_is_due().await
    }
}

/// Makes the tables where there are none.
///
/// # Errors
/// `Unreadable` for a schema from the future or of long ago, `Unavailable` where SQLite refuses.
fn prepare(store: &Store, spreads: &LeadSpreads) -> Result<(), Fault> {
    match store.schema_version(SCHEMA_VERSION_MIN)? {
        // Earlier builds do not have these, and leave them alone.
        Some(_) => {
            store.run(SENDERS_SCHEMA, vec![])?;
            store.run(BOARDS_SCHEMA, vec![])?;
        }
        None => store.create_schema(SCHEMA)?,
    }
    spreads.open()
}
