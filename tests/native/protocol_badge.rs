//! Laws of badges: whatever a query says, the markup is that of the file around escaped text; a number is never shown
//! larger than it is; today is the day of UTC.

use crate::common;

use common::config;
use proptest::prelude::*;
use tally_api::badge::{Badge, LABEL_CHARACTERS_MAX};

fn badge(query: &str) -> Badge {
    Badge::parse(query)
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The text between the tags of an element of a class, as it stands there.
fn text_of<'a>(svg: &'a str, class: &str) -> &'a str {
    let (_, after) = svg
        .split_once(&format!("<text class=\"{class}\""))
        .expect("the element");
    let (_, after) = after.split_once('>').expect("its text");
    after.split_once("</text>").expect("its end").0
}

/// What a reader of XML takes the text for.
fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// The characters that structure has.
fn structure(svg: &str) -> String {
    svg.chars()
        .filter(|letter| "<>\"'".contains(*letter))
        .collect()
}

#[test]
fn a_badge_is_this_svg() {
    let svg = badge("label=views&color=green").draw("1.2k");
    assert_eq!(
        svg,
        concat!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="80" height="20" role="img" aria-label="views: 1.2k"><title>views: 1.2k</title>"##,
            r##"<clipPath id="shape"><rect width="80" height="20" rx="3"/></clipPath>"##,
            r##"<g clip-path="url(#shape)"><rect width="44" height="20" fill="#444444"/>"##,
            r##"<rect x="44" width="36" height="20" fill="#1a7f37"/></g>"##,
            r##"<g font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">"##,
            r##"<text class="label" x="6" y="14" fill="#fff" textLength="32">views</text>"##,
            r##"<text class="value" x="50" y="14" fill="#fff" textLength="24">1.2k</text></g></svg>"##,
        ),
    );
}

proptest! {
    #![proptest_config(config(0x1, 512))]

    #[test]
    fn no_label_breaks_out_of_its_place(
        label in "[^\\x00-\\x1f\\x7f-\\x9f\u{fffe}\u{ffff}]{1,64}",
        style in "flat|flat-square",
    ) {
        let plain = badge(&format!("label=x&style={style}")).draw("7");
        let svg = badge(&format!("label={}&style={style}", encoded(&label))).draw("7");
        prop_assert_eq!(structure(&svg), structure(&plain));
        prop_assert_eq!(unescaped(text_of(&svg, "label")), label);
        prop_assert_eq!(text_of(&svg, "value"), "7");
        // Every `&` begins one of the five that XML knows.
        for rest in svg.split('&').skip(1) {
            prop_assert!(["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|known| rest.starts_with(known)));
        }
    }

    #[test]
    fn no_query_panics_or_breaks_out(query in "\\PC{0,200}") {
        let svg = badge(&query).draw("1");
        prop_assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"));
        prop_assert_eq!(svg.matches("<script").count(), 0);
    }

    #[test]
    fn a_short_number_is_cut(number in any::<u128>()) {
        let text = badge("").text_of(&number.to_string());
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        prop_assert!(number.to_string().starts_with(&digits), "{} of {}", text, number);
        let negative = badge("").text_of(&format!("-{number}"));
        prop_assert_eq!(negative, format!("-{text}"));
    }
}

#[test]
fn numbers_are_abbreviated() {
    for (number, text) in [
        ("0", "0"),
        ("999", "999"),
        ("1000", "1k"),
        ("1099", "1k"),
        ("1999", "1.9k"),
        ("12999", "12k"),
        ("999999", "999k"),
        ("1000000", "1M"),
        ("-1500", "-1.5k"),
        ("9007199254740993", "9P"),
        ("340282366920938463463374607431768211455", "340282366Q"),
    ] {
        assert_eq!(badge("").text_of(number), text);
        assert_eq!(badge("format=full").text_of(number), number);
    }
}

#[test]
fn a_value_that_does_not_fit_counts_as_left_out() {
    let plain = badge("");
    let long = format!("label={}", "x".repeat(LABEL_CHARACTERS_MAX + 1));
    for query in [
        "color=bluish",
        "color=12345",
        "color=%2B12345",
        "color=",
        "color=%FF",
        "colour=%22",
        "color=rgb(1,2,3)&colour=url(x)",
        "label_color=ggg",
        "style=round",
        "style=FLAT-SQUARE",
        "style=round&style=flat-square",
        "show=yesterday",
        "show=",
        "format=string",
        "label=a%00b",
        "label=a%0Ab",
        "label=%EF%BF%BE",
        "label=%E4",
        &long,
    ] {
        assert_eq!(badge(query), plain, "{query}");
        let beside = format!("{query}&label_colour=abcdef&show=today");
        assert_ne!(badge(&beside), plain, "{query}: others are read");
    }
    for (query, same) in [
        ("label=x&label=y", "label=x"),
        ("color=red&colour=green", "color=red"),
        ("color=bluish&colour=green", "color=green"),
        ("label_color=ggg&labelColor=abc", "label_color=abc"),
        ("amp;color=red&color=green", "color=green"),
    ] {
        assert_eq!(badge(query), badge(same), "{query}");
    }
}

#[test]
fn the_address_of_another_services_badge_draws_one() {
    let plain = badge("").draw("7");
    for query in [
        "logo=github&logoColor=white&cacheSeconds=3600&link=a&link=b",
        "style=plastic",
        "style=social&logoSize=auto",
        "labelColor=rgb(1,2,3)",
        "labelColor=&maxAge=60&longCache=true",
        "utm_source=%E4&_=1&&=x&%FF",
    ] {
        assert_eq!(badge(query).draw("7"), plain, "{query}");
    }
    let labelled = badge("label_color=abcdef").draw("7");
    assert_ne!(labelled, plain);
    for query in ["labelColor=abcdef", "label_color=abcdef&labelColor=red"] {
        assert_eq!(badge(query).draw("7"), labelled, "{query}");
    }
    for colour in [
        "success",
        "important",
        "critical",
        "informational",
        "inactive",
        "blueviolet",
        "lightgrey",
        "lightgray",
        "yellowgreen",
    ] {
        let named = badge(&format!("color={colour}&colour=010203"));
        assert_ne!(named, badge("colour=010203"), "{colour}");
    }
}

#[test]
fn text_is_black_on_light_and_white_on_dark() {
    for (colour, fill) in [
        ("fff", "#111"),
        ("000", "#fff"),
        ("yellow", "#111"),
        ("blue", "#fff"),
        ("green", "#fff"),
        ("red", "#fff"),
        ("orange", "#111"),
        ("%23CF222E", "#fff"),
    ] {
        let svg = badge(&format!("colour={colour}")).draw("7");
        let (_, value) = svg.split_once("class=\"value\"").expect("the value");
        assert!(
            value.contains(&format!("fill=\"{fill}\"")),
            "{colour}: {value}"
        );
    }
}

#[test]
fn an_empty_label_leaves_the_number_alone() {
    let svg = badge("label=").draw("7");
    assert!(!svg.contains("class=\"label\""), "{svg}");
    assert!(svg.contains("<title>7</title>"), "{svg}");
    assert_eq!(text_of(&svg, "value"), "7");
}

#[test]
fn today_is_from_midnight_to_the_end_of_the_minute() {
    // 2026-11-21 14:00:30 UTC, and the midnight before it.
    let (now, midnight) = (1_795_269_630, 1_795_219_200);
    assert_eq!(badge("").window(now), None);
    let today = badge("show=today");
    let window = today.window(now).expect("a window");
    assert_eq!(window.bounds(), (midnight, now + 29));
    assert_eq!(
        today.window(now + 29).map(|w| w.bounds()),
        Some(window.bounds())
    );
    let first = today.window(midnight).expect("a window");
    assert_eq!(first.bounds(), (midnight, midnight + 59));
    let last = today.window(midnight - 1).expect("a window");
    assert_eq!(last.bounds(), (midnight - 86_400, midnight - 1));
}
