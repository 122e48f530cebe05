//! Many calls of one request: each gets its own answer, or is unavailable; batches, and how many are under way, are
//! bounded.

use std::cell::Cell;
use std::collections::BTreeMap;

use tally_core::cluster::root::Root;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{Part, Question};
use tally_host::Target;
use tally_shared::call_batcher::{ALONE_AT_ONCE, BATCHES_AT_ONCE, REPEATED_ALONE_MAX, call_many};
use tally_wire::messages::batch::{BYTES_MAX, CALLS_MAX};
use tally_wire::messages::{Batch, Call, Fault, List, LookUp, SumDatacenter, decode, encode};
use tally_wire::names::{CellAddress, DIRECTORY_PARTITIONS, Placement};

use crate::common::fake_platform::{Answers, Fake, fake, run};

fn id(number: usize) -> CounterId {
    CounterId::parse(format!("counter-{number}")).expect("an id")
}

fn look_up(number: usize) -> LookUp {
    LookUp {
        counter: id(number),
    }
}

fn sum(number: usize, shard: u8) -> SumDatacenter {
    let to = CellAddress {
        counter: id(number),
        datacenter: Datacenter::local(),
        shard,
    };
    SumDatacenter {
        to,
        question: Question::plain(1),
        explains: false,
    }
}

/// What the root of that counter would answer: its name is in it.
fn root_of(counter: &CounterId) -> Root {
    let length = i64::try_from(counter.as_str().len()).expect("short");
    let number: i64 = counter.as_str()["counter-".len()..]
        .parse()
        .expect("a number");
    Root::create(None, 10_000 * length + number)
}

fn answer_one(path: &str, message: &[u8]) -> Vec<u8> {
    if path == LookUp::PATH {
        let call: LookUp = decode(message).expect("a message");
        return encode(&Ok::<_, Fault>(Some(root_of(&call.counter)))).expect("bytes");
    }
    assert_eq!(path, SumDatacenter::PATH);
    let call: SumDatacenter = decode(message).expect("a message");
    let answer = Part {
        missing: call.to.counter.as_str().as_bytes().to_vec(),
        ..Part::default()
    };
    encode(&Ok::<_, Fault>(answer)).expect("bytes")
}

/// Answers all, but for calls of batches that `is_late` says are under way.
fn answering(is_late: impl Fn(usize) -> bool + 'static) -> Answers {
    Box::new(move |_, path, message| {
        if path != Batch::PATH {
            return Some(Ok(answer_one(path, message)));
        }
        let batch: Batch = decode(message).expect("a batch");
        let answers =
            batch.calls.iter().enumerate().map(|(place, call)| {
                (!is_late(place)).then(|| answer_one(&call.path, &call.message))
            });
        let answers: Vec<Option<Vec<u8>>> = answers.collect();
        Some(Ok(encode(&Ok::<_, Fault>(answers)).expect("bytes")))
    })
}

fn calls_by_path(fake: &Fake) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for (_, path, _) in fake.sent.borrow().iter() {
        *calls.entry(path.clone()).or_default() += 1;
    }
    calls
}

#[test]
fn answers_come_in_order_and_roots_are_asked_by_partition() {
    let (fake, host) = fake(None, answering(|_| false));
    let calls: Vec<LookUp> = (0..1_000).map(look_up).collect();
    let answers = run(call_many(&host, &calls, 1_000));
    for (call, answer) in calls.iter().zip(&answers) {
        assert_eq!(answer, &Ok(Some(root_of(&call.counter))));
    }
    assert_eq!(answers.len(), calls.len());
    let partitions = usize::try_from(DIRECTORY_PARTITIONS).expect("few");
    assert_eq!(
        calls_by_path(&fake),
        [(Batch::PATH.to_owned(), partitions)].into()
    );
    assert!(fake.most.get() <= BATCHES_AT_ONCE);
}

#[test]
fn a_call_that_has_no_company_is_the_message_that_it_ever_was() {
    let (fake, host) = fake(Some("4"), answering(|_| false));
    assert_eq!(run(call_many(&host, &[look_up(7)], 1_000)).len(), 1);
    assert_eq!(run(call_many(&host, &[sum(7, 0)], 1_000)).len(), 1);
    let paths: Vec<String> = fake
        .sent
        .borrow()
        .iter()
        .map(|sent| sent.1.clone())
        .collect();
    assert_eq!(paths, [LookUp::PATH, SumDatacenter::PATH]);
}

#[test]
fn leads_that_tablets_host_are_asked_together_and_other_cells_by_themselves() {
    let calls: Vec<SumDatacenter> = (0..600)
        .map(|number| sum(number, u8::from(number % 3 == 0)))
        .collect();
    for tablets in [None, Some("4")] {
        let (fake, host) = fake(tablets, answering(|_| false));
        let answers = run(call_many(&host, &calls, 1_000));
        for (call, answer) in calls.iter().zip(answers) {
            let answer = answer.expect("an answer");
            assert_eq!(answer.missing, call.to.counter.as_str().as_bytes());
        }
        let expected = match tablets {
            None => [(SumDatacenter::PATH.to_owned(), 600)].into(),
            Some(_) => [
                (SumDatacenter::PATH.to_owned(), 200),
                (Batch::PATH.to_owned(), 4),
            ]
            .into(),
        };
        assert_eq!(calls_by_path(&fake), expected);
        assert!(fake.most.get() <= ALONE_AT_ONCE + BATCHES_AT_ONCE);
        let is_bounded = tablets.is_some() || fake.most.get() == ALONE_AT_ONCE;
        assert!(is_bounded, "{} at once", fake.most.get());
    }
}

#[test]
fn batches_are_bounded_by_calls_and_by_bytes() {
    let (fake, host) = fake(Some("1"), answering(|_| false));
    let requests: Vec<SumDatacenter> = (0..2 * CALLS_MAX + 1)
        .map(|number| sum(number, 0))
        .collect();
    assert!(
        run(call_many(&host, &requests, 1_000))
            .iter()
            .all(Result::is_ok)
    );
    let calls: Vec<usize> = fake.sent.borrow().iter().map(|sent| sent.2).collect();
    assert_eq!(calls, [CALLS_MAX, CALLS_MAX, 1]);
    // The fake platform looks at the bytes of each message.
    let (fake, host) = self::fake(
        None,
        Box::new(|_, path, message| {
            let calls = match path == Batch::PATH {
                true => decode::<Batch>(message).expect("a batch").calls.len(),
                false => 1,
            };
            let none = encode(&Ok::<_, Fault>(Vec::<(CounterId, Root)>::new())).expect("bytes");
            Some(Ok(match path == Batch::PATH {
                true => encode(&Ok::<_, Fault>(vec![Some(none); calls])).expect("bytes"),
                false => none,
            }))
        }),
    );
    let list = |_| List {
        partition: 3,
        prefix: "x".repeat(BYTES_MAX / 3),
        after: None,
        limit: 1,
    };
    let lists: Vec<List> = (0..7).map(list).collect();
    assert!(
        run(call_many(&host, &lists, 1_000))
            .iter()
            .all(Result::is_ok)
    );
    let calls: Vec<usize> = fake.sent.borrow().iter().map(|sent| sent.2).collect();
    assert_eq!(calls, [2, 2, 2, 1]);
}

#[test]
fn what_is_under_way_is_asked_for_again_alone_or_where_it_is_many_together() {
    for (late, batches, alone) in [
        (3, 1, 3),
        (REPEATED_ALONE_MAX, 1, REPEATED_ALONE_MAX),
        (REPEATED_ALONE_MAX + 1, 2, 0),
    ] {
        let is_first = Cell::new(true);
        let answers: Answers = Box::new(move |to, path, message| {
            let late = if path == Batch::PATH && is_first.replace(false) {
                late
            } else {
                0
            };
            answering(move |place| place < late)(to, path, message)
        });
        let (fake, host) = fake(Some("1"), answers);
        let requests: Vec<SumDatacenter> = (0..200).map(|number| sum(number, 0)).collect();
        let answers = run(call_many(&host, &requests, 1_000));
        for (call, answer) in requests.iter().zip(answers) {
            let answer = answer.expect("an answer");
            assert_eq!(answer.missing, call.to.counter.as_str().as_bytes());
        }
        let calls = calls_by_path(&fake);
        assert_eq!(calls.get(Batch::PATH), Some(&batches));
        assert_eq!(calls.get(SumDatacenter::PATH).copied().unwrap_or(0), alone);
    }
}

#[test]
fn a_batch_that_is_lost_refused_or_cut_is_unavailable_for_each_of_its_calls_and_for_no_other() {
    type Way = fn() -> Option<Result<Vec<u8>, String>>;
    let ways: [Way; 4] = [
        || None,
        || Some(Err("gone".to_owned())),
        || Some(Ok(b"an error page".to_vec())),
        || {
            Some(Ok(
                encode(&Ok::<_, Fault>(Vec::<Option<Vec<u8>>>::new())).expect("bytes")
            ))
        },
    ];
    for way in ways {
        let answers: Answers = Box::new(move |to, path, message| {
            let Target::Object(Placement { name, .. }) = to else {
                return None;
            };
            match name.ends_with("/1") {
                true => way(),
                false => answering(|_| false)(to, path, message),
            }
        });
        let (fake, host) = fake(Some("4"), answers);
        let calls: Vec<SumDatacenter> = (0..400).map(|number| sum(number, 0)).collect();
        let answers = run(call_many(&host, &calls, 1_000));
        let lost: Vec<&Fault> = answers
            .iter()
            .filter_map(|answer| answer.as_ref().err())
            .collect();
        let sent = fake.sent.borrow();
        let of_one = sent
            .iter()
            .find(|sent| sent.0.ends_with("/1"))
            .map(|sent| sent.2);
        assert_eq!(Some(lost.len()), of_one);
        assert!(lost.len() > 20, "{} of 400", lost.len());
        assert!(
            lost.iter()
                .all(|fault| matches!(fault, Fault::Unavailable(_))),
            "{:?}",
            lost.first()
        );
    }
}

#[test]
fn what_is_under_way_for_ever_is_given_up_in_time() {
    let (fake, host) = fake(
        Some("1"),
        Box::new(|to, path, message| match path == Batch::PATH {
            true => answering(|_| true)(to, path, message),
            false => None,
        }),
    );
    let calls: Vec<SumDatacenter> = (0..3).map(|number| sum(number, 0)).collect();
    let answers = run(call_many(&host, &calls, 1_000));
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Err(Fault::Unavailable(_))))
    );
    assert_eq!(fake.sent.borrow().len(), 4, "a batch, and each by itself");
    assert!(fake.now_ms.get() <= 2_000);
}
