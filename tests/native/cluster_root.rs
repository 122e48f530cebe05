//! Law: generations of a counter only rise, whatever the clock does; a grant says truly whether its
//! datacenter is alone; and a prefix has an end that splits names exactly.

use crate::common;

use std::collections::BTreeSet;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::root::{
    DATACENTERS_MAX, Membership, Root, RootEntry, TOMBSTONE_KEPT_MS, prefix_end,
};
use tally_core::counter::id::Datacenter;
use tally_core::counter::settings::{Settings, Ttl, TtlMode};

const NOW_MS: i64 = 1_777_593_630_000;

fn datacenter(name: &str) -> Datacenter {
    Datacenter::parse(name).unwrap_or_else(Datacenter::local)
}

fn root(names: &[&str]) -> Root {
    let mut root = Root::create(None, NOW_MS);
    root.datacenters = names.iter().map(|name| datacenter(name)).collect();
    root
}

fn with_ttl(mode: TtlMode, seconds: u64) -> Root {
    let mut root = root(&["FRA"]);
    root.settings.ttl = Some(Ttl {
        seconds,
        mode,
        set_at_ms: NOW_MS,
    });
    root
}

proptest! {
    #![proptest_config(config(101, 256))]

    #[test]
    fn generations_rise_whatever_the_clock_does(
        clocks in vec(prop_oneof![0..NOW_MS, -5..5_i64, Just(i64::MIN), NOW_MS..NOW_MS + 9], 1..20),
        forgets in vec(any::<bool>(), 20),
    ) {
        let mut before: Option<RootEntry> = None;
        // Where nothing is remembered the clock alone must make generations rise: it has gone on
        // for a day by then.
        let mut latest_ms = 0;
        for (clock_ms, forgets) in clocks.into_iter().zip(forgets) {
            let remembered = before.as_ref().filter(|_| !forgets);
            let now_ms = if forgets { latest_ms + TOMBSTONE_KEPT_MS } else { clock_ms };
            latest_ms = latest_ms.max(now_ms);
            let root = Root::create(remembered, now_ms);
            if let Some(before) = &before {
                prop_assert!(root.generation > before.generation(), "{before:?} then {root:?}");
            }
            prop_assert!(root.generation >= 1, "0 stands for none");
            prop_assert!(now_ms < 1 || root.generation >= u64::try_from(now_ms).unwrap());
            prop_assert_eq!((root.created_at_ms, root.last_write_ms), (now_ms, now_ms));
            prop_assert_eq!((root.settings, root.datacenters.len()), (Settings::default(), 0));
            before = Some(RootEntry::Ended { generation: root.generation, at_ms: now_ms });
        }
    }

    #[test]
    fn a_prefix_ends_before_all_names_without_it(
        prefix in text(), rest in text(), other in text(),
    ) {
        let name = format!("{prefix}{rest}");
        for candidate in [&name, &other] {
            let is_after = prefix_end(&prefix).is_none_or(|end| candidate.as_str() < end.as_str());
            let is_between = candidate.as_str() >= prefix.as_str() && is_after;
            prop_assert_eq!(is_between, candidate.starts_with(&prefix));
        }
    }

    #[test]
    fn the_root_ends_exactly_at_its_time(
        sliding in any::<bool>(), seconds in 1..1_000_000_u64, written_ms in 0..2 * NOW_MS, offset in -2..2_i64,
    ) {
        let mode = if sliding { TtlMode::Sliding } else { TtlMode::Fixed };
        let mut root = with_ttl(mode, seconds);
        root.last_write_ms = written_ms;
        let from_ms = if sliding { NOW_MS.max(written_ms) } else { NOW_MS };
        let end_ms = from_ms + i64::try_from(seconds).unwrap() * 1_000;
        prop_assert_eq!(root.expires_at_ms(), Some(end_ms));
        prop_assert_eq!(root.is_due(end_ms + offset), offset >= 0);
        prop_assert_eq!(root.is_sliding(), sliding);
        prop_assert_eq!(RootEntry::Live(root).due_at_ms(), Some(end_ms));
    }
}

/// Few letters, with the ends of the ranges of code points among them.
fn text() -> impl Strategy<Value = String> {
    let letters = vec![
        'a',
        'b',
        '\u{7f}',
        '\u{80}',
        '\u{7ff}',
        '\u{800}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{ffff}',
        '\u{10000}',
        '\u{10ffff}',
    ];
    vec(prop::sample::select(letters), 0..4).prop_map(|letters| letters.into_iter().collect())
}

#[test]
fn prefixes_end_at_the_next_code_point() {
    let cases = [
        ("", None),
        ("a", Some("b")),
        ("page/", Some("page0")),
        ("a\u{7f}", Some("a\u{80}")),
        ("\u{d7ff}", Some("\u{e000}")),
        ("\u{ffff}", Some("\u{10000}")),
        ("a\u{10ffff}", Some("b")),
        ("a\u{10ffff}\u{10ffff}", Some("b")),
        ("\u{10ffff}", None),
    ];
    for (prefix, end) in cases {
        assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
    }
}

#[test]
fn a_datacenter_is_alone_while_no_other_counts() {
    let (fra, iad) = (datacenter("FRA"), datacenter("IAD"));
    assert!(root(&[]).grant(&fra).alone, "the first");
    assert!(root(&["FRA"]).grant(&fra).alone);
    assert!(!root(&["FRA"]).grant(&iad).alone);
    assert!(!root(&["FRA", "IAD"]).grant(&fra).alone);
    assert!(!root(&["FRA", "IAD"]).grant(&iad).alone);
}

#[test]
fn a_lone_lead_must_be_told_of_a_newcomer() {
    let (fra, iad) = (datacenter("FRA"), datacenter("IAD"));
    let nobody = Membership::New { notify: None };
    assert_eq!(root(&[]).membership(&fra), nobody, "nobody is there");
    assert_eq!(root(&["FRA"]).membership(&fra), Membership::Known);
    let notify = Some(fra);
    assert_eq!(root(&["FRA"]).membership(&iad), Membership::New { notify });
    assert_eq!(root(&["FRA", "SIN"]).membership(&iad), nobody, "all know");
}

#[test]
fn a_grant_carries_what_the_root_knows() {
    let mut root = with_ttl(TtlMode::Sliding, 9);
    root.settings.number = 3;
    root.last_write_ms = NOW_MS + 5;
    let grant = root.grant(&datacenter("FRA"));
    assert_eq!(grant.generation, root.generation);
    assert_eq!(grant.settings, root.settings);
    assert_eq!(grant.last_write_ms, NOW_MS + 5);
}

#[test]
fn without_a_time_to_live_a_root_never_ends() {
    let root = root(&["FRA"]);
    assert_eq!(root.expires_at_ms(), None);
    assert!(!root.is_due(i64::MAX) && !root.is_sliding());
    assert_eq!(RootEntry::Live(root).due_at_ms(), None);
}

#[test]
fn an_end_that_is_postponed_comes_no_earlier_and_a_fixed_one_stays() {
    let mut sliding = with_ttl(TtlMode::Sliding, 60);
    sliding.postpone_end(NOW_MS + 70_000);
    assert_eq!(sliding.expires_at_ms(), Some(NOW_MS + 70_000));
    sliding.postpone_end(NOW_MS + 65_000);
    assert_eq!(sliding.expires_at_ms(), Some(NOW_MS + 70_000));
    let mut fixed = with_ttl(TtlMode::Fixed, 60);
    fixed.postpone_end(NOW_MS + 70_000);
    assert_eq!(fixed.expires_at_ms(), Some(NOW_MS + 60_000));
}

#[test]
fn an_ended_generation_is_remembered_for_a_day_and_an_hour() {
    let at_ms = NOW_MS;
    let ended = RootEntry::Ended {
        generation: 7,
        at_ms,
    };
    assert_eq!(ended.due_at_ms(), Some(at_ms + 25 * 3_600 * 1_000));
    assert_eq!(ended.generation(), 7);
    assert_eq!(
        RootEntry::Live(root(&[])).generation(),
        root(&[]).generation
    );
}

#[test]
fn names_of_datacenters_are_letters_digits_and_hyphens() {
    assert_eq!(DATACENTERS_MAX, 1_024);
    for name in ["FRA", "fra", "EU-WEST", "0123456789ABCDEF", "A"] {
        let parsed = Datacenter::parse(name);
        let upper = name.to_ascii_uppercase();
        assert_eq!(
            parsed.as_ref().map(Datacenter::as_str),
            Some(upper.as_str())
        );
    }
    for name in [
        "",
        "0123456789ABCDEFG",
        "F A",
        "FRA/1",
        "FRÄ",
        "F_A",
        "FRA\n",
    ] {
        assert_eq!(Datacenter::parse(name), None, "{name:?}");
    }
    let distinct: BTreeSet<Datacenter> = ["fra", "FRA", "Fra"].map(datacenter).into();
    assert_eq!(distinct.len(), 1);
}
