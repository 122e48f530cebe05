//! The backlog of an inbox, reported while events wait for long.

use super::object::InboxCore;
use tally_shared::fleet;
use tally_wire::fleet::GaugeKind;
use tally_wire::messages::Fault;

/// The waiting time from which on the backlog is reported, milliseconds: normally events wait for less.
const WAITS_MS_MIN: i64 = 5_000;

/// The interval of the reports, milliseconds.
const TELL_EVERY_MS: i64 = 10_000;

impl InboxCore {
    /// Reports the backlog while events wait for long, and once more when it is over.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn report_backlog(&self) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        let reported_ms = self.reported_ms.get();
        let is_recent =
            reported_ms.is_some_and(|at_ms| (0..TELL_EVERY_MS).contains(&(now_ms - at_ms)));
        let rows = self.head.borrow().rows() + self.rows.count_batches()?;
        if rows > 0 && is_recent {
            return Ok(());
        }
        let oldest_ms = if rows > 0 {
            self.rows.oldest_ms()?
        } else {
            None
        };
        let waits_ms = oldest_ms.filter(|oldest_ms| now_ms - oldest_ms >= WAITS_MS_MIN);
        if waits_ms.is_none() && reported_ms.is_none() {
            return Ok(());
        }
        let me = self.head.borrow().me.clone();
        let Some(me) = me else { return Ok(()) };
        let name = format!("{}/{}", me.datacenter, me.number);
        let rows = if waits_ms.is_some() { rows } else { 0 };
        let since_ms = waits_ms.and_then(|since_ms| u64::try_from(since_ms).ok());
        fleet::gauge(&self.host, GaugeKind::Backlog, name.clone(), rows);
        fleet::gauge(
            &self.host,
            GaugeKind::OldestWaiting,
            name,
            since_ms.unwrap_or(0),
        );
        self.reported_ms.set(waits_ms.map(|_| now_ms));
        // There may be no later call that would report it.
        let host = self.host.clone();
        self.object
            .wait_until(async move { fleet::report(&host, None).await });
        Ok(())
    }
}
