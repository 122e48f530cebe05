//! Boards in a whole service: ranks agree with a sorted list of all acknowledged scores, through crashes, lost and repeated messages
//! and retries.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tally_simulation::{Client, ClientRequest, Faults, Options, Site, World, admin, deployed};

fn service(seed: u64) -> (World, [Client; 2]) {
    let world = deployed(seed, Options::default());
    let sites: [Site; 2] = [world.site("FRA", 2), world.site("SYD", 2)];
    let clients = sites.map(|site| admin(&world, site));
    (world, clients)
}

fn ask(world: &World, client: &Client, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut request = ClientRequest::new(method, path);
    if !body.is_empty() {
        request = request.body(body.as_bytes().to_vec());
    }
    let answer = world.run(client.ask(request)).expect("no fault");
    (answer.status, answer.json())
}

fn get(world: &World, client: &Client, path: &str) -> Value {
    let (status, json) = ask(world, client, "GET", path, "");
    assert_eq!(status, 200, "{path}: {json}");
    json
}

/// Sends a write until it is acknowledged. Whether it was.
async fn deliver(world: &World, client: &Client, path: &str, body: &str, key: &str) -> bool {
    for _ in 0..30 {
        let request = ClientRequest::new("POST", path)
            .header("idempotency-key", key)
            .body(body.as_bytes().to_vec());
        match client.ask(request).await {
            Ok(answer) if answer.status == 200 => return true,
            _ => world.sleep_ms(400).await,
        }
    }
    false
}

/// Every way to read a board agrees with the list of all its members, the best first.
fn check_reads(world: &World, client: &Client, board: &str, scores: &BTreeMap<String, i64>) {
    let mut sorted: Vec<(&String, i64)> =
        scores.iter().map(|(name, score)| (name, *score)).collect();
    sorted.sort_by(|one, other| (other.1, other.0).cmp(&(one.1, one.0)));
    let total = sorted.len();
    let row = |place: usize| json!([sorted[place].0, sorted[place].1, place + 1]);
    let rows = |json: &Value| -> Vec<Value> {
        let rows = json["rows"].as_array().expect("rows");
        rows.iter()
            .map(|row| json!([row["member"], row["score"], row["rank"]]))
            .collect()
    };
    let top = get(world, client, &format!("/boards/{board}/top?limit=1000"));
    assert_eq!(rows(&top), (0..total).map(row).collect::<Vec<_>>());
    assert_eq!(
        (&top["total"], &top["exact"]),
        (&json!(total), &json!(true))
    );
    for place in [0, 1, total / 2, total - 1] {
        let (name, score) = sorted[place];
        let member = get(world, client, &format!("/boards/{board}/members/{name}"));
        assert_eq!(
            json!([member["member"], member["score"], member["rank"]]),
            row(place)
        );
        let around = get(
            world,
            client,
            &format!("/boards/{board}/members/{name}/around?limit=2"),
        );
        let near = place.saturating_sub(2)..(place + 3).min(total);
        assert_eq!(rows(&around), near.map(row).collect::<Vec<_>>());
        let at = get(
            world,
            client,
            &format!("/boards/{board}/rank/{}", place + 1),
        );
        assert_eq!(json!([at["member"], at["score"], at["rank"]]), row(place));
        let count = get(world, client, &format!("/boards/{board}/count?min={score}"));
        assert_eq!(
            count["count"],
            json!(sorted.iter().filter(|one| one.1 >= score).count())
        );
    }
    let (mut paged, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let next = cursor.map_or(String::new(), |cursor| format!("&cursor={cursor}"));
        let page = get(
            world,
            client,
            &format!("/boards/{board}/members?limit=3{next}"),
        );
        paged.extend(rows(&page));
        match page["cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(paged, (0..total).map(row).collect::<Vec<_>>());
}

fn faulty(seed: u64) {
    let (world, clients) = service(seed);
    let settings = [
        ("sums", r#"{"keep":"sum","scores":"integer"}"#),
        ("best", r#"{"keep":"best","scores":"integer"}"#),
    ];
    for (board, settings) in settings {
        assert_eq!(
            ask(
                &world,
                &clients[0],
                "PUT",
                &format!("/boards/{board}"),
                settings
            )
            .0,
            201
        );
    }
    world.set_faults(Faults::SOME);
    let written = world.run(join_all((0..80_usize).map(|number| {
        let (client, world) = (&clients[number % 2], &world);
        async move {
            world.sleep_ms(world.chance().below(4_000)).await;
            let amount = 1 + i64::try_from(world.chance().below(50)).expect("small");
            let member = format!("m{}", number % 9);
            let (board, field) = if number % 3 == 0 { ("best", "score") } else { ("sums", "delta") };
            let key = format!("{seed}-{number}");
            let is_done = if number % 10 == 9 {
                let lines = format!("{{\"member\":\"{member}\",\"{field}\":{amount}}}\n{{\"member\":\"all\",\"{field}\":1}}");
                deliver(world, client, &format!("/boards/{board}/members"), &lines, &key).await
            } else {
                let body = format!("{{\"{field}\":{amount}}}");
                let path = format!("/boards/{board}/members/{member}");
                deliver(world, client, &path, &body, &key).await
            };
            (board, member, amount, number % 10 == 9, is_done)
        }
    })));
    world.set_faults(Faults::NONE);
    world.run_for_ms(30_000);
    let mut scores: BTreeMap<&str, BTreeMap<String, i64>> = BTreeMap::new();
    for (board, member, amount, with_all, is_done) in written {
        assert!(
            is_done,
            "seed {seed}: a write was not acknowledged in 30 tries"
        );
        let members = scores.entry(board).or_default();
        for (name, amount) in [
            (Some(member), amount),
            (with_all.then(|| "all".to_owned()), 1),
        ] {
            let Some(name) = name else { continue };
            let score = members.entry(name).or_insert(0);
            *score = if board == "best" {
                amount.max(*score)
            } else {
                *score + amount
            };
        }
    }
    for (board, scores) in &scores {
        check_reads(&world, &clients[1], board, scores);
    }
    let boards = get(&world, &clients[0], "/boards");
    assert_eq!(boards["boards"], json!(["best", "sums"]), "seed {seed}");
    assert_eq!(world.crossed(), 0, "seed {seed}");
}

#[test]
fn with_faults_ranks_agree_with_all_acknowledged_scores() {
    for seed in 0..12 {
        faulty(seed);
    }
}

#[test]
fn a_key_writes_once_and_a_deleted_board_is_not_written_by_it() {
    let (world, clients) = service(3);
    let add = |key: &str| {
        let request = ClientRequest::new("POST", "/boards/b/members/ann")
            .header("idempotency-key", key)
            .body(br#"{"delta":5}"#.to_vec());
        world.run(clients[0].ask(request)).expect("no fault")
    };
    let first = add("one");
    assert_eq!(
        (first.status, &first.json()["score"]),
        (200, &json!(5)),
        "{}",
        first.text()
    );
    let again = add("one");
    assert_eq!(again.text(), first.text());
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(add("two").json()["score"], 10);
    let other = ClientRequest::new("POST", "/boards/b/members/ann")
        .header("idempotency-key", "one")
        .body(br#"{"delta":6}"#.to_vec());
    let other = world.run(clients[0].ask(other)).expect("no fault");
    assert_eq!(other.json()["code"], "idempotency-key-reused");
    assert_eq!(ask(&world, &clients[1], "DELETE", "/boards/b", "").0, 200);
    assert_eq!(
        ask(&world, &clients[1], "DELETE", "/boards/b", "").1["code"],
        "board-not-found"
    );
    assert_eq!(
        ask(&world, &clients[0], "GET", "/boards/b/top", "").1["code"],
        "board-not-found"
    );
    assert_eq!(add("two").json()["code"], "board-ended");
    assert_eq!(add("three").json()["score"], 5);
    assert_eq!(get(&world, &clients[0], "/boards")["boards"], json!(["b"]));
    // What the first board had is swept, its keys go with time, and nothing of that touches the next one.
    world.run_for_ms(200_000_000);
    assert_eq!(add("four").json()["score"], 10);
    assert_eq!(ask(&world, &clients[0], "DELETE", "/boards/b", "").0, 200);
    world.run_for_ms(200_000_000);
    assert_eq!(get(&world, &clients[0], "/boards")["boards"], json!([]));
    assert_eq!(add("one").json()["score"], 5);
}

#[test]
fn periods_end_and_are_kept_and_members_expire() {
    let (world, clients) = service(5);
    let client = &clients[0];
    let put = r#"{"period":"hour","archive":2,"ties":"shared"}"#;
    assert_eq!(ask(&world, client, "PUT", "/boards/b", put).0, 201);
    let mut starts = Vec::new();
    for hour in 0..4 {
        let score = |member: &str, body: String| {
            let written = ask(
                &world,
                client,
                "POST",
                &format!("/boards/b/members/{member}"),
                &body,
            );
            assert_eq!(written.0, 200, "{}", written.1);
            written.1
        };
        score("ann", format!("{{\"score\":{hour}}}"));
        let bob = score("bob", format!("{{\"score\":{hour}}}"));
        assert_eq!((&bob["rank"], &bob["total"]), (&json!(1), &json!(2)));
        score("eve", r#"{"score":9,"expires_in":60}"#.to_owned());
        assert_eq!(get(&world, client, "/boards/b/members/bob")["rank"], 2);
        world.run_for_ms(61_000);
        let top = get(&world, client, "/boards/b/top");
        assert_eq!(
            (
                &top["total"],
                &top["rows"][0]["rank"],
                &top["rows"][1]["rank"]
            ),
            (&json!(2), &json!(1), &json!(1))
        );
        starts.push(top["period"]["start"].as_i64().expect("a period"));
        world.run_for_ms(3_600_000);
    }
    let periods = get(&world, client, "/boards/b/periods");
    assert_eq!(periods["total"], 0);
    let kept: Vec<i64> = periods["periods"]
        .as_array()
        .expect("periods")
        .iter()
        .filter_map(|one| one["start"].as_i64())
        .collect();
    assert_eq!(kept, [starts[3], starts[2]]);
    for (hour, start) in [(2, starts[2]), (3, starts[3])] {
        let top = get(&world, client, &format!("/boards/b/top?period={start}"));
        assert_eq!(
            (&top["total"], &top["rows"][0]["score"]),
            (&json!(2), &json!(hour))
        );
        assert_eq!(
            get(
                &world,
                client,
                &format!("/boards/b/members/ann?period={start}")
            )["rank"],
            1
        );
    }
    let gone = ask(
        &world,
        client,
        "GET",
        &format!("/boards/b/top?period={}", starts[0]),
        "",
    );
    assert_eq!(gone.1["code"], "period-not-found");
}
