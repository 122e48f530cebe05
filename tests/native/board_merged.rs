//! Laws of boards that are read as one, and of approximate ranks.

use proptest::prelude::*;
use serde_json::{Value, json};
use tally_api::boards::{MERGED_BOARDS_MAX, MergedBoards, MergedQuery, ReadBoard, one_json};
use tally_core::board::placing::{Layout, Placing};
use tally_core::board::score::Score;
use tally_core::board::settings::{Order, Settings};
use tally_core::counter::id::CounterId;
use tally_wire::messages::{BoardSeen, PeriodOf, Ranked};
use tally_wire::problem::{Code, Problem};

const NOW_MS: i64 = 1_000;

fn id(name: &str) -> CounterId {
    CounterId::parse(name).expect("a name")
}

fn row(member: &str, score: i32, rank: u64) -> Ranked {
    Ranked {
        member: member.as_bytes().to_vec(),
        score: Score::new(f64::from(score)).expect("a number"),
        tie: None,
        rank: Some(rank),
        expires_ms: None,
        metadata: None,
        tag: 0,
    }
}

/// The members of a board, the best first.
fn sorted(order: Order, members: &[(String, i32)]) -> Vec<(String, i32)> {
    let mut sorted = members.to_vec();
    sorted.sort_by(|one, other| match order {
        Order::Desc => (other.1, &other.0).cmp(&(one.1, &one.0)),
        Order::Asc => (one.1, &one.0).cmp(&(other.1, &other.0)),
    });
    sorted
}

/// What a board answers that is asked for its first members.
fn seen(order: Order, sorted: &[(String, i32)], limit: usize) -> BoardSeen {
    let rows = sorted.iter().zip(1..);
    BoardSeen {
        generation: 1,
        sequence: 1,
        as_of_ms: NOW_MS,
        is_exact: true,
        settings: Settings {
            order,
            ..Settings::default()
        },
        period: PeriodOf {
            total: u64::try_from(sorted.len()).expect("small"),
            ..PeriodOf::default()
        },
        count: 0,
        has_more: sorted.len() > limit,
        rows: rows
            .map(|((member, score), rank)| row(member, *score, rank))
            .take(limit)
            .collect(),
        periods: Vec::new(),
        members: Vec::new(),
        better: Vec::new(),
        placing: Placing::default(),
        layout: Layout::default(),
        sequences: Vec::new(),
        summaries: Vec::new(),
        slack: Vec::new(),
    }
}

fn merged<'a>(
    boards: &'a [CounterId],
    answers: Vec<Result<BoardSeen, Problem>>,
) -> MergedBoards<'a> {
    let mut merged = MergedBoards::default();
    for (board, answer) in boards.iter().zip(answers) {
        merged.add(board, answer).expect("one order");
    }
    merged
}

fn json_of(merged: &MergedBoards<'_>, limit: u32, has_member: bool) -> Value {
    serde_json::from_str(&merged.json(limit, has_member, NOW_MS)).expect("JSON")
}

fn members() -> impl Strategy<Value = Vec<(String, i32)>> {
    let one = ("[a-e]", -3_i32..4);
    prop::collection::vec(one, 0..12).prop_map(|mut all| {
        all.sort();
        all.dedup_by(|one, other| one.0 == other.0);
        all
    })
}

proptest! {
    #[test]
    fn the_first_of_several_boards_are_the_first_of_their_union(
        all in prop::collection::vec(members(), 1..5),
        is_desc in any::<bool>(),
        limit in 0_usize..20,
    ) {
        let order = if is_desc { Order::Desc } else { Order::Asc };
        let boards: Vec<CounterId> = (0..all.len()).map(|number| id(&format!("b{number}"))).collect();
        let lists: Vec<_> = all.iter().map(|members| sorted(order, members)).collect();
        let mut union: Vec<(&str, &str, i32)> = boards
            .iter()
            .zip(&lists)
            .flat_map(|(board, list)| list.iter().map(|(name, score)| (board.as_str(), name.as_str(), *score)))
            .collect();
        union.sort_by_key(|(_, _, score)| if is_desc { -score } else { *score });
        let is_better = |one: i32, other: i32| if is_desc { one > other } else { one < other };
        let rank = |score| 1 + union.iter().filter(|other| is_better(other.2, score)).count();
        let answers = lists.iter().map(|list| Ok(seen(order, list, limit)));
        let mut merged = merged(&boards, answers.collect());
        // A member of several boards has an entry in each.
        for ((_, seen), list) in merged.parts.iter_mut().zip(&lists) {
            let own = list.iter().find(|(name, _)| name == "a");
            seen.members = own.map(|(name, score)| row(name, *score, 1)).into_iter().collect();
        }
        let positions = merged.positions();
        let asked: Vec<i32> = lists.iter().flatten().filter(|one| one.0 == "a").map(|one| one.1).collect();
        prop_assert_eq!(positions.len(), asked.len());
        let counted = lists.iter().map(|list| {
            let before = |score: &i32| list.iter().filter(|one| is_better(one.1, *score)).count();
            let better = asked.iter().map(|score| u64::try_from(before(score)).expect("small"));
            Some(BoardSeen { better: better.collect(), ..seen(order, list, 0) })
        });
        merged.rank(counted.collect());
        let answer = json_of(&merged, u32::try_from(limit).expect("small"), true);
        let entries = union.iter().take(limit).map(|(board, name, score)| {
            json!({"board": board, "member": name, "score": score, "rank": rank(*score)})
        });
        prop_assert_eq!(&answer["entries"], &Value::from_iter(entries));
        let ranks: Vec<&Value> = answer["members"].as_array().expect("rows").iter().map(|row| &row["rank"]).collect();
        let expected: Vec<Value> = asked.iter().map(|score| json!(rank(*score))).collect();
        prop_assert_eq!(ranks, expected.iter().collect::<Vec<_>>());
        prop_assert_eq!((&answer["total"], &answer["exact"]), (&json!(union.len()), &json!(true)));
    }

    #[test]
    fn the_true_rank_is_within_the_error_of_an_approximate_one(
        low in 1_u64..5_000,
        slack in 0_u64..700,
        offset in 0_u64..700,
        behind in 0_u64..5_000,
    ) {
        let rank = low + offset.min(slack);
        let total = low + slack + behind;
        let mut read = seen(Order::Desc, &[("ann".to_owned(), 1)], 1);
        read.rows = vec![row("ann", 1, low)];
        read.slack = vec![slack];
        read.period.total = total;
        let board = id("b");
        let view = |seen| ReadBoard { board: &board, seen, now_ms: NOW_MS };
        let json = |seen, is_approximate| -> Value {
            serde_json::from_str(&one_json(&view(seen), is_approximate).expect("a member")).expect("JSON")
        };
        let approximate = json(&read, true);
        let number = |name: &str| approximate[name].as_u64().expect("a number");
        prop_assert!(number("rank").abs_diff(rank) <= number("error"), "{rank} of {approximate}");
        prop_assert!(number("error") <= slack.div_ceil(2));
        let digits = approximate["percentile_error"].to_string();
        let digits = digits.split_once('.').map_or(0, |(_, digits)| digits.len());
        prop_assert!(digits <= 3, "{approximate}");
        let mut exact = read.clone();
        (exact.rows[0].rank, exact.slack) = (Some(rank), Vec::new());
        let exact = json(&exact, false);
        prop_assert_eq!(&exact["error"], &Value::Null);
        let percent = |json: &Value, name: &str| json[name].as_f64().expect("a number");
        let apart = (percent(&approximate, "percentile") - percent(&exact, "percentile")).abs();
        // Percentiles have three digits.
        prop_assert!(apart <= percent(&approximate, "percentile_error") + 0.0021, "{approximate} {exact}");
    }
}

#[test]
fn boards_that_are_not_there_or_do_not_answer_are_named_and_other_orders_are_refused() {
    let boards = ["eu", "us", "asia"].map(id);
    let none = |code| Err(Problem::new(code, "none"));
    let list = [("ann".to_owned(), 1)];
    let one = || Ok(seen(Order::Desc, &list, 1));
    let answers = vec![one(), none(Code::BoardNotFound), none(Code::Unavailable)];
    let mut all = merged(&boards, answers);
    assert_eq!(all.answered(), Ok(()));
    let answer = json_of(&all, 10, false);
    assert_eq!(answer["absent"], json!(["us"]));
    assert_eq!(answer["missing_boards"], json!(["asia"]));
    assert_eq!(
        (&answer["exact"], &answer["members"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(answer["boards"][0]["version"], json!("b1.1.1"));

    let absent = vec![none(Code::BoardNotFound), none(Code::Unavailable)];
    let refused = merged(&boards, absent).answered().expect_err("no board");
    assert_eq!(refused.code(), Code::BoardNotFound);

    let mut mixed = MergedBoards::default();
    mixed.add(&boards[0], one()).expect("the first");
    let other = mixed.add(&boards[1], Ok(seen(Order::Asc, &list, 1)));
    let problem = other.expect_err("another order");
    assert_eq!(problem.code(), Code::BoardsDiffer);
    assert_eq!(
        problem.detail(),
        "the order of \"eu\" is desc, and that of \"us\" is asc; name boards of one order"
    );
}

#[test]
fn a_read_of_several_boards_names_each_once_and_not_too_many() {
    let names = |count| {
        let names: Vec<String> = (0..count).map(|number| format!("b{number}")).collect();
        format!("boards={}", names.join(","))
    };
    let most = MergedQuery::parse(&names(MERGED_BOARDS_MAX)).expect("as many as may be");
    assert_eq!((most.boards.len(), most.limit), (MERGED_BOARDS_MAX, 100));
    let code = |query: &str| {
        MergedQuery::parse(query)
            .err()
            .map(|problem| problem.code())
    };
    assert_eq!(
        code(&names(MERGED_BOARDS_MAX + 1)),
        Some(Code::InvalidQuery)
    );
    for query in [
        "boards=eu,eu",
        "boards=eu&limit=1001",
        "boards=eu&at_least=b1.1.1",
        "boards=eu&boards=us",
    ] {
        assert_eq!(code(query), Some(Code::InvalidQuery), "{query}");
    }
    for query in ["boards=", "boards=eu,", "limit=5", "boards=eu&member="] {
        assert_eq!(code(query), Some(Code::InvalidId), "{query}");
    }
    assert!(!MergedQuery::is_meant("member=a&limit=5") && MergedQuery::is_meant("boards=a"));
}
