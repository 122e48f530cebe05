//! Law: a configuration that is wrong is refused with the place and the reason, and no key is repeated.

use crate::common::config;
use proptest::prelude::*;
use tally_api::access::{
    Access, CONFIG_BYTES_MAX, KEYS_COUNT_MAX, ORIGINS_COUNT_MAX, PUBLIC_ENTRIES_COUNT_MAX,
};
use tally_wire::problem::Code;
use tally_wire::rights::Scope;

const SECRET: &str = "S3cr3t-k3y-mat3rial";

fn detail(text: &str) -> String {
    let problem = Access::from_config(Some(text), true).expect_err("a wrong configuration");
    assert_eq!(problem.code(), Code::NotConfigured, "{text}");
    assert!(
        !problem.detail().contains(SECRET),
        "the key is repeated: {}",
        problem.detail()
    );
    problem.detail().to_owned()
}

/// Texts of `TALLY_KEYS` that cannot be used, and what is said of each.
const WRONG: &[(&str, &str)] = &[
    (
        r#"not json"#,
        "it is not JSON: expected ident (line 1, column 2)",
    ),
    (
        r#"{"keys":["#,
        "it is not JSON: EOF while parsing a list (line 1, column 9)",
    ),
    (
        r#"{"keys":[],}"#,
        "it is not JSON: trailing comma (line 1, column 12)",
    ),
    (
        r#"7"#,
        "a value has the wrong type, expected an object with `keys` and `public` (line 1",
    ),
    (
        r#"{"key":[]}"#,
        "unknown field `key`, expected `keys` or `public`",
    ),
    (r#"{"keys":[],"keys":[]}"#, "duplicate field `keys`"),
    (
        r#"{"keys":{}}"#,
        "a value has the wrong type, expected a sequence",
    ),
    (
        r#"{"keys":["S3cr3t-k3y-mat3rial"]}"#,
        "a value has the wrong type, expected an object with `key` and `scopes`",
    ),
    (
        r#"{"keys":[{"key":"S3cr3t-k3y-mat3rial"}]}"#,
        "missing field `scopes`",
    ),
    (r#"{"keys":[{"scopes":[]}]}"#, "missing field `key`"),
    (
        r#"{"keys":[{"S3cr3t-k3y-mat3rial":["read"]}]}"#,
        "unknown field, expected one of `name`, `key`",
    ),
    (
        r#"{"keys":[{"key":"S3cr3t-k3y-mat3rial","scope":"read"}]}"#,
        "unknown field `scope`",
    ),
    (
        r#"{"keys":[{"key":"S3cr3t-k3y-mat3rial","scopes":"S3cr3t-k3y-mat3rial"}]}"#,
        "expected a sequence",
    ),
    (
        r#"{"keys":[{"key":"S3cr3t","scopes":["read"]}]}"#,
        "keys[0].key is too short: a key has at least 16 bytes",
    ),
    (
        r#"{"keys":[{"key":"S3cr3t k3y mat3rial","scopes":["read"]}]}"#,
        "keys[0].key may hold only visible ASCII",
    ),
    (
        r#"{"keys":[{"key":"0123456789abcdef","scopes":["read"]},{"key":"S3cr3t-k3y-mat3rial","scopes":["read","delete"]}]}"#,
        "keys[1].scopes[1] `delete` is not a scope: the scopes here are `read`, `write`, `refund`, `admin`",
    ),
    (
        r#"{"keys":[{"key":"S3cr3t-k3y-mat3rial","scopes":["admin","limits"]}]}"#,
        "keys[0].scopes[1] `limits` is no scope, because prefixes say where: send `read` and `write` on the prefix `limits/`",
    ),
    (
        r#"{"public":[{"origins":["*"],"scopes":["limits"]}]}"#,
        "public[0].scopes[0] `limits` is no scope, because prefixes say where",
    ),
    (
        r#"{"keys":[{"key":"S3cr3t-k3y-mat3rial","scopes":["S3cr3t-k3y-mat3rial"]}]}"#,
        "keys[0].scopes[0] is not a scope",
    ),
    (
        r#"{"keys":[{"key":"S3cr3t-k3y-mat3rial","scopes":["Read"]}]}"#,
        "keys[0].scopes[0] `Read` is not a scope",
    ),
    (
        r#"{"public":[{"origins":["*"],"scopes":["admin"]}]}"#,
        "public[0].scopes[0] `admin` needs a key: the scopes here are `read`, `write`",
    ),
    (
        r#"{"public":[{"origins":["*"],"scopes":[],"delta_max":0}]}"#,
        "public[0].delta_max is 0: it is 1 or more",
    ),
    (
        r#"{"public":[{"origins":["*"],"scopes":[],"delta_max":"S3cr3t-k3y-mat3rial"}]}"#,
        "a value has the wrong type, expected u64",
    ),
    (
        r#"{"public":[{"origins":["*"],"scopes":[],"allow":["at","set"]}]}"#,
        "public[0].allow[1] `set` is not known: it may name `at`, `board`, `decrement`, `hll`, `if-match`, `ingest`, `policy`",
    ),
    (
        r#"{"keys":[{"key":"S3cr3t-k3y-mat3rial","scopes":[],"allow":[]}]}"#,
        "unknown field `allow`",
    ),
    ("[]", "expected an object with `keys` and `public`"),
    (
        r#"{"keys":[["ops","S3cr3t-k3y-mat3rial",["read"]]]}"#,
        "expected an object with `key` and `scopes`",
    ),
    (
        r#"{"public":[["",["*"],["read"]]]}"#,
        "expected an object with `prefix`, `origins` and `scopes`",
    ),
    (
        r#"{"public":[{"scopes":["read"]}]}"#,
        "missing field `origins`",
    ),
    (
        r#"{"public":[{"origins":["S3cr3t-k3y-mat3rial"],"scopes":[]}]}"#,
        "public[0].origins[0] is not scheme://host[:port]",
    ),
    (
        r#"{"keys":[{"key":"S3cr3t-k3y-mat3rial","scopes":[]}]}"#,
        "keys[0].scopes is empty",
    ),
    (
        r#"{"public":[{"origins":[],"scopes":["read"]}]}"#,
        "public[0].origins is empty",
    ),
    (
        r#"{"public":[{"prefix":"a\nb","origins":["*"],"scopes":[]}]}"#,
        "public[0].prefix begins no counter id",
    ),
];

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, expected) in WRONG {
        let detail = detail(text);
        assert!(
            detail.starts_with("TALLY_KEYS cannot be used: "),
            "{detail}"
        );
        assert!(
            detail.contains(expected),
            "{text}\n  said {detail}\n  not  {expected}"
        );
    }
}

#[test]
fn origins_are_scheme_host_and_port() {
    let verdict = |origin: &str| {
        let text =
            serde_json::json!({"public":[{"origins":[origin],"scopes":["read"]}]}).to_string();
        Access::from_config(Some(&text), false).map_err(|problem| problem.detail().to_owned())
    };
    for origin in [
        "https://example.com",
        "http://localhost:3000",
        "https://xn--bcher-kva.example",
        "http://127.0.0.1:8787",
        "http://[::1]:8787",
        "http://[2001:db8::1]",
        "capacitor://localhost",
        "chrome-extension://abcdef",
        "*",
    ] {
        let access = verdict(origin).unwrap_or_else(|detail| panic!("{origin}: {detail}"));
        let caller = access.identify(None, Some(origin), 0).expect("public");
        assert_eq!(caller.may(Scope::Read, "x"), Ok(()), "{origin}");
    }
    for origin in [
        "",
        "example.com",
        "https://",
        "https://example.com/",
        "https://example.com/path",
        "https://a@b.example",
        "https://*.example.com",
        "https://example.com:",
        "https://example.com:x",
        "https://example.com:65536",
        "https://example.com:+80",
        "https://exa mple.com",
        "https://example.com?x",
        "https://[::1",
        "https://[]x",
        "https://bücher.example",
        "://example.com",
        "1https://example.com",
        "null",
        "**",
    ] {
        assert!(verdict(origin).is_err(), "{origin}");
    }
}

#[test]
fn limits_hold_at_their_edge() {
    let keys = |count: usize, bytes: usize| {
        let entry = |at: usize| format!(r#"{{"key":"{at:0>bytes$}","scopes":["read"]}}"#);
        format!(
            r#"{{"keys":[{}]}}"#,
            (0..count).map(entry).collect::<Vec<_>>().join(",")
        )
    };
    let public = |count: usize, origins: usize| {
        let origins = vec![r#""http://a""#; origins].join(",");
        let entry = format!(r#"{{"origins":[{origins}],"scopes":[]}}"#);
        format!(r#"{{"public":[{}]}}"#, vec![entry; count].join(","))
    };
    let prefix = |bytes: usize| {
        format!(
            r#"{{"public":[{{"prefix":"{}","origins":["*"],"scopes":[]}}]}}"#,
            "p".repeat(bytes)
        )
    };
    let name = |bytes: usize| {
        format!(
            r#"{{"keys":[{{"name":"{}","key":"{SECRET}","scopes":["read"]}}]}}"#,
            "n".repeat(bytes)
        )
    };
    let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    let edges = [
        (keys(1, 16), keys(1, 15), "at least 16 bytes"),
        (keys(1, 128), keys(1, 129), "at most 128 bytes"),
        (
            keys(KEYS_COUNT_MAX, 16),
            keys(KEYS_COUNT_MAX + 1, 16),
            "keys has 1001 entries, at most 1000",
        ),
        (
            public(PUBLIC_ENTRIES_COUNT_MAX, 1),
            public(PUBLIC_ENTRIES_COUNT_MAX + 1, 1),
            "public has 1001 entries, at most 1000",
        ),
        (
            public(1, ORIGINS_COUNT_MAX),
            public(1, ORIGINS_COUNT_MAX + 1),
            "public[0].origins has 65 entries, at most 64",
        ),
        (
            prefix(512),
            prefix(513),
            "public[0].prefix begins no counter id",
        ),
        (name(64), name(65), "keys[0].name has more than 64 bytes"),
        (
            padded(CONFIG_BYTES_MAX),
            padded(CONFIG_BYTES_MAX + 1),
            "it has 262145 bytes, at most 262144 are read",
        ),
    ];
    for (within, beyond, expected) in edges {
        if let Err(problem) = Access::from_config(Some(&within), false) {
            panic!("refused within the limit: {}", problem.detail());
        }
        let detail = detail(&beyond);
        assert!(detail.contains(expected), "{detail}\n  not  {expected}");
    }
}

#[test]
fn debug_output_shows_no_key() {
    let text = format!(r#"{{"keys":[{{"name":"ops","key":"{SECRET}","scopes":["admin"]}}]}}"#);
    let access = Access::from_config(Some(&text), false).expect("a valid configuration");
    let caller = access
        .identify(Some(&format!("Bearer {SECRET}")), None, 0)
        .expect("a known key");
    let shown = format!("{access:?} {caller:?}");
    assert!(
        shown.contains("hidden") && !shown.contains(SECRET),
        "{shown}"
    );
    let words: Vec<String> = SECRET
        .as_bytes()
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")).to_string())
        .collect();
    assert!(words.iter().all(|word| !shown.contains(word)), "{shown}");
}

proptest! {
    #![proptest_config(config(0x7a11, 256))]

    /// Whatever is damaged and wherever the key stands, the refusal does not repeat it.
    #[test]
    fn no_refusal_repeats_the_key(at in 0usize..200, damage in "[\"\\]\\[{},:a-zA-Z0-9 `]{0,4}", place in 0usize..8) {
        let places = [
            r#"{"keys":[{"name":"ops","key":"KEY","scopes":["read"],"prefix":"p/"}],"public":[]}"#,
            r#"{"keys":[{"name":"KEY","key":"short","scopes":["read"],"prefix":"p/"}],"public":[]}"#,
            r#"{"keys":[{"name":"ops","key":"short","scopes":["KEY"],"prefix":"p/"}],"public":[]}"#,
            r#"{"keys":[{"name":"ops","key":"short","scopes":"KEY","prefix":"p/"}],"public":[]}"#,
            r#"{"keys":{"ops":"KEY"},"public":[]}"#,
            r#"{"keys":[{"name":"ops","KEY":"KEY","scopes":["read"]}],"KEY":[]}"#,
            r#"{"keys":[{"name":"ops","key":["KEY"],"scopes":["read"]}],"public":["KEY"]}"#,
            r#"{"keys":[],"public":[{"prefix":"x/","origins":["KEY"],"scopes":["KEY"]}]}"#,
        ];
        let mut text = places[place].replace("KEY", SECRET);
        let at = at.min(text.len());
        let end = (at + damage.len()).min(text.len());
        text.replace_range(at..end, &damage);
        if let Err(problem) = Access::from_config(Some(&text), false) {
            // A damaged key is not the key any more, so look for its longer half.
            for part in [&SECRET[..SECRET.len() / 2], &SECRET[SECRET.len() / 2..]] {
                prop_assert!(!problem.detail().contains(part), "{text}\n{}", problem.detail());
            }
        }
    }
}
