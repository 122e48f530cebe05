//! Laws: the table of `docs/internals/access.md` has a row for each call of OpenAPI and no other. Random callers may
//! make random calls if, and only if, a model that reads that table says so. The model shares no code with the service.
//!
//! `CASES=n` and `SEED=n` say how many cases, and which.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tally_api::access::{Access, Caller};
use tally_api::api_key::parse_change;
use tally_api::routes::Subject;
use tally_api::routes::{Route, resolve};
use tally_wire::alerts::Watched;
use tally_wire::names::policy::PolicyName;
use tally_wire::rights::{ApiKey, Gift, KeyId, Scope, held, make_token};

const TABLE: &str = include_str!("../../docs/internals/access.md");
const OPENAPI: &str = include_str!("../../crates/tally-api/openapi.json");
const CASES: u64 = 100_000;
const CALLERS: usize = 1_000;
const SEED: u64 = 0xacce55;

/// A row of the table: method, template, scope, permission of a public entry, what it is on, and whether shares may.
#[derive(Debug)]
struct Row {
    method: &'static str,
    template: &'static str,
    scope: &'static str,
    permission: Option<&'static str>,
    on: &'static str,
    is_shared: bool,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| {
        ["GET", "PUT", "POST", "PATCH", "DELETE"]
            .iter()
            .any(|method| line.starts_with(&format!("| `{method} /")))
    });
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [call, scope, on, share, _, _, _] = cells[..] else {
            panic!("seven cells: {line}");
        };
        let (method, template) = call.trim_matches('`').split_once(' ').expect("a call");
        let (scope, permission) = scope.split_once(' ').unwrap_or((scope, ""));
        let permission = permission.trim_matches(['(', ')', '`']);
        Row {
            method,
            template,
            scope,
            permission: Some(permission).filter(|permission| !permission.is_empty()),
            on,
            is_shared: share == "yes",
        }
    };
    lines.map(row).collect()
}

#[test]
fn each_call_of_openapi_has_a_row_and_each_row_a_call() {
    let document: Value = serde_json::from_str(OPENAPI).expect("JSON");
    let paths = document["paths"].as_object().expect("paths");
    let methods = |(path, calls): (&String, &Value)| {
        let methods = calls.as_object().expect("methods").keys();
        let methods = methods
            .filter(|method| ["get", "put", "post", "patch", "delete"].contains(&method.as_str()));
        let calls = methods.map(|method| format!("{} {path}", method.to_uppercase()));
        calls.collect::<Vec<String>>()
    };
    let calls: BTreeSet<String> = paths.iter().flat_map(methods).collect();
    let rows = rows();
    let told: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {}", row.method, row.template))
        .collect();
    let unique: BTreeSet<String> = told.iter().cloned().collect();
    assert_eq!(told.len(), unique.len(), "each call has one row");
    let without = calls.difference(&unique).collect::<Vec<_>>();
    assert!(without.is_empty(), "calls without a row: {without:?}");
    let without = unique.difference(&calls).collect::<Vec<_>>();
    assert!(without.is_empty(), "rows without a call: {without:?}");
}

/// Rights as the test has drawn them.
#[derive(Clone, Debug, Default)]
struct Grant {
    scopes: Vec<&'static str>,
    prefixes: Vec<String>,
    allow: Vec<&'static str>,
}

/// A caller as the model knows it: its rights, and those of each key above it.
#[derive(Clone, Debug)]
enum Who {
    Key(Grant, Vec<Grant>),
    Public(Grant),
    Share(String),
}

/// What a call is about: ids that begin with a text, limits that do, or what a key may do.
#[derive(Clone, Debug)]
enum About {
    Nothing,
    Counters(String),
    Limits(String),
    Key(Grant),
}

// The model.

fn covers(grant: &Grant, scope: &str, about: &About) -> bool {
    let has = |scope: &str| grant.scopes.contains(&scope) || grant.scopes.contains(&"admin");
    let of_limits = |prefix: &str| prefix.starts_with("limits/");
    let begins = |text: &str, is_of_limits: bool| {
        let mut prefixes = grant.prefixes.iter();
        prefixes
            .any(|prefix| of_limits(prefix) == is_of_limits && text.starts_with(prefix.as_str()))
    };
    match about {
        About::Nothing => has(scope),
        About::Counters(text) => has(scope) && begins(text, false),
        About::Limits(text) => has(scope) && begins(text, true),
        About::Key(key) => key.prefixes.iter().all(|prefix| {
            let about = match of_limits(prefix) {
                true => About::Limits(prefix.clone()),
                false => About::Counters(prefix.clone()),
            };
            covers(grant, "admin", &about)
        }),
    }
}

fn allows(who: &Who, row: &Row, about: &About) -> bool {
    let needs = |grant: &Grant| {
        row.permission
            .is_none_or(|need| grant.allow.contains(&need))
    };
    match who {
        _ if row.on == "everybody" => true,
        Who::Key(own, above) => {
            covers(own, row.scope, about) && above.iter().all(|giver| covers(giver, "admin", about))
        }
        Who::Public(grant) => needs(grant) && covers(grant, row.scope, about),
        Who::Share(prefix) => {
            let grant = Grant {
                scopes: vec!["read"],
                prefixes: vec![prefix.clone()],
                allow: vec![],
            };
            row.is_shared && covers(&grant, row.scope, about)
        }
    }
}

// What is drawn.

/// Splitmix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count).expect("few")).expect("few")
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn some(&mut self, of: &[&'static str]) -> Vec<&'static str> {
        let count = 1 + self.below(2);
        let mut some: Vec<&'static str> = (0..count).map(|_| self.one(of)).collect();
        some.dedup();
        some
    }
}

const SCOPES: [&str; 5] = ["read", "write", "refund", "admin", "admin"];
const PERMISSIONS: [&str; 4] = ["decrement", "hll", "ingest", "board"];
/// Prefixes, among them what encodings, case, globs and dots make of another.
const PREFIXES: [&str; 16] = [
    "",
    "",
    "a",
    "a/",
    "a/b",
    "A/",
    "b/",
    "a/..",
    "../",
    "*",
    "a*",
    "ä/",
    "limit",
    "limits/",
    "limits/a",
    "limits/a/",
];
const IDS: [&str; 17] = [
    "a",
    "a/",
    "a/b",
    "a/b/c",
    "A/b",
    "b/c",
    "a/../b",
    "../a",
    "*",
    "a*",
    "a%2Fb",
    "ä/x",
    "a\u{308}/x",
    "limit",
    "limits/a",
    "a b",
    "b",
];
const NAMES: [&str; 5] = ["a", "ab", "b", "a-1", "limits"];

fn encoded(chance: &mut Chance, id: &str) -> String {
    let every = chance.below(2) == 0;
    let write = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'-' if !every => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    id.bytes().map(write).collect()
}

fn grant(chance: &mut Chance, prefixes_max: usize) -> Grant {
    let count = 1 + chance.below(prefixes_max);
    Grant {
        scopes: chance.some(&SCOPES),
        prefixes: (0..count)
            .map(|_| chance.one(&PREFIXES).to_owned())
            .collect(),
        allow: Vec::new(),
    }
}

fn key_of(grant: &Grant) -> ApiKey {
    let (_, secret) = make_token(&[7; 16].into(), KeyId(7), &[1; 32]);
    let body = json!({"name": "a", "scopes": grant.scopes, "prefixes": grant.prefixes}).to_string();
    let change = parse_change(body.as_bytes(), 0).expect("a key");
    change.make("", secret, 0).expect("a key")
}

fn without_keys() -> Access {
    Access::from_config(None, false).expect("an access")
}

fn configured(config: &Value, header: Option<&str>) -> Caller {
    let access = Access::from_config(Some(&config.to_string()), false).expect("a configuration");
    access.identify(header, None, 0).expect("a caller")
}

fn caller(chance: &mut Chance) -> (Who, Caller) {
    match chance.below(5) {
        0 => {
            let grant = grant(chance, 2);
            let config = json!({"keys": [
                {"key": "a-key-0123456789", "scopes": grant.scopes, "prefixes": grant.prefixes}
            ]});
            let caller = configured(&config, Some("Bearer a-key-0123456789"));
            (Who::Key(grant, Vec::new()), caller)
        }
        1 => {
            let prefix = chance.one(&PREFIXES).to_owned();
            let scopes = chance.some(&["read", "write"]);
            let allow = chance.some(&PERMISSIONS);
            let config = json!({"public": [
                {"prefix": prefix, "origins": ["*"], "scopes": scopes, "allow": allow}
            ]});
            let grant = Grant {
                scopes,
                prefixes: vec![prefix],
                allow,
            };
            (Who::Public(grant), configured(&config, None))
        }
        2 => {
            let prefix = chance.one(&PREFIXES[..12]).to_owned();
            (Who::Share(prefix.clone()), Caller::of_share(prefix))
        }
        _ => {
            let own = grant(chance, 2);
            let depth = chance.below(3);
            let above: Vec<Grant> = (0..depth).map(|_| grant(chance, 1)).collect();
            let keys: Vec<(KeyId, ApiKey)> =
                (1..).map(KeyId).zip(above.iter().map(key_of)).collect();
            let held = held(KeyId(9), key_of(&own), &keys, &Gift::default());
            (
                Who::Key(own, above),
                Caller::of_held_key(KeyId(9), &held, &without_keys()),
            )
        }
    }
}

/// A call of the table, as a request, and what it is about.
struct Drawn {
    route: Route,
    about: Vec<About>,
}

fn call(chance: &mut Chance, row: &Row) -> Drawn {
    let (id, name, key) = (chance.one(&IDS), chance.one(&NAMES), chance.one(&IDS));
    let mut path = row.template.to_owned();
    for (parameter, value) in [
        (
            "{id}",
            if row.template.starts_with("/keys") || row.template.starts_with("/shares") {
                "00000000000000aa"
            } else {
                id
            },
        ),
        ("{prefix}", id),
        ("{board}", id),
        ("{member}", "m"),
        ("{rank}", "1"),
        ("{date}", "2026-11-01"),
        ("{code}", "x"),
        ("{alert}", "a"),
        ("{policies}", name),
        ("{policy}", name),
        ("{key}", key),
    ] {
        path = path.replace(parameter, &encoded(chance, value));
    }
    path = path.replace("{hold}", "0f5c1f2f6dd54ec2a5a3c8d6b1d1a7c4");
    // The ids of keys and shares, and names that stand for calls, are written as they are.
    path = path.replace("%30", "0").replace("%61%61", "aa");
    let route =
        resolve(row.method, &path).unwrap_or_else(|no| panic!("{} {path}: {no:?}", row.method));
    let policy = format!("limits/{name}/");
    let about = row.on.split(", ").map(|on| match on {
        "`{id}`" | "`{prefix}`" | "`{board}`" => About::Counters(id.to_owned()),
        "`{policy}`" => About::Limits(policy.clone()),
        "`{policy}/{key}`" => About::Limits(format!("{policy}{key}")),
        "everything" => About::Counters(String::new()),
        "everybody" | "somewhere" | "given" | "each command" => About::Nothing,
        "named prefix" | "named ids" | "named share" => {
            About::Counters(chance.one(&IDS[..]).to_owned())
        }
        "named limits" => About::Limits(policy.clone()),
        "named alert" => match chance.below(2) {
            0 => About::Counters(chance.one(&IDS).to_owned()),
            _ => About::Limits(policy.clone()),
        },
        "named key" => About::Key(grant(chance, 2)),
        other => panic!("what is {other:?}?"),
    });
    Drawn {
        route,
        about: about.collect(),
    }
}

fn scope_of(row: &Row) -> Scope {
    let known = Scope::ALL
        .into_iter()
        .find(|scope| scope.as_str() == row.scope);
    known.expect("a scope")
}

/// The verdict of the code, as its handler asks for it.
fn decides(caller: &Caller, row: &Row, drawn: &Drawn) -> bool {
    if caller.may_begin(&drawn.route).is_err() {
        return false;
    }
    let named = row.on.split(", ").zip(&drawn.about);
    named.into_iter().all(|(on, about)| {
        if on == "given" {
            // The list of a caller that administers nothing is refused.
            return caller.may_somewhere(scope_of(row), &[]).is_ok();
        }
        if !on.starts_with("named") {
            return true;
        }
        let watched;
        let key;
        let subject = match (on, about) {
            ("named share", About::Counters(prefix)) => Subject::Share(prefix),
            ("named alert", About::Counters(prefix)) => {
                watched = Watched::Prefix(prefix.clone());
                Subject::Alert(&watched)
            }
            ("named alert", About::Limits(right)) => {
                let name = right.trim_start_matches("limits/").trim_end_matches('/');
                let name = if name.is_empty() { "limits" } else { name };
                watched = Watched::Policy(PolicyName::parse(name).expect("a name"));
                Subject::Alert(&watched)
            }
            (_, About::Counters(prefix)) => Subject::Prefix(scope_of(row), prefix),
            (_, About::Limits(right)) => Subject::Limits(scope_of(row), right),
            (_, About::Key(grant)) => {
                key = key_of(grant);
                Subject::Key(&key)
            }
            (_, About::Nothing) => return true,
        };
        caller.may_name(&subject).is_ok()
    })
}

#[test]
fn somewhere_is_where_all_keys_above_agree() {
    let key = |scopes: &[&'static str], prefixes: &[&str]| {
        key_of(&Grant {
            scopes: scopes.to_vec(),
            prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(),
            allow: Vec::new(),
        })
    };
    let may = |own: ApiKey, giver: ApiKey| {
        let held = held(KeyId(9), own, &[(KeyId(1), giver)], &Gift::default());
        let caller = Caller::of_held_key(KeyId(9), &held, &without_keys());
        caller.may_somewhere(Scope::Write, &[]).is_ok()
    };
    assert!(may(key(&["write"], &["a/"]), key(&["admin"], &["a/"])));
    assert!(may(
        key(&["write"], &["a/", "b/"]),
        key(&["admin"], &["b/c"])
    ));
    assert!(may(key(&["write"], &["a/b"]), key(&["admin"], &[""])));
    assert!(!may(key(&["write"], &["a/"]), key(&["admin"], &["b/"])));
    assert!(!may(key(&["write"], &["a/"]), key(&["write"], &["a/"])));
    assert!(!may(key(&["read"], &["a/"]), key(&["admin"], &["a/"])));
    assert!(!may(key(&["write"], &["limits/a"]), key(&["admin"], &[""])));
    assert!(!may(key(&["write"], &["l"]), key(&["admin"], &["limits/"])));
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn random_callers_may_make_random_calls_if_the_table_says_so() {
    let seed = number_of("SEED").unwrap_or(SEED);
    let cases = number_of("CASES").unwrap_or(CASES);
    let mut chance = Chance(seed);
    let rows = rows();
    let mut callers: Vec<(Who, Caller)> = (0..CALLERS).map(|_| caller(&mut chance)).collect();
    let mut verdicts = [0_u64; 2];
    for case in 0..cases {
        let at = chance.below(callers.len());
        if chance.below(100) == 0 {
            callers[at] = caller(&mut chance);
        }
        let (who, caller) = &callers[at];
        let row = &rows[chance.below(rows.len())];
        let drawn = call(&mut chance, row);
        // Whether a narrowed key may do something somewhere is another law: `somewhere_is_where_all_keys_above_agree`.
        let is_anywhere = drawn
            .about
            .iter()
            .any(|about| matches!(about, About::Nothing));
        if is_anywhere && matches!(who, Who::Key(_, above) if !above.is_empty()) {
            continue;
        }
        let expected = drawn.about.iter().all(|about| allows(who, row, about));
        let decided = decides(caller, row, &drawn);
        assert_eq!(
            decided, expected,
            "SEED={seed}, case {case}: {who:?} makes {:?} on {:?}; the model says {expected}",
            drawn.route, drawn.about
        );
        verdicts[usize::from(decided)] += 1;
    }
    assert!(
        verdicts.iter().all(|count| *count > cases / 20),
        "both are drawn: {verdicts:?}"
    );
}
