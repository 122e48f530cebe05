//! Law: what a verdict says in JSON it says in headers; checks that share a message get their own verdicts, in order of
//! arrival.

use proptest::prelude::*;
use serde_json::{Value, json};
use tally_api::limits::batch::{CheckBatch, DEMANDS_MAX, GATHER_MS, gather_ms};
use tally_api::limits::{CheckResult, many_json, refused_many_json};
use tally_core::counter::autoscale::Rate;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::lane::BATCH_ENTRIES_MAX;
use tally_core::counter::lane::batchable::Batchable;
use tally_core::limit::meter::{NEVER_MS, Verdict};
use tally_core::limit::policy::{OnError, Policy};
use tally_wire::messages::{DemandKind, DemandOutcome, KeyDemand};
use tally_wire::names::policy::PolicyName;

fn name(text: &str) -> PolicyName {
    PolicyName::parse(text).expect("a policy's name")
}

fn key(text: &str) -> CounterId {
    CounterId::parse(text).expect("a key")
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn verdict(is_allowed: bool) -> Verdict {
    Verdict {
        is_allowed,
        limit: 100,
        remaining: 50,
        reset_after_ms: 29_001,
        retry_after_ms: if is_allowed { 0 } else { 30_500 },
    }
}

/// A check of one key.
struct Call {
    login: PolicyName,
    user: CounterId,
    here: Datacenter,
}

impl Call {
    fn new() -> Self {
        Self {
            login: name("login"),
            user: key("u"),
            here: Datacenter::local(),
        }
    }

    fn judged<'a>(&'a self, policy: &'a Policy, verdict: Option<Verdict>) -> CheckResult<'a> {
        CheckResult {
            name: &self.login,
            key: &self.user,
            policy,
            over: None,
            datacenter: &self.here,
            verdict,
        }
    }
}

#[test]
fn json_and_headers_say_the_same() {
    let (call, policy) = (Call::new(), Policy::sliding(100, 60));
    let admitted = call.judged(&policy, Some(verdict(true)));
    assert!(admitted.is_allowed());
    assert_eq!(
        admitted.policy_item().as_deref(),
        Some(r#""login";q=100;w=60"#)
    );
    assert_eq!(
        admitted.limit_item().as_deref(),
        Some(r#""login";r=50;t=30"#)
    );
    assert_eq!(admitted.retry_after_seconds(), None);
    let expected = json!({
        "allowed": true, "limit": 100, "remaining": 50, "reset_after_ms": 29001, "retry_after_ms": 0,
        "policy": "login", "datacenter": "LOCAL",
    });
    assert_eq!(parsed(&admitted.to_json()), expected);

    let refused = call.judged(&policy, Some(verdict(false)));
    assert_eq!(refused.retry_after_seconds(), Some(31));
    let problem = parsed(&refused.refused_json());
    assert_eq!(
        problem["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(problem["violated-policies"], json!(["login"]));
    assert_eq!(
        (
            &problem["status"],
            &problem["code"],
            &problem["retry_after_ms"]
        ),
        (&json!(429), &json!("quota-exceeded"), &json!(30500))
    );

    let both = [admitted, refused];
    assert_eq!(parsed(&many_json(&both))["allowed"], json!(false));
    let problem = parsed(&refused_many_json(&both));
    assert_eq!(problem["violated-policies"], json!(["login"]));
    assert_eq!(problem["checks"][1]["key"], "u");
}

#[test]
fn a_header_says_of_a_closed_policy_what_clients_do_when_nothing_answers() {
    let (call, sliding) = (Call::new(), Policy::sliding(100, 60));
    let closed = Policy {
        on_error: OnError::Closed,
        ..sliding
    };
    for is_allowed in [true, false] {
        let judged = call.judged(&closed, Some(verdict(is_allowed)));
        assert_eq!(
            judged.policy_item().as_deref(),
            Some(r#""login";q=100;w=60;tally-on-error=closed"#)
        );
    }
}

#[test]
fn a_policy_in_shadow_or_without_a_verdict_says_so() {
    let (call, policy) = (Call::new(), Policy::sliding(100, 60));
    let shadow = Policy {
        is_shadow: true,
        ..policy.clone()
    };
    let watched = call.judged(&shadow, Some(verdict(false)));
    assert!(watched.is_allowed());
    assert_eq!(watched.retry_after_seconds(), None);
    assert_eq!(
        parsed(&watched.to_json())["shadow"],
        json!({"would_allow": false})
    );

    let closed = Policy {
        on_error: OnError::Closed,
        ..policy.clone()
    };
    assert!(!call.judged(&closed, None).is_allowed());
    let open = call.judged(&policy, None);
    assert!(open.is_allowed());
    assert_eq!(open.limit_item(), None);
    let body = parsed(&open.to_json());
    assert_eq!(
        (&body["degraded"], &body["remaining"]),
        (&json!(true), &Value::Null)
    );
}

#[test]
fn retry_after_is_when_the_check_may_be_admitted_and_never_before_quota_returns() {
    let (login, user, here) = (name("login"), key("u"), Datacenter::local());
    let policy = Policy::sliding(100, 60);
    // What is recalled returns before what was used does, and a limiter that never admits has no time to give.
    for (reset_after_ms, retry_after_ms, seconds, returns_ms) in [
        (1, 1, 1, 1),
        (3_616_000, 286, 1, 286),
        (1, 2_001, 3, 1),
        (61_000, NEVER_MS, 61, 61_000),
    ] {
        let judgement = CheckResult {
            name: &login,
            key: &user,
            policy: &policy,
            over: None,
            datacenter: &here,
            verdict: Some(Verdict {
                reset_after_ms,
                retry_after_ms,
                ..verdict(false)
            }),
        };
        assert_eq!(judgement.retry_after_seconds(), Some(seconds));
        let refused = parsed(&judgement.refused_json());
        assert_eq!(refused["reset_after_ms"], json!(returns_ms));
        let rest = judgement.limit_item().unwrap();
        let wait_seconds = u64::div_ceil(returns_ms, 1_000);
        assert!(rest.ends_with(&format!(";t={wait_seconds}")), "{rest}");
    }
}

/// Judges a batch as a limiter does, by one count for each key.
fn judged(batch: &CheckBatch, limit: u64) -> Vec<DemandOutcome> {
    let mut used = std::collections::BTreeMap::new();
    let judge = |demand: &tally_wire::messages::KeyDemand| {
        let used: &mut u64 = used.entry(demand.key.clone()).or_default();
        let mut admitted = 0;
        let mut first = None;
        for _ in 0..demand.times {
            if *used + demand.cost > limit {
                break;
            }
            *used += demand.cost;
            admitted += 1;
            first = first.or(Some(Verdict {
                remaining: limit - *used,
                ..verdict(true)
            }));
        }
        DemandOutcome::Known {
            admitted,
            first,
            refused: (admitted < demand.times).then_some(verdict(false)),
        }
    };
    batch.demands.iter().map(judge).collect()
}

proptest! {
    #[test]
    fn each_check_of_a_message_gets_its_own_verdict(
        sent in prop::collection::vec((0u8..4, 1u64..4), 1..200),
        limit in 0u64..60,
    ) {
        let policy = Policy::sliding(1_000, 60);
        let mut batch: Option<CheckBatch> = None;
        let mut places = Vec::new();
        for (number, cost) in &sent {
            let demand = KeyDemand::of(&key(&number.to_string()), *cost, DemandKind::Consume);
            let one = CheckBatch::of(&name("p"), &policy, demand);
            match batch.as_mut() {
                Some(batch) => prop_assert!(batch.absorb(&one)),
                None => batch = Some(one),
            }
            places.push(batch.as_ref().map(Batchable::position).expect("a batch"));
        }
        let batch = batch.expect("a batch");
        prop_assert!(batch.demands.len() <= 12, "equal demands are counted, not repeated");
        let judged = judged(&batch, limit);
        let mut spent = [0u64; 4];
        let mut seen = std::collections::HashSet::new();
        for ((number, cost), place) in sent.iter().zip(places) {
            prop_assert!(seen.insert((place.ask, place.ordinal)), "two checks have one place");
            let verdict = judged[place.ask].verdict_of(place.ordinal, *cost).expect("a verdict");
            if verdict.is_allowed {
                spent[usize::from(*number)] += cost;
                prop_assert_eq!(verdict.remaining + cost <= limit, true);
            }
        }
        prop_assert!(spent.iter().all(|spent| *spent <= limit));
    }
}

#[test]
fn a_message_has_at_most_so_many_demands() {
    let policy = Policy::sliding(1, 1);
    let mut batch = CheckBatch::of(
        &name("p"),
        &policy,
        KeyDemand::of(&key("0"), 1, DemandKind::Consume),
    );
    for number in 1..DEMANDS_MAX {
        assert!(batch.entries() < BATCH_ENTRIES_MAX, "{number}");
        let one = CheckBatch::of(
            &name("p"),
            &policy,
            KeyDemand::of(&key(&number.to_string()), 1, DemandKind::Consume),
        );
        assert!(batch.absorb(&one));
    }
    assert!(batch.entries() >= BATCH_ENTRIES_MAX);
}

#[test]
fn a_lane_gathers_only_where_many_messages_hold_several_checks() {
    let of = |messages: u32, checks: u32| {
        gather_ms(Rate {
            flushes: messages,
            writes: checks,
        })
    };
    assert_eq!(of(0, 0), 0);
    assert_eq!(of(31, 31_000), 0, "few messages");
    assert_eq!(of(32, 64), GATHER_MS);
    assert_eq!(of(1_000, 1_999), 0, "most hold one check");
    assert_eq!(of(1_000, 2_000), GATHER_MS);
    assert_eq!(of(u32::MAX, u32::MAX), 0);
}
