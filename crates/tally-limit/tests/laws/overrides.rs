//! Laws of overrides: which one a key has, and what it makes of a policy.

use std::convert::Infallible;

use tally_limit::named::HOLD_SECONDS_MAX;
use tally_limit::policy::overrides::{
    Override, OverrideEffect, OverrideSet, PatternFilter, longest_prefix,
};
use tally_limit::policy::{Algorithm, LIMIT_MAX, PRECISE_LIMIT_MAX, Policy, WINDOW_SECONDS_MAX};

use crate::policy_kinds::{BEGIN_MS, Chance, KINDS, drawn, policy, precise};

/// A pattern of the naive model: its text without the star, whether it is a prefix, and when it ends.
type Pattern = (String, bool, Option<i64>);

/// What the words say: exactly this key, otherwise the longest prefix, of what has not ended.
fn naive<'a>(patterns: &'a [Pattern], key: &str, now_ms: i64) -> Option<&'a Pattern> {
    let valid = || {
        let all = patterns.iter();
        all.filter(move |(_, _, ends_ms)| ends_ms.is_none_or(|ends_ms| now_ms < ends_ms))
    };
    let exact = valid().find(|(text, is_prefix, _)| !is_prefix && text == key);
    let prefixes = valid().filter(|(text, is_prefix, _)| *is_prefix && key.starts_with(text));
    exact.or_else(|| prefixes.max_by_key(|(text, _, _)| text.len()))
}

/// A short text of few characters, so that many are prefixes of others; some have two or four bytes.
fn text(chance: &mut Chance, length_max: u64) -> String {
    let signs = ['a', 'b', '-', 'é', '🙂'];
    let length = chance.below(length_max + 1);
    (0..length)
        .map(|_| signs[chance.index(signs.len())])
        .collect()
}

fn patterns_of(chance: &mut Chance) -> Vec<Pattern> {
    let mut patterns: Vec<Pattern> = Vec::new();
    for _ in 0..chance.below(40) {
        let ends_ms = match chance.below(3) {
            0 => Some(BEGIN_MS + chance.below(20) as i64 - 10),
            _ => None,
        };
        let (text, is_prefix) = (text(chance, 6), chance.below(2) == 0);
        if !patterns
            .iter()
            .any(|(other, kind, _)| (other, *kind) == (&text, is_prefix))
        {
            patterns.push((text, is_prefix, ends_ms));
        }
    }
    patterns
}

#[test]
fn a_key_has_its_exact_override_or_the_longest_prefix_that_has_not_ended() {
    for seed in 0..2_000 {
        let mut chance = Chance::of_run(seed);
        let patterns = patterns_of(&mut chance);
        let mut set = OverrideSet::default();
        for pattern in &patterns {
            set.insert(&pattern.0, pattern.1, pattern);
        }
        for _ in 0..20 {
            let key = text(&mut chance, 8);
            let is_valid = |pattern: &&Pattern| pattern.2.is_none_or(|ends_ms| BEGIN_MS < ends_ms);
            let found = set.find(&key, is_valid);
            assert_eq!(
                found.copied(),
                naive(&patterns, &key, BEGIN_MS),
                "seed {seed}, key {key:?} of {patterns:?}"
            );
        }
    }
}

#[test]
fn a_search_for_a_prefix_asks_for_at_most_one_text_more_than_the_key_has_characters() {
    let mut asked_most = 0;
    for seed in 0..500 {
        let mut chance = Chance::of_run(seed);
        let mut texts: Vec<String> = (0..200).map(|_| text(&mut chance, 12)).collect();
        texts.sort();
        let key = text(&mut chance, 12);
        let mut asked = 0;
        let greatest = |bound: &str| {
            asked += 1;
            let below = texts.iter().rev().find(|text| text.as_str() <= bound);
            Ok::<_, Infallible>(below.map(|text| (text.clone(), ())))
        };
        longest_prefix(&key, greatest, |()| false).unwrap();
        assert!(
            asked <= key.chars().count() + 1,
            "seed {seed}: {asked} for {key:?}"
        );
        asked_most = asked_most.max(asked);
    }
    assert!(asked_most > 3, "the search went down");
}

#[test]
fn a_fault_of_the_list_is_not_the_absence_of_an_override() {
    let found = longest_prefix(
        "acme",
        |_| Err::<Option<(String, ())>, _>("away"),
        |()| true,
    );
    assert_eq!(found, Err("away"));
}

#[test]
fn a_filter_lets_every_key_with_an_override_pass_and_few_others() {
    for seed in 0..300 {
        let mut chance = Chance::of_run(seed);
        let patterns = patterns_of(&mut chance);
        let mut filter = PatternFilter::with_room(patterns.len());
        for (text, is_prefix, _) in &patterns {
            filter.insert(text, *is_prefix);
        }
        for _ in 0..40 {
            let key = text(&mut chance, 8);
            let is_known = naive(&patterns, &key, i64::MIN).is_some();
            assert!(
                !is_known || filter.may_match(&key),
                "seed {seed}, key {key:?}"
            );
        }
    }
    let mut filter = PatternFilter::with_room(100_000);
    for number in 0..100_000 {
        let is_prefix = number % 1_000 == 0;
        filter.insert(&format!("customer-{number}"), is_prefix);
    }
    // The prefix of 11 bytes, `customer-0*`, has all numbers that begin with 0.
    let others = (0..100_000).filter(|number| filter.may_match(&format!("ip:{number}")));
    let passed = others.count();
    assert!(passed < 3_000, "{passed} of 100,000 pass");
    assert!(filter.may_match("customer-99999"));
    assert!(filter.may_match("customer-99000-more"));
}

#[test]
fn an_override_makes_a_valid_policy_of_every_valid_one() {
    let amounts = [None, Some(1), Some(PRECISE_LIMIT_MAX + 1), Some(LIMIT_MAX)];
    let windows_ms = [None, Some(1_000), Some(WINDOW_SECONDS_MAX as i64 * 1_000)];
    let mut chance = Chance::of_run(1);
    for kind in 0..KINDS {
        for _ in 0..20 {
            let policy = drawn(kind, &mut chance);
            let effects = amounts.into_iter().flat_map(|limit| {
                windows_ms.into_iter().flat_map(move |window_ms| {
                    amounts.map(|burst| OverrideEffect::Limited {
                        limit,
                        window_ms,
                        burst,
                    })
                })
            });
            let others = [OverrideEffect::Unlimited, OverrideEffect::Blocked];
            for effect in effects.chain(others) {
                let overridden = Override {
                    effect,
                    ends_ms: None,
                };
                let applied = overridden.apply(&policy);
                assert_eq!(applied.check(), Ok(()), "{effect:?} of {policy:?}");
                let kept = (
                    policy.algorithm,
                    policy.scope,
                    policy.on_error,
                    policy.durability,
                );
                let now = (
                    applied.algorithm,
                    applied.scope,
                    applied.on_error,
                    applied.durability,
                );
                assert_eq!(kept, now);
            }
        }
    }
    let holds = policy(Algorithm::Concurrency, 5, 60);
    let longest = Override {
        effect: OverrideEffect::Limited {
            limit: None,
            window_ms: windows_ms[2],
            burst: None,
        },
        ends_ms: None,
    };
    let hold_ms_max = HOLD_SECONDS_MAX as i64 * 1_000;
    assert_eq!(
        longest.apply(&holds).window_ms,
        hold_ms_max,
        "no hold is longer"
    );
}

#[test]
fn what_an_override_does_not_name_is_as_in_its_policy() {
    let bucket = Policy {
        burst: 7,
        ..policy(Algorithm::TokenBucket, 5, 60)
    };
    let limited = |limit, window_ms, burst| Override {
        effect: OverrideEffect::Limited {
            limit,
            window_ms,
            burst,
        },
        ends_ms: Some(BEGIN_MS),
    };
    let of = |policy: &Policy| (policy.limit, policy.window_ms, policy.burst);
    let applied = |over: Override| of(&over.apply(&bucket));
    assert_eq!(applied(limited(Some(9), None, None)), (9, 60_000, 9));
    assert_eq!(applied(limited(None, Some(1_000), None)), (5, 1_000, 7));
    assert_eq!(applied(limited(None, None, Some(3))), (5, 60_000, 3));
    let one = limited(Some(9), None, None);
    assert!(one.is_valid(BEGIN_MS - 1));
    assert!(!one.is_valid(BEGIN_MS), "its end is no part of it");
    let unlimited = Override {
        effect: OverrideEffect::Unlimited,
        ends_ms: None,
    };
    assert_eq!(unlimited.apply(&bucket).capacity(), LIMIT_MAX);
    let kept = unlimited.apply(&precise(5, 60));
    assert!(!kept.is_precise, "a billion times of 8 bytes would be kept");
}
