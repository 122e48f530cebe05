//! Golden bytes of the messages of rate limits: limiters and edges of two builds meet during a deploy.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::limit::meter::Verdict;
use tally_core::limit::named::{CallAnswer, CallFault, CallWork, NamedCall, OpenHolds};
use tally_core::limit::policy::Policy;
use tally_core::limit::policy::overrides::{Override, OverrideEffect, PatternFilter};
use tally_wire::messages::{
    CheckAnswer, CheckKeys, DeleteOverride, DemandKind, DemandOutcome, EndReservation,
    FindOverride, GetPolicy, KeyDemand, KnownOverrides, ListFrom, ListOverrides, OverrideFound,
    OverrideNews, OverridePut, PolicyPut, PutOverride, PutPolicy, Reserve, Reserved, decode,
    encode,
};
use tally_wire::names::LimiterAddress;
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::rights::Gift;

fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let bytes = encode(value).expect("a message");
    assert_eq!(decode::<T>(&bytes).as_ref(), Ok(value));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn name() -> PolicyName {
    PolicyName::parse("api").expect("a policy's name")
}

fn pattern() -> OverridePattern {
    OverridePattern::parse("a*").expect("a pattern")
}

fn to() -> LimiterAddress {
    LimiterAddress {
        datacenter: Datacenter::parse("FRA"),
        partition: 3,
    }
}

fn demand(kind: DemandKind) -> KeyDemand {
    KeyDemand {
        times: 300,
        ..KeyDemand::of(&CounterId::parse("bob").expect("a key"), 2, kind)
    }
}

fn verdict(is_allowed: bool) -> Verdict {
    Verdict {
        is_allowed,
        limit: 100,
        remaining: 98,
        reset_after_ms: 60_000,
        retry_after_ms: 0,
    }
}

#[test]
fn a_check_and_its_answer_have_these_bytes() {
    let wishes = [
        DemandKind::Consume,
        DemandKind::Look,
        DemandKind::Refund,
        DemandKind::Forget,
    ];
    let check = CheckKeys {
        to: to(),
        policies: vec![(name(), Policy::sliding(100, 60))],
        demands: wishes.map(demand).to_vec(),
        waits: true,
    };
    assert_eq!(
        golden(&check),
        "010346524103010361706964c0a90700640000000000040003626f620200ac02000003626f620201ac02000003626f620202ac02000003626f620203ac020001"
    );
    let checked = CheckAnswer {
        outcomes: vec![
            DemandOutcome::Known {
                admitted: 299,
                first: Some(verdict(true)),
                refused: Some(verdict(false)),
            },
            DemandOutcome::Later,
            DemandOutcome::Full,
            DemandOutcome::Unreachable,
        ],
        remote_calls: 1,
    };
    assert_eq!(
        golden(&checked),
        "0400ab0201016462e0d4030001006462e0d4030001020301"
    );
}

#[test]
fn a_reservation_and_its_end_have_these_bytes() {
    let reserve = Reserve {
        to: LimiterAddress {
            datacenter: None,
            partition: 3,
        },
        id: Some([7; 16]),
        policies: vec![(name(), Policy::sliding(100, 60))],
        demands: vec![demand(DemandKind::Consume)],
    };
    assert_eq!(
        golden(&reserve),
        "00030107070707070707070707070707070707010361706964c0a90700640000000000010003626f620200ac0200"
    );
    let reserved = Reserved {
        verdicts: vec![Some(verdict(true)), None],
        is_reserved: true,
        homes: vec![3],
    };
    assert_eq!(golden(&reserved), "0201016462e0d4030000010103");
    let end = EndReservation {
        to: to(),
        id: [7; 16],
        is_cancelled: true,
    };
    assert_eq!(
        golden(&end),
        "0103465241030707070707070707070707070707070701"
    );
}

#[test]
fn policies_have_these_bytes() {
    let put = PutPolicy {
        name: name(),
        policy: Policy::sliding(100, 60),
        once: None,
        gift: Gift::default(),
    };
    assert_eq!(golden(&put), "0361706964c0a907006400000000000003000000");
    let get = |known| GetPolicy {
        name: name(),
        known,
    };
    let known = KnownOverrides {
        version: 300,
        has_filter: true,
    };
    assert_eq!(golden(&get(None)), "0361706900");
    assert_eq!(golden(&get(Some(known))), "0361706901ac0201");
    let puts = [
        PolicyPut::Created,
        PolicyPut::Replaced,
        PolicyPut::Full,
        PolicyPut::PartFull,
    ];
    assert_eq!(puts.map(|put| golden(&put)), ["00", "01", "02", "03"]);
}

#[test]
fn overrides_have_these_bytes() {
    let limited = OverrideEffect::Limited {
        limit: Some(300),
        window_ms: None,
        burst: None,
    };
    let effects = [limited, OverrideEffect::Unlimited, OverrideEffect::Blocked];
    let over = |effect| Override {
        effect,
        ends_ms: Some(1),
    };
    let overrides = effects.map(|effect| golden(&over(effect)));
    assert_eq!(overrides, ["0001ac0200000102", "010102", "020102"]);
    let (policy, pattern) = (name(), pattern());
    let put = PutOverride {
        policy: policy.clone(),
        pattern: pattern.clone(),
        over: over(OverrideEffect::Blocked),
        gift: Gift::default(),
    };
    assert_eq!(
        golden(&put),
        "03617069 02612a 020102 03000000".replace(' ', "")
    );
    let delete = DeleteOverride { policy, pattern };
    assert_eq!(golden(&delete), "0361706902612a");
    let puts = [
        OverridePut::Created,
        OverridePut::Replaced,
        OverridePut::NoPolicy,
        OverridePut::Full,
        OverridePut::AllFull,
        OverridePut::PartFull,
    ];
    assert_eq!(
        puts.map(|put| golden(&put)),
        ["00", "01", "02", "03", "04", "05"]
    );
}

#[test]
fn reads_of_overrides_have_these_bytes() {
    let pattern = pattern();
    let all = vec![(
        pattern.clone(),
        Override {
            effect: OverrideEffect::Blocked,
            ends_ms: None,
        },
    )];
    let mut filter = PatternFilter::with_room(1);
    filter.insert("a", true);
    let news = [
        OverrideNews::None,
        OverrideNews::Unchanged,
        OverrideNews::All(5, all.clone()),
        OverrideNews::Changed(5, vec![pattern.clone()]),
        OverrideNews::Many(5, filter),
    ];
    assert_eq!(
        news.map(|news| golden(&news)),
        [
            "00",
            "01",
            "02050102612a0200",
            "03050102612a",
            "04050252a90101"
        ]
    );
    let find = FindOverride {
        policy: name(),
        key: CounterId::parse("bob").expect("a key"),
    };
    assert_eq!(golden(&find), "0361706903626f62");
    let found = OverrideFound {
        version: 5,
        found: all.first().cloned(),
    };
    assert_eq!(golden(&found), "050102612a0200");
    let from = [
        ListFrom::Start,
        ListFrom::After(pattern.clone()),
        ListFrom::Only(pattern),
    ];
    let lists = from.map(|from| {
        golden(&ListOverrides {
            policy: name(),
            from,
            limit: 2,
        })
    });
    assert_eq!(
        lists,
        ["036170690002", "036170690102612a02", "036170690202612a02"]
    );
}

#[test]
fn named_calls_and_their_answers_have_these_bytes() {
    let call = |work| NamedCall {
        name: [7; 16],
        is_repeatable: true,
        request: 300,
        account: 5,
        work,
    };
    let held = CallWork::Hold {
        length_ms: 60_000,
        is_returned: true,
    };
    let settled = CallWork::Settle {
        hold: [8; 16],
        amount: Some(3),
    };
    let cancelled = CallWork::Cancel { hold: [8; 16] };
    let works = [CallWork::Check, CallWork::Refund, held, settled, cancelled];
    let kinds = works.map(|work| golden(&DemandKind::Call(call(work))));
    let name = format!("04{}01ac0205", "07".repeat(16));
    let hold = "08".repeat(16);
    let (settled, cancelled) = (format!("03{hold}0103"), format!("04{hold}"));
    let expected = ["00", "01", "02c0a90701", &settled, &cancelled];
    assert_eq!(kinds, expected.map(|work| format!("{name}{work}")));
    let answer = CallAnswer {
        verdict: verdict(true),
        held: 4,
        settled: 3,
        over: 1,
        ends_ms: 5,
        is_repeated: true,
    };
    let outcomes = [
        DemandOutcome::Called(Ok(answer)),
        DemandOutcome::Called(Err(CallFault::Ended)),
        DemandOutcome::Looked(verdict(true), OpenHolds::default()),
    ];
    assert_eq!(
        outcomes.map(|outcome| golden(&outcome)),
        [
            "0400016462e0d403000403010a01",
            "040105",
            "05016462e0d40300000000"
        ]
    );
}
