//! What is delivered, and how often.

use super::*;

const ABOVE_TEN: &str = r#"{"value": {"above": 10}}"#;

fn above_ten() -> Value {
    serde_json::from_str(ABOVE_TEN).expect("JSON")
}

/// A service whose alert `a` fires.
fn firing(seed: u64, status: u16) -> (World, Client, Receiver) {
    let (world, _, client, receiver) = service(seed);
    receiver.answer_status(status);
    put(&world, &client, "a", &alert("counter", "c", &above_ten()));
    add(&world, &client, "c", 11);
    world.run_for_ms(EVALUATED_MS);
    (world, client, receiver)
}

#[test]
fn an_alarm_that_starts_its_object_rings_whatever_the_start_has_set() {
    // With snapshots: each partition sets its alarm for the next one when it starts.
    let options = Options {
        has_bucket: true,
        ..Options::default()
    };
    let world = deployed(82, options);
    let client = admin(&world, world.site("FRA", 2));
    let receiver = Receiver::of(&world);
    add(&world, &client, "c", 11);
    let when = json!({"value": {"above": 10}});
    receiver.answer_status(503);
    // Some in each partition.
    for number in 0..60 {
        put(
            &world,
            &client,
            &format!("a{number}"),
            &alert("counter", "c", &when),
        );
    }
    world.run_for_ms(65_000);
    receiver.answer_status(200);
    // All are overdue: each partition is started by its alarm.
    world.restart(30_000);
    world.run_for_ms(2 * EVALUATED_MS);
    let answer = get(&world, &client, "/alerts/*/deliveries");
    let deliveries = answer["entries"].as_array().expect("a list");
    let delivered = |one: &&serde_json::Value| one["outcome"] == "delivered";
    assert_eq!(deliveries.iter().filter(delivered).count(), 60, "{answer}");
}

#[test]
fn a_delivery_is_tried_for_a_day_under_one_id_and_then_given_up_by_name() {
    let (world, client, receiver) = firing(60, 503);
    world.run_for_ms(3 * 3_600_000);
    let answer = get(&world, &client, "/alerts/a/deliveries");
    let last = &answer["entries"][0];
    assert_eq!(
        (&last["outcome"], &last["status"], &last["why"]),
        (
            &"waiting".into(),
            &503.into(),
            &"the receiver answered 503".into()
        )
    );
    assert!(
        last["next_attempt_at"].as_i64() > Some(world.now_ms()),
        "{last}"
    );
    world.run_for_ms(30 * 3_600_000);
    let got = receiver.take();
    assert!((28..=40).contains(&got.len()), "{} attempts", got.len());
    for pair in got.windows(2) {
        assert_eq!(pair[0].id, pair[1].id);
        assert!(pair[1].timestamp > pair[0].timestamp);
        assert_eq!(
            pair[1].timestamp,
            pair[1].json["sent_at"].as_i64().expect("a time") / 1_000
        );
    }
    let waits: Vec<i64> = got
        .windows(2)
        .map(|pair| pair[1].at_ms - pair[0].at_ms)
        .collect();
    assert!((11_000..=20_000).contains(&waits[0]), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 4_600_000), "{waits:?}");
    let answer = get(&world, &client, "/alerts/a/deliveries");
    assert_eq!(answer["entries"][0]["outcome"], "given_up");
    let errors = world.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("the alert a was not delivered to hooks.example.com"),
        "{errors:?}"
    );
    assert!(
        !errors[0].contains("key=1") && !errors[0].contains("whsec"),
        "{errors:?}"
    );
    // It is resolved nevertheless.
    receiver.answer_status(200);
    subtract(&world, &client, "c", 5);
    world.run_for_ms(2 * EVALUATED_MS);
    assert_eq!(receiver.states(), ["resolved"]);
}

#[test]
fn a_receiver_that_comes_back_gets_both_in_order() {
    let (world, client, receiver) = firing(61, 500);
    subtract(&world, &client, "c", 5);
    world.run_for_ms(10 * EVALUATED_MS);
    assert!(receiver.take().iter().all(|got| got.state() == "firing"));
    receiver.answer_status(202);
    world.run_for_ms(1_000_000);
    assert_eq!(receiver.states(), ["firing", "resolved"]);
    let answer = get(&world, &client, "/alerts/*/deliveries");
    let outcomes: Vec<_> = answer["entries"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["state"].clone(), one["outcome"].clone()))
        .collect();
    assert_eq!(
        outcomes,
        [
            ("resolved".into(), "delivered".into()),
            ("firing".into(), "delivered".into())
        ]
    );
}

#[test]
fn redirects_are_not_followed_and_said() {
    let (world, client, receiver) = firing(62, 302);
    let answer = get(&world, &client, "/alerts/a");
    let why = answer["last_delivery"]["why"].as_str().expect("why");
    assert!(
        why.contains("redirects (302), which is not followed"),
        "{why}"
    );
    assert_eq!(answer["last_delivery"]["outcome"], "waiting");
    assert!(
        receiver
            .got()
            .iter()
            .all(|got| got.url.starts_with("https://hooks.example.com/"))
    );
}

#[test]
fn who_does_not_answer_is_tried_again_and_one_attempt_is_under_way_at_most() {
    let (world, client, receiver) = firing(63, 500);
    let under_way = Rc::new(Cell::new(0));
    let most = Rc::new(Cell::new(0));
    let (now, highest) = (under_way.clone(), most.clone());
    let core = Rc::new(world.sleeper());
    receiver.take();
    receiver.answer(move |_| {
        let (now, highest, sleep) = (now.clone(), highest.clone(), core.clone());
        Box::pin(async move {
            now.set(now.get() + 1);
            highest.set(highest.get().max(now.get()));
            sleep(9_500).await;
            now.set(now.get() - 1);
            Ok(500)
        })
    });
    world.run_for_ms(2_000_000);
    assert_eq!(most.get(), 1);
    let slow = Rc::new(world.sleeper());
    receiver.answer(move |_| {
        let sleep = slow.clone();
        Box::pin(async move {
            sleep(60_000).await;
            Ok(200)
        })
    });
    world.run_for_ms(5_000_000);
    let answer = get(&world, &client, "/alerts/a");
    assert_eq!(
        answer["last_delivery"]["why"],
        "the receiver did not answer in 10 s"
    );
    assert_eq!(answer["last_delivery"]["outcome"], "waiting");
}

#[test]
fn nothing_is_delivered_while_it_is_silenced_and_afterwards_what_is_so() {
    let (world, _, client, receiver) = service(64);
    put(&world, &client, "a", &alert("counter", "c", &above_ten()));
    let silence = |seconds: u64| {
        let answer = done(
            &world,
            &client,
            "POST",
            "/alerts/a/silence",
            &json!({"for_seconds": seconds}),
        );
        assert_eq!(answer["state"] == "silenced", seconds > 0, "{answer}");
        answer
    };
    silence(600);
    add(&world, &client, "c", 11);
    world.run_for_ms(120_000);
    let answer = get(&world, &client, "/alerts/a");
    assert_eq!(
        (&answer["state"], &answer["condition"]),
        (&"silenced".into(), &"firing".into())
    );
    assert_eq!(receiver.states(), [""; 0]);
    // A test is delivered nevertheless.
    done(&world, &client, "POST", "/alerts/a/test", &Value::Null);
    assert_eq!(receiver.states(), ["test"]);
    receiver.take();
    // An incident that begins and ends in a silence is not delivered.
    subtract(&world, &client, "c", 5);
    world.run_for_ms(1_000_000);
    assert_eq!(receiver.states(), [""; 0]);
    // An incident that outlasts the silence is delivered when the silence ends.
    silence(300);
    add(&world, &client, "c", 11);
    world.run_for_ms(290_000);
    assert_eq!(receiver.states(), [""; 0]);
    world.run_for_ms(12_000);
    assert_eq!(receiver.states(), ["firing"]);
    // An end within a silence is delivered when the silence ends, also where somebody ends it.
    silence(86_400);
    subtract(&world, &client, "c", 11);
    world.run_for_ms(600_000);
    assert_eq!(receiver.states(), ["firing"]);
    silence(0);
    world.run_for_ms(2_000);
    assert_eq!(receiver.states(), ["firing", "resolved"]);
}

#[test]
fn what_waits_is_not_delivered_while_it_is_silenced() {
    let (world, client, receiver) = firing(65, 500);
    assert!(!receiver.take().is_empty());
    done(
        &world,
        &client,
        "POST",
        "/alerts/a/silence",
        &json!({"for_seconds": 3_600}),
    );
    world.run_for_ms(30_000);
    receiver.take();
    receiver.answer_status(200);
    world.run_for_ms(3_500_000);
    assert_eq!(receiver.states(), [""; 0]);
    world.run_for_ms(100_000);
    assert_eq!(receiver.states(), ["firing"]);
}

#[test]
fn a_test_tells_what_came_of_it_and_is_not_repeated() {
    let (world, _, client, receiver) = service(66);
    put(&world, &client, "a", &alert("counter", "c", &above_ten()));
    let answer = done(&world, &client, "POST", "/alerts/a/test", &Value::Null);
    assert_eq!(
        (&answer["state"], &answer["outcome"], &answer["status"]),
        (&"test".into(), &"delivered".into(), &204.into())
    );
    receiver.answer_status(404);
    let answer = done(&world, &client, "POST", "/alerts/a/test", &Value::Null);
    assert_eq!(
        (&answer["outcome"], &answer["why"]),
        (&"given_up".into(), &"the receiver answered 404".into())
    );
    world.run_for_ms(600_000);
    assert_eq!(receiver.states(), ["test", "test"]);
    assert_ne!(receiver.got()[0].id, receiver.got()[1].id);
    assert_eq!(
        ask(&world, &client, "POST", "/alerts/b/test", &Value::Null).status,
        404
    );
}

#[test]
fn the_last_hundred_are_kept_and_what_waits_is_bounded() {
    let (world, _, client, receiver) = service(67);
    put(&world, &client, "a", &alert("counter", "c", &above_ten()));
    for _ in 0..130 {
        done(&world, &client, "POST", "/alerts/a/test", &Value::Null);
    }
    let answer = get(&world, &client, "/alerts/a/deliveries");
    assert_eq!(answer["entries"].as_array().expect("a list").len(), 100);
    let ids = receiver.take();
    assert_eq!(answer["entries"][0]["id"], ids[129].id.as_str());
    // Twenty incidents that nobody takes.
    receiver.answer_status(500);
    for _ in 0..20 {
        add(&world, &client, "c", 11);
        world.run_for_ms(EVALUATED_MS);
        subtract(&world, &client, "c", 11);
        world.run_for_ms(EVALUATED_MS);
    }
    let answer = get(&world, &client, "/alerts/a/deliveries");
    let waiting = answer["entries"].as_array().expect("a list").iter();
    let waiting = waiting.filter(|one| one["outcome"] == "waiting").count();
    assert!((15..=20).contains(&waiting), "{waiting}");
    receiver.take();
    receiver.answer_status(200);
    world.run_for_ms(2 * 3_600_000);
    let got = receiver.take();
    for pair in got.chunks(2) {
        assert_eq!((pair[0].state(), pair[1].state()), ("firing", "resolved"));
        assert_eq!(pair[0].incident(), pair[1].incident());
    }
    add(&world, &client, "c", 11);
    world.run_for_ms(EVALUATED_MS);
    assert_eq!(receiver.states(), ["firing"]);
}

#[test]
fn an_alert_that_is_put_anew_goes_on_and_one_that_watches_something_else_begins_anew() {
    let (world, client, receiver) = firing(68, 204);
    assert_eq!(receiver.states(), ["firing"]);
    // The same, with another webhook: nothing is delivered again.
    let mut settings = alert("counter", "c", &above_ten());
    settings["webhook"] = "https://other.example.com/".into();
    let answer = put(&world, &client, "a", &settings);
    assert_eq!(answer["state"], "firing");
    world.run_for_ms(EVALUATED_MS);
    assert_eq!(receiver.states(), ["firing"]);
    // Another threshold: the delivered incident is resolved.
    put(
        &world,
        &client,
        "a",
        &alert("counter", "c", &json!({"value": {"above": 100}})),
    );
    world.run_for_ms(EVALUATED_MS);
    assert_eq!(receiver.states(), ["firing", "resolved"]);
    assert_eq!(receiver.got()[0].incident(), receiver.got()[1].incident());
}

#[test]
fn what_is_deleted_is_told_nobody() {
    let (world, client, receiver) = firing(69, 500);
    done(&world, &client, "DELETE", "/alerts/a", &Value::Null);
    world.run_for_ms(20_000);
    receiver.take();
    world.run_for_ms(3_600_000);
    assert_eq!(receiver.states(), [""; 0]);
    assert_eq!(
        get(&world, &client, "/alerts/*/deliveries")["entries"],
        json!([])
    );
    // One of that name is another.
    receiver.answer_status(200);
    put(&world, &client, "a", &alert("counter", "c", &above_ten()));
    world.run_for_ms(EVALUATED_MS);
    assert_eq!(receiver.states(), ["firing"]);
}

#[test]
fn a_receiver_that_fails_does_not_hold_up_others() {
    let (world, _, client, receiver) = service(70);
    for number in 0..30 {
        let mut settings = alert("counter", &format!("c{number}"), &above_ten());
        if number < 29 {
            settings["webhook"] = "https://slow.example.com/".into();
        }
        put(&world, &client, &format!("a{number}"), &settings);
    }
    let sleep = Rc::new(world.sleeper());
    receiver.answer(move |got| {
        let (sleep, is_slow) = (sleep.clone(), got.url.contains("slow"));
        Box::pin(async move {
            if is_slow {
                sleep(3_600_000).await;
            }
            Ok(200)
        })
    });
    for number in 0..30 {
        add(&world, &client, &format!("c{number}"), 11);
    }
    world.run_for_ms(2 * EVALUATED_MS);
    let got = receiver.got();
    assert!(
        got.iter().any(|got| got.url.contains("hooks")),
        "{}",
        got.len()
    );
}

#[test]
fn an_attempt_of_a_deleted_alert_says_nothing_of_one_of_its_name() {
    let (world, client, receiver) = firing(71, 500);
    receiver.take();
    let sleep = Rc::new(world.sleeper());
    let is_first = Rc::new(Cell::new(true));
    receiver.answer(move |_| {
        let (sleep, is_slow) = (sleep.clone(), is_first.replace(false));
        Box::pin(async move {
            if is_slow {
                sleep(9_000).await;
            }
            Ok(200)
        })
    });
    while receiver.got().is_empty() {
        world.run_for_ms(100);
    }
    // Its delivery gets the number of the one that is in flight.
    done(&world, &client, "DELETE", "/alerts/a", &Value::Null);
    put(&world, &client, "a", &alert("counter", "c", &above_ten()));
    world.run_for_ms(2 * EVALUATED_MS);
    let got = receiver.take();
    assert_eq!(got.len(), 2, "{got:#?}");
    assert_ne!(got[0].incident(), got[1].incident());
    let answer = get(&world, &client, "/alerts/a/deliveries");
    let deliveries = answer["entries"].as_array().expect("a list");
    assert_eq!(deliveries.len(), 1, "{answer}");
    assert_eq!(deliveries[0]["id"], got[1].id.as_str(), "{answer}");
}
