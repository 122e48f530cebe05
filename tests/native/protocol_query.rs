//! Law: a query says what it asks or is refused by name: none is guessed, and no parameter is ignored but by calls
//! whose URLs other programs complete.

use tally_api::query::{
    LIST_LIMIT, ListPage, POINTS_MAX, PagedList, Query, TopQuery, UNION_MAX, WINDOW_SECONDS_MAX,
    WINDOW_UNIQUES_SECONDS_MAX, Window,
};
use tally_api::routes::RouteName;
use tally_core::cluster::top_order::WindowStart;
use tally_core::counter::history::Resolution;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::Range;
use tally_wire::messages::ReadParts;
use tally_wire::problem::{Code, Problem};
use tally_wire::version::Version;

const KNOWN: &[&str] = &[
    "consistency",
    "datacenter",
    "window",
    "at",
    "numbers",
    "from",
    "to",
    "step",
    "limit",
    "id",
    "at_least",
    "by",
];

/// 1 May 2026, 00:00:30 UTC.
const NOW: i64 = 1_777_593_630;

fn query(text: &str) -> Query {
    Query::parse(text, KNOWN).expect("known parameters")
}

fn code<T: std::fmt::Debug>(result: Result<T, Problem>) -> Code {
    result.expect_err("a refusal").code()
}

#[test]
fn bytes_that_are_no_utf8_are_refused_instead_of_naming_another_counter() {
    for text in ["id=%ff", "id=%C3", "id=a&id=%80", "at%fe=1"] {
        assert_eq!(
            code(Query::parse(text, KNOWN)),
            Code::InvalidQuery,
            "{text}"
        );
    }
    for (text, id) in [
        ("id=%C3%A4", "ä"),
        ("id=%EF%BF%BD", "\u{fffd}"),
        ("id=100%25", "100%"),
    ] {
        assert_eq!(query(text).get("id"), Some(id));
    }
}

#[test]
fn a_cursor_belongs_to_the_list_that_gave_it() {
    let lists = [
        PagedList::Alerts,
        PagedList::Audit,
        PagedList::DeadLetters,
        PagedList::Deliveries,
        PagedList::Shares,
        PagedList::Snapshots,
    ];
    let entries = || ["a", "b", "c"];
    let key = |entry: &&str| (*entry).to_owned();
    for list in lists {
        let first = ListPage::parse(list, "limit=2").expect("a page");
        let (shown, cursor) = first.cut(entries(), key);
        let next = format!("limit=2&cursor={}", cursor.expect("more"));
        assert_eq!(shown, ["a", "b"], "{list:?}");
        for other in lists {
            let page = ListPage::parse(other, &next);
            if other == list {
                let page = page.expect("the next page").cut(entries(), key);
                assert_eq!(page, (vec!["c"], None), "{list:?}");
            } else {
                assert_eq!(code(page), Code::InvalidQuery, "{list:?} of {other:?}");
            }
        }
        for invented in ["zzz", "", "a", "9999999999999999", "."] {
            let page = ListPage::parse(list, &format!("cursor={invented}"));
            assert_eq!(code(page), Code::InvalidQuery, "{list:?} {invented:?}");
        }
    }
}

#[test]
fn a_percent_sign_without_its_digits_is_refused_instead_of_naming_another_counter() {
    for text in ["id=%zz", "id=%2", "id=100%", "id=a&id=%", "%=1", "at=%+1"] {
        assert_eq!(
            code(Query::parse(text, KNOWN)),
            Code::InvalidQuery,
            "{text}"
        );
    }
    // What is ignored is not read, and an image is shown whatever its text.
    let known = ["by"];
    let ignored = Query::parse_for(RouteName::Pixel, "x=%E4%zz&by=a", &known).expect("a query");
    assert_eq!(ignored.get("by"), Some("a"));
    assert_eq!(Query::of_image("by=100%", &known).get("by"), Some("100%"));
}

#[test]
fn unknown_and_repeated_parameters_are_refused_by_name() {
    for (text, name) in [
        ("consistancy=strong", "consistancy"),
        ("Consistency=strong", "Consistency"),
        ("window=1&x", "x"),
        ("%00=1", "\\0"),
        ("=1", "\"\""),
    ] {
        let problem = Query::parse(text, KNOWN).expect_err(text);
        assert_eq!(problem.code(), Code::InvalidQuery, "{text}");
        assert!(problem.detail().contains(name), "{}", problem.detail());
        assert!(problem.detail().contains("consistency, datacenter"));
    }
    for text in ["window=1&window=1", "numbers=string&at=1&numbers=string"] {
        let problem = Query::parse(text, KNOWN).expect_err(text);
        assert!(
            problem.detail().contains("there twice"),
            "{}",
            problem.detail()
        );
    }
    let nothing_known = Query::parse("a=1", &[]).expect_err("a refusal");
    assert!(nothing_known.detail().ends_with("known: none"));
    assert!(Query::parse("", &[]).is_ok());
}

#[test]
fn ids_may_stand_several_times_and_are_decoded() {
    let query = query("id=a&id=b%2Fc&id=a+b&id=%D0%BA");
    assert_eq!(
        query.all("id").collect::<Vec<_>>(),
        ["a", "b/c", "a b", "к"]
    );
    assert_eq!(query.get("id"), Some("a"));
    assert_eq!(query.get("window"), None);
    assert_eq!(UNION_MAX, 100);
}

#[test]
fn consistency_and_numbers_have_one_value_each() {
    assert_eq!(query("").is_strong(), Ok(false));
    assert_eq!(query("consistency=strong").is_strong(), Ok(true));
    assert_eq!(query("").numbers_as_strings(), Ok(false));
    assert_eq!(query("numbers=string").numbers_as_strings(), Ok(true));
    for value in [
        "",
        "Strong",
        "eventual",
        "true",
        "1",
        "string%20",
        "strings",
    ] {
        let strong = query(&format!("consistency={value}")).is_strong();
        assert_eq!(code(strong), Code::InvalidQuery, "{value}");
        let strings = query(&format!("numbers={value}")).numbers_as_strings();
        assert_eq!(code(strings), Code::InvalidQuery, "{value}");
    }
}

#[test]
fn datacenters_are_names_in_any_case() {
    assert_eq!(query("").datacenter(), Ok(None));
    for value in ["FRA", "fra"] {
        let datacenter = query(&format!("datacenter={value}")).datacenter();
        assert_eq!(datacenter, Ok(Datacenter::parse("FRA")));
    }
    for value in ["", "F%2FA", "%C3%9C", "01234567890123456"] {
        let datacenter = query(&format!("datacenter={value}")).datacenter();
        assert_eq!(code(datacenter), Code::InvalidQuery, "{value}");
    }
}

#[test]
fn versions_are_read_whole_or_refused_with_the_reason() {
    assert_eq!(query("").at_least(), Ok(None));
    let version = Version::decode("AQEDRlJBAAEq").expect("a version");
    let minimum = query("at_least=AQEDRlJBAAEq").at_least();
    assert_eq!(minimum, Ok(Some(version.clone())));
    let iad = Datacenter::parse("IAD").expect("a datacenter");
    let only = query("datacenter=iad&at_least=AQEDRlJBAAEq").at_least();
    assert_eq!(only, Ok(Some(version.only(&iad))));
    for (value, why) in [
        ("", "not a version of this service"),
        ("AA", "its format is 0"),
        ("AQEDRlJBAAE", "it is cut"),
        ("AQEDRlJBAAEq%20", "not a version of this service"),
        ("AwEDRlJBAAEq", "its format is 3"),
        (&"A".repeat(600_001), "longer than 600000"),
    ] {
        let refusal = query(&format!("at_least={value}")).at_least();
        let problem = refusal.expect_err("a refusal");
        assert_eq!(problem.code(), Code::InvalidQuery);
        assert!(problem.detail().contains(why), "{}", problem.detail());
    }
}

#[test]
fn samples_come_by_steps_and_each_step_is_known_from_a_second_on() {
    let range = |step: Resolution, from, to, kept| {
        let kept_from = step.start_of(NOW - kept);
        Ok(Some((Range { step, from, to }, kept_from)))
    };
    let minute = Resolution::Minute.start_of(NOW);
    let hour = Resolution::Hour.start_of(NOW);
    let day = Resolution::Day.start_of(NOW);
    let series = |text: &str| query(text).samples_series(NOW);
    assert_eq!(series(""), Ok(None));
    assert_eq!(series("window=60&at=5"), Ok(None));
    assert_eq!(
        series("step=1m"),
        range(Resolution::Minute, minute - 59 * 60, minute, 86_400)
    );
    let hours = format!("step=1h&from={}", NOW - 7_200);
    assert_eq!(
        series(&hours),
        range(Resolution::Hour, hour - 7_200, hour, 90 * 86_400)
    );
    let days = format!("step=1d&from={}", NOW - 86_400);
    assert_eq!(
        series(&days),
        range(Resolution::Day, day - 86_400, day, 89 * 86_400)
    );
    let back = |points: i64| series(&format!("step=1m&from={}", NOW - points * 60));
    assert!(back(9_999).is_ok());
    assert_eq!(code(back(10_000)), Code::RangeTooLarge);
    for text in [
        "step=1s",
        "step=5m",
        "step=",
        "from=5",
        "to=5",
        "step=1m&window=60",
        "step=1m&at=5",
        "step=1m&from=7&to=6",
        "step=1m&from=yesterday",
    ] {
        assert_eq!(code(series(text)), Code::InvalidQuery, "{text}");
    }
}

#[test]
fn windows_end_now_or_at_a_given_second() {
    let window = |seconds, at| {
        Ok(Some(Window {
            seconds,
            at,
            now: NOW,
        }))
    };
    assert_eq!(query("").window(NOW), Ok(None));
    assert_eq!(query("window=300").window(NOW), window(300, NOW));
    assert_eq!(query("window=1&at=0").window(NOW), window(1, 0));
    for at in [NOW, NOW + 1, 253_402_300_799] {
        let ends_now = query(&format!("window=60&at={at}"));
        assert_eq!(ends_now.window(NOW), window(60, NOW));
        assert_eq!(
            ends_now.samples_window(NOW),
            query("window=60").samples_window(NOW)
        );
    }
    // As long as samples are kept, and not as long as the window would be that ends then.
    let far = query(&format!("window={WINDOW_SECONDS_MAX}&at=253402300799"));
    assert_eq!(code(far.samples_window(NOW)), Code::InvalidQuery);
    let most = WINDOW_SECONDS_MAX;
    assert_eq!(most, 1_826 * 86_400);
    assert_eq!(
        query(&format!("window={most}")).window(NOW),
        window(most, NOW)
    );
    for text in [
        "window=0",
        "window=-1",
        "window=1.5",
        "window=1e3",
        "window=",
        "window=5m",
        "window=99999999999999999999",
        &format!("window={}", most + 1),
        "at=5",
        "window=5&at=",
        "window=5&at=now",
        "window=5&at=1.5",
        // Milliseconds, by mistake.
        "window=5&at=1777593630000",
        "window=5&at=253402300800",
        "window=5&at=-62135596801",
        "window=5&at=99999999999999999999",
        "window=5&at=-5",
        "window=5&at=1795870800000",
    ] {
        assert_eq!(code(query(text).window(NOW)), Code::InvalidQuery, "{text}");
    }
}

#[test]
fn a_time_is_a_date_a_time_with_its_offset_or_unix_seconds() {
    let end = |text: &str| {
        let window = query(&format!("window=60&at={text}")).window(i64::MAX);
        window.map(|window| window.expect("a window").at)
    };
    // 2026-11-28T13:00:00Z.
    let one = 1_795_870_800;
    for text in [
        "1795870800",
        "2026-11-28T13:00:00Z",
        "2026-11-28T13:00:00.999Z",
        "2026-11-28T14:30:00%2B01:30",
        // A plus sign is a space in a query.
        "2026-11-28T14:30:00+01:30",
        "2026-11-28T05:00:00-08:00",
    ] {
        assert_eq!(end(text), Ok(one), "{text}");
    }
    assert_eq!(
        end("2026-11-28"),
        Ok(one - 13 * 3_600 + 86_399),
        "the last second"
    );
    let range = query("step=1h&from=2026-11-27&to=2026-11-28").history(NOW);
    let (first, last) = (one - 37 * 3_600, one + 10 * 3_600);
    assert_eq!(range.map(|range| (range.from, range.to)), Ok((first, last)));
    for text in [
        "2026-02-31",
        "2026-11-28T25:00:00Z",
        "2026-11-28T13:00:00",
        "2026-11",
        "28/11/2026",
        "yesterday",
    ] {
        let refusal = end(text).expect_err(text);
        assert_eq!(refusal.code(), Code::InvalidQuery, "{text}");
        assert!(refusal.detail().contains(text), "{}", refusal.detail());
    }
}

#[test]
fn a_window_has_the_same_names_wherever_one_is_meant() {
    // NOW is 2026-05-01T00:00:30Z.
    let start = |days: i64| NOW - 30 - days * 86_400;
    let since = |text: &str| {
        let top = TopQuery::parse(&format!("window={text}&by=count"), NOW).expect(text);
        let first = top.range.map(|(first, _)| first);
        top.order.since.map(WindowStart::seconds).or(first)
    };
    let names = [
        ("today", start(0)),
        ("7d", start(6)),
        ("month", start(0)),
        ("year", start(120)),
    ];
    for (name, first) in names {
        let seconds = u64::try_from(NOW - first + 1).expect("a length");
        let window = query(&format!("window={name}")).window(NOW).expect(name);
        assert_eq!(window.map(|window| window.seconds), Some(seconds), "{name}");
        assert_eq!(since(name), Some(first), "{name}");
    }
    // Seconds are widened to hours and days where those are what is stored.
    assert_eq!(since("3600"), Some(start(0) - 3_600));
    assert_eq!(since("7200"), Some(start(0) - 7_200));
    assert_eq!(since("172800"), Some(start(2)));
    assert_eq!(since("31536000"), Some(start(365)));
}

#[test]
fn a_window_is_its_seconds_and_no_more() {
    let bounds = |seconds, at| {
        Window {
            seconds,
            at,
            now: NOW,
        }
        .bounds()
    };
    assert_eq!(bounds(1, NOW), (NOW, NOW));
    assert_eq!(bounds(300, NOW), (NOW - 299, NOW));
    assert_eq!(
        bounds(u64::MAX, i64::MIN),
        (i64::MIN + 1, i64::MIN),
        "no sum wraps"
    );
    let window = Window {
        seconds: u64::try_from(WINDOW_UNIQUES_SECONDS_MAX).expect("400 days"),
        at: NOW,
        now: NOW,
    };
    assert!(window.has_uniques());
    // What began before days are kept is gone, however short it was.
    let past = Window {
        seconds: 60,
        at: NOW - WINDOW_UNIQUES_SECONDS_MAX,
        now: NOW,
    };
    assert!(!past.has_uniques());
    assert!(
        Window {
            at: past.at + 60,
            ..past
        }
        .has_uniques()
    );
    let longer = Window {
        seconds: window.seconds + 1,
        ..window
    };
    assert!(!longer.has_uniques());
    assert_eq!(longer.uniques_cover(), None);
    assert_eq!(Window::wanted(Some(longer)).uniques, None);
    let parts = Window::wanted(Some(Window {
        seconds: 2,
        at: NOW,
        now: NOW,
    }));
    assert_eq!(parts.window, Some((NOW - 1, NOW)));
    assert_eq!(Window::wanted(None), ReadParts::default());
}

#[test]
fn history_is_the_last_60_buckets_or_a_range_of_whole_ones() {
    let range = |step, from, to| Ok(Range { step, from, to });
    let minute = NOW - 30;
    let history = |text: &str| query(text).history(NOW);
    assert_eq!(
        history(""),
        range(Resolution::Minute, minute - 59 * 60, minute)
    );
    assert_eq!(history("step=1m"), history(""));
    assert_eq!(history("step=1s"), range(Resolution::Second, NOW - 59, NOW));
    assert_eq!(
        history("step=1h"),
        range(Resolution::Hour, minute - 59 * 3_600, minute)
    );
    assert_eq!(
        history("step=1d"),
        range(Resolution::Day, minute - 59 * 86_400, minute)
    );
    assert_eq!(
        history("from=61&to=179"),
        range(Resolution::Minute, 60, 120),
        "both ends are moved to their buckets"
    );
    assert_eq!(
        history("from=0&to=86400&step=1d"),
        range(Resolution::Day, 0, 86_400)
    );
    assert_eq!(history("to=3600"), range(Resolution::Minute, 60, 3_600));
    assert_eq!(
        history("from=5&to=5&step=1s"),
        range(Resolution::Second, 5, 5)
    );
    for text in [
        "step=",
        "step=1",
        "step=2m",
        "step=1M",
        "from=x",
        "to=",
        "from=2&to=1",
        "from=1777593630000",
        "to=253402300800",
        "from=1.5",
    ] {
        assert_eq!(code(history(text)), Code::InvalidQuery, "{text}");
    }
    let milliseconds = history("from=1777593630000").expect_err("milliseconds");
    let remedy = "divide milliseconds by 1,000";
    assert!(milliseconds.detail().contains(remedy), "{milliseconds}");
}

#[test]
fn a_history_has_at_most_10000_points() {
    assert_eq!(POINTS_MAX, 10_000);
    for (step, width) in [("1s", 1), ("1m", 60), ("1h", 3_600), ("1d", 86_400)] {
        let to = 9_999 * width;
        let most = query(&format!("step={step}&from=0&to={}", to + width - 1)).history(NOW);
        assert_eq!(most.map(|range| range.to), Ok(to), "{step}");
        let beyond = query(&format!("step={step}&from=0&to={}", to + width)).history(NOW);
        let problem = beyond.expect_err("too many points");
        assert_eq!(problem.code(), Code::RangeTooLarge, "{step}");
        assert!(
            problem.detail().contains("10001 points"),
            "{}",
            problem.detail()
        );
    }
    let widest = query("from=0&to=253402300799&step=1s").history(NOW);
    assert_eq!(code(widest), Code::RangeTooLarge);
}

#[test]
fn listings_have_1_to_1000_names() {
    assert_eq!(LIST_LIMIT, (100, 1_000));
    for (text, limit) in [("", 100), ("limit=1", 1), ("limit=1000", 1_000)] {
        assert_eq!(query(text).limit(), Ok(limit), "{text}");
    }
    for value in ["0", "1001", "-1", "", "x", "1.0", "4294967297"] {
        let limit = query(&format!("limit={value}")).limit();
        assert_eq!(code(limit), Code::InvalidQuery, "{value}");
    }
}

#[test]
fn who_asks_for_a_script_is_told_what_there_is_instead() {
    let refused = Query::parse("callback=show", KNOWN).expect_err("a refusal");
    assert_eq!(refused.code(), Code::InvalidQuery);
    assert!(refused.detail().contains("CORS"), "{refused}");
}

#[test]
fn parameters_that_other_programs_add_are_ignored_where_the_table_says_so() {
    let known = ["unique", "by"];
    for text in [
        "utm_source=mail&utm_campaign=%E4&by=country",
        "by=country&_=1764000000000&_=1764000000001",
        "collect[]=x&by=country&collect[]=y",
        "%FF=%FF&&=&by=country&x",
        "Unique=ann&b%79=country",
        "callback=show&by=country",
    ] {
        let query = Query::parse_for(RouteName::Pixel, text, &known).expect(text);
        assert_eq!(query.get("by"), Some("country"), "{text}");
        assert_eq!(query.get("unique"), None, "{text}");
        let refused = Query::parse_for(RouteName::Read, text, &known);
        assert_eq!(code(refused), Code::InvalidQuery, "{text}");
    }
    // What is known is read as strictly as ever.
    for text in ["by=country&by=city&x=1", "by=%FF&x=1", "unique=%C3"] {
        let refused = Query::parse_for(RouteName::Pixel, text, &known);
        assert_eq!(code(refused), Code::InvalidQuery, "{text}");
    }
}

#[test]
fn only_the_lines_of_logpush_come_from_a_url_that_others_complete() {
    let known = ["format", "unique"];
    let read = |text| Query::parse_for(RouteName::Ingest, text, &known);
    let query = read("format=logpush&tags=host:example.com&unique=ip").expect("a query");
    assert_eq!(query.get("unique"), Some("ip"));
    for text in [
        "format=clf&unqiue=ip",
        "format=ndjson&tags=x",
        "tags=logpush",
        "",
    ] {
        let is_fine = text.is_empty();
        assert_eq!(read(text).is_ok(), is_fine, "{text}");
    }
}
