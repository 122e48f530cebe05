//! Laws of what a board keeps of a member, and of its periods.

use proptest::prelude::*;
use tally_api::boards::{
    BoardQuery, MEMBERS_QUERY, WantedMembers, cursor_of, parse_member_line, parse_settings,
    parse_write,
};
use tally_core::board::member::{
    Amount, Change, Member, MemberRefusal, ScoreCondition, ScoreWrite, change,
};
use tally_core::board::period::Period;
use tally_core::board::score::Score;
use tally_core::board::settings::{Order, ScoreRule, Scores, Settings, Ties};
use tally_core::board::zone::{Zone, zone_names};
use tally_wire::messages::{MemberAction, PeriodOf, Ranked};
use tally_wire::problem::{Code, Problem};

fn score(number: f64) -> Score {
    Score::new(number).expect("a number")
}

fn member(number: f64) -> Member {
    Member {
        score: score(number),
        tie: None,
        is_hidden: false,
        expires_ms: None,
        metadata: None,
    }
}

fn decided(
    settings: Settings,
    before: Option<f64>,
    write: &ScoreWrite,
) -> Result<Option<f64>, MemberRefusal> {
    let before = before.map(member);
    let Change { score, .. } = change(&settings, before.as_ref(), write, 1)?;
    Ok(score.map(Score::number))
}

#[test]
fn a_score_is_kept_as_the_board_says() {
    let of = |keep, order| Settings {
        keep,
        order,
        ..Settings::default()
    };
    let put = |number| ScoreWrite::of(Amount::Score(score(number)));
    let add = |number| ScoreWrite::of(Amount::Delta(score(number)));
    let set = of(ScoreRule::Set, Order::Desc);
    assert_eq!(decided(set, None, &put(3.0)), Ok(Some(3.0)));
    assert_eq!(decided(set, Some(5.0), &put(3.0)), Ok(Some(3.0)));
    assert_eq!(decided(set, Some(5.0), &add(-3.0)), Ok(Some(2.0)));
    let sum = of(ScoreRule::Sum, Order::Desc);
    assert_eq!(decided(sum, None, &add(3.0)), Ok(Some(3.0)));
    assert_eq!(decided(sum, Some(5.0), &add(0.5)), Ok(Some(5.5)));
    assert_eq!(
        decided(sum, Some(5.0), &put(3.0)),
        Err(MemberRefusal::KeepsSums)
    );
    for (order, better, worse) in [(Order::Desc, 6.0, 4.0), (Order::Asc, 4.0, 6.0)] {
        let best = of(ScoreRule::Best, order);
        assert_eq!(decided(best, Some(5.0), &put(better)), Ok(Some(better)));
        assert_eq!(decided(best, Some(5.0), &put(worse)), Ok(Some(5.0)));
        assert_eq!(
            decided(best, Some(5.0), &add(1.0)),
            Err(MemberRefusal::KeepsBest)
        );
    }
}

#[test]
fn conditions_are_those_of_redis() {
    let settings = Settings::default();
    let write = |number, exists, only| ScoreWrite {
        exists,
        only,
        ..ScoreWrite::of(Amount::Score(score(number)))
    };
    // NX, XX, GT, LT; GT and LT let a new member in.
    assert_eq!(
        decided(
            settings,
            Some(5.0),
            &write(6.0, Some(false), ScoreCondition::Any)
        ),
        Ok(Some(5.0))
    );
    assert_eq!(
        decided(settings, None, &write(6.0, Some(true), ScoreCondition::Any)),
        Ok(None)
    );
    assert_eq!(
        decided(
            settings,
            Some(5.0),
            &write(4.0, None, ScoreCondition::Higher)
        ),
        Ok(Some(5.0))
    );
    assert_eq!(
        decided(
            settings,
            Some(5.0),
            &write(6.0, None, ScoreCondition::Higher)
        ),
        Ok(Some(6.0))
    );
    assert_eq!(
        decided(settings, None, &write(4.0, None, ScoreCondition::Higher)),
        Ok(Some(4.0))
    );
    assert_eq!(
        decided(
            settings,
            Some(5.0),
            &write(6.0, None, ScoreCondition::Lower)
        ),
        Ok(Some(5.0))
    );
    assert_eq!(
        decided(
            settings,
            Some(5.0),
            &write(6.0, Some(true), ScoreCondition::Higher)
        ),
        Ok(Some(6.0))
    );
}

#[test]
fn scores_of_a_board_are_the_numbers_that_it_holds() {
    let integers = Settings {
        scores: Scores::Integer,
        ..Settings::default()
    };
    let put = |number| ScoreWrite::of(Amount::Score(score(number)));
    let add = |number| ScoreWrite::of(Amount::Delta(score(number)));
    let most = 9_007_199_254_740_991.0;
    assert_eq!(decided(integers, None, &put(most)), Ok(Some(most)));
    assert_eq!(
        decided(integers, Some(most), &add(1.0)),
        Err(MemberRefusal::NotWhole)
    );
    assert_eq!(
        decided(integers, None, &put(0.5)),
        Err(MemberRefusal::NotWhole)
    );
    assert_eq!(
        decided(integers, None, &put(f64::INFINITY)),
        Err(MemberRefusal::NotWhole)
    );
    let floats = Settings::default();
    assert_eq!(
        decided(floats, Some(f64::INFINITY), &add(f64::NEG_INFINITY)),
        Err(MemberRefusal::NotANumber)
    );
}

#[test]
fn whoever_had_a_score_first_stands_before_the_others() {
    for order in [Order::Desc, Order::Asc] {
        let settings = Settings {
            order,
            ties: Ties::First,
            ..Settings::default()
        };
        let put = ScoreWrite::of(Amount::Score(score(7.0)));
        let reached = |sequence| {
            let change = change(&settings, None, &put, sequence).expect("a change");
            change.after.expect("a new member")
        };
        let (early, late) = (reached(1), reached(2));
        // The name would say otherwise.
        let is_before = early.key(b"m") < late.key(b"m");
        assert_eq!(is_before, order == Order::Asc);
        // The same score once more is no new one.
        let again = change(&settings, Some(&early), &put, 9).expect("a change");
        assert_eq!((again.after, again.previous), (None, Some(score(7.0))));
    }
}

#[test]
fn periods_begin_and_end_as_the_calendar_of_their_zone_says() {
    let bounds = |period: Period, second: i64, minutes| {
        let zone = Zone::fixed(minutes).expect("a zone");
        period.bounds(second * 1_000, zone)
    };
    // 2024-02-29T23:30:00Z, a Thursday.
    let now = 1_709_249_400;
    assert_eq!(bounds(Period::None, now, 0), None);
    assert_eq!(
        bounds(Period::Hour, now, 0),
        Some((1_709_247_600, 1_709_251_200))
    );
    assert_eq!(
        bounds(Period::Day, now, 0),
        Some((1_709_164_800, 1_709_251_200))
    );
    // In a zone one hour ahead it is March already.
    assert_eq!(
        bounds(Period::Day, now, 60),
        Some((1_709_247_600, 1_709_334_000))
    );
    assert_eq!(
        bounds(Period::Week, now, 0),
        Some((1_708_905_600, 1_709_510_400))
    );
    assert_eq!(
        bounds(Period::Month, now, 0),
        Some((1_706_745_600, 1_709_251_200))
    );
    assert_eq!(
        bounds(Period::Month, now, 60),
        Some((1_709_247_600, 1_711_926_000))
    );
    assert_eq!(bounds(Period::Month, -1, 0), Some((-2_678_400, 0)));
    // Each begins where the one before ends.
    for period in [Period::Hour, Period::Day, Period::Week, Period::Month] {
        for zone in [-720, 0, 345] {
            let mut second = 1_600_000_000;
            for _ in 0..1_000 {
                let (start, end) = bounds(period, second, zone).expect("a period");
                assert!(start <= second && second < end);
                assert_eq!(bounds(period, end - 1, zone), Some((start, end)));
                assert_eq!(bounds(period, end, zone).map(|next| next.0), Some(end));
                second = end;
            }
        }
    }
}

#[test]
fn a_day_of_a_zone_has_23_hours_when_its_clock_is_put_forward_and_25_when_it_is_put_back() {
    let hours = |zone: &str, second: i64| {
        let zone = Zone::parse(zone).expect("a zone");
        let (start, end) = Period::Day.bounds(second * 1_000, zone).expect("a day");
        (start, (end - start) / 3_600)
    };
    // 2026-03-29 and 2026-10-25 in Berlin, from midnight there.
    assert_eq!(hours("Europe/Berlin", 1_774_785_600), (1_774_738_800, 23));
    assert_eq!(hours("Europe/Berlin", 1_792_929_600), (1_792_879_200, 25));
    // 2026-03-08 and 2026-11-01 in New York.
    assert_eq!(
        hours("America/New_York", 1_772_992_800),
        (1_772_946_000, 23)
    );
    assert_eq!(
        hours("America/New_York", 1_793_556_000),
        (1_793_505_600, 25)
    );
    // 2026-09-06 in Santiago: its first hour is left out. 2026-10-04 on Lord Howe Island: half an hour is.
    assert_eq!(hours("America/Santiago", 1_788_710_400).1, 23);
    let lord_howe = Zone::parse("Australia/Lord_Howe").expect("a zone");
    let day = Period::Day
        .bounds(1_791_072_000_000, lord_howe)
        .expect("a day");
    assert_eq!(day.1 - day.0, 23 * 3_600 + 1_800);
    // A week with a change, and a month.
    let berlin = Zone::parse("Europe/Berlin").expect("a zone");
    let week = Period::Week
        .bounds(1_774_785_600_000, berlin)
        .expect("a week");
    assert_eq!(week.1 - week.0, 167 * 3_600);
    let month = Period::Month
        .bounds(1_774_785_600_000, berlin)
        .expect("a month");
    assert_eq!(month.1 - month.0, (31 * 24 - 1) * 3_600);
}

#[test]
fn periods_of_all_zones_end_where_the_next_begin() {
    // A prime step: all rules are there.
    for name in zone_names().step_by(7) {
        let zone = Zone::parse(name).expect("a zone");
        assert_eq!(zone.to_string(), name);
        for period in [Period::Hour, Period::Day, Period::Week, Period::Month] {
            // From 2026-03-01 on, and from 2026-10-01 on: the changes of most zones.
            for mut second in [1_772_323_200, 1_790_812_800] {
                for _ in 0..12 {
                    let (start, end) = period.bounds(second * 1_000, zone).expect("a period");
                    assert!(
                        start <= second && second < end,
                        "{name} {period:?} {second}"
                    );
                    let again = period.bounds((end - 1) * 1_000, zone);
                    assert_eq!(again, Some((start, end)), "{name} {period:?}");
                    second = end + 172_800;
                    if period == Period::Day {
                        second = end;
                    }
                    let next = period.bounds(end * 1_000, zone);
                    assert_eq!(next.map(|next| next.0), Some(end), "{name} {period:?}");
                }
            }
        }
    }
}

/// Golden: a board stores the number of its zone.
#[test]
fn zones_keep_their_numbers() {
    let number = |name: &str| {
        let zone = Zone::parse(name).expect("a zone");
        postcard::to_allocvec(&zone).expect("bytes")
    };
    assert_eq!(number("UTC"), [0]);
    assert_eq!(number("+02:00"), [0xf0, 0x01]);
    assert_eq!(number("-00:01"), [0x01]);
    assert_eq!(number("Africa/Abidjan"), [0xd0, 0x0f]);
    assert_eq!(number("Europe/Berlin"), [0x9e, 0x15]);
    assert_eq!(number("Pacific/Yap"), [0xfe, 0x16]);
    assert!(zone_names().count() >= 472);
    for text in [
        "",
        "utc",
        "+14:01",
        "+2:00",
        "02:00",
        "+02:60",
        "Europe/Atlantis",
        "Africa/Casablanca",
    ] {
        assert_eq!(Zone::parse(text), None, "{text}");
    }
}

#[test]
fn a_range_of_scores_does_not_end_before_it_begins() {
    let range = |query: &str| BoardQuery::parse(query, &MEMBERS_QUERY)?.wanted();
    for query in ["min=10&max=50", "min=10&max=10", "min=50", "max=-5"] {
        assert!(range(query).is_ok(), "{query}");
    }
    for query in ["min=50&max=10", "min=NaN", "max=ten"] {
        let refused = range(query).map(|_| ()).map_err(|it| it.code());
        assert_eq!(refused, Err(Code::InvalidQuery), "{query}");
    }
}

#[test]
fn parameters_of_different_reads_are_refused_together() {
    let wanted = |query: &str| BoardQuery::parse(query, &MEMBERS_QUERY)?.wanted();
    for query in [
        "",
        "id=a&id=b",
        "around=a&limit=0",
        "rank=2&limit=0",
        "min=1&cursor=",
    ] {
        let refused = wanted(query).err().map(|it| it.to_string());
        assert_eq!(
            refused.is_some(),
            query.contains("cursor"),
            "{query}: {refused:?}"
        );
    }
    for query in [
        "id=a&limit=1",
        "around=a&limit=101",
        "around=a&min=1",
        "rank=1&cursor=x",
        "format=ndjson&max=1",
        "limit=1001",
        "format=csv",
    ] {
        let refused = wanted(query).map(|_| ()).map_err(|it| it.code());
        assert_eq!(refused, Err(Code::InvalidQuery), "{query}");
    }
}

#[test]
fn a_cursor_goes_with_the_parameters_of_its_first_page() {
    let row = Ranked {
        member: b"ann".to_vec(),
        score: score(1.0),
        tie: None,
        rank: Some(101),
        expires_ms: None,
        metadata: None,
        tag: 1,
    };
    let cursor = cursor_of(&row, &PeriodOf::default());
    let seen = |query: &str| -> Result<_, Problem> {
        match BoardQuery::parse(query, &MEMBERS_QUERY)?.wanted()? {
            WantedMembers::Range { range, .. } => Ok((range.after, range.skip, range.limit)),
            other => panic!("{other:?}"),
        }
    };
    for first in ["rank=100&limit=2", "min=1&limit=2", "limit=2"] {
        let next = format!("{first}&cursor={cursor}");
        let (after, skip, limit) = seen(&next).expect("a page");
        assert!(after.is_some(), "{next}");
        assert_eq!((skip, limit), (0, 2), "{next}");
    }
}

#[test]
fn an_import_reads_each_member_that_an_export_writes() {
    let line = |member: &str| {
        let line = serde_json::json!({"board": "b", "member": member, "score": 1});
        let (writes, _) = parse_member_line(line.to_string().as_bytes(), 0)?;
        Ok(writes.into_iter().map(|it| it.member).collect::<Vec<_>>())
    };
    // ZADD writes such ones, which are no ids.
    for member in ["two\nlines", &"x".repeat(1_024)] {
        assert_eq!(line(member), Ok(vec![member.as_bytes().to_vec()]));
    }
    for member in ["", &"x".repeat(1_025)] {
        let refused: Result<_, Problem> = line(member);
        assert_eq!(refused.map_err(|it| it.code()), Err(Code::InvalidBody));
    }
}

#[test]
fn an_import_reads_the_end_of_a_member_in_milliseconds() {
    let now_ms = 1_763_683_196_000;
    let ends = |at: i64| {
        let line = serde_json::json!({"board": "b", "member": "m", "score": 1, "expires_at": at});
        let (mut writes, is_expired) =
            parse_member_line(line.to_string().as_bytes(), now_ms).unwrap();
        writes.retain(|_| !is_expired);
        let put = writes.into_iter().map(|it| match it.action {
            MemberAction::Put(put) => put.expires_ms.flatten(),
            other => panic!("{other:?}"),
        });
        put.collect::<Vec<_>>()
    };
    assert_eq!(ends(now_ms + 1), [Some(now_ms + 1)]);
    for past in [now_ms, 1_767_229_200, 0] {
        assert_eq!(ends(past), [], "{past}");
    }
    let line = |at: &str| {
        let line = format!(r#"{{"board":"b","member":"m","score":1,"expires_at":{at}}}"#);
        parse_member_line(line.as_bytes(), now_ms)
    };
    assert_eq!(line("1.7672292e12"), line("1767229200000"));
    assert_eq!(line("1767229200000.0"), line("1767229200000"));
    for at in ["-1", "0.5"] {
        let refused = line(at).map_err(|it| it.code());
        assert_eq!(refused, Err(Code::InvalidBody), "{at}");
    }
}

#[test]
fn shards_are_a_whole_number_in_any_form_that_json_allows_or_auto() {
    let read = |shards: &str| parse_settings(format!(r#"{{"shards":{shards}}}"#).as_bytes());
    let two = read("2").expect("settings");
    assert_eq!(read("2.0"), Ok(two.clone()));
    assert_eq!(read("2e0"), Ok(two));
    assert!(read("\"auto\"").is_ok());
    for wrong in ["2.5", "0", "17", "-1", "\"2\"", "[2]"] {
        let refused = read(wrong).map_err(|problem| problem.code());
        assert_eq!(refused, Err(Code::InvalidBody), "{wrong}");
    }
}

proptest! {
    /// In all bodies, and in imports.
    #[test]
    fn a_score_is_the_double_that_is_written(bits: u64) {
        let number = f64::from_bits(bits);
        prop_assume!(number.is_finite());
        let body = format!("{{\"score\":{number:e}}}");
        let MemberAction::Put(write) = parse_write(body.as_bytes(), 0).unwrap() else {
            panic!("a score");
        };
        prop_assert_eq!(write.amount, Amount::Score(score(number)));
        let line = format!("{{\"board\":\"b\",\"member\":\"a\",\"score\":{number:e}}}");
        let (writes, _) = parse_member_line(line.as_bytes(), 0).unwrap();
        let puts = writes.into_iter().filter_map(|write| match write.action {
            MemberAction::Put(put) => Some(put.amount),
            _ => None,
        });
        prop_assert_eq!(puts.collect::<Vec<_>>(), [Amount::Score(score(number))]);
    }
}
