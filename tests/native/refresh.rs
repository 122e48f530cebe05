//! Laws of keys that may change: how old one may be that is used, how often the directory is asked, and that an answer
//! never replaces a later one.

use crate::common;

use common::config;
use proptest::prelude::*;
use tally_wire::isolate::refresh::{PAUSE_MS, Refresh, RefreshAction};
use tally_wire::shell_limits::KEY_MS_MAX;

/// 1 May 2026.
const BEGIN_MS: i64 = 1_777_593_600_000;

#[test]
fn nothing_known_must_be_asked_for_however_often_that_fails() {
    let mut refresh = Refresh::default();
    for passed_ms in 0..10 {
        assert_eq!(refresh.next(BEGIN_MS + passed_ms), RefreshAction::Need);
        refresh.begin(BEGIN_MS + passed_ms);
        refresh.fail(BEGIN_MS + passed_ms);
    }
    assert!(refresh.is_paused(BEGIN_MS + 9 + PAUSE_MS));
    assert!(!refresh.is_paused(BEGIN_MS + 9 + PAUSE_MS + 1));
}

#[test]
fn an_answer_that_was_overtaken_is_no_news() {
    let mut refresh = Refresh::default();
    assert!(refresh.accept(BEGIN_MS));
    assert!(refresh.accept(BEGIN_MS + 2));
    assert!(!refresh.accept(BEGIN_MS + 1));
    // It does not make what is known older either.
    assert_eq!(
        refresh.next(BEGIN_MS + 2 + KEY_MS_MAX),
        RefreshAction::UseAndRefresh
    );
    assert_eq!(
        refresh.next(BEGIN_MS + 3 + KEY_MS_MAX),
        RefreshAction::Refresh
    );
}

#[test]
fn nobody_waits_for_a_directory_that_has_not_answered() {
    let mut refresh = Refresh::default();
    assert!(refresh.accept(BEGIN_MS));
    // Half its time is over: requests go on with what is known, and one of them asks.
    let half_ms = BEGIN_MS + KEY_MS_MAX / 2;
    assert_eq!(refresh.next(half_ms - 1), RefreshAction::Use);
    assert_eq!(refresh.next(half_ms), RefreshAction::UseAndRefresh);
    refresh.begin(half_ms);
    assert_eq!(refresh.next(half_ms), RefreshAction::Use);
    refresh.fail(half_ms + 1_000);
    let old_ms = BEGIN_MS + 2 * KEY_MS_MAX;
    assert_eq!(refresh.next(old_ms), RefreshAction::UseAndRefresh);
    // An answer ends that.
    assert!(refresh.accept(old_ms));
    let old_ms = old_ms + KEY_MS_MAX + 1;
    assert_eq!(refresh.next(old_ms), RefreshAction::Refresh);
}

proptest! {
    #![proptest_config(config(7, 1_000))]

    #[test]
    fn while_it_answers_nothing_older_is_used_than_is_named(steps in prop::collection::vec(0..200_000i64, 1..60)) {
        let mut refresh = Refresh::default();
        let (mut now_ms, mut learned_ms) = (BEGIN_MS, i64::MIN);
        for step_ms in steps {
            now_ms += step_ms;
            let action = refresh.next(now_ms);
            if action == RefreshAction::UseAndRefresh {
                // The answer comes too late for this request.
                prop_assert!(now_ms - learned_ms <= KEY_MS_MAX);
            }
            if action != RefreshAction::Use {
                refresh.begin(now_ms);
                prop_assert!(refresh.accept(now_ms));
                learned_ms = now_ms;
            }
            prop_assert!(now_ms - learned_ms <= KEY_MS_MAX);
        }
    }

    #[test]
    fn while_it_does_not_it_is_asked_seldom_and_what_is_known_is_used(
        steps in prop::collection::vec(0..2_000i64, 1..200),
    ) {
        let mut refresh = Refresh::default();
        prop_assert!(refresh.accept(BEGIN_MS));
        let (mut now_ms, mut request_ms) = (BEGIN_MS + KEY_MS_MAX, None);
        for step_ms in steps {
            now_ms += step_ms;
            match refresh.next(now_ms) {
                RefreshAction::Use => {}
                RefreshAction::Refresh | RefreshAction::UseAndRefresh => {
                    prop_assert!(request_ms.is_none_or(|request_ms| now_ms - request_ms > PAUSE_MS));
                    request_ms = Some(now_ms);
                    refresh.begin(now_ms);
                    refresh.fail(now_ms);
                }
                RefreshAction::Need => prop_assert!(false, "something is known"),
            }
        }
    }
}
