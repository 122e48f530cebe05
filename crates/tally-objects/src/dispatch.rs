//! What the rooms of features add to a partition of the directory: the calls that they answer, their tables, and what
//! is due.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use crate::archive::snapshots::Snapshots;
#[cfg(feature = "boards")]
use crate::board::registry;
use crate::deployment::alert_store::AlertStore;
use crate::deployment::object_part::Deployment;
#[cfg(feature = "limits")]
use crate::deployment::policies;
use crate::deployment::push_store::PushStore;
use crate::deployment::secrets::SecretStore;
use crate::directory::alarm::Due;
use crate::directory::partition::features::{FeatureSet, FeatureStore, Features, PartitionParts};
use crate::inbox::registry::InboxRegistry;
use crate::inbox::sender_sessions::SENDERS_SCHEMA;
use crate::kit::store::Store;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Reply};
use tally_wire::audit::AuditEntry;
use tally_wire::fleet::FleetPart;
use tally_wire::messages::{
    BeginRun, CloseSession, Fault, LetInboxesGo, ListPastStates, ListRuns, OpenSession,
    ReadOwnPastStates, ReadPastStates, RegisterInbox,
};

/// The features of this build.
pub(crate) const FEATURES: FeatureSet = FeatureSet {
    schema: &[
        SENDERS_SCHEMA,
        #[cfg(feature = "limits")]
        policies::POLICIES_SCHEMA,
        #[cfg(feature = "boards")]
        registry::BOARDS_SCHEMA,
    ],
    begin,
};

struct PartitionFeatures {
    host: Host,
    store: Store,
    registry: InboxRegistry,
    stores: Vec<Box<dyn FeatureStore>>,
    snapshots: Snapshots,
    deployment: Deployment,
    alerts: AlertStore,
    pushes: PushStore,
    secrets: SecretStore,
}

fn begin(parts: &PartitionParts<'_>) -> Rc<dyn Features> {
    let (host, store, alarm) = (parts.host, parts.store, parts.alarm);
    let alerts = AlertStore::new(store);
    let features = Rc::new(PartitionFeatures {
        registry: InboxRegistry::new(host, store, parts.roots.clone(), parts.inboxes.clone()),
        stores: vec![
            #[cfg(feature = "limits")]
            Box::new(policies::PolicyStore::new(host, store)),
            #[cfg(feature = "boards")]
            Box::new(registry::BoardRegistry::new(store)),
        ],
        snapshots: Snapshots::new(host, store, parts.places.clone()),
        deployment: Deployment::new(host, parts.object, store, &alerts, alarm),
        alerts,
        pushes: PushStore::new(host, store),
        secrets: SecretStore::new(host, store),
        host: host.clone(),
        store: store.clone(),
    });
    let due: Rc<dyn Due> = features.clone();
    alarm.also(Rc::downgrade(&due));
    if let Ok(Some(due_ms)) = features.snapshots.next_due_ms() {
        let store = store.clone();
        (parts.object).wait_until(async move { drop(store.set_alarm_by(due_ms).await) });
    }
    features
}

impl PartitionFeatures {
    async fn begin_run(&self) -> Result<(), Fault> {
        self.snapshots.begin().await?;
        self.store.set_alarm_by(self.host.now_ms()).await
    }
}

impl Due for PartitionFeatures {
    fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        let due_ms = [
            self.secrets.next_due_ms()?,
            self.alerts.next_due_ms()?,
            self.pushes.next_due_ms()?,
            self.snapshots.next_due_ms()?,
        ];
        Ok(due_ms.into_iter().flatten().min())
    }
}

impl Features for PartitionFeatures {
    fn answer<'a>(&'a self, arrived: &'a IncomingCall) -> LocalBoxFuture<'a, Reply> {
        Box::pin(async move {
            let reply = self.deployment.answer(arrived).await;
            if !matches!(reply, Reply::Unknown) {
                return reply;
            }
            let mut of_stores = self.stores.iter().map(|store| store.answer(arrived));
            if let Some(reply) = of_stores.find(|reply| !matches!(reply, Reply::Unknown)) {
                return reply;
            }
            dispatch!(arrived, message, {
                RegisterInbox => async { self.registry.register(message?).await }.await,
                OpenSession => async { self.registry.open_session(message?).await }.await,
                CloseSession => message.and_then(|message| self.registry.close_session(&message)),
                LetInboxesGo => async { self.registry.let_go(message?).await }.await,
                BeginRun => async { message.map(drop)?; self.begin_run().await }.await,
                ListRuns => async { self.snapshots.list(message?).await }.await,
                ReadPastStates => async { self.snapshots.on_any(message?).await }.await,
                ReadOwnPastStates => async { self.snapshots.on(message?.query).await }.await,
                ListPastStates => async { self.snapshots.rows(message?).await }.await,
            })
        })
    }

    fn has_board(&self, name: &CounterId) -> Result<bool, Fault> {
        for store in &self.stores {
            if store.has_board(name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn record(&self, entry: &AuditEntry, account: &str) -> Result<(), Fault> {
        self.deployment.record(entry, account)
    }

    fn add_to(&self, part: &mut FleetPart) -> Result<(), Fault> {
        self.deployment.add_to(part)
    }

    fn delete_old(&self) -> Result<(), Fault> {
        self.deployment.delete_old()
    }

    fn ring(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(fault) = self.deployment.ring() {
                self.host.fail(&format!("alerts: {fault}"));
            }
            if let Err(fault) = self.snapshots.step().await {
                self.host.fail(&format!("a snapshot: {fault}"));
            }
        })
    }
}
