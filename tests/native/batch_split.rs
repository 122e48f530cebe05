//! The records of a body do not depend on how it was cut into chunks.

use crate::common::config;
use proptest::prelude::*;
use tally_api::batch::split::{RECORD_BYTES_MAX, Splitter};
use tally_wire::problem::Code;

type Records = Vec<(u64, Result<Vec<u8>, Code>)>;

/// Splits a body that comes in chunks of the given sizes, over and over.
fn split(mut splitter: Splitter, body: &[u8], sizes: &[usize]) -> Result<Records, Code> {
    let mut records = Vec::new();
    let mut take = |number, record: Result<&[u8], tally_wire::problem::Problem>| {
        records.push((
            number,
            record.map(<[u8]>::to_vec).map_err(|problem| problem.code()),
        ));
    };
    let mut rest = body;
    for &size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        splitter
            .push(chunk, &mut take)
            .map_err(|problem| problem.code())?;
        rest = after;
    }
    splitter
        .finish(&mut take)
        .map_err(|problem| problem.code())?;
    Ok(records)
}

fn detect(body: &[u8]) -> Result<Records, Code> {
    let whole = split(Splitter::detect(), body, &[usize::MAX]);
    for sizes in [&[1][..], &[2], &[3, 1]] {
        assert_eq!(
            split(Splitter::detect(), body, sizes),
            whole,
            "in chunks of {sizes:?}"
        );
    }
    whole
}

fn good(number: u64, record: &str) -> (u64, Result<Vec<u8>, Code>) {
    (number, Ok(record.as_bytes().to_vec()))
}

/// Bytes that matter to splitting are likely, so that strings, escapes and nesting meet chunk borders.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "[",
        "]",
        "{",
        "}",
        ",",
        "\"",
        "\\",
        "\n",
        "\r\n",
        "\r",
        " ",
        "\t",
        "x",
        "\"a\\\"]\"",
        "{\"k\":[1]}",
    ]);
    let junk = prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat());
    let element = prop::sample::select(vec![
        "{\"k\":\"],[\"}",
        "\"\\\\\"",
        " 1 ",
        "[[],{}]",
        "\n\"\\\"\"",
        "",
    ]);
    let array = prop::collection::vec(element, 0..12)
        .prop_map(|elements| format!(" [{}]\n", elements.join(",")));
    prop_oneof![junk, array].prop_map(String::into_bytes)
}

proptest! {
    #![proptest_config(config(2, 2_000))]

    #[test]
    fn chunking_changes_nothing(body in body(), sizes in prop::collection::vec(1usize..9, 1..6)) {
        let whole = split(Splitter::detect(), &body, &[usize::MAX]);
        prop_assert_eq!(split(Splitter::detect(), &body, &sizes), whole);
        let whole = split(Splitter::lines(), &body, &[usize::MAX]);
        prop_assert_eq!(split(Splitter::lines(), &body, &sizes), whole);
    }

    #[test]
    fn elements_are_those_that_a_whole_parser_finds(
        values in prop::collection::vec(("[\\[\\]{},\"\\\\ a-c\n\u{e9}]{0,12}", prop::option::of(0u32..100)), 0..10),
        pretty in any::<bool>(),
        sizes in prop::collection::vec(1usize..9, 1..6),
    ) {
        let array = serde_json::json!(values);
        let body = if pretty { serde_json::to_vec_pretty(&array) } else { serde_json::to_vec(&array) }.unwrap();
        let records = split(Splitter::detect(), &body, &sizes).unwrap();
        let read: Vec<serde_json::Value> =
            records.iter().map(|(_, record)| serde_json::from_slice(record.as_ref().unwrap()).unwrap()).collect();
        prop_assert_eq!(serde_json::Value::from(read), array);
        let numbers: Vec<u64> = records.iter().map(|(number, _)| *number).collect();
        let expected: Vec<u64> = (1..=u64::try_from(values.len()).unwrap()).collect();
        prop_assert_eq!(numbers, expected);
    }

    #[test]
    fn lines_are_those_that_the_standard_library_finds(body in body()) {
        let text = String::from_utf8(body.clone()).unwrap();
        let expected: Records = (1..)
            .zip(text.split('\n'))
            .map(|(number, line)| (number, line.trim_matches([' ', '\t', '\r'])))
            .filter(|(_, line)| !line.is_empty())
            .map(|(number, line)| good(number, line))
            .collect();
        prop_assert_eq!(split(Splitter::lines(), &body, &[4]).unwrap(), expected);
    }
}

#[test]
fn blank_lines_have_numbers_but_are_no_records() {
    assert_eq!(
        detect(b"\n{1}\r\n\r\n  \t\n{2}\n\n{3}").unwrap(),
        [good(2, "{1}"), good(5, "{2}"), good(7, "{3}")]
    );
    assert_eq!(detect(b"").unwrap(), []);
    assert_eq!(detect(b" \r\n\n ").unwrap(), []);
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_body_however_it_is_cut() {
    for sizes in [&[1][..], &[2], &[3], &[4], &[100]] {
        let of = |body: &[u8]| split(Splitter::detect(), body, sizes).unwrap();
        assert_eq!(
            of(b"\xef\xbb\xbf{1}\n{2}"),
            [good(1, "{1}"), good(2, "{2}")]
        );
        assert_eq!(of(b"\xef\xbb\xbf[1,2]"), [good(1, "1"), good(2, "2")]);
        assert_eq!(of(b"\xef\xbb\xbf"), []);
        assert_eq!(of(b"\xef\xbb\xbf\n{2}"), [good(2, "{2}")]);
        for other in [&b"\xef\xbb"[..], b"\xef\xbb{1}", b"\xef\xbb\n", b"\xef"] {
            let read = of(other);
            let text = other.trim_ascii_end().to_vec();
            assert_eq!(read, [(1, Ok(text))], "{other:?}");
        }
        assert_eq!(
            split(Splitter::lines(), b"\xef\xbb\xbf::1 - -\n", sizes).unwrap(),
            [good(1, "::1 - -")]
        );
    }
}

#[test]
fn the_first_byte_tells_an_array_from_lines() {
    assert_eq!(
        detect(b"\n [1,\n2]\n").unwrap(),
        [good(1, "1"), good(2, "2")]
    );
    assert_eq!(detect(b"[]").unwrap(), []);
    assert_eq!(detect(b"[ ] ").unwrap(), []);
    assert_eq!(detect(b"1\n[2]\n").unwrap(), [good(1, "1"), good(2, "[2]")]);
    assert_eq!(
        split(Splitter::lines(), b"[::1] - -\n", &[3]).unwrap(),
        [good(1, "[::1] - -")]
    );
}

#[test]
fn a_body_that_is_not_one_array_is_refused() {
    for body in [
        "[1", "[1,", "[", "[\"a]", "[{]", "[1]]", "[1] x", "[1][2]", "[1}", "[}", "[\"\\\"]",
        "[1],",
    ] {
        assert_eq!(detect(body.as_bytes()), Err(Code::InvalidJson), "{body}");
    }
}

#[test]
fn an_empty_element_costs_that_element_only() {
    let empty = |number| (number, Err(Code::InvalidJson));
    assert_eq!(
        detect(b"[1,,2]").unwrap(),
        [good(1, "1"), empty(2), good(3, "2")]
    );
    assert_eq!(detect(b"[1, ]").unwrap(), [good(1, "1"), empty(2)]);
    assert_eq!(detect(b"[,]").unwrap(), [empty(1), empty(2)]);
    assert_eq!(
        detect(b"[{\"a\":]},2]").unwrap_err(),
        Code::InvalidJson,
        "a stray brace"
    );
}

#[test]
fn a_record_may_be_as_long_as_the_limit_and_costs_itself_beyond() {
    let sizes: [&[usize]; 5] = [
        &[usize::MAX],
        &[1],
        &[1000],
        &[RECORD_BYTES_MAX],
        &[RECORD_BYTES_MAX + 1, 1],
    ];
    for (bytes, fits) in [
        (RECORD_BYTES_MAX, true),
        (RECORD_BYTES_MAX + 1, false),
        (3 * RECORD_BYTES_MAX, false),
    ] {
        let long = "x".repeat(bytes);
        let middle = |number| {
            if fits {
                good(number, &long)
            } else {
                (number, Err(Code::InvalidLine))
            }
        };
        let quoted = format!("\"{}\"", "[".repeat(bytes - 2));
        let element = if fits {
            good(2, &quoted)
        } else {
            (2, Err(Code::InvalidLine))
        };
        for sizes in sizes {
            let lines = format!("a\n{long}\r\nb\n  {long}\n{long}");
            assert_eq!(
                split(Splitter::detect(), lines.as_bytes(), sizes).unwrap(),
                [good(1, "a"), middle(2), good(3, "b"), middle(4), middle(5)]
            );
            let array = format!("[1, {quoted},2]");
            assert_eq!(
                split(Splitter::detect(), array.as_bytes(), sizes).unwrap(),
                [good(1, "1"), element.clone(), good(3, "2")]
            );
        }
    }
    let blank = " ".repeat(2 * RECORD_BYTES_MAX);
    assert_eq!(
        split(Splitter::detect(), format!("{blank}\n1").as_bytes(), &[999]).unwrap(),
        [good(2, "1")]
    );
}
