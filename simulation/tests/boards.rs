//! Boards in a whole service: ranks agree with a sorted list of all acknowledged scores, through crashes, lost and
//! repeated messages and retries.

use std::collections::BTreeMap;

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use tally_core::board::placing::ShardAt;
use tally_core::counter::id::CounterId;
use tally_simulation::{Client, ClientRequest, Faults, Options, Site, World, admin, deployed};
use tally_wire::names;

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

/// Sends a write until it is acknowledged. Whether it was. Pauses grow and differ, as those of a good client: in
/// these worlds each step of an isolate may be its last, so writes that all come again at once, and wait together,
/// end it before any is answered.
async fn deliver(world: &World, client: &Client, path: &str, body: &str, key: &str) -> bool {
    for attempt in 0..30 {
        let request = ClientRequest::new("POST", path)
            .header("idempotency-key", key)
            .body(body.as_bytes().to_vec());
        match client.ask(request).await {
            Ok(answer) if answer.status == 200 => return true,
            _ => {
                let longest_ms = 400 << attempt.min(4);
                world.sleep_ms(200 + world.chance().below(longest_ms)).await;
            }
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
        let rows = json["entries"].as_array().expect("rows");
        rows.iter()
            .map(|row| json!([row["member"], row["score"], row["rank"]]))
            .collect()
    };
    let top = get(
        world,
        client,
        &format!("/boards/{board}/members?limit=1000&consistency=strong"),
    );
    assert_eq!(rows(&top), (0..total).map(row).collect::<Vec<_>>());
    assert_eq!(
        (&top["total"], &top["exact"]),
        (&json!(total), &json!(true))
    );
    for place in [0, 1, total / 2, total - 1] {
        let (name, score) = sorted[place];
        let member = get(
            world,
            client,
            &format!("/boards/{board}/members/{name}?consistency=strong"),
        );
        assert_eq!(
            json!([member["member"], member["score"], member["rank"]]),
            row(place)
        );
        let path = format!("/boards/{board}/members?around={name}&limit=2");
        let around = get(world, client, &path);
        let near = place.saturating_sub(2)..(place + 3).min(total);
        assert_eq!(rows(&around), near.map(row).collect::<Vec<_>>());
        let path = format!("/boards/{board}/members?limit=1&rank={}", place + 1);
        let at = get(world, client, &path);
        assert_eq!(rows(&at), [row(place)]);
        let count = get(
            world,
            client,
            &format!("/boards/{board}/members?limit=0&min={score}"),
        );
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

/// The boards of the worlds that fail, and what they are made with.
const BOARDS: [(&str, &str); 2] = [
    ("sums", r#"{"keep":"sum","scores":"integer"}"#),
    ("best", r#"{"keep":"best","scores":"integer"}"#),
];

/// What a board is made with, and a number of shards.
fn spread(settings: &str, shards: u32) -> String {
    settings.replace('}', &format!(r#","shards":{shards}}}"#))
}

/// Spreads the boards over these numbers of shards, one after the other.
async fn spread_each(world: &World, client: &Client, shards: &[u32]) {
    for shards in shards {
        for (board, settings) in BOARDS {
            world.sleep_ms(world.chance().below(900)).await;
            let put = ClientRequest::new("PUT", format!("/boards/{board}"))
                .body(spread(settings, *shards).into_bytes());
            // One that is lost is as good, and one may come after those that were sent later.
            let _ = client.ask(put).await;
        }
    }
}

/// A write of the worlds that fail.
struct Write {
    board: &'static str,
    member: String,
    amount: i64,
    /// Whether `all` got 1 by the same call.
    with_all: bool,
    is_acknowledged: bool,
}

/// Sends one of the writes after a while.
async fn write(world: &World, client: &Client, key: &str, number: u32) -> Write {
    world.sleep_ms(world.chance().below(4_000)).await;
    let amount = 1 + i64::try_from(world.chance().below(50)).expect("small");
    let member = format!("m{}", number % 9);
    let (board, field) = match number % 3 {
        0 => ("best", "score"),
        _ => ("sums", "delta"),
    };
    let with_all = number % 10 == 9;
    let (path, body) = if with_all {
        let own = format!(r#"{{"member":"{member}","{field}":{amount}}}"#);
        let all = format!(r#"{{"member":"all","{field}":1}}"#);
        (format!("/boards/{board}/members"), format!("{own}\n{all}"))
    } else {
        let body = format!(r#"{{"{field}":{amount}}}"#);
        (format!("/boards/{board}/members/{member}"), body)
    };
    let is_acknowledged = deliver(world, client, &path, &body, key).await;
    Write {
        board,
        member,
        amount,
        with_all,
        is_acknowledged,
    }
}

/// The scores of each board after these writes.
fn scores_of(written: &[Write]) -> BTreeMap<&'static str, BTreeMap<String, i64>> {
    let mut scores: BTreeMap<_, BTreeMap<String, i64>> = BTreeMap::new();
    for write in written {
        let members = scores.entry(write.board).or_default();
        let mut count = |name: &str, amount: i64| {
            let score = members.entry(name.to_owned()).or_insert(0);
            *score = if write.board == "best" {
                amount.max(*score)
            } else {
                *score + amount
            };
        };
        count(&write.member, write.amount);
        if write.with_all {
            count("all", 1);
        }
    }
    scores
}

/// Writes under faults, while the boards are spread over these numbers of shards, one after the other.
fn faulty(seed: u64, shards: &[u32]) {
    let (world, clients) = service(seed);
    for (board, settings) in BOARDS {
        let path = format!("/boards/{board}");
        assert_eq!(ask(&world, &clients[0], "PUT", &path, settings).0, 201);
    }
    world.set_faults(Faults::SOME);
    let writes = join_all((0..80).zip(clients.iter().cycle()).map(|(number, client)| {
        let world = &world;
        async move { write(world, client, &format!("{seed}-{number}"), number).await }
    }));
    let spreading = spread_each(&world, &clients[0], shards);
    let (written, ()) = world.run(join(writes, spreading));
    world.set_faults(Faults::NONE);
    if let Some(last) = shards.last() {
        world.run_for_ms(5_000);
        for (board, settings) in BOARDS {
            let path = format!("/boards/{board}");
            let put = ask(&world, &clients[0], "PUT", &path, &spread(settings, *last));
            assert_eq!(put.0, 200, "seed {seed}: {}", put.1);
        }
    }
    world.run_for_ms(30_000);
    assert!(
        written.iter().all(|write| write.is_acknowledged),
        "seed {seed}: a write was not acknowledged in 30 tries"
    );
    for (board, scores) in &scores_of(&written) {
        if let Some(last) = shards.last() {
            let about = get(&world, &clients[0], &format!("/boards/{board}"));
            assert_eq!(about["shards"], json!(last), "seed {seed}");
        }
        check_reads(&world, &clients[1], board, scores);
    }
    let boards = get(&world, &clients[0], "/boards");
    assert_eq!(boards["entries"], json!(["best", "sums"]), "seed {seed}");
    assert_eq!(world.crossed(), 0, "seed {seed}");
}

#[test]
fn with_faults_ranks_agree_with_all_acknowledged_scores() {
    for seed in 0..12 {
        faulty(seed, &[]);
    }
}

#[test]
fn with_faults_ranks_agree_while_boards_are_spread_and_joined() {
    for seed in 0..12 {
        faulty(seed, &[2, 5, 1, 3]);
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
        ask(&world, &clients[0], "GET", "/boards/b/members", "").1["code"],
        "board-not-found"
    );
    assert_eq!(add("two").json()["code"], "board-ended");
    assert_eq!(add("three").json()["score"], 5);
    assert_eq!(get(&world, &clients[0], "/boards")["entries"], json!(["b"]));
    // What the first board had is swept, its keys go with time, and nothing of that touches the next one.
    world.run_for_ms(200_000_000);
    assert_eq!(add("four").json()["score"], 10);
    assert_eq!(ask(&world, &clients[0], "DELETE", "/boards/b", "").0, 200);
    world.run_for_ms(200_000_000);
    assert_eq!(get(&world, &clients[0], "/boards")["entries"], json!([]));
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
        score("eve", r#"{"score":9,"expires_in_seconds":60}"#.to_owned());
        assert_eq!(get(&world, client, "/boards/b/members/bob")["rank"], 2);
        world.run_for_ms(61_000);
        let top = get(&world, client, "/boards/b/members");
        assert_eq!(
            (
                &top["total"],
                &top["entries"][0]["rank"],
                &top["entries"][1]["rank"]
            ),
            (&json!(2), &json!(1), &json!(1))
        );
        starts.push(top["period"]["starts_at"].as_i64().expect("a period") / 1_000);
        world.run_for_ms(3_600_000);
    }
    let periods = get(&world, client, "/boards/b?include=periods");
    assert_eq!(periods["total"], 0);
    let kept: Vec<i64> = periods["periods"]
        .as_array()
        .expect("periods")
        .iter()
        .filter_map(|one| Some(one["starts_at"].as_i64()? / 1_000))
        .collect();
    assert_eq!(kept, [starts[3], starts[2]]);
    for (hour, start) in [(2, starts[2]), (3, starts[3])] {
        let top = get(&world, client, &format!("/boards/b/members?period={start}"));
        assert_eq!(
            (&top["total"], &top["entries"][0]["score"]),
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
    let answer = ask(
        &world,
        client,
        "GET",
        &format!("/boards/b/members?period={}", starts[0]),
        "",
    );
    assert_eq!(answer.1["code"], "period-not-found");
}

/// The scores of a board of so many members, which are written at once.
fn many(world: &World, client: &Client, board: &str, members: usize) -> BTreeMap<String, i64> {
    let score = |number: usize| i64::try_from(number * 7_919 % 1_009).expect("small");
    let scores: BTreeMap<String, i64> = (0..members)
        .map(|number| (format!("m{number}"), score(number)))
        .collect();
    let lines = scores
        .iter()
        .map(|(name, score)| format!("{{\"member\":\"{name}\",\"score\":{score}}}"));
    let lines = lines.collect::<Vec<_>>().join("\n");
    let path = format!("/boards/{board}/members");
    let (status, json) = ask(world, client, "POST", &path, &lines);
    assert_eq!(
        (status, &json["accepted"]),
        (200, &json!(members)),
        "{json}"
    );
    scores
}

/// A board of 3 shards with 6,000 members, which lives at the first site; an isolate at the second knows where that is.
struct BoardElsewhere {
    world: World,
    sites: [Site; 2],
    clients: [Client; 2],
    /// The members by their scores, the best first.
    sorted: Vec<(i64, String)>,
}

fn board_elsewhere() -> BoardElsewhere {
    let world = deployed(7, Options::default());
    let sites: [Site; 2] = [world.site("FRA", 2), world.site("SYD", 2)];
    let clients = sites.map(|site| admin(&world, site));
    let put = r#"{"shards":3,"scores":"integer"}"#;
    assert_eq!(ask(&world, &clients[0], "PUT", "/boards/b", put).0, 201);
    let scores = many(&world, &clients[0], "b", 6_000);
    world.run_for_ms(10_000);
    let scores = scores.into_iter().map(|(name, score)| (score, name));
    let mut sorted: Vec<(i64, String)> = scores.collect();
    sorted.sort_by(|one, other| other.cmp(one));
    // The first read of an isolate learns where the board lives.
    for _ in 0..8 {
        get(&world, &clients[1], "/boards/b");
    }
    BoardElsewhere {
        world,
        sites,
        clients,
        sorted,
    }
}

#[test]
fn elsewhere_a_rank_lies_between_two() {
    let BoardElsewhere {
        world,
        clients,
        sorted,
        ..
    } = board_elsewhere();
    let (mut ranges, mut widest) = (0, 0);
    for place in (0..6_000).step_by(97) {
        let (score, name) = &sorted[place];
        let path = format!("/boards/b/members/{name}");
        let member = get(&world, &clients[1], &path);
        assert_eq!(
            (&member["score"], &member["exact"]),
            (&json!(score), &json!(false))
        );
        let rank = u64::try_from(place + 1).expect("small");
        let (low, high) = match member["rank"].as_u64() {
            Some(exact) => (exact, exact),
            None => (
                member["rank"][0].as_u64().expect("the lowest"),
                member["rank"][1].as_u64().expect("the highest"),
            ),
        };
        assert!(
            (low..=high).contains(&rank),
            "{rank} is not in {low} to {high}"
        );
        ranges += u32::from(low < high);
        widest = widest.max(high - low);
        let exact = get(&world, &clients[1], &format!("{path}?consistency=strong"));
        assert_eq!(
            (&exact["rank"], &exact["exact"]),
            (&json!(rank), &json!(true))
        );
    }
    assert!(
        ranges > 30 && widest <= 3 * 256,
        "{ranges} ranges, the widest {widest}"
    );
}

#[test]
fn an_approximate_rank_is_within_its_error_and_asks_one_shard() {
    let BoardElsewhere {
        world,
        clients,
        sorted,
        ..
    } = board_elsewhere();
    let path = |name: &str| format!("/boards/b/members/{name}?approximate=1");
    // Each isolate learns the number of shards, and reads a summary.
    for _ in 0..16 {
        get(&world, &clients[0], &path(&sorted[0].1));
    }
    let shards_asked = || world.figures().messages["/board-ask"];
    let (mut inexact, mut reads, before) = (0, 0, shards_asked());
    for place in (0..6_000).step_by(97) {
        let (score, name) = &sorted[place];
        let member = get(&world, &clients[0], &path(name));
        let number = |field: &str| member[field].as_u64().expect("a number");
        let rank = u64::try_from(place + 1).expect("small");
        assert_eq!(
            (&member["score"], &member["exact"]),
            (&json!(score), &json!(false))
        );
        assert!(
            number("rank").abs_diff(rank) <= number("error") && number("error") <= 3 * 128,
            "{rank}: {member}"
        );
        inexact += u32::from(number("error") > 0);
        reads += 1;
    }
    assert!(inexact > 30, "{inexact} of {reads} have an error");
    let asked = shards_asked() - before;
    // A summary is read anew once a second, from all shards.
    assert!(asked < 2 * reads, "{asked} shards for {reads} reads");
}

#[test]
fn boards_of_several_shards_are_read_as_one() {
    let (world, clients) = service(23);
    let mut all: Vec<(i64, String, &str)> = Vec::new();
    for (board, shards, members) in [("eu", 1, 40), ("us", 3, 300), ("asia", 1, 7)] {
        let put = format!(r#"{{"scores":"integer","shards":{shards}}}"#);
        let path = format!("/boards/{board}");
        assert_eq!(ask(&world, &clients[0], "PUT", &path, &put).0, 201);
        let scores = many(&world, &clients[0], board, members);
        all.extend(scores.into_iter().map(|(name, score)| (score, name, board)));
    }
    world.run_for_ms(10_000);
    let rank = |score: i64| 1 + all.iter().filter(|one| one.0 > score).count();
    let top = get(
        &world,
        &clients[0],
        "/top?boards=eu,us,asia,none&limit=50&member=m5&consistency=strong",
    );
    let mut best: Vec<(usize, &str, &str)> = all
        .iter()
        .map(|(score, name, board)| (rank(*score), name.as_str(), *board))
        .collect();
    best.sort_unstable();
    let mut entries: Vec<(usize, &str, &str)> = Vec::new();
    for row in top["entries"].as_array().expect("rows") {
        let text = |name: &str| row[name].as_str().expect("a text");
        let place = usize::try_from(row["rank"].as_u64().expect("a rank")).expect("small");
        entries.push((place, text("member"), text("board")));
    }
    entries.sort_unstable();
    assert_eq!(entries, best[..50]);
    assert_eq!(
        (&top["total"], &top["exact"], &top["absent"]),
        (&json!(347), &json!(true), &json!(["none"]))
    );
    let ranks: Vec<Value> = top["members"].as_array().expect("rows").clone();
    assert_eq!(ranks.len(), 3, "m5 is in each board: {ranks:?}");
    for row in ranks {
        let score = row["score"].as_i64().expect("a score");
        assert_eq!(row["rank"], json!(rank(score)), "{row}");
    }
    // Who reads from afar has the summaries of the boards, and is told so.
    for _ in 0..8 {
        get(&world, &clients[1], "/boards/us");
    }
    let far = get(&world, &clients[1], "/top?boards=us&limit=10");
    assert_eq!(far["exact"], json!(false), "{far}");
}

#[test]
fn a_merge_of_boards_names_the_one_that_does_not_answer() {
    let BoardElsewhere {
        world,
        sites,
        clients,
        ..
    } = board_elsewhere();
    let write = r#"{"score":7}"#;
    let near = "/boards/near/members/ann";
    assert_eq!(ask(&world, &clients[1], "POST", near, write).0, 200);
    let path = "/top?boards=b,near&limit=3&member=ann&consistency=strong";
    // Each isolate knows both boards.
    for _ in 0..8 {
        assert_eq!(get(&world, &clients[1], path)["exact"], json!(true));
    }
    world.cut(sites[0], sites[1], 60_000);
    let merged = get(&world, &clients[1], path);
    assert_eq!(
        (
            &merged["missing_boards"],
            &merged["exact"],
            &merged["total"]
        ),
        (&json!(["b"]), &json!(false), &json!(1)),
        "{merged}"
    );
    assert_eq!(
        merged["entries"],
        json!([{"board": "near", "member": "ann", "score": 7, "rank": 1}])
    );
    let (status, refused) = ask(
        &world,
        &clients[1],
        "GET",
        "/top?boards=b&consistency=strong",
        "",
    );
    assert_eq!((status, &refused["code"]), (503, &json!("unavailable")));
}

#[test]
fn elsewhere_the_first_are_told_at_once_also_while_the_board_is_out_of_reach() {
    let BoardElsewhere {
        world,
        sites,
        clients,
        sorted,
    } = board_elsewhere();
    let far = get(&world, &clients[1], "/boards/b/members?limit=50");
    let near = get(&world, &clients[0], "/boards/b/members?limit=50");
    assert_eq!(
        (&far["entries"], &far["total"]),
        (&near["entries"], &near["total"])
    );
    assert_eq!(
        (&far["exact"], &near["exact"]),
        (&json!(false), &json!(true))
    );
    // A page far from the first, over all shards.
    let page = get(&world, &clients[0], "/boards/b/members?rank=4001&limit=20");
    let names = |json: &Value| -> Vec<Value> {
        let rows = json["entries"].as_array().expect("rows");
        rows.iter()
            .map(|row| json!([row["member"], row["rank"]]))
            .collect()
    };
    let expected: Vec<Value> = (4_000..4_020)
        .map(|place| json!([sorted[place].1, place + 1]))
        .collect();
    assert_eq!(names(&page), expected);
    // While the board cannot be reached, the answer has the last known rows and their time. Each isolate of the site
    // has read them before.
    for _ in 0..20 {
        get(&world, &clients[1], "/boards/b/members?limit=50");
    }
    world.run_for_ms(20_000);
    world.cut(sites[0], sites[1], 60_000);
    let old = get(&world, &clients[1], "/boards/b/members?limit=50");
    assert_eq!(
        (&old["entries"], &old["exact"]),
        (&near["entries"], &json!(false))
    );
    assert!(old["staleness_ms"].as_i64() > Some(10_000));
}

#[test]
fn a_read_makes_no_object_of_a_board_that_is_not_there() {
    let (world, clients) = service(9);
    let placement = |board: &str| {
        let board = CounterId::parse(board).expect("a name");
        names::board(&board, ShardAt::default(), None)
    };
    for (method, path) in [
        ("GET", "/boards/nobody/members"),
        ("GET", "/boards/nobody/members/ann"),
        ("DELETE", "/boards/nobody/members/ann"),
        ("DELETE", "/boards/nobody"),
    ] {
        let (status, json) = ask(&world, &clients[0], method, path, "");
        assert!(status == 404 || status == 409, "{method} {path}: {json}");
    }
    let look = |board: &str| world.look(&placement(board), "SELECT COUNT(*) FROM sqlite_master");
    assert!(look("nobody").is_none());
    many(&world, &clients[0], "b", 1);
    assert!(look("b").is_some());
}

#[test]
fn a_busy_board_gets_more_shards_and_a_quiet_one_fewer() {
    let (world, clients) = service(11);
    world.set("TALLY_SPLIT_FLUSHES_PER_SECOND", Some("20"));
    world.set("TALLY_MERGE_AFTER_MS", Some("3000"));
    assert_eq!(
        ask(&world, &clients[0], "PUT", "/boards/b", r#"{"keep":"sum"}"#).0,
        201
    );
    let shards = || get(&world, &clients[0], "/boards/b")["shards"].as_u64();
    assert_eq!(shards(), Some(1));
    let mut most = 1;
    let mut sum = 0;
    for round in 0..400 {
        let body = r#"{"delta":1}"#;
        let path = format!("/boards/b/members/m{}", round % 7);
        let (status, json) = ask(&world, &clients[0], "POST", &path, body);
        assert_eq!(status, 200, "{json}");
        sum += 1;
        if round % 40 == 0 {
            most = most.max(shards().unwrap_or(0));
        }
    }
    assert!(most > 1, "{most}");
    world.run_for_ms(120_000);
    assert_eq!(shards(), Some(1));
    let top = get(&world, &clients[0], "/boards/b/members?consistency=strong");
    let scores = top["entries"].as_array().expect("rows").iter();
    let added: i64 = scores.filter_map(|row| row["score"].as_i64()).sum();
    assert_eq!(added, sum);
}

#[test]
fn periods_of_a_board_of_several_shards_end_and_are_kept() {
    let (world, clients) = service(13);
    let client = &clients[0];
    let put =
        r#"{"period":"day","zone":"America/New_York","archive":2,"shards":3,"scores":"integer"}"#;
    assert_eq!(ask(&world, client, "PUT", "/boards/b", put).0, 201);
    world.run_for_ms(10_000);
    let mut starts = Vec::new();
    for day in 0..4 {
        for member in 0..9 {
            let body = format!("{{\"score\":{}}}", day * 10 + member);
            let path = format!("/boards/b/members/m{member}");
            assert_eq!(ask(&world, client, "POST", &path, &body).0, 200);
        }
        let top = get(&world, client, "/boards/b/members");
        assert_eq!(
            (&top["total"], &top["entries"][0]["score"]),
            (&json!(9), &json!(day * 10 + 8))
        );
        starts.push(top["period"]["starts_at"].as_i64().expect("a period") / 1_000);
        world.run_for_ms(86_400_000);
    }
    // The archive moves along, also from three shards to two.
    let put = put.replace("\"shards\":3", "\"shards\":2");
    assert_eq!(ask(&world, client, "PUT", "/boards/b", &put).0, 200);
    world.run_for_ms(10_000);
    assert_eq!(get(&world, client, "/boards/b")["shards"], 2);
    let periods = get(&world, client, "/boards/b?include=periods");
    let kept: Vec<i64> = (periods["periods"].as_array().expect("periods").iter())
        .filter_map(|one| Some(one["starts_at"].as_i64()? / 1_000))
        .collect();
    assert_eq!(kept, [starts[3], starts[2]], "{periods}");
    for (day, start) in [(2, starts[2]), (3, starts[3])] {
        let top = get(&world, client, &format!("/boards/b/members?period={start}"));
        assert_eq!(
            (&top["total"], &top["entries"][0]["score"]),
            (&json!(9), &json!(day * 10 + 8))
        );
    }
    let ended_path = format!("/boards/b/members?period={}", starts[0]);
    assert_eq!(
        ask(&world, client, "GET", &ended_path, "").1["code"],
        "period-not-found"
    );
}

/// Golden: what a board stores.
#[test]
fn rows_of_a_board_have_these_bytes() {
    let (world, clients) = service(15);
    let put = r#"{"order":"asc","period":"week","zone":"Europe/Berlin","archive":3,"home":"SYD"}"#;
    assert_eq!(ask(&world, &clients[0], "PUT", "/boards/b", put).0, 201);
    let write = ClientRequest::new("POST", "/boards/b/members/ann")
        .header("idempotency-key", "one")
        .body(br#"{"score":-1.5,"metadata":{"a":1},"expires_in_seconds":60}"#.to_vec());
    assert_eq!(
        world.run(clients[0].ask(write)).expect("no fault").status,
        200
    );
    let board = CounterId::parse("b").expect("a name");
    let look = |statement: &str| -> Vec<String> {
        let placement = names::board(&board, ShardAt::default(), None);
        let rows = world.look(&placement, statement).expect("the board");
        rows.iter().map(|row| format!("{row:?}")).collect()
    };
    let head = look("SELECT hex(body) FROM board WHERE id = 0");
    // What stands before is a checksum, the name and when the board began.
    // The settings begin with how many bytes they have, so that a later build can add one.
    let settings = "0B01000000039E1503C0843D";
    let rest = format!("0101{settings}000000E0D98D950DE0C3D7950D01490180ECD4D4EF660100\")]");
    assert!(head[0].ends_with(&rest), "{head:?}");
    let golden = [
        (
            "SELECT hex(body) FROM board WHERE id = 1",
            r#"[Text("8100B1A3150A0000000100010353594400000000000000000000")]"#,
        ),
        (
            "SELECT hex(member), hex(place), hidden, metadata FROM members",
            r#"[Text("616E6E"), Text("4007FFFFFFFFFFFF"), Null, Text("{\"a\":1}")]"#,
        ),
        (
            "SELECT hex(place), hex(member), count FROM segments",
            r#"[Text(""), Text(""), Integer(1)]"#,
        ),
    ];
    for (statement, row) in golden {
        assert_eq!(look(statement), [row], "{statement}");
    }
}

/// Whatever statement its storage goes out at, a board that begins can begin later, also where another memory than
/// that of before does it.
#[test]
fn a_board_whose_storage_fails_as_it_begins_begins_later() {
    for statements in 0..24 {
        for is_evicted in [false, true] {
            let (world, clients) = service(17);
            let client = &clients[0];
            let add = r#"{"delta":1}"#;
            // An object that has nothing: storage fails where there is one.
            ask(&world, client, "POST", "/boards/b/members/ann", add);
            ask(&world, client, "DELETE", "/boards/b", "");
            world.run_for_ms(200_000_000);
            let board = CounterId::parse("b").expect("a name");
            let placement = names::board(&board, ShardAt::default(), None);
            world.fail_storage(&placement, statements, 500);
            ask(&world, client, "POST", "/boards/b/members/ann", add);
            world.run_for_ms(1_000);
            // From here on it does not fail.
            world.fail_storage(&placement, 0, 0);
            if is_evicted {
                world.evict(&placement);
            }
            let (status, json) = ask(&world, client, "POST", "/boards/b/members/bob", add);
            assert_eq!(status, 200, "after {statements} statements: {json}");
            let versions = world.look(&placement, "SELECT version FROM tally_schema");
            assert_eq!(versions.map(|rows| rows.len()), Some(1), "{statements}");
        }
    }
}

/// A move that other settings overtake is given up, and the next begins soon, not only once the board has rested.
#[test]
fn shards_that_are_changed_while_members_move_are_there_soon() {
    for pause_ms in (0..160).step_by(4) {
        let (world, clients) = service(19);
        many(&world, &clients[0], "b", 20);
        for shards in [2, 3] {
            let put = format!(r#"{{"shards":{shards}}}"#);
            assert_eq!(ask(&world, &clients[0], "PUT", "/boards/b", &put).0, 200);
            world.run_for_ms(pause_ms);
        }
        world.run_for_ms(8_000);
        let about = get(&world, &clients[0], "/boards/b");
        assert_eq!(about["shards"], json!(3), "after {pause_ms} ms");
    }
}
