//! What a partition of the directory keeps for the deployment: keys, shares, secrets, alerts, the audit log, and
//! what isolates report. It knows no counter.

use std::rc::Rc;

use super::alert_store::AlertStore;
use super::alerts::Alerts;
use super::api_keys::KeyStore;
use super::audit_log::AuditLog;
use super::fleet_store::FleetStore;
use super::gifts::GiftStore;
use super::metrics_push::MetricsPush;
use super::secrets::SecretStore;
use crate::archive::import_steps::ImportSteps;
use crate::directory::alarm::Alarm;
use crate::kit::store::Store;
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Object, Reply};
use tally_wire::audit::AuditEntry;
use tally_wire::fleet::FleetPart;
use tally_wire::messages::{
    AddAuditEntry, ClaimRestore, DeleteAlert, DeleteShare, DeliveriesOf, EffectiveKeys, EndAlerts,
    Fault, FindApiKey, FindHeldKey, GetAlert, GetSecrets, GetShare, ListAlerts, ListAuditEntries,
    ListDeliveries, ListKeys, ListShares, MakeKey, PutAlert, PutShare, ReplaceKey, ReportCounts,
    RevokeKey, RotateKey, Secrets, SilenceAlert, TestAlert, UseKey, WakePush,
};

/// The tables of the deployment in one partition.
pub(crate) struct Deployment {
    host: Host,
    keys: KeyStore,
    secrets: SecretStore,
    alerts: Rc<Alerts>,
    audit_log: AuditLog,
    fleet: FleetStore,
    pushes: Rc<MetricsPush>,
    alarm: Rc<Alarm>,
    steps: ImportSteps,
}

impl Deployment {
    /// The tables of an object.
    pub(crate) fn new(
        host: &Host,
        object: &Object,
        store: &Store,
        alert_store: &AlertStore,
        alarm: &Rc<Alarm>,
    ) -> Self {
        let steps = ImportSteps::new(host, store);
        let alert_rows = (alert_store, GiftStore::new(store), steps.clone());
        Self {
            host: host.clone(),
            keys: KeyStore::new(host, store),
            secrets: SecretStore::new(host, store),
            alerts: Rc::new(Alerts::new(host, object.clone(), alert_rows, alarm.clone())),
            audit_log: AuditLog::new(host, store),
            fleet: FleetStore::new(host, store),
            pushes: Rc::new(MetricsPush::new(host, object, store, alarm)),
            alarm: alarm.clone(),
            steps,
        }
    }

    /// Answers a call about the deployment, once storage can be read; [`Reply::Unknown`] for another one.
    pub(crate) async fn answer(&self, arrived: &IncomingCall) -> Reply {
        dispatch!(arrived, message, {
            PutShare => message.and_then(|message| self.keys.put_share(&message)),
            GetShare => message.and_then(|message| self.keys.get_share(&message)),
            DeleteShare => message.and_then(|message| self.keys.delete_share(message.id)),
            ListShares => message.and_then(|_| self.keys.list_shares()),
            MakeKey => message.and_then(|message| self.keys.make(&message)),
            UseKey => message.and_then(|message| self.keys.used(&message)),
            FindHeldKey => message.and_then(|message| self.keys.find_held(&message)),
            FindApiKey => message.and_then(|message| self.keys.find(&message)),
            ReplaceKey => message.and_then(|message| self.keys.replace(&message)),
            RevokeKey => message.and_then(|message| self.keys.revoke(&message)),
            ListKeys => message.and_then(|message| self.keys.list(&message)),
            ClaimRestore => message.and_then(|claim| self.steps.claim(&claim)),
            EffectiveKeys => message.and_then(|message| self.keys.effective(&message)),
            AddAuditEntry => message.and_then(|AddAuditEntry { entry, account }| {
                self.audit_log.record(&entry, &account)
            }),
            ListAuditEntries => message.and_then(|message| self.audit_log.list(&message)),
            PutAlert => async { self.alerts.put(message?).await }.await,
            EndAlerts => message.and_then(|message| self.alerts.end(&message)),
            GetAlert => message.and_then(|message| self.alerts.get(message)),
            DeleteAlert => message.and_then(|message| self.alerts.delete(&message)),
            SilenceAlert => async { self.alerts.silence(message?).await }.await,
            TestAlert => async { self.alerts.test(message?).await }.await,
            DeliveriesOf => message.and_then(|message| self.alerts.deliveries(&message)),
            ListAlerts => message.and_then(|_| self.alerts.list()),
            ListDeliveries => message.and_then(|list| self.alerts.all_deliveries(&list)),
            GetSecrets => async { self.secrets(message?).await }.await,
            ReportCounts => message.and_then(|message| self.fleet.take(message)),
            WakePush => async { message?; self.pushes.wake().await }.await,
            RotateKey => message.and_then(|message| self.secrets.rotate_key(&message)),
        })
    }

    /// Writes an entry of the audit log.
    ///
    /// # Errors
    /// As [`AuditLog::record`].
    pub(crate) fn record(&self, entry: &AuditEntry, account: &str) -> Result<(), Fault> {
        self.audit_log.record(entry, account)
    }

    /// Adds what isolates have reported.
    ///
    /// # Errors
    /// As [`FleetStore::add_to`].
    pub(crate) fn add_to(&self, part: &mut FleetPart) -> Result<(), Fault> {
        self.fleet.add_to(part)
    }

    /// Sends the alerts and the metrics that are due.
    ///
    /// # Errors
    /// As [`Alerts::ring`] and [`MetricsPush::ring`].
    pub(crate) fn ring(&self) -> Result<(), Fault> {
        self.pushes.ring()?;
        self.alerts.ring()
    }

    /// Deletes what nobody needs any more.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(crate) fn delete_old(&self) -> Result<(), Fault> {
        self.secrets.delete_old(self.host.now_ms())?;
        self.audit_log.delete_old()
    }

    async fn secrets(&self, get: GetSecrets) -> Result<Secrets, Fault> {
        let (secrets, is_made) = self.secrets.get(&get)?;
        if is_made {
            self.alarm.arm(self.host.now_ms()).await?;
        }
        Ok(secrets)
    }
}
