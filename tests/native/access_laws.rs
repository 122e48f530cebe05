//! Laws of grants, over generated configurations: a key never acts outside its prefixes, and what it
//! may do is exactly what its entries say, read plainly.

use crate::common::config;
use proptest::prelude::*;
use serde_json::json;
use tally_api::access::Access;
use tally_wire::problem::Code;
use tally_wire::rights::Scope;

const SCOPES: [Scope; 4] = [Scope::Read, Scope::Write, Scope::Refund, Scope::Admin];

/// Short texts over few letters, so that prefixes of one another are common.
fn text() -> impl Strategy<Value = String> {
    "[ab/ü]{0,5}"
}

fn key_text(number: usize) -> String {
    format!("key-number-{number:08}")
}

proptest! {
    #![proptest_config(config(0x7a11, 256))]

    #[test]
    fn a_key_never_acts_on_an_id_without_its_prefix(
        prefix in "[ab/ü]{1,5}",
        target in text(),
        other in text(),
        origin in proptest::option::of(Just("https://a.example")),
    ) {
        prop_assume!(!target.starts_with(&prefix));
        let config = json!({
            "keys": [
                {"key": key_text(0), "scopes": ["read", "write", "admin"], "prefix": prefix},
                {"key": key_text(1), "scopes": ["read", "write", "admin"], "prefix": other},
            ],
            "public": [{"origins": ["*"], "scopes": ["read", "write"]}],
        }).to_string();
        let access = Access::from_config(Some(&config), false).expect("a valid configuration");
        let caller = access.identify(Some(&format!("Bearer {}", key_text(0))), origin, 0).expect("a known key");
        for scope in SCOPES {
            let refused = caller.may(scope, &target).map_err(|problem| problem.code());
            prop_assert_eq!(refused, Err(Code::Forbidden));
        }
        prop_assert!(caller.may_list(&target).is_err());
    }

    #[test]
    fn a_caller_may_what_some_entry_says_and_nothing_else(
        entries in proptest::collection::vec((0usize..3, proptest::collection::vec(0usize..4, 1..3), text()), 0..8),
        who in 0usize..4, target in text(), request_scope in 0usize..4,
    ) {
        // Numbers 0 and 1 are keys, 2 is an origin without admin; 3 is in no entry.
        let scopes = |list: &[usize]| list.iter().map(|&at| SCOPES[at].as_str()).collect::<Vec<_>>();
        let is_public = |&at: &usize| matches!(SCOPES[at], Scope::Read | Scope::Write);
        let public_scopes = |list: &[usize]| list.iter().copied().filter(is_public).collect::<Vec<_>>();
        let (keys, public): (Vec<_>, Vec<_>) = entries.iter().partition(|(holder, ..)| *holder < 2);
        let keys = keys.into_iter().map(|(holder, list, prefix)| {
            json!({"key": key_text(*holder), "scopes": scopes(list), "prefix": prefix})
        });
        let public = public.into_iter().map(|(_, list, prefix)| {
            let scopes = scopes(&public_scopes(list));
            json!({"origins": ["https://a.example"], "scopes": scopes, "prefix": prefix})
        });
        let config = json!({"keys": keys.collect::<Vec<_>>(), "public": public.collect::<Vec<_>>()});
        let config = config.to_string();
        let access = Access::from_config(Some(&config), false).expect("a valid configuration");

        let header = (who != 2).then(|| format!("Bearer {}", key_text(who)));
        let caller = access.identify(header.as_deref(), Some("https://a.example"), 0);
        let request_scope = SCOPES[request_scope];
        let expected = entries.iter().any(|(holder, list, prefix)| {
            let list = if *holder == 2 { public_scopes(list) } else { list.clone() };
            let scope = list.iter().any(|&at| SCOPES[at] == request_scope || SCOPES[at] == Scope::Admin);
            *holder == who && scope && target.starts_with(prefix.as_str())
        });
        let allowed = caller.as_ref().is_ok_and(|caller| caller.may(request_scope, &target).is_ok());
        prop_assert_eq!(allowed, expected, "{} asks {:?} on {:?} of {}", who, request_scope, target, config);
        prop_assert_eq!(caller.is_ok(), who == 2 || entries.iter().any(|(holder, ..)| *holder == who));
    }

    #[test]
    fn only_the_very_same_key_is_known(at in 0usize..24, letter in "[!-~]", cut in 0usize..24, more in "[!-~]{1,40}") {
        let key = "0123456789abcdefGHIJKLMN";
        let config = json!({"keys": [{"key": key, "scopes": ["read"]}]}).to_string();
        let access = Access::from_config(Some(&config), false).expect("a valid configuration");
        let known = |presented: &str| access.identify(Some(&format!("Bearer {presented}")), None, 0).is_ok();
        let mut changed = key.to_owned();
        changed.replace_range(at..=at, &letter);
        prop_assert_eq!(known(&changed), changed == key);
        prop_assert!(!known(&key[..cut]));
        let longer = format!("{key}{more}");
        prop_assert!(!known(&longer));
        prop_assert!(known(key));
    }
}
