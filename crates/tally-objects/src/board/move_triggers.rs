//! When a board needs another number of shards: what its shards report, and what the deployment allows.

use super::moves::AGAIN_MS;
use super::object::BoardCore;
use super::state::Loaded;
use tally_core::board::placing::{BOARD_SHARDS_MAX, Layout, ShardAt, Shards};
use tally_core::board::settings::MEMBERS_MAX;
use tally_core::counter::id::CounterId;
use tally_host::{Host, State};
use tally_shared::call;
use tally_wire::messages::{Fault, ReportShard, ShardCommand, ShardMeasure, ShardReply};
use tally_wire::names::{QUIET_MS, SPLIT_FLUSHES_PER_SECOND};
use tally_wire::shell_limits::BOARD_BYTES_MAX;

/// The default rate of messages a second to one object at which the number of shards is doubled.
const MESSAGES_PER_SECOND: u32 = 1_000;

/// The default time after a change of shards before the next, and between checks whether fewer shards would do,
/// milliseconds.
const QUIET_MS_USUAL: i64 = 60_000;

/// How many members an object has when the number of shards is doubled: half of the most.
const MEMBERS_MANY: u64 = MEMBERS_MAX / 2;

const BYTES_MANY: u64 = BOARD_BYTES_MAX / 2;

/// The deployment's thresholds for spreading boards. An isolate reads them once, because reading a variable is a call
/// into JavaScript.
struct Thresholds {
    messages_per_second: u32,
    quiet_ms: i64,
}

impl State for Thresholds {
    fn begin(host: &Host) -> Self {
        let messages = host.number(SPLIT_FLUSHES_PER_SECOND);
        Self {
            messages_per_second: messages.unwrap_or(MESSAGES_PER_SECOND),
            quiet_ms: host.number(QUIET_MS).unwrap_or(QUIET_MS_USUAL),
        }
    }
}

impl BoardCore {
    /// Records the load of this object; reports to the owner if the load, or the number of members, is too high.
    pub(super) fn record_load(&self, messages: usize) {
        let now_ms = self.host.now_ms();
        let mut meter = self.meter.borrow_mut();
        meter.record(u32::try_from(messages).unwrap_or(u32::MAX), now_ms);
        let flushes = meter.per_second(now_ms).flushes;
        drop(meter);
        let many = self.host.state::<Thresholds>().messages_per_second;
        let loaded = self.loaded.borrow();
        let Some(Loaded { head, role, .. }) = loaded.as_ref() else {
            return;
        };
        let is_much = flushes >= many || head.members >= MEMBERS_MANY || head.bytes >= BYTES_MANY;
        let may_grow = role.placing.shards == Shards::Auto && !role.is_whole;
        if !is_much || !may_grow || !role.is_here() {
            return;
        }
        let report = ReportShard {
            board: head.name.clone(),
            at: role.at,
        };
        drop(loaded);
        if report.at.layout == 0 {
            self.grow(report.at);
            return;
        }
        self.report(report);
    }

    /// Reports to the owner, unless that was done a moment ago.
    pub(super) fn report(&self, report: ReportShard) {
        let now_ms = self.host.now_ms();
        if now_ms.abs_diff(self.moves.reported_ms.get()) < AGAIN_MS.unsigned_abs() {
            return;
        }
        self.moves.reported_ms.set(now_ms);
        let host = self.host.clone();
        self.store.object().wait_until(async move {
            // A later message repeats the report.
            let _ = call(&host, &report).await;
        });
    }

    pub(super) async fn on_report(&self, message: Result<ReportShard, Fault>) -> Result<(), Fault> {
        let ReportShard { board, at } = message?;
        self.readable()?;
        if !self.send_again(&board, at).await? {
            self.grow(at);
            self.arm().await;
        }
        Ok(())
    }

    /// Plans to double the number of shards soon, unless one of them could have no member then.
    fn grow(&self, at: ShardAt) {
        let layout = self.layout();
        let wanted = (layout.shards * 2).min(BOARD_SHARDS_MAX);
        let loaded = self.loaded.borrow();
        let members_max = loaded
            .as_ref()
            .map_or(0, |loaded| loaded.head.settings.members_max);
        if at.layout == layout.number && wanted > layout.shards && u64::from(wanted) <= members_max
        {
            self.moves.wanted.set(wanted);
        }
    }

    pub(super) fn quiet_ms(&self) -> i64 {
        self.host.state::<Thresholds>().quiet_ms
    }

    /// The number of shards that there should be, if it differs, or if they should be elsewhere.
    pub(super) fn wanted_shards(
        &self,
        layout: Layout,
        shards: Shards,
        is_elsewhere: bool,
    ) -> Option<u32> {
        let wanted = match (shards, self.moves.wanted.get()) {
            (Shards::Fixed(shards), _) => shards,
            (Shards::Auto, 0) => layout.shards,
            (Shards::Auto, wanted) => wanted,
        };
        (wanted != layout.shards || is_elsewhere).then_some(wanted)
    }

    /// Whether the shards have little load, and half of them have room for the members.
    pub(super) async fn may_shrink(
        &self,
        board: &CounterId,
        layout: Layout,
    ) -> Result<bool, Fault> {
        let measured = self
            .command_all(board, layout, &ShardCommand::Measure)
            .await?;
        let (mut all, mut busiest) = (ShardMeasure::default(), 0);
        for reply in measured {
            if let ShardReply::Measured(measure) = reply {
                all.members += measure.members;
                all.bytes += measure.bytes;
                busiest = busiest.max(measure.per_second);
            }
        }
        let many = self.host.state::<Thresholds>().messages_per_second;
        let shards = u64::from(layout.shards / 2);
        let is_small =
            all.members < shards * MEMBERS_MANY / 2 && all.bytes < shards * BYTES_MANY / 2;
        Ok(is_small && busiest < many / 4)
    }
}
