//! Law: nothing is allowed unless a grant of the caller says so. A table of (who, what) → verdict.

use tally_api::access::{Access, Caller, origin_of_referrer};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

const CONFIG: &str = r#"{
  "keys": [
    {"name":"ops",    "key":"ops-key-0123456789",    "scopes":["admin"]},
    {"name":"blog",   "key":"blog-key-0123456789",   "scopes":["read","write"], "prefix":"blog/"},
    {"name":"beacon", "key":"beacon-key-0123456789", "scopes":["write"]},
    {"name":"two",    "key":"two-key-0123456789",    "scopes":["read"],  "prefix":"a/"},
    {"name":"two",    "key":"two-key-0123456789",    "scopes":["write"], "prefix":"b/"},
    {"name":"refund", "key":"refund-key-0123456789", "scopes":["refund"]}
  ],
  "public": [
    {"prefix":"blog/",  "origins":["https://example.com","http://localhost:3000"], "scopes":["read","write"]},
    {"prefix":"badge/", "origins":["*"], "scopes":["read"]},
    {"prefix":"likes/", "origins":["https://Shop.example:443"], "scopes":["write"]}
  ]}"#;

fn configured() -> Access {
    Access::from_config(Some(CONFIG), false).expect("a valid configuration")
}

fn key(name: &str) -> Result<Caller, Problem> {
    configured().identify(Some(&format!("Bearer {name}-key-0123456789")), None, 0)
}

fn page(origin: Option<&str>) -> Result<Caller, Problem> {
    configured().identify(None, origin, 0)
}

/// The status of the verdict: 200 stands for allowed.
fn verdict(caller: &Result<Caller, Problem>, scope: Scope, target: &str) -> u16 {
    let verdict = caller.as_ref().map_err(Clone::clone);
    match verdict.and_then(|caller| caller.may(scope, target)) {
        Ok(()) => 200,
        Err(problem) => problem.code().status(),
    }
}

#[test]
fn keys_may_what_their_scopes_and_prefixes_say() {
    use Scope::{Admin, Read, Write};
    let table = [
        // Admin implies write and read.
        ("ops", Admin, "blog/1", 200),
        ("ops", Write, "anything", 200),
        ("ops", Read, "", 200),
        // The prefix is a prefix of bytes, from the first one on, case and all.
        ("blog", Read, "blog/1", 200),
        ("blog", Write, "blog/", 200),
        ("blog", Admin, "blog/1", 403),
        ("blog", Read, "blog", 403),
        ("blog", Read, "Blog/1", 403),
        ("blog", Read, "my/blog/1", 403),
        ("blog", Read, "", 403),
        // Write does not imply read.
        ("beacon", Write, "x", 200),
        ("beacon", Read, "x", 403),
        ("beacon", Admin, "x", 403),
        // Entries of one key add up, but a scope stays with its prefix.
        ("two", Read, "a/1", 200),
        ("two", Write, "b/1", 200),
        ("two", Write, "a/1", 403),
        ("two", Read, "b/1", 403),
        // A key has no public grants.
        ("two", Read, "badge/1", 403),
        ("refund", Read, "badge/1", 403),
        ("unheard-of", Read, "badge/1", 401),
    ];
    for (name, scope, target, status) in table {
        assert_eq!(
            verdict(&key(name), scope, target),
            status,
            "{name} {scope:?} {target:?}"
        );
    }
}

#[test]
fn callers_without_key_may_what_the_entries_for_their_origin_say() {
    use Scope::{Admin, Read, Write};
    let table = [
        (Some("https://example.com"), Write, "blog/1", 200),
        (Some("https://example.com"), Read, "blog/1", 200),
        (Some("https://example.com"), Admin, "blog/1", 401),
        (Some("https://example.com"), Read, "shop/1", 401),
        (Some("HTTPS://Example.COM"), Write, "blog/1", 200),
        (Some("http://localhost:3000"), Write, "blog/1", 200),
        (Some("http://localhost:3001"), Write, "blog/1", 401),
        (Some("http://localhost"), Write, "blog/1", 401),
        (Some("http://example.com"), Write, "blog/1", 401),
        (
            Some("https://example.com.evil.example"),
            Write,
            "blog/1",
            401,
        ),
        (Some("https://evil-example.com"), Write, "blog/1", 401),
        (Some("https://example.com/"), Write, "blog/1", 401),
        (Some("null"), Write, "blog/1", 401),
        (Some(""), Write, "blog/1", 401),
        (None, Write, "blog/1", 401),
        // Browsers leave out the port that the scheme implies, so the configuration may write it.
        (Some("https://shop.example"), Write, "likes/1", 200),
        (Some("https://shop.example"), Read, "likes/1", 401),
        // `*` is everyone, with or without an origin.
        (None, Read, "badge/1", 200),
        (Some("null"), Read, "badge/1", 200),
        (Some("https://example.com"), Read, "badge/1", 200),
        (None, Write, "badge/1", 401),
    ];
    for (origin, scope, target, status) in table {
        assert_eq!(
            verdict(&page(origin), scope, target),
            status,
            "{origin:?} {scope:?} {target:?}"
        );
    }
}

#[test]
fn listing_needs_read_on_the_whole_prefix() {
    let blog = key("blog").expect("a known key");
    assert_eq!(blog.may_list("blog/"), Ok(()));
    assert_eq!(blog.may_list("blog/2026/"), Ok(()));
    for wider in ["", "b", "blog"] {
        assert_eq!(
            blog.may_list(wider).map_err(|problem| problem.code()),
            Err(Code::Forbidden),
            "{wider:?}"
        );
    }
    let beacon = key("beacon").expect("a known key");
    assert!(beacon.may_list("").is_err(), "write does not imply listing");
    assert_eq!(key("ops").expect("a known key").may_list(""), Ok(()));
}

#[test]
fn the_authorization_header_is_read_as_rfc_9110_says() {
    let status = |header: &str| match configured().identify(Some(header), None, 0) {
        Ok(_) => 200,
        Err(problem) => problem.code().status(),
    };
    for header in [
        "Bearer ops-key-0123456789",
        "bearer ops-key-0123456789",
        "BEARER   ops-key-0123456789",
        " Bearer ops-key-0123456789 ",
    ] {
        assert_eq!(status(header), 200, "{header:?}");
    }
    let too_long = format!("Bearer {}", "k".repeat(129));
    for header in [
        "",
        "Bearer",
        "Bearer ",
        "Basic ops-key-0123456789",
        "ops-key-0123456789",
        "Bearer ops-key-012345678",
        "Bearer ops-key-01234567890",
        "Bearer Ops-key-0123456789",
        "Bearer ops-key-0123456789 x",
        "Bearer ops-key-0123456789\0",
        "Bearer short",
        too_long.as_str(),
    ] {
        assert_eq!(status(header), 401, "{header:?}");
    }
}

#[test]
fn refusals_say_what_is_missing_and_repeat_no_key() {
    let detail = |result: Result<(), Problem>| result.expect_err("a refusal").detail().to_owned();
    let blog = key("blog").expect("a known key");
    assert_eq!(
        detail(blog.may(Scope::Read, "shop/1")),
        "this key has no scope `read` for `shop/1`"
    );
    assert_eq!(
        detail(blog.may(Scope::Read, "")),
        "this key has no scope `read` for all names"
    );
    let stranger = page(Some("https://evil.example")).expect("callers without key are public");
    assert_eq!(
        detail(stranger.may(Scope::Write, "blog/1")),
        "send a key with scope `write` for `blog/1`; pages of https://evil.example may not do this without one: \
         no public entry of TALLY_KEYS with that origin and scope has a prefix that `blog/1` begins with"
    );
    let long = detail(blog.may(Scope::Read, &"ü".repeat(500)));
    assert_eq!(
        long,
        format!("this key has no scope `read` for `{}…`", "ü".repeat(64))
    );
    for header in ["Bearer wrong-key-0123456789", "wrong-key-0123456789"] {
        let problem = configured()
            .identify(Some(header), None, 0)
            .expect_err("an unknown key");
        assert!(
            !problem.detail().contains("wrong-key"),
            "{}",
            problem.detail()
        );
    }
}

#[test]
fn without_keys_everyone_is_refused_unless_opened_on_purpose() {
    for text in [None, Some(""), Some(" \n")] {
        let closed = Access::from_config(text, false).expect("no configuration is no error yet");
        for header in [None, Some("Bearer ops-key-0123456789")] {
            let problem = closed
                .identify(header, Some("https://example.com"), 0)
                .expect_err("closed");
            assert_eq!(problem.code(), Code::NotConfigured);
            assert!(
                problem
                    .detail()
                    .contains("npx wrangler secret put TALLY_KEYS -c wrangler.jsonc")
            );
            assert!(problem.detail().contains("`make serve`"));
        }
        assert_eq!(closed.cors_origin(Some("https://example.com")), None);

        let open = Access::from_config(text, true).expect("open");
        let caller = open.identify(None, None, 0).expect("everyone");
        for scope in Scope::ALL {
            assert_eq!(caller.may(scope, "anything"), Ok(()));
        }
        assert_eq!(caller.may_list(""), Ok(()));
        assert_eq!(open.cors_origin(None).as_deref(), Some("*"));
    }
}

#[test]
fn keys_that_are_set_end_an_open_deployment() {
    let access = Access::from_config(Some(CONFIG), true).expect("a valid configuration");
    let stranger = access
        .identify(None, None, 0)
        .expect("callers without key are public");
    assert!(stranger.may(Scope::Write, "x").is_err());
    let nobody = Access::from_config(Some("{}"), true).expect("empty lists are fine");
    let stranger = nobody
        .identify(None, None, 0)
        .expect("callers without key are public");
    assert!(stranger.may(Scope::Read, "x").is_err());
}

#[test]
fn cors_names_only_origins_of_public_entries() {
    let access = |origins: &str| {
        let text = format!(
            r#"{{"public":[{{"origins":["https://other.example"],"scopes":["read"]}},
            {{"prefix":"x/","origins":{origins},"scopes":[]}}]}}"#
        );
        Access::from_config(Some(&text), false).expect("a valid configuration")
    };
    let named = access(r#"["https://example.com"]"#);
    let echo = |origin: &str| named.cors_origin(Some(origin));
    assert_eq!(
        echo("https://example.com").as_deref(),
        Some("https://example.com")
    );
    assert_eq!(
        echo("https://other.example").as_deref(),
        Some("https://other.example")
    );
    assert_eq!(echo("https://evil.example"), None);
    assert_eq!(echo("null"), None);
    assert_eq!(named.cors_origin(None), None);

    let everyone = access(r#"["*"]"#);
    assert_eq!(
        everyone
            .cors_origin(Some("https://evil.example"))
            .as_deref(),
        Some("*")
    );
    assert_eq!(everyone.cors_origin(None).as_deref(), Some("*"));
}

#[test]
fn an_open_instance_is_not_for_pages_of_other_machines() {
    let open = Access::from_config(None, true).expect("open");
    for origin in [
        "http://localhost:3000",
        "http://127.0.0.1",
        "https://LOCALHOST",
        "http://127.9.9.9:80",
        "http://[::1]:8080",
    ] {
        assert!(open.identify(None, Some(origin), 0).is_ok(), "{origin}");
    }
    for origin in [
        "https://example.com",
        "null",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
        "http://128.0.0.1",
        "file://",
        "",
    ] {
        let refused = open.identify(None, Some(origin), 0).expect_err(origin);
        assert_eq!(refused.code(), Code::Forbidden, "{origin}");
    }
    assert!(
        open.identify(None, None, 0).is_ok(),
        "programs send no origin"
    );
}

#[test]
fn a_referrer_names_its_origin_and_no_other() {
    for (referrer, origin) in [
        ("https://example.com/a/b?c", Some("https://example.com")),
        ("https://example.com", Some("https://example.com")),
        ("http://localhost:3000/", Some("http://localhost:3000")),
        (
            "https://example.com?https://other.example/",
            Some("https://example.com"),
        ),
        (
            "https://other.example/?https://example.com/",
            Some("https://other.example"),
        ),
        ("https://example.com#x", Some("https://example.com")),
        ("https:///a", None),
        ("about:blank", None),
        ("", None),
    ] {
        assert_eq!(origin_of_referrer(referrer), origin, "{referrer}");
    }
}

#[test]
fn only_who_sends_no_key_is_limited_as_a_visitor() {
    let is_public = |caller: Result<Caller, Problem>| caller.is_ok_and(|caller| caller.is_public());
    assert!(is_public(page(None)));
    assert!(is_public(page(Some("https://example.com"))));
    assert!(!is_public(key("beacon")));
    let open = Access::from_config(None, true).expect("open");
    assert!(!is_public(open.identify(None, None, 0)));
}
