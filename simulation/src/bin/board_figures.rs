//! What a board of many members costs in its object, over SQLite as it is natively: bytes on disk and of memory for
//! each member, what waking takes, ranks, tops and pages, beside the same questions as plain SQL.
//! `board_figures [members]`, 10,000,000 where no number is given.
//!
//! Invariant: what the board answers is compared with what plain SQL does. The members are put into the object's
//! database past it, as a write for each would take an hour; the board made the tables, and reads them.

use std::path::{Path, PathBuf};
use std::time::Instant;

use peak_alloc::PeakAlloc;
use rusqlite::Connection;
use serde_json::Value;
use tally_core::board::directory::segment_members_max;
use tally_core::board::key::Key;
use tally_core::board::score::Score;
use tally_simulation::{Client, ClientRequest, Options, World, admin, deployed};

const MEMBERS: u64 = 10_000_000;

/// Questions of each kind, and of those that plain SQL answers slowly.
const QUESTIONS: u64 = 400;
const SLOW_QUESTIONS: u64 = 5;

/// Counts what Rust has allocated: not what SQLite has, nor what the allocator keeps.
#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

fn main() {
    let members = std::env::args().nth(1);
    let members = members.map_or(Ok(MEMBERS), |text| text.parse());
    let members = members.expect("the number of members");
    let folder = std::env::temp_dir().join(format!("tally-board-{}", std::process::id()));
    measure(members, &folder);
    std::fs::remove_dir_all(&folder).expect("the folder was made here");
}

/// A number that follows from another, as if by chance. Source: SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn score_of(number: u64) -> u32 {
    u32::try_from(mixed(number) % 1_000_000_000).expect("below 2^32")
}

fn name_of(number: u64) -> String {
    format!("m{number:08}")
}

fn ask(world: &World, client: &Client, path: &str) -> Value {
    let answer = world.run(client.ask(ClientRequest::new("GET", path)));
    let answer = answer.expect("no fault");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn measure(members: u64, folder: &Path) {
    let options = Options {
        folder: Some(folder.to_path_buf()),
        ..Options::default()
    };
    let world = deployed(1, options);
    let client = admin(&world, world.site("FRA", 1));
    let settings = format!(r#"{{"members_max":{members},"shards":1}}"#);
    let put = ClientRequest::new("PUT", "/boards/b").body(settings.into_bytes());
    assert_eq!(world.run(client.ask(put)).expect("no fault").status, 201);
    let path = format!("/boards/b/members/{}", name_of(0));
    let body = format!(r#"{{"score":{}}}"#, score_of(0));
    let write = ClientRequest::new("POST", &path).body(body.into_bytes());
    assert_eq!(world.run(client.ask(write)).expect("no fault").status, 200);
    world.run_for_ms(1_000);

    let file = only_file(&folder.join("BOARDS"));
    let segments = fill(&file, members);
    let bytes = std::fs::metadata(&file).expect("the file").len();
    println!("disk: {:.1} bytes a member", ratio(bytes, members));

    world.restart(0);
    let before = ALLOCATED.current_usage();
    let begun = Instant::now();
    let total = ask(
        &world,
        &client,
        "/boards/b/members?limit=0&consistency=strong",
    )["total"]
        .as_u64();
    let waking = begun.elapsed();
    assert_eq!(total, Some(members));
    let held = u64::try_from(ALLOCATED.current_usage().saturating_sub(before)).unwrap_or(u64::MAX);
    println!("memory: {:.2} bytes a member", ratio(held, members));
    println!("waking: {segments} rows, {} ms", waking.as_millis());
    compare(&world, &client, &file, members);
}

/// Asks the board and plain SQL the same.
fn compare(world: &World, client: &Client, file: &Path, members: u64) {
    let sql = Connection::open(file).expect("the file");
    let number = |question: u64| mixed(question + 77) % members;
    let rank_by_sql = |number: u64| -> u64 {
        let place = place_of(number);
        let statement = "SELECT COUNT(*) FROM members INDEXED BY places \
            WHERE epoch = (SELECT MAX(epoch) FROM members) AND (place, member) > (?, ?)";
        let values = (place, name_of(number).into_bytes());
        let better: i64 = sql
            .query_row(statement, values, |row| row.get(0))
            .expect("a count");
        u64::try_from(better).expect("a count") + 1
    };
    for question in 0..SLOW_QUESTIONS {
        let number = number(question);
        let path = format!("/boards/b/members/{}", name_of(number));
        assert_eq!(
            ask(world, client, &path)["rank"].as_u64(),
            Some(rank_by_sql(number))
        );
    }
    let timed = |what: &str, questions: u64, work: &dyn Fn(u64)| {
        let mut times: Vec<u128> = (0..questions)
            .map(|question| {
                let begun = Instant::now();
                work(question);
                begun.elapsed().as_micros()
            })
            .collect();
        times.sort_unstable();
        let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or(0);
        println!("{what}: p50 {} µs, p99 {} µs", at(50), at(99));
    };
    let get = |path: String| drop(ask(world, client, &path));
    timed("a call without a board", QUESTIONS, &|_| {
        get("/healthz".to_owned())
    });
    timed("rank", QUESTIONS, &|question| {
        get(format!("/boards/b/members/{}", name_of(number(question))));
    });
    timed("top 100", QUESTIONS, &|_| {
        get("/boards/b/members?limit=100".to_owned())
    });
    timed("page of 100 at any rank", QUESTIONS, &|question| {
        get(format!(
            "/boards/b/members?limit=100&rank={}",
            number(question) + 1
        ));
    });
    timed("around, 5 on each side", QUESTIONS, &|question| {
        get(format!(
            "/boards/b/members?around={}&limit=5",
            name_of(number(question))
        ));
    });
    timed("rank by COUNT(*)", SLOW_QUESTIONS, &|question| {
        rank_by_sql(number(question));
    });
    timed("page by OFFSET", SLOW_QUESTIONS, &|question| {
        let statement = "SELECT member FROM members INDEXED BY places ORDER BY epoch DESC, place DESC, member DESC LIMIT 100 OFFSET ?";
        let mut rows = sql.prepare(statement).expect("a statement");
        let rows = rows.query_map([i64::try_from(number(question)).expect("small")], |row| {
            row.get::<_, Vec<u8>>(0)
        });
        assert!(rows.expect("rows").count() <= 100);
    });
}

fn ratio(bytes: u64, members: u64) -> f64 {
    let number = |count: u64| format!("{count}").parse::<f64>().unwrap_or(0.0);
    number(bytes) / number(members)
}

fn only_file(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).expect("the boards' folder");
    let mut files = files.filter_map(|entry| Some(entry.ok()?.path()));
    files.next().expect("the board's file")
}

fn place_of(number: u64) -> Vec<u8> {
    let score = Score::new(f64::from(score_of(number))).expect("a number");
    Key::first_of(score).sort_key
}

/// Puts the members into the board's tables. How many segments they have.
fn fill(file: &Path, members: u64) -> u64 {
    let mut sql = Connection::open(file).expect("the file");
    sql.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; DROP INDEX places;",
    )
    .expect("settings");
    let epoch: i64 = (sql.query_row("SELECT MAX(epoch) FROM members", [], |row| row.get(0)))
        .expect("the period");
    let all = sql.transaction().expect("a transaction");
    let mut insert = all
        .prepare("INSERT OR IGNORE INTO members VALUES (?, ?, ?, NULL, NULL, NULL)")
        .expect("a statement");
    for number in 0..members {
        let values = (epoch, name_of(number).into_bytes(), place_of(number));
        insert.execute(values).expect("a row");
    }
    drop(insert);
    all.execute_batch(
        "CREATE INDEX places ON members (epoch, place, member); DELETE FROM segments;",
    )
    .expect("the index of the board");
    // As after each was split.
    let each = segment_members_max(members) / 2;
    let mut firsts = Vec::new();
    {
        let mut walk = all
            .prepare("SELECT place, member FROM members INDEXED BY places WHERE epoch = ? ORDER BY place, member")
            .expect("a statement");
        let mut rows = walk.query([epoch]).expect("rows");
        let mut place = 0;
        while let Some(row) = rows.next().expect("a row") {
            if place % each == 0 {
                let first: (Vec<u8>, Vec<u8>) =
                    (row.get(0).expect("a place"), row.get(1).expect("a name"));
                firsts.push(if place == 0 {
                    Default::default()
                } else {
                    first
                });
            }
            place += 1;
        }
    }
    for (number, (place, member)) in (0..).zip(&firsts) {
        let count = each.min(members - number * each);
        let count = i64::try_from(count).expect("small");
        all.execute(
            "INSERT INTO segments VALUES (?, ?, ?, ?)",
            (epoch, place, member, count),
        )
        .expect("a segment");
    }
    all.commit().expect("a commit");
    u64::try_from(firsts.len()).expect("few")
}
