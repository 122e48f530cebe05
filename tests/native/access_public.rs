//! Laws of what a caller without a key may do, and of who reaches limits: nothing beyond an increment of now unless its
//! entry names it, no limit without a prefix that says `limits/`, and no open instance from elsewhere.

use serde_json::{Value, json};
use tally_api::access::{Access, Caller, DELTA_MAX_DEFAULT, Permission};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::{Scope, is_within};

const KEY: &str = "0123456789abcdef";

fn access(config: &Value) -> Access {
    Access::from_config(Some(&config.to_string()), false).expect("a valid configuration")
}

/// A caller without a key, where these are the public entries.
fn visitor(public: Value) -> Caller {
    let access = access(&json!({ "public": public }));
    access.identify(None, None, 0).expect("a public caller")
}

/// The holder of a key that stands in these entries.
fn holder(mut entries: Value) -> Caller {
    for entry in entries.as_array_mut().expect("entries") {
        entry["key"] = KEY.into();
    }
    let access = access(&json!({ "keys": entries }));
    access
        .identify(Some(&format!("Bearer {KEY}")), None, 0)
        .expect("a known key")
}

fn code(verdict: Result<(), Problem>) -> Option<Code> {
    verdict.err().map(|problem| problem.code())
}

#[test]
fn without_a_key_write_is_one_increment_of_now() {
    let caller = visitor(json!([{"prefix": "/blog/", "origins": ["*"], "scopes": ["write"]}]));
    assert_eq!(DELTA_MAX_DEFAULT, 1);
    assert_eq!(caller.may_write("/blog/a", 1, &[]), Ok(()));
    let refused = caller.may_write("/blog/a", 2, &[]).expect_err("too much");
    assert_eq!(refused.code(), Code::Unauthorized);
    assert!(refused.detail().contains("at most 1 ") && refused.detail().contains("delta_max"));
    for permission in Permission::ALL {
        let refused = caller
            .may_write("/blog/a", 1, &[permission])
            .expect_err(permission.as_str());
        assert_eq!(refused.code(), Code::Unauthorized);
        let named = format!("`{}` in `allow`", permission.as_str());
        assert!(refused.detail().contains(&named), "{}", refused.detail());
    }
    assert_eq!(
        code(caller.may_write("/blo", 1, &[])),
        Some(Code::Unauthorized)
    );
}

#[test]
fn what_one_entry_names_is_allowed_and_nothing_of_two_is_put_together() {
    use Permission::{At, Decrement, Ingest};
    let caller = visitor(json!([
        {"prefix": "a/", "origins": ["*"], "scopes": ["write"], "delta_max": 5, "allow": ["decrement"]},
        {"prefix": "a/", "origins": ["*"], "scopes": ["write"], "delta_max": 9, "allow": ["at"]},
        {"prefix": "b/", "origins": ["*"], "scopes": ["read"], "delta_max": 9, "allow": ["ingest"]},
    ]));
    for (delta, needs, is_allowed) in [
        (9, &[][..], true),
        (10, &[], false),
        (5, &[Decrement], true),
        (6, &[Decrement], false),
        (9, &[At], true),
        (1, &[At, Decrement], false),
        (1, &[Ingest], false),
    ] {
        let verdict = caller.may_write("a/1", delta, needs);
        assert_eq!(verdict.is_ok(), is_allowed, "{delta} {needs:?}");
    }
    // What is named without the scope is not allowed.
    assert!(caller.may_write("b/1", 1, &[Ingest]).is_err());
    assert!(caller.may_somewhere(Scope::Write, &[Ingest]).is_err());
    assert_eq!(caller.may_somewhere(Scope::Write, &[At]), Ok(()));
    assert_eq!(caller.may_somewhere(Scope::Write, &[]), Ok(()));
}

#[test]
fn a_key_writes_whatever_its_scope_covers() {
    let caller = holder(json!([{"scopes": ["write"], "prefix": "a/"}]));
    assert_eq!(caller.may_write("a/1", u128::MAX, &Permission::ALL), Ok(()));
    assert_eq!(caller.may_somewhere(Scope::Write, &Permission::ALL), Ok(()));
    assert_eq!(code(caller.may_write("b/1", 1, &[])), Some(Code::Forbidden));
}

#[test]
fn limits_are_reached_by_a_prefix_that_says_so_alone() {
    let right = "limits/login/bob";
    for prefix in ["", "l", "limit", "limits", "limits-", "blog/"] {
        let caller = holder(json!([{"scopes": ["admin"], "prefix": prefix}]));
        for scope in Scope::ALL {
            let refused = caller.may_limit(scope, right).expect_err(prefix);
            assert_eq!(refused.code(), Code::Forbidden);
            assert!(
                refused
                    .detail()
                    .contains("on a prefix that begins with `limits/`")
            );
        }
        assert!(caller.may_check(right, 1, &[]).is_err(), "{prefix}");
        let public =
            visitor(json!([{"scopes": ["read", "write"], "prefix": prefix, "origins": ["*"]}]));
        assert!(public.may_check(right, 1, &[]).is_err(), "{prefix}");
        assert!(public.may_limit(Scope::Read, right).is_err(), "{prefix}");
    }
    for prefix in ["limits/", "limits/login/", "limits/login/bob"] {
        let caller = holder(json!([{"scopes": ["admin"], "prefix": prefix}]));
        for scope in Scope::ALL {
            assert_eq!(caller.may_limit(scope, right), Ok(()), "{prefix}");
        }
        assert!(caller.may_limit(Scope::Read, "limits/other/bob").is_err() || prefix == "limits/");
        // Nor does such a prefix cover the counter of that name.
        assert_eq!(code(caller.may(Scope::Read, right)), Some(Code::Forbidden));
        assert_eq!(caller.readable_prefixes(), Vec::<String>::new());
        let public = visitor(json!([{"scopes": ["write"], "prefix": prefix, "origins": ["*"]}]));
        assert_eq!(public.may_check(right, 1, &[]), Ok(()));
        assert!(public.may_check(right, 2, &[]).is_err());
        assert!(public.may_check(right, 1, &[Permission::Policy]).is_err());
    }
}

#[test]
fn a_prefix_is_within_another_of_the_same_reach_alone() {
    for (inner, outer, is) in [
        ("a/b", "a/", true),
        ("a/", "a/b", false),
        ("a/", "", true),
        ("limits/a", "limits/", true),
        ("limits/", "limits/a", false),
        ("limits/a", "", false),
        ("limits/a", "lim", false),
        ("lim", "", true),
    ] {
        assert_eq!(is_within(inner, outer), is, "{inner} {outer}");
    }
}

#[test]
fn refunds_are_a_scope_of_their_own_which_no_visitor_has() {
    let right = "limits/login/bob";
    for (scope, may) in [
        ("read", false),
        ("write", false),
        ("refund", true),
        ("admin", true),
    ] {
        let caller = holder(json!([{"scopes": [scope], "prefix": "limits/"}]));
        assert_eq!(
            caller.may_limit(Scope::Refund, right).is_ok(),
            may,
            "{scope}"
        );
    }
    let refunds = holder(json!([{"scopes": ["refund"], "prefix": "limits/"}]));
    assert!(refunds.may_check(right, 1, &[]).is_err());
    let config = json!({"public": [{"origins": ["*"], "scopes": ["refund"], "prefix": "limits/"}]});
    let refused = Access::from_config(Some(&config.to_string()), false).expect_err("a key's scope");
    assert!(refused.detail().contains("`refund` needs a key"));
}

#[test]
fn an_open_instance_answers_to_its_own_names_alone() {
    let open = Access::from_config(None, true).expect("open");
    for host in [
        "localhost",
        "LOCALHOST:8788",
        "127.0.0.1",
        "127.9.9.9:80",
        "[::1]",
        "[::1]:8788",
    ] {
        assert_eq!(open.check_local(host, None, || None), Ok(()), "{host}");
    }
    for host in [
        "",
        "evil.example",
        "evil.example:8788",
        "localhost.evil.example",
        "127.0.0.1.evil.example:8788",
        "evil-localhost",
        "localhost.",
        "127.1",
        "0x7f000001",
        "[::ffff:127.0.0.1]",
        "evil.example#localhost",
        "localhost\\@evil.example",
        "0.0.0.0:8788",
        "192.168.1.2",
        "[::]:8788",
        "[2001:db8::1]",
        "[::1].evil.example",
        "[::1",
        "localhost:80@evil.example",
        "127.0.0.1:80:evil.example",
    ] {
        let verdict = open.check_local(host, None, || Some("http://localhost".to_owned()));
        assert_eq!(code(verdict), Some(Code::Forbidden), "{host}");
    }
    let keyed = access(&json!({}));
    let closed = Access::from_config(None, false).expect("closed");
    for access in [keyed, closed] {
        let verdict = access.check_local("tally.example.com", Some("cross-site"), || None);
        assert_eq!(verdict, Ok(()), "others decide by keys");
    }
}

#[test]
fn an_open_instance_is_not_for_other_sites_pages_whatever_they_leave_out() {
    let open = Access::from_config(None, true).expect("open");
    let check = |site: Option<&str>, page: Option<&str>| {
        code(open.check_local("localhost:8788", site, || page.map(str::to_owned)))
    };
    for site in [None, Some("none"), Some("same-origin"), Some("same-site")] {
        assert_eq!(check(site, None), None, "{site:?}");
    }
    // A page of localhost is another site than 127.0.0.1, and of this machine.
    let foreign = Some("cross-site");
    assert_eq!(check(foreign, Some("http://localhost:3000")), None);
    assert_eq!(check(foreign, Some("http://127.0.0.1")), None);
    for page in [
        None,
        Some("https://evil.example"),
        Some("null"),
        Some(""),
        Some("http://localhost:80@evil.example"),
    ] {
        for site in ["cross-site", "Cross-Site", "cross-site, cross-site", ""] {
            let verdict = check(Some(site), page);
            assert_eq!(verdict, Some(Code::Forbidden), "{site:?} {page:?}");
        }
    }
}
