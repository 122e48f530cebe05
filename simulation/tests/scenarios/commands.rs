//! Commands of Redis's dialect that meet: what they add to one counter travels together, and what scripts of one
//! request write is written together.

use std::collections::BTreeSet;

use serde_json::json;
use tally_simulation::ClientRequest;
use tally_wire::names::{CELLS, KEYSPACES, Placement};

use super::scene::{COUNTER, Scene, add};

/// A script of a fixed window, by the name that clients send.
const FIXED: &str = "EVALSHA b2efc02798c8e9b471a10f9b1d5745db89923ff3 1";

fn pipeline(commands: &[String]) -> ClientRequest {
    let words = |command: &String| command.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let commands: Vec<Vec<String>> = commands.iter().map(words).collect();
    let json = serde_json::to_string(&commands).expect("JSON");
    ClientRequest::new("POST", "/redis/pipeline")
        .at(0)
        .json(&json)
}

/// The numbers that a pipeline was replied; of a verdict what is used.
fn numbers(replies: &serde_json::Value) -> Vec<i64> {
    let replies = replies.as_array().expect("a list").iter();
    let number = |reply: &serde_json::Value| {
        let result = &reply["result"];
        result.as_i64().or_else(|| result[0].as_i64())
    };
    replies
        .map(|reply| number(reply).unwrap_or_else(|| panic!("no number: {reply}")))
        .collect()
}

fn keyspace(scene: &Scene) -> Placement {
    scene.last_place(KEYSPACES, "/run-commands")
}

#[test]
fn additions_that_meet_at_a_counter_travel_together_and_each_is_told_its_own_sum() {
    let scene = Scene::new(&["FRA"]);
    let incr = |count: usize| pipeline(&vec!["INCR hits".to_owned(); count]);
    assert_eq!(numbers(&scene.done(0, incr(1))), [1]);
    scene.settle();
    let before = scene.count("/count", "");
    let first = scene.hold("/count", "");
    let all_pending: Vec<_> = (0..8).map(|_| scene.begin(0, incr(2))).collect();
    scene.wait_for(&first);
    scene.world.run_for_ms(20);
    first.let_go();
    let mut sums = BTreeSet::new();
    for pending in all_pending {
        let pair = numbers(&scene.end(pending).json());
        assert_eq!(pair[0] + 1, pair[1], "those of one request are in order");
        sums.extend(pair);
    }
    assert_eq!(sums, (2..=17).collect());
    assert_eq!(scene.count("/count", "") - before, 2, "messages");
    assert_eq!(scene.value(), 17);
    // Where they have met, the first waits for those that come right after it.
    let before = scene.count("/count", "");
    let (held, all_pending): (Vec<_>, Vec<_>) = (0..8)
        .map(|_| (scene.hold("/run-commands", ""), scene.begin(0, incr(2))))
        .unzip();
    held.iter().for_each(|held| scene.wait_for(held));
    held.iter().for_each(|held| held.let_go());
    let sums = all_pending
        .into_iter()
        .map(|pending| numbers(&scene.end(pending).json()));
    let sums: BTreeSet<i64> = sums.flatten().collect();
    assert_eq!(sums, (18..=33).collect());
    assert_eq!(scene.count("/count", "") - before, 1, "messages");
}

#[test]
fn additions_of_which_nothing_is_known_are_told_so_and_the_next_go_on() {
    let scene = Scene::new(&["FRA"]);
    let incr = || pipeline(&["INCRBY hits 5".to_owned()]);
    assert_eq!(numbers(&scene.done(0, incr())), [5]);
    // Both tries of the message: whoever waits for it and whoever comes meanwhile.
    let (first, again) = (scene.hold("/count", ""), scene.hold("/count", ""));
    let all_pending = [scene.begin(0, incr()), scene.begin(0, incr())];
    scene.wait_for(&first);
    first.lose();
    scene.wait_for(&again);
    again.lose();
    let (mut unknown, mut sums) = (0, Vec::new());
    for pending in all_pending {
        let replies = scene.end(pending).json();
        match replies[0]["result"].as_i64() {
            Some(sum) => sums.push(sum),
            None => unknown += 1,
        }
    }
    assert!(unknown > 0, "a lost addition is not acknowledged");
    let value = scene.value();
    assert_eq!(value, 5 + 5 * i64::try_from(sums.len()).expect("few"));
}

#[test]
fn additions_that_fail_in_the_middle_of_a_batch_are_told_so_and_those_beside_them_count_once() {
    let scene = Scene::new(&["FRA"]);
    let each = |words: &str| ["hits", "other", "third"].map(|key| format!("{words} {key}"));
    assert_eq!(numbers(&scene.done(0, pipeline(&each("INCR")))), [1, 1, 1]);
    // Both tries of the message about one of the counters are lost, before it counts and after.
    let (first, again) = (
        scene.hold("/count", "other"),
        scene.hold_answer("/count", "other"),
    );
    let twice = [each("INCR"), each("INCR")].concat();
    let pending = scene.begin(0, pipeline(&twice));
    scene.wait_for(&first);
    first.lose();
    scene.wait_for(&again);
    again.lose();
    let replies = scene.end(pending).json();
    let sums: Vec<Option<i64>> = (0..6).map(|nth| replies[nth]["result"].as_i64()).collect();
    assert_eq!(
        [sums[0], sums[2], sums[3], sums[5]],
        [2, 2, 3, 3].map(Some),
        "{replies}"
    );
    scene.settle();
    let after = numbers(&scene.done(0, pipeline(&each("INCR"))));
    assert_eq!([after[0], after[2]], [4, 4]);
    // Those of one counter are one message: both of them count, or neither does.
    match (sums[1], sums[4]) {
        (None, None) => assert!([2, 4].contains(&after[1]), "{after:?}"),
        acknowledged => assert_eq!((acknowledged, after[1]), ((Some(2), Some(3)), 4)),
    }
}

#[test]
fn additions_to_other_counters_go_on_while_one_counter_is_locked() {
    let scene = Scene::new(&["FRA"]);
    let each = ["INCR other".to_owned(), "INCR hits".to_owned()];
    assert_eq!(numbers(&scene.done(0, pipeline(&each))), [1, 1]);
    let held = scene.hold("/operate", "");
    let setting = scene.begin(0, pipeline(&["SET other 9".to_owned()]));
    scene.wait_for(&held);
    let replies = scene.ask(0, pipeline(&each)).json();
    assert_eq!(replies[1], json!({"result": 2}), "{replies}");
    let refusal = replies[0]["error"].as_str().unwrap_or_default();
    assert!(
        refusal.contains("another command works on this key"),
        "{replies}"
    );
    held.let_go();
    scene.end(setting);
    assert_eq!(scene.value(), 2);
}

#[test]
fn a_late_copy_of_an_addition_neither_brings_a_deleted_key_back_nor_counts_in_the_next() {
    // What the cell remembers of the ended generation is in memory only.
    for (comes_again, forgets) in [(false, false), (true, false), (false, true), (true, true)] {
        let scene = Scene::new(&["FRA"]);
        let incr = || pipeline(&["INCR hits".to_owned()]);
        let first = scene.hold("/count", "");
        assert_eq!(numbers(&scene.done(0, incr())), [1]);
        let deletion = scene.done(0, pipeline(&["DEL hits".to_owned()]));
        assert_eq!(numbers(&deletion), [1]);
        if forgets {
            let lead = scene.last_place(CELLS, "/count");
            assert!(scene.world.crash(&lead), "it is in memory");
        }
        if comes_again {
            assert_eq!(numbers(&scene.done(0, incr())), [1]);
        }
        first.let_go();
        scene.world.run_for_ms(5_000);
        let read = scene.done(0, pipeline(&["GET hits".to_owned()]));
        let expected = if comes_again { json!("1") } else { json!(null) };
        assert_eq!(read, json!([{"result": expected}]));
    }
}

#[test]
fn additions_past_64_bits_count_nothing_at_either_end_and_those_that_meet_go_on_without_them() {
    let scene = Scene::new(&["FRA"]);
    let ask = |commands: &[&str]| {
        let commands: Vec<String> = commands.iter().map(|it| (*it).to_owned()).collect();
        scene.done(0, pipeline(&commands)).to_string()
    };
    let refused = r#"{"error":"ERR increment or decrement would overflow"}"#;
    let replies = ask(&[
        "SET hits -5",
        "INCRBY hits -9223372036854775808",
        "GET hits",
    ]);
    assert_eq!(
        replies,
        format!(r#"[{{"result":"OK"}},{refused},{{"result":"-5"}}]"#)
    );
    let replies = ask(&["SET hits 9223372036854775806", "DECRBY hits -2", "GET hits"]);
    let value = r#"{"result":"9223372036854775806"}"#;
    assert_eq!(replies, format!(r#"[{{"result":"OK"}},{refused},{value}]"#));
    // In one message to the cell the sum of the three does not fit, two of them do.
    let replies = ask(&["INCR hits", "INCRBY hits 9000000", "INCRBY hits 0"]);
    let value = r#"{"result":"9223372036854775807"}"#;
    assert_eq!(replies, format!("[{value},{refused},{value}]"));
    // Each is one message: nothing is taken back.
    let before = scene.count("/count", "");
    let lines = ["DECR hits", "INCRBY hits 2", "GET hits"];
    let value = r#"{"result":"9223372036854775806"}"#;
    assert_eq!(ask(&lines), format!("[{value},{refused},{value}]"));
    assert_eq!(scene.count("/count", "") - before, 2, "messages");
    assert_eq!(
        ask(&["SET hits 7", "GET hits"]),
        r#"[{"result":"OK"},{"result":"7"}]"#
    );
}

#[test]
fn a_key_that_has_ended_begins_anew_for_a_pipeline_too() {
    let scene = Scene::new(&["FRA"]);
    let begin = ["INCRBY hits 40".to_owned(), "PEXPIRE hits 100".to_owned()];
    assert_eq!(numbers(&scene.done(0, pipeline(&begin))), [40, 1]);
    // Its time is over, and the alarm that ends it has not rung.
    scene.world.run_for_ms(300);
    let again = ["INCR hits".to_owned(), "INCR hits".to_owned()];
    assert_eq!(numbers(&scene.done(0, pipeline(&again))), [1, 2]);
    scene.settle();
    let read = pipeline(&["INCRBY hits 0".to_owned(), "TTL hits".to_owned()]);
    assert_eq!(numbers(&scene.done(0, read)), [2, -1]);
}

#[test]
fn scripts_of_one_request_are_written_by_few_statements() {
    let scene = Scene::new(&["FRA"]);
    let checks: Vec<String> = (0..200)
        .map(|user| format!("{FIXED} user-{user} 3 60000 1"))
        .collect();
    let statements = || -> u64 {
        let objects = scene.world.objects().into_iter();
        let own = objects.filter(|(kind, ..)| *kind == KEYSPACES);
        own.map(|(_, _, statements, _)| statements).sum()
    };
    assert_eq!(numbers(&scene.done(0, pipeline(&checks))), [1; 200]);
    let before = statements();
    assert_eq!(numbers(&scene.done(0, pipeline(&checks))), [2; 200]);
    let ran = statements() - before;
    assert!(ran <= 20, "{ran} statements for 200 scripts");
    // Several of one key are decided one after the other.
    let same = vec![format!("{FIXED} user-7 9 60000 1"); 3];
    assert_eq!(numbers(&scene.done(0, pipeline(&same))), [3, 4, 5]);
}

#[test]
fn scripts_that_could_not_be_written_are_not_acknowledged_and_nothing_of_them_is_remembered() {
    let scene = Scene::new(&["FRA"]);
    let check = |user: usize| format!("{FIXED} user-{user} 9 60000 1");
    let checks: Vec<String> = (0..40).map(check).collect();
    assert_eq!(numbers(&scene.done(0, pipeline(&checks))), [1; 40]);
    assert!(scene.world.fail_storage(&keyspace(&scene), 0, 200));
    let answer = scene.ask(0, pipeline(&checks));
    assert!(!answer.text().contains("[2,9]"), "{}", answer.text());
    scene.settle();
    assert_eq!(numbers(&scene.done(0, pipeline(&checks))), [2; 40]);
}

#[test]
fn scripts_on_one_key_in_one_request_are_written_in_their_order() {
    let scene = Scene::new(&["FRA"]);
    let check = |user: &str, by: u32| format!("{FIXED} {user} 99 60000 {by}");
    assert_eq!(numbers(&scene.done(0, pipeline(&[check("old", 1)]))), [1]);
    // They are known not to be there, so no reading comes between what is written.
    let ends = |users: [&str; 3]| users.map(|user| format!("PTTL {user}"));
    let users = ["old", "new", "other"];
    assert_eq!(
        numbers(&scene.done(0, pipeline(&ends(users))))[1..],
        [-2, -2]
    );
    // Of the old key the value alone is written, of the new ones their ends too.
    let order = ["old", "new", "new", "old", "other", "new"];
    let checks: Vec<String> = order.iter().map(|user| check(user, 2)).collect();
    let replies = numbers(&scene.done(0, pipeline(&checks)));
    assert_eq!(replies, [3, 2, 4, 5, 2, 6]);
    scene.settle();
    assert!(scene.world.crash(&keyspace(&scene)));
    scene.settle();
    let checks = users.map(|user| check(user, 1));
    assert_eq!(numbers(&scene.done(0, pipeline(&checks))), [6, 7, 3]);
    let ends = numbers(&scene.done(0, pipeline(&ends(users))));
    assert!(ends.iter().all(|end| (1..60_000).contains(end)), "{ends:?}");
}

#[test]
fn a_bound_holds_while_other_calls_count_and_what_is_added_within_it_counts_once() {
    let scene = Scene::new(&["FRA"]);
    let window = || pipeline(&["INCREX hits BYINT 5 UBOUND 20".to_owned()]);
    let result = |replies: serde_json::Value| replies[0]["result"].clone();
    assert_eq!(result(scene.done(0, window())), json!([5, 5]));
    // Another call counts after the value was read, and before it is added to.
    let held = scene.hold("/count", "");
    let pending = scene.begin(0, window());
    scene.wait_for(&held);
    scene.done(0, add(13));
    held.let_go();
    assert_eq!(result(scene.end(pending).json()), json!([18, 0]));
    assert_eq!(scene.value(), 18);
    // Its answer is lost, and it is sent again.
    let lost = scene.hold_answer("/count", "");
    let one = pipeline(&["INCREX hits BYINT 2 UBOUND 20".to_owned()]);
    let pending = scene.begin(0, one);
    scene.wait_for(&lost);
    lost.lose();
    let reply = scene.end(pending).json();
    let known = [json!([20, 2]), json!([20, 0])];
    assert!(
        known.contains(&result(reply.clone())) || !reply[0]["error"].is_null(),
        "{reply}"
    );
    assert_eq!(scene.value(), 20);
    // It is an increment: the history has it.
    let path = format!("{COUNTER}/history?step=1h");
    let history = scene.done(0, ClientRequest::new("GET", path).at(0));
    let points = history["points"].as_array().cloned().unwrap_or_default();
    let counts = points.iter().filter_map(|point| point[1].as_u64());
    assert_eq!(counts.sum::<u64>(), 20, "{history}");
}
