//! Laws of accounts: all keys of one account have one part of a limiter, whatever made them. The alerts that a caller
//! administers are the same as a value and as a question.

use crate::common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use tally_api::access::{Access, Caller};
use tally_api::api_key::parse_change;
use tally_core::counter::id::CounterId;
use tally_wire::alerts::Watched;
use tally_wire::names::policy::PolicyName;
use tally_wire::rights::{ApiKey, KeyId, held, make_token};

const TENANT: &str = "tenant-key-0123456789";
const OPS: &str = "ops-key-0123456789-01";

fn access(keys: &serde_json::Value) -> Access {
    let config = json!({ "keys": keys }).to_string();
    Access::from_config(Some(&config), false).expect("a configuration")
}

fn configured(access: &Access, key: &str) -> Caller {
    let header = format!("Bearer {key}");
    access.identify(Some(&header), None, 0).expect("a caller")
}

fn made(scopes: &[&str], prefixes: &[&str]) -> ApiKey {
    let (_, secret) = make_token(&[7; 16].into(), KeyId(7), &[1; 32]);
    let body = json!({"name": "a", "scopes": scopes, "prefixes": prefixes}).to_string();
    let change = parse_change(body.as_bytes(), 0).expect("a key");
    change.make("", secret, 0).expect("a key")
}

fn tenants() -> serde_json::Value {
    json!([
        {"name": "ops", "key": OPS, "scopes": ["admin"]},
        {"name": "tenant", "key": TENANT, "scopes": ["admin"], "prefix": "ten/"},
    ])
}

#[test]
fn keys_that_a_configured_key_makes_have_its_part_of_a_limiter() {
    let access = access(&tenants());
    let tenant = configured(&access, TENANT);
    let ops = configured(&access, OPS);
    let owner_of = |giver: &Caller, id: u64, above: &[(KeyId, ApiKey)], prefix: &str| {
        let key = made(&["write", "admin"], &[prefix]);
        let held = held(KeyId(id), key, above, &giver.gift());
        Caller::of_held_key(KeyId(id), &held, &access).owner()
    };
    // To any depth, and many of them.
    for id in 1..40 {
        let child = (KeyId(100 + id), made(&["admin"], &["ten/"]));
        assert_eq!(owner_of(&tenant, id, &[], "ten/a/"), tenant.owner());
        assert_eq!(owner_of(&tenant, id, &[child], "ten/b/"), tenant.owner());
        assert_eq!(owner_of(&ops, id, &[], ""), ops.owner());
    }
    // A narrow key of a caller that administers everything is an account, and its keys are of it.
    let narrow = (KeyId(3), made(&["admin"], &["x/"]));
    let of_narrow = owner_of(&ops, 3, &[], "x/");
    assert_eq!(owner_of(&ops, 4, &[narrow], "x/y/"), of_narrow);
    assert_ne!(of_narrow, ops.owner());
    assert_ne!(of_narrow, tenant.owner());
    assert_ne!(tenant.owner(), ops.owner());
}

#[test]
fn keys_of_a_key_that_was_removed_from_the_configuration_stay_one_part() {
    let before = access(&tenants());
    let gift = configured(&before, TENANT).gift();
    let after = access(&json!([{"name": "ops", "key": OPS, "scopes": ["admin"]}]));
    let owner_of = |id: u64| {
        let held = held(KeyId(id), made(&["write"], &["ten/"]), &[], &gift);
        Caller::of_held_key(KeyId(id), &held, &after).owner()
    };
    assert!((2..40).all(|id| owner_of(id) == owner_of(1)));
    assert_ne!(owner_of(1), configured(&after, OPS).owner());
}

#[test]
fn a_key_of_several_entries_has_one_part_also_when_the_first_has_ended() {
    let access = access(&json!([
        {"name": "first", "key": TENANT, "scopes": ["admin"], "prefix": "a/", "expires_at": 10},
        {"name": "ops", "key": OPS, "scopes": ["admin"]},
        {"name": "second", "key": TENANT, "scopes": ["admin"], "prefix": "b/"},
    ]));
    let at = |now_ms| {
        let header = format!("Bearer {TENANT}");
        let caller = access.identify(Some(&header), None, now_ms);
        caller.expect("a caller").owner()
    };
    assert_eq!(at(5_000), at(20_000));
    assert_ne!(at(5_000), configured(&access, OPS).owner());
}

/// Short texts over few letters, so that prefixes of one another are common.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab/]{0,3}",
        "limits/[ab]{0,2}",
        Just("limit".to_owned()),
        Just("limits/a/".to_owned())
    ]
}

proptest! {
    #![proptest_config(config(0xa1e7, 512))]

    #[test]
    fn admin_rights_are_what_a_caller_may_watch(
        entries in vec((0..4_usize, text()), 1..4),
        watched in prop_oneof![
            "[ab/]{1,4}".prop_map(|id| Watched::Counter(CounterId::parse(&id).expect("an id"))),
            text().prop_map(Watched::Prefix),
            "[ab]{1,3}".prop_map(|name| Watched::Policy(PolicyName::parse(&name).expect("a name"))),
        ],
    ) {
        const SCOPES: [&[&str]; 4] = [&["admin"], &["admin", "refund"], &["read", "write"], &["write"]];
        let keys: Vec<_> = entries
            .iter()
            .map(|(scopes, prefix)| json!({"key": TENANT, "scopes": SCOPES[*scopes], "prefix": prefix}))
            .collect();
        let access = access(&json!(keys));
        let caller = configured(&access, TENANT);
        prop_assert_eq!(caller.admin_rights().cover(&watched), caller.may_watch(&watched).is_ok());
        let open = Access::from_config(None, true).expect("open");
        let anyone = open.identify(None, None, 0).expect("anyone");
        prop_assert!(anyone.admin_rights().cover(&watched));
        prop_assert!(!Caller::nobody().admin_rights().cover(&watched));
    }
}
