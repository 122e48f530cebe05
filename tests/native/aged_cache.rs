//! A cache of values with their ages: one request reads an old value anew, and late answers replace nothing later.

use tally_core::isolate::aged_cache::AgedCache;

#[test]
fn an_answer_that_comes_late_replaces_no_later_value_and_another_may_read() {
    let mut cache: AgedCache<&str, u32, 4> = AgedCache::default();
    cache.put("board", 1, 0, 0);
    let first = cache.find("board", 1_500, 1_000);
    let second = cache.find("board", 1_500, 1_000);
    let must_read = [first, second].map(|known| known.map(|known| known.must_read));
    assert_eq!(must_read, [Some(true), Some(false)], "one of them reads");
    cache.put("board", 3, 3_000, 3_100);
    cache.put("board", 2, 2_000, 3_200);
    let known = cache.find("board", 4_500, 1_000).expect("it is cached");
    assert_eq!(
        (known.value, known.age_ms, known.must_read),
        (3, 1_500, true)
    );
}

type Shares = AgedCache<&'static str, u32, 4>;

#[test]
fn what_was_read_before_the_clock_stepped_back_looks_old_and_is_replaced() {
    let mut cache = Shares::default();
    cache.put("share", 1, 100_000, 100_000);
    let found = cache.find("share", 40_000, 30_000).expect("it is cached");
    assert_eq!((found.age_ms, found.must_read), (60_000, true));
    cache.put("share", 2, 40_000, 40_100);
    let found = cache.find("share", 40_200, 30_000).expect("it is cached");
    assert_eq!((found.value, found.must_read), (2, false));
}

#[test]
fn a_read_that_was_in_flight_during_an_own_change_does_not_hide_it() {
    let changes: [fn(&mut Shares); 3] = [
        |cache| cache.forget("share", 1_010),
        |cache| cache.forget_where(|value| *value == 1, 1_010),
        |cache| cache.age("share", 10_000, 1_010),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut cache = Shares::default();
        cache.put("share", 1, 0, 0);
        change(&mut cache);
        cache.put("share", 1, 1_000, 1_020);
        let found = cache.find("share", 1_030, 1_000);
        let is_fresh = found.is_some_and(|found| found.age_ms <= 1_000);
        assert!(!is_fresh, "change {number}");
        cache.put("share", 2, 1_010, 1_040);
        let found = cache.find("share", 1_050, 1_000).expect("it is cached");
        assert_eq!(
            (found.value, found.must_read),
            (2, false),
            "change {number}"
        );
    }
}

#[test]
fn a_read_that_fails_finds_a_value_by_its_age_at_that_time() {
    let mut cache = Shares::default();
    cache.put("share", 1, 0, 0);
    let ages_ms = [59_000, 60_000, 60_001, -60_000, -60_001];
    let found = ages_ms.map(|now_ms| cache.within("share", now_ms, 60_000));
    assert_eq!(found, [Some(1), Some(1), None, Some(1), None]);
}
