//! One partition of the directory pushes the metrics of the deployment by OTLP/HTTP.
//!
//! Invariants: the sums of a push are cumulative, so a lost push loses no count: the next one has it. The times of
//! points only rise, across crashes too, and one push is in flight. A push is due again until its receiver has
//! accepted it, so a crash only delays it. Where no address is set, nothing is read or sent.
//!
//! Life: isolates that count wake the partition, which plans its first push. Its alarm then rings every
//! [`EVERY_MS`]: it asks all partitions, sends what they have, and tries again soon if that failed.

use std::cell::Cell;
use std::rc::Rc;

use super::push_store::{PushState, PushStore};
use crate::directory::alarm::Alarm;
use crate::kit::store::Store;
use tally_api::metrics::{OTLP_CONTENT_TYPE, OtlpContext, fleet_text, otlp_body};
use tally_core::alert::backoff::ANSWER_MS_MAX;
use tally_host::Host;
use tally_host::object::Object;
use tally_shared::flag_guard::FlagGuard;
use tally_wire::alerts::webhook::{Allowed, check, host_name};
use tally_wire::alerts::{Outgoing, refusal_of};
use tally_wire::fleet::REPORT_EVERY_MS;
use tally_wire::messages::Fault;
use tally_wire::names::{ALERTS_ALLOW, OTLP_ATTRIBUTES, OTLP_HEADERS, OTLP_URL};
use tally_wire::otlp;

/// How often metrics are pushed, milliseconds. It is OpenTelemetry's default too.
const EVERY_MS: i64 = 60_000;

/// How long after the first count the first push is made, milliseconds: each isolate has reported once by then.
const FIRST_MS: i64 = REPORT_EVERY_MS + 5_000;

/// When a push is made again of which nothing is known, milliseconds: that is more than it may take.
const AGAIN_MS: i64 = 20_000;

/// The wait after the first failure, milliseconds. It doubles, up to [`EVERY_MS`].
const FAILED_MS: i64 = 5_000;

/// How many failures pass between two lines of the log.
const LOGGED_EVERY: u32 = 60;

/// The push of a partition.
pub(super) struct MetricsPush {
    host: Host,
    object: Object,
    store: PushStore,
    alarm: Rc<Alarm>,
    is_under_way: Cell<bool>,
}

impl MetricsPush {
    /// The push of an object.
    pub(super) fn new(host: &Host, object: &Object, store: &Store, alarm: &Rc<Alarm>) -> Self {
        Self {
            host: host.clone(),
            object: object.clone(),
            store: PushStore::new(host, store),
            alarm: alarm.clone(),
            is_under_way: Cell::new(false),
        }
    }

    /// Something is counted: pushes begin, unless they have.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses; as for all methods below.
    pub(super) async fn wake(&self) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        if self.store.get()?.is_none() {
            let due_ms = now_ms + FIRST_MS;
            self.store.put(&PushState {
                due_ms,
                ..PushState::default()
            })?;
        }
        self.alarm.arm(now_ms).await
    }

    /// Handles the alarm: begins a push that is due, which then continues by itself.
    pub(super) fn ring(self: &Rc<Self>) -> Result<(), Fault> {
        let (Some(url), now_ms) = (self.host.setting(OTLP_URL), self.host.now_ms()) else {
            return Ok(());
        };
        let Some(mut state) = self.store.get()?.filter(|state| state.due_ms <= now_ms) else {
            return Ok(());
        };
        // Durable before anything is sent.
        state.due_ms = now_ms + AGAIN_MS;
        state.newest_ms = now_ms.max(state.newest_ms + 1);
        self.store.put(&state)?;
        if !self.is_under_way.replace(true) {
            let push = self.clone();
            self.object.wait_until(async move {
                let _guard = FlagGuard(&push.is_under_way);
                if let Err(fault) = push.push(&url, state).await {
                    push.host.fail(&format!("the push of metrics: {fault}"));
                }
            });
        }
        Ok(())
    }

    /// Makes one push, and plans the next one: sooner if it failed.
    async fn push(&self, url: &str, mut state: PushState) -> Result<(), Fault> {
        let begun_ms = self.host.now_ms();
        let failure = self.attempt(url, &mut state).await;
        let now_ms = self.host.now_ms();
        match failure {
            None => (state.failures, state.due_ms) = (0, begun_ms + EVERY_MS),
            Some(why) => {
                if state.failures.is_multiple_of(LOGGED_EVERY) {
                    let host = host_name(url);
                    self.host
                        .fail(&format!("metrics were not pushed to {host}: {why}"));
                }
                let wait_ms = (FAILED_MS << state.failures.min(16)).min(EVERY_MS);
                state.failures = state.failures.saturating_add(1);
                state.due_ms = now_ms + wait_ms;
            }
        }
        self.store.put(&state)?;
        self.alarm.arm(now_ms).await
    }

    /// Sends what the deployment has counted. Returns why that failed, or lacked sums.
    async fn attempt(&self, url: &str, state: &mut PushState) -> Option<String> {
        let allowed = Allowed::of(self.host.setting(ALERTS_ALLOW).as_deref());
        let reach = match check(url, &allowed) {
            Ok(reach) => reach,
            Err(problem) => return Some(problem.detail().to_owned()),
        };
        let fleet = match tally_aggregator::read_fleet(&self.host).await {
            Ok(fleet) => fleet,
            Err(fault) => return Some(fault.to_string()),
        };
        let begun_ms = fleet.part().begun_ms.filter(|_| fleet.is_whole());
        state.start_ms = state.start_ms.or(begun_ms);
        let read = |name: &str| self.host.setting(name);
        let attributes = read(OTLP_ATTRIBUTES).and_then(|text| otlp::attributes(&text));
        let context = OtlpContext {
            version: env!("CARGO_PKG_VERSION"),
            attributes: &attributes.unwrap_or_default(),
            start_ms: state.start_ms,
            time_ms: state.newest_ms,
        };
        let body = otlp_body(&fleet_text(&fleet), &context);
        let set = read(OTLP_HEADERS).and_then(|text| otlp::headers(&text));
        let set = set.unwrap_or_default().into_iter();
        let own = [("content-type", OTLP_CONTENT_TYPE), ("user-agent", "Tally")];
        let headers = own
            .map(|(name, value)| (name.into(), value.to_owned()))
            .into_iter();
        let headers = headers
            .chain(set.map(|(name, value)| (name.into(), value)))
            .collect();
        let request = Outgoing {
            url: url.to_owned(),
            headers,
            body,
            reach,
        };
        let posting = self.host.platform().post(request);
        let refusal = match self.host.within_ms(ANSWER_MS_MAX, posting).await {
            Some(Ok(status)) => refusal_of(status),
            Some(Err(why)) => Some(format!("the receiver cannot be reached: {why}")),
            None => Some(format!(
                "the receiver did not answer in {} s",
                ANSWER_MS_MAX / 1_000
            )),
        };
        let lacks = || "some partitions did not answer, so no sums were sent".to_owned();
        refusal.or_else(|| (!fleet.is_whole()).then(lacks))
    }
}
