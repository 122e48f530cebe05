//! Laws of the settings: one table says what each may be, and the documents say the same.

use std::collections::HashMap;

use tally_wire::problem::Code;
use tally_wire::settings::{SETTINGS, check, check_all, number};

#[test]
fn a_setting_out_of_range_is_refused_by_name_with_what_it_may_be() {
    for (name, text, reason) in [
        (
            "TALLY_LIMITERS",
            "0",
            "a whole number from 1 to 4096, not `0`",
        ),
        ("TALLY_LIMITERS", "4097", "from 1 to 4096"),
        ("TALLY_LIMITERS", "+4", "not `+4`"),
        (
            "TALLY_LIMITERS",
            "99999999999999999999999",
            "from 1 to 4096",
        ),
        (
            "TALLY_IDEMPOTENCY_SECONDS",
            "5",
            "from 60 to 604800, not `5`",
        ),
        ("TALLY_SECONDS_KEPT", "899", "from 900 to 86400, not `899`"),
        ("TALLY_SECONDS_KEPT", "86401", "from 900 to 86400"),
        ("TALLY_SUBREQUESTS", "abc", "not `abc`"),
        ("TALLY_DIRECTORY_PARTITIONS", "0", "from 1 to 4096, not `0`"),
        ("TALLY_DIRECTORY_PARTITIONS", "4097", "from 1 to 4096"),
        ("TALLY_DIRECTORY_PARTITIONS", "many", "not `many`"),
        ("TALLY_OPEN_OBJECTS_MAX", "-1", "not `-1`"),
        ("TALLY_MERGE_AFTER_MS", "1.5", "not `1.5`"),
        (
            "TALLY_DATACENTERS",
            "Region",
            "`colos`, `region`, `one`, not `Region`",
        ),
        ("TALLY_ACCESS", "opne", "`open`, `closed`"),
        ("TALLY_UNIQUES_ROUNDING", "4", "`off`, `1`, `2`, `3`"),
        (
            "TALLY_CLIENT_ADDRESS_HEADER",
            "X Forwarded",
            "the name of a header",
        ),
        ("TALLY_HASH_KEY", "zz", "must be 32 hexadecimal digits:"),
    ] {
        let refused = check(name, text).expect_err(name);
        assert_eq!(refused.code(), Code::NotConfigured);
        let detail = refused.detail();
        assert!(detail.starts_with(&format!("{name} must be ")), "{detail}");
        assert!(detail.contains(reason), "{detail}");
        assert!(
            detail.ends_with(": correct it, or leave it out"),
            "{detail}"
        );
        assert_eq!(number(name, text), None, "it counts as not set");
    }
    let secret = "00112233445566778899aabbccddeeffS3cr3t";
    let refused = check("TALLY_HASH_KEY", secret).expect_err("too long");
    assert!(!refused.detail().contains("S3cr3t") && !refused.detail().contains("0011"));
    let long = "x".repeat(1_000);
    let refused = check("TALLY_ACCESS", &long).expect_err("no word");
    assert!(refused.detail().len() < 200, "{}", refused.detail());
}

#[test]
fn what_is_set_well_or_not_at_all_is_taken() {
    let set = HashMap::from([
        ("TALLY_LIMITERS", "4096"),
        ("TALLY_HASH_KEY", "00112233445566778899aabbccddEEFF"),
        ("TALLY_CLIENT_ADDRESS_HEADER", "X-Forwarded-For"),
        ("TALLY_ELSE", "anything"),
    ]);
    assert_eq!(
        check_all(|name| set.get(name).map(|&text| text.to_owned())),
        Ok(())
    );
    assert_eq!(number("TALLY_LIMITERS", "4096"), Some(4_096));
    let wrong = check_all(|name| (name == "TALLY_MERGE_AFTER_MS").then(|| "soon".to_owned()));
    assert!(
        wrong
            .expect_err("a word")
            .detail()
            .contains("TALLY_MERGE_AFTER_MS")
    );
}

#[test]
fn the_documents_say_of_each_setting_what_it_may_be() {
    let page = include_str!("../../docs/operate/variables.md");
    for (name, takes) in SETTINGS {
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_default();
        let range = row.split(" | ").nth(2).unwrap_or_default();
        assert_eq!(
            range.replace(',', ""),
            takes.to_string().replace(',', ""),
            "{row}"
        );
    }
}
