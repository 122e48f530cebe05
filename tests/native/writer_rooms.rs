//! Laws of the parts that narrow writers fill: whoever fills what it may is refused, and nobody else is.

use std::collections::BTreeMap;

use crate::common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use tally_api::access::Access;
use tally_core::callers::account::{AccountId, account_max, fits};
use tally_redis::account_room::{AccountSizes, RowPart};
use tally_wire::shell_limits::{CLAIMS_MAX, KEYSPACE_BYTES_MAX};

#[test]
fn an_account_that_fills_what_it_may_is_refused_and_no_other_is() {
    let size_max = 10_000;
    let mut all = 0;
    // More accounts than parts: later ones get half of what is left.
    for account in 0..40 {
        let mut own = 0;
        while fits(own + 1, all + 1, size_max) {
            own += 1;
            all += 1;
        }
        assert!(own <= account_max(size_max), "{account}");
        assert!(
            account >= 8 || own == account_max(size_max),
            "{account}: {own}"
        );
        assert!(account >= 16 || own > 0, "{account} finds room");
        // Whoever may write everything has a tenth.
        assert!(all <= size_max - account_max(size_max), "{account}: {all}");
    }
    assert!(!fits(1, u64::MAX, CLAIMS_MAX) && !fits(u64::MAX, 0, CLAIMS_MAX));
}

#[test]
fn an_account_is_the_first_digits_of_its_name() {
    assert_eq!(AccountId::of_name("00000000000000aa"), AccountId(0xaa));
    let configured = AccountId::of_name("configured-0123456789abcdef0123456789abcdef");
    assert_eq!(configured.to_string(), "0123456789abcdef");
    for none in [
        "",
        "configured-",
        "configured-zzzzzzzzzzzzzzzz",
        "é",
        "0123",
    ] {
        assert!(!AccountId::of_name(none).is_some(), "{none}");
    }
}

#[test]
fn a_writer_is_narrow_unless_it_may_write_everything() {
    let account = |entries: serde_json::Value| {
        let config = json!({ "keys": entries }).to_string();
        let access = Access::from_config(Some(&config), false).expect("a configuration");
        let caller = access.identify(Some("Bearer 0123456789abcdef"), None, 0);
        caller.expect("a caller").writer_account().is_some()
    };
    let entry = |scopes: &[&str], prefix: &str| json!({"key": "0123456789abcdef", "scopes": scopes, "prefix": prefix});
    assert!(account(json!([entry(&["write"], "a")])));
    assert!(account(json!([
        entry(&["admin"], "a/"),
        entry(&["read"], "")
    ])));
    assert!(account(json!([entry(&["read"], "")])));
    assert!(!account(json!([entry(&["write"], "")])));
    assert!(!account(json!([entry(&["admin"], "")])));
    assert!(!account(json!([
        entry(&["read"], "a/"),
        entry(&["write"], "")
    ])));
}

proptest! {
    #![proptest_config(config(0x5123, 256))]

    #[test]
    fn sizes_are_the_sums_of_the_rows(
        steps in vec((0..6_usize, 0..4_u64, 0..500_u64), 1..100),
    ) {
        let mut sizes = AccountSizes::default();
        let mut rows = BTreeMap::<usize, RowPart>::new();
        for (key, account, bytes) in steps {
            let before = rows.get(&key).copied();
            let after = (account > 0).then_some(RowPart { account: AccountId(account), bytes });
            let changed = sizes.replace(before, after);
            match after {
                Some(part) => drop(rows.insert(key, part)),
                None => drop(rows.remove(&key)),
            }
            for account in (1..4).map(AccountId) {
                let of_account = rows.values().filter(|part| part.account == account);
                let size: u64 = of_account.map(|part| part.bytes).sum();
                prop_assert_eq!(sizes.size(account), size);
                let touches = |part: Option<RowPart>| part.is_some_and(|part| part.account == account);
                if before != after {
                    prop_assert_eq!(changed.contains(&account), touches(before) || touches(after));
                }
            }
            prop_assert_eq!(sizes.is_empty(), rows.values().all(|part| part.bytes == 0));
        }
    }

    #[test]
    fn an_account_never_grows_beyond_its_part_and_may_always_shrink(
        own in 0..=2 * account_max(KEYSPACE_BYTES_MAX), others in 0..=KEYSPACE_BYTES_MAX,
        replaced in 0..1_000_000_u64, bytes in 0..1_000_000_u64,
    ) {
        let (mine, theirs) = (AccountId(1), AccountId(2));
        let sizes = AccountSizes::of([(mine, own), (theirs, others)].into_iter());
        let replaced = replaced.min(own);
        let may = sizes.has_room(mine, replaced, bytes);
        let after = own - replaced + bytes;
        if bytes <= replaced {
            prop_assert!(may);
        } else {
            prop_assert_eq!(may, fits(after, after + others, KEYSPACE_BYTES_MAX));
            prop_assert!(!may || after <= account_max(KEYSPACE_BYTES_MAX));
        }
    }

    #[test]
    fn a_part_is_stored_and_read(account in 1..u64::MAX, bytes in any::<u64>()) {
        let part = RowPart { account: AccountId(account), bytes };
        prop_assert_eq!(RowPart::of_bytes(&part.to_bytes()), Some(part));
        prop_assert_eq!(RowPart::of_bytes(&part.to_bytes()[..15]), None);
    }
}
