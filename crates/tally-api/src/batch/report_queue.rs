//! The leads of an isolate whose counts their roots lack, and when they are reported: group commit for the reports of
//! bulk bodies.
//!
//! Invariants: a report has every lead that was added before it began. One report is in flight at a time. A body that
//! was alone is reported before its answer, and so is the last one of bodies at once. The others leave their leads to
//! the next report, which begins within [`PACE_MS_MAX`].
//!
//! Life of a lead: it is *added* when it has counted for a body, with its newest push if the edge has one. A report
//! *takes* it. The report *ends*, and *covers* everything that was added before it began.

use std::collections::BTreeMap;

use tally_wire::messages::PushView;
use tally_wire::names::CellAddress;

/// How long a report may take, milliseconds. 8,000 pushes to partitions of one thread take about 2 s; a root that does
/// not answer takes 3 s.
pub const REPORT_MS_MAX: u64 = 5_000;

/// After this time, milliseconds, the request that sent a report has ended without a word.
const LOST_MS: u64 = REPORT_MS_MAX + 1_000;

/// How much longer than a report the isolate counts before the next one, while bodies come at once: reports then take
/// at most an eighth of its time.
const REST_TIMES: i64 = 7;

/// The shortest time from one report to the next while bodies come at once, milliseconds.
const PACE_MS_MIN: i64 = 1_000;

/// The longest time from one report to the next while bodies come at once, milliseconds.
pub const PACE_MS_MAX: i64 = 10_000;

/// How long the last one of several bodies waits for another one to leave its leads to, milliseconds: a client that was
/// just answered sends its next body in this time.
pub const CALM_MS: u64 = 20;

/// How often a request looks at a report that another one sends, milliseconds.
pub const LOOK_EVERY_MS: u64 = 2;

/// The most leads that wait. A body that finds them reports them before it counts more. Each push has 2 KB at most.
pub const LEADS_MAX: usize = 8_192;

/// Leads, each with the push of all that it has counted for bodies, if the edge has it.
pub type ReportedLeads = BTreeMap<CellAddress, Option<PushView>>;

/// A point in the order of what was added.
pub type ReportTicket = u64;

/// Where a body stands among those of its isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyTurn {
    entered: u64,
    has_met_others: bool,
}

/// What a request that wants everything before its ticket reported does now.
#[derive(Debug, PartialEq, Eq)]
pub enum ReportStep {
    /// Nothing: it is reported.
    Done,
    /// It looks again a moment later: a report is in flight.
    Wait,
    /// It reports these leads, and [ends](ReportQueue::end) the report under this ticket.
    Begin(ReportTicket, ReportedLeads),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InFlight {
    covers: ReportTicket,
    begun_ms: i64,
}

/// The leads to report, of one isolate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReportQueue {
    leads: ReportedLeads,
    added: ReportTicket,
    covered: ReportTicket,
    in_flight: Option<InFlight>,
    /// The bodies that are being read or counted.
    bodies: u32,
    entered: u64,
    /// When the next report is due while bodies come at once, unix milliseconds.
    due_ms: i64,
    /// When the request that waits for that time begins its report.
    paced_ms: Option<i64>,
}

impl ReportQueue {
    /// Notes a body.
    pub fn enter(&mut self) -> BodyTurn {
        self.bodies = self.bodies.saturating_add(1);
        self.entered = self.entered.wrapping_add(1);
        BodyTurn {
            entered: self.entered,
            has_met_others: self.bodies > 1,
        }
    }

    /// Notes that a body has ended.
    pub fn leave(&mut self) {
        self.bodies = self.bodies.saturating_sub(1);
    }

    /// Whether at most one body is being read or counted.
    pub fn is_alone(&self) -> bool {
        self.bodies <= 1
    }

    /// Whether other bodies were read or counted at the time of this one.
    pub fn has_met_others(&self, turn: BodyTurn) -> bool {
        turn.has_met_others || self.entered != turn.entered
    }

    /// Adds a lead that has counted, with the push of all of it, if there is one.
    pub fn add(&mut self, lead: CellAddress, push: Option<PushView>) {
        self.leads.insert(lead, push);
        self.added += 1;
    }

    /// Whether it is full: its leads are reported before more count.
    pub fn is_full(&self) -> bool {
        self.leads.len() >= LEADS_MAX
    }

    /// Whether everything before a ticket is reported.
    pub fn is_covered(&self, ticket: ReportTicket) -> bool {
        ticket <= self.covered
    }

    /// The ticket of a request for everything that was added until now; `None` if all of it is reported.
    pub fn uncovered(&self) -> Option<ReportTicket> {
        (!self.is_covered(self.added)).then_some(self.added)
    }

    /// The ticket of a request for everything that was added until now.
    pub fn ticket(&self) -> ReportTicket {
        self.added
    }

    /// What a request does now that wants everything before its ticket reported.
    pub fn step(&mut self, ticket: ReportTicket, now_ms: i64) -> ReportStep {
        if self.is_covered(ticket) {
            return ReportStep::Done;
        }
        let is_lost = |report: InFlight| now_ms.abs_diff(report.begun_ms) > LOST_MS;
        if self.in_flight.is_some_and(|report| !is_lost(report)) {
            return ReportStep::Wait;
        }
        let covers = self.added;
        let leads = std::mem::take(&mut self.leads);
        if leads.is_empty() {
            // A report that was lost had them. Their leads push them.
            self.covered = covers;
            return ReportStep::Done;
        }
        let begun_ms = now_ms;
        self.in_flight = Some(InFlight { covers, begun_ms });
        ReportStep::Begin(covers, leads)
    }

    /// Notes that a report has ended. What a root did not take is left to its lead.
    pub fn end(&mut self, covers: ReportTicket, now_ms: i64) {
        self.covered = self.covered.max(covers);
        let Some(report) = self.in_flight.take_if(|report| report.covers == covers) else {
            return;
        };
        // A clock that stepped back makes no report long.
        let took_ms = now_ms.saturating_sub(report.begun_ms).max(0);
        let rest_ms = took_ms.saturating_mul(REST_TIMES);
        let pace_ms = (took_ms + rest_ms).clamp(PACE_MS_MIN, PACE_MS_MAX);
        self.due_ms = report.begun_ms.saturating_add(pace_ms);
    }

    /// Returns how long a body that leaves its leads to the next report waits in the background to begin it; `None` if
    /// there is nothing to report, or another one waits.
    pub fn pace(&mut self, now_ms: i64) -> Option<u64> {
        let is_paced = |at_ms: i64| now_ms.saturating_sub(at_ms) <= PACE_MS_MIN;
        if self.leads.is_empty() || self.paced_ms.is_some_and(is_paced) {
            return None;
        }
        let wait_ms = self.due_ms.saturating_sub(now_ms).clamp(0, PACE_MS_MAX);
        self.paced_ms = Some(now_ms.saturating_add(wait_ms));
        u64::try_from(wait_ms).ok()
    }

    /// Notes that the wait of [`ReportQueue::pace`] is over.
    pub fn paced(&mut self) {
        self.paced_ms = None;
    }
}
