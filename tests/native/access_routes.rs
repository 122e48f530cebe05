//! Least rights: whoever has a key may make a call of the table if, and only if, one of its scopes and one of its
//! prefixes say so, and the key has not ended. Said here once more, plainly, and compared for generated keys and all
//! calls.

use crate::common::config;
use proptest::prelude::*;
use serde_json::json;
use tally_api::access::{Access, Caller, Right};
use tally_api::api_key::parse_change;
use tally_api::routes::{ROUTES, resolve};
use tally_wire::problem::Code;
use tally_wire::rights::{KeyId, Scope, make_token};

const SECRET: &str = "a-key-of-the-test-0123456789";
const NOW_MS: i64 = 1_000_000;

fn prefix() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[ab/]{0,3}",
        Just("limits/".to_owned()),
        "limits/[ab]{1,2}/?",
        Just("limit".to_owned()),
    ]
}

/// Whether some scope and some prefix of a key reach what a call is about.
fn is_allowed(scopes: &[Scope], prefixes: &[String], right: &Right<'_>) -> bool {
    let has = |scope: Scope| scopes.contains(&scope) || scopes.contains(&Scope::Admin);
    let of_counters = |scope: Scope, target: &str| {
        has(scope)
            && prefixes
                .iter()
                .any(|prefix| !prefix.starts_with("limits/") && target.starts_with(prefix.as_str()))
    };
    let of_limits = |scope: Scope, target: &str| {
        let reaches =
            |prefix: &String| prefix.starts_with("limits/") && target.starts_with(prefix.as_str());
        has(scope) && prefixes.iter().any(reaches)
    };
    match right {
        // Who reads the body or the query asks for the right to what that names.
        Right::Everybody | Right::Named(_) => true,
        Right::Somewhere(scope, _) => has(*scope),
        Right::Counter(scope, target) | Right::Image(scope, target) => of_counters(*scope, target),
        Right::Write(target, _) => of_counters(Scope::Write, target),
        Right::Limit(scope, policy, None) => {
            of_limits(*scope, &format!("limits/{}/", policy.as_str()))
        }
        Right::Limit(scope, policy, Some(key)) => of_limits(
            *scope,
            &format!("limits/{}/{}", policy.as_str(), key.as_str()),
        ),
    }
}

fn made(scopes: &[Scope], prefixes: &[String]) -> Caller {
    let id = KeyId(7);
    let (_, secret) = make_token(&[7; 16].into(), id, &[1; 32]);
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let body = json!({"name": "a", "scopes": scopes, "prefixes": prefixes}).to_string();
    let change = parse_change(body.as_bytes(), NOW_MS).expect("a body");
    Caller::of_key(id, &change.make("", secret, NOW_MS).expect("a key"))
}

proptest! {
    #![proptest_config(config(0x7a11, 300))]

    #[test]
    fn a_key_may_what_its_scopes_and_prefixes_say_and_nothing_else(
        scopes in proptest::collection::vec(0..Scope::ALL.len(), 1..4),
        prefixes in proptest::collection::vec(prefix(), 1..4),
        name in "[ab]{1,2}", ends_in in -2i64..3,
    ) {
        let scopes: Vec<Scope> = scopes.into_iter().map(|at| Scope::ALL[at]).collect();
        let texts: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        let config = json!({"keys": [
            {"key": SECRET, "scopes": texts, "prefixes": prefixes, "expires_at": NOW_MS / 1_000 + ends_in},
        ]}).to_string();
        let access = Access::from_config(Some(&config), false).expect("a valid configuration");
        let configured = access.identify(Some(&format!("Bearer {SECRET}")), None, NOW_MS);
        if ends_in <= 0 {
            prop_assert_eq!(configured.map_err(|problem| problem.code()).err(), Some(Code::Unauthorized));
            return Ok(());
        }
        let callers = [configured.expect("a known key"), made(&scopes, &prefixes)];
        let mut seen = 0;
        for row in ROUTES {
            let mut path = row.template.replace("{id}", "6d1f0c9f0b7a4c21");
            path = path.replace("{/file}", "").replace("{date}", "2026-01-01");
            for parameter in ["{prefix}", "{policy}", "{key}", "{board}", "{member}", "{rank}", "{name}", "{alert}"] {
                path = path.replace(parameter, &name);
            }
            let Ok(route) = resolve(row.method, &path) else { continue };
            seen += 1;
            let right = route.right();
            let expected = is_allowed(&scopes, &prefixes, &right);
            for caller in &callers {
                prop_assert_eq!(caller.has(&right).is_ok(), expected, "{} {}: {:?}", row.method, path, right);
            }
        }
        prop_assert!(seen + 2 >= ROUTES.len(), "{} of {}", seen, ROUTES.len());
    }
}
