//! A cache of values with their ages: one request reads an old value anew, and late answers replace nothing later.

use tally_wire::isolate::aged_cache::AgedCache;

#[test]
fn an_answer_that_comes_late_replaces_no_later_value_and_another_may_read() {
    let mut cache: AgedCache<&str, u32, 4> = AgedCache::default();
    cache.put("board", 1, 0);
    let first = cache.find("board", 1_500, 1_000);
    let second = cache.find("board", 1_500, 1_000);
    let must_read = [first, second].map(|known| known.map(|known| known.must_read));
    assert_eq!(must_read, [Some(true), Some(false)], "one of them reads");
    cache.put("board", 3, 3_000);
    cache.put("board", 2, 2_000);
    let known = cache.find("board", 4_500, 1_000).expect("it is cached");
    assert_eq!(
        (known.value, known.age_ms, known.must_read),
        (3, 1_500, true)
    );
}
