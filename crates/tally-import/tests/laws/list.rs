//! Values of lists are kept whole, or their lines are named.

use tally_import::list::OtherCounters;

fn read(text: &str) -> (Vec<(String, String)>, Vec<u64>) {
    let OtherCounters {
        counters, refused, ..
    } = OtherCounters::read(text).unwrap();
    (
        counters
            .into_iter()
            .map(|one| (one.id, one.value))
            .collect(),
        refused.iter().map(|one| one.line).collect(),
    )
}

/// A list, its counters, and the lines that are refused.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [u64]);

fn check(cases: &[Case<'_>]) {
    for (text, found, refused) in cases {
        let found: Vec<(String, String)> = found
            .iter()
            .map(|(id, value)| ((*id).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(read(text), (found, refused.to_vec()), "{text}");
    }
}

#[test]
fn every_form_of_a_list_is_read() {
    let want: &[(&str, &str)] = &[("site/visits", "12"), ("site/likes", "-3")];
    check(&[
        (r#"{"site/visits": 12, "site/likes": -3}"#, want, &[]),
        (
            r#"[{"namespace":"site","key":"visits","value":12},{"namespace":"site","key":"likes","value":-3}]"#,
            want,
            &[],
        ),
        (
            "namespace,key,value\nsite,visits,12\nsite,likes,-3\n",
            want,
            &[],
        ),
        (
            "# mine\nhttps://abacus.example/hit/site/visits 12\nsite/likes -3\n",
            want,
            &[],
        ),
        ("site/visits 12\r\nsite/likes -3\r\n", want, &[]),
        ("site/visits 12\rsite/likes -3\r", want, &[]),
        ("\u{feff}site/visits 12\nsite/likes -3", want, &[]),
        ("site\tvisits\t12\nsite\tlikes\t-3\n", want, &[]),
        (
            r#"{"key":"site/visits","value":12}"#,
            &[("site/visits", "12")],
            &[],
        ),
        (r#"{"key":5,"value":12}"#, &[], &[1]),
    ]);
}

#[test]
fn a_header_says_which_columns_there_are_and_columns_that_are_not_known_hold_no_value() {
    let one: &[(&str, &str)] = &[("a", "5")];
    check(&[
        ("Key, Value\na,5\n", one, &[]),
        ("page,views\na,5\n", one, &[]),
        ("hits\n5\na,5\n", &[], &[2, 3]),
        ("key,value,created\na,5,1700000000\n", &[], &[1, 2]),
        ("id,last_seen\na,1700000000\n", &[], &[1, 2]),
        ("id,hits,last_seen\na,5,6\n", &[], &[1, 2]),
        ("name,value,total\na,5,6\n", &[], &[1, 2]),
        ("value,key\n5,a\n5,6\n", &[], &[1, 2, 3]),
        ("key\tupdated\tvalue\na\t5\t6\n", &[], &[1, 2]),
        ("key;value\na;5\n", &[], &[1, 2]),
        (
            "views 12\ntotal 3\n",
            &[("views", "12"), ("total", "3")],
            &[],
        ),
        ("site,visits\na,5\n", one, &[1]),
        ("page of mine\na 5\n", one, &[1]),
        ("views,1.5\na,5\n", one, &[1]),
        ("total visits 12\n", &[("total visits", "12")], &[]),
    ]);
}

#[test]
fn values_are_kept_whole_or_their_lines_are_named() {
    check(&[
        ("comma60 1,234\nb 2\n", &[("b", "2")], &[1]),
        (
            "dots 1.234\nquote 1'234\nspace 1 234\nfloat 1.5\nplus +1\nlast 9\n",
            &[("last", "9")],
            &[1, 2, 3, 4, 5],
        ),
        ("my key 12\n", &[("my key", "12")], &[]),
        ("a\tb c\t12\n", &[("a/b c", "12")], &[]),
        ("site,my page,7\n", &[("site/my page", "7")], &[]),
        (
            "site,\"a,b\",7\nsite,c,\"1,234\"\n",
            &[("site/a,b", "7")],
            &[2],
        ),
        (
            "namespace,key,value\nsite,a,1\nsite,b,1,234\n",
            &[("site/a", "1")],
            &[3],
        ),
        ("unreadable\nsite/a 1\n", &[("site/a", "1")], &[1]),
        ("site,a,many\nsite,b,1\n", &[("site/b", "1")], &[1]),
        (
            "big 9007199254740993\nbelow -170141183460469231731687303715884105728\nold 007\nnone 000\n",
            &[
                ("big", "9007199254740993"),
                ("below", "-170141183460469231731687303715884105728"),
                ("old", "7"),
                ("none", "0"),
            ],
            &[],
        ),
        ("twice 1\ntwice 2\n", &[("twice", "1")], &[2]),
        ("caf\u{fffd} 3\nlast 9\n", &[("last", "9")], &[1]),
        ("# a comment\n#tag 3\n", &[("#tag", "3")], &[]),
    ]);
}

#[test]
fn values_of_json_are_kept_whole_or_their_entries_are_named() {
    check(&[
        (
            r#"{"big":9007199254740993,"text":"9007199254740995","bad":"1,234","float":1.5}"#,
            &[("big", "9007199254740993"), ("text", "9007199254740995")],
            &[1, 1],
        ),
        (r#"{"v11":"13","v12":14.0}"#, &[("v11", "13")], &[1]),
        (
            "\n{\n  \"a\": 1,\n  \"b\":\n  1.5, \"c\": 2.5,\n\n  \"d\": {\"value\": 3.5}\n}\n",
            &[("a", "1")],
            &[5, 5, 7],
        ),
        (
            "[\n{\"key\":\"a\",\"value\":1},\n7,\nnull]",
            &[("a", "1")],
            &[3, 4],
        ),
        (
            r#"[{"namespace":"s","key":"a \" 1","value":9007199254740993},7,null]"#,
            &[("s/a \" 1", "9007199254740993")],
            &[1, 1],
        ),
        (
            "{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"value\":9007199254740993}\n",
            &[("a", "1"), ("b", "9007199254740993")],
            &[],
        ),
        (
            "{\"key\":\"a\",\"value\":1}\n\n{\"key\":\"b\",\"val\nnot json\n{\"key\":\"c\",\"value\":3}\n",
            &[("a", "1"), ("c", "3")],
            &[3, 4],
        ),
        (
            r#"[{"namespace":"s","value":3},{"namespace":"s","key":null,"value":3},{"key":{},"value":3},{"namespace":null,"key":"k","value":4}]"#,
            &[("k", "4")],
            &[1, 1, 1],
        ),
        (r#"{"a":{"value":1},"a":{"value":2}}"#, &[("a", "1")], &[1]),
    ]);
    for text in ["{\"a\": ", "{\"a\":1} x", "[1", "{"] {
        let failure = OtherCounters::read(text).unwrap_err();
        assert!(failure.message.contains("the list is no JSON"), "{text}");
    }
}

#[test]
fn a_cell_in_quotes_may_have_a_line_break_and_the_lines_behind_it_keep_their_numbers() {
    check(&[
        (
            "page,hits\n\"a\nb\",7\n\"say \"\"hi\"\"\",8\r\n\"c,\r\nd\",9\nlast,x\n",
            &[("a\nb", "7"), ("say \"hi\"", "8"), ("c,\nd", "9")],
            &[7],
        ),
        (
            "site,\"a\n\nb\",7\nlast,1\n",
            &[("site/a\n\nb", "7"), ("last", "1")],
            &[],
        ),
        (
            "\"a\tb\"\t7\n\"c\nd\"\t8\n",
            &[("a\tb", "7"), ("c\nd", "8")],
            &[],
        ),
        // A quote that nobody closes takes in no other line.
        ("\"a,1\nb,2\nc,3\n", &[("b", "2"), ("c", "3")], &[1]),
        (
            "\"a 1\n\"b 2\nc 3\n",
            &[("\"a", "1"), ("\"b", "2"), ("c", "3")],
            &[],
        ),
        ("say \"hi 3\nc 3\n", &[("say \"hi", "3"), ("c", "3")], &[]),
    ]);
}
