//! Laws of the reports that bulk bodies share.

use tally_api::batch::report_queue::{
    LEADS_MAX, PACE_MS_MAX, REPORT_MS_MAX, ReportQueue, ReportStep, ReportTicket,
};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_wire::names::CellAddress;

fn lead(number: usize) -> CellAddress {
    let counter = CounterId::parse(format!("docs/{number}")).expect("it is valid");
    CellAddress::lead(&counter, &Datacenter::local())
}

/// Begins a report. Returns its ticket, and how many leads it has.
fn begin(queue: &mut ReportQueue, now_ms: i64) -> (ReportTicket, usize) {
    let ticket = queue.uncovered().expect("something is not reported");
    match queue.step(ticket, now_ms) {
        ReportStep::Begin(covers, leads) => (covers, leads.len()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_report_has_all_leads_that_were_added_before_it_and_covers_no_later_one() {
    let mut queue = ReportQueue::default();
    assert_eq!(queue.uncovered(), None);
    queue.add(lead(1), None);
    queue.add(lead(2), None);
    queue.add(lead(1), None);
    let (covers, leads) = begin(&mut queue, 0);
    assert_eq!(leads, 2);
    queue.add(lead(1), None);
    let later = queue.ticket();
    assert_eq!(queue.step(covers, 1), ReportStep::Wait);
    assert_eq!(queue.step(later, 1), ReportStep::Wait);
    queue.end(covers, 10);
    assert_eq!(queue.step(covers, 10), ReportStep::Done);
    let (next, leads) = begin(&mut queue, 10);
    assert_eq!((next, leads), (later, 1));
    queue.end(next, 20);
    assert_eq!(queue.uncovered(), None);
}

#[test]
fn a_report_whose_request_was_lost_holds_up_no_other_for_ever() {
    let mut queue = ReportQueue::default();
    queue.add(lead(1), None);
    let (lost, _) = begin(&mut queue, 0);
    let limit_ms = i64::try_from(REPORT_MS_MAX).expect("it is small") + 1_000;
    assert_eq!(queue.step(lost, limit_ms), ReportStep::Wait);
    // Its leads push by themselves.
    assert_eq!(queue.step(lost, limit_ms + 1), ReportStep::Done);
    queue.add(lead(2), None);
    let (next, leads) = begin(&mut queue, limit_ms + 1);
    assert_eq!(leads, 1);
    // The word of the lost one changes nothing.
    queue.end(lost, limit_ms + 2);
    assert_eq!(queue.step(next, limit_ms + 2), ReportStep::Wait);
}

#[test]
fn a_body_meets_those_before_it_and_those_after_it() {
    let mut queue = ReportQueue::default();
    let alone = queue.enter();
    assert!(!queue.has_met_others(alone) && queue.is_alone());
    queue.leave();
    let first = queue.enter();
    let second = queue.enter();
    assert!(queue.has_met_others(first) && queue.has_met_others(second));
    assert!(!queue.is_alone());
    queue.leave();
    queue.leave();
    assert!(queue.is_alone());
    let last = queue.enter();
    assert!(!queue.has_met_others(last));
}

#[test]
fn reports_of_bodies_at_once_take_an_eighth_of_the_time_and_begin_within_ten_seconds() {
    let mut queue = ReportQueue::default();
    assert_eq!(queue.pace(0), None, "there is nothing to report");
    for took_ms in [0, 5, 125, 400, 1_000, 5_000] {
        let began_ms = 1_000_000 * (took_ms + 1);
        queue.add(lead(1), None);
        let (covers, _) = begin(&mut queue, began_ms);
        queue.end(covers, began_ms + took_ms);
        queue.add(lead(1), None);
        let wait_ms = queue.pace(began_ms + took_ms).expect("nobody waits");
        let from_ms = i64::try_from(wait_ms).expect("it is small") + took_ms;
        assert!(
            from_ms >= (8 * took_ms).clamp(1_000, PACE_MS_MAX),
            "{from_ms}"
        );
        assert!(from_ms <= PACE_MS_MAX, "{from_ms}");
        assert_eq!(queue.pace(began_ms + took_ms), None, "one request waits");
        queue.paced();
    }
}

#[test]
fn a_wait_whose_request_was_lost_is_replaced() {
    let mut queue = ReportQueue::default();
    queue.add(lead(1), None);
    assert_eq!(queue.pace(5_000), Some(0));
    assert_eq!(queue.pace(6_000), None);
    assert_eq!(queue.pace(6_001), Some(0));
}

#[test]
fn a_body_reports_before_more_leads_wait_than_there_is_room_for() {
    let mut queue = ReportQueue::default();
    (1..LEADS_MAX).for_each(|number| queue.add(lead(number), None));
    assert!(!queue.is_full());
    queue.add(lead(0), None);
    assert!(queue.is_full());
}
