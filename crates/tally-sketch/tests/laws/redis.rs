//! Redis and the sketch read each other's strings: compared with a real `redis-server`, byte for byte
//! and to the digit. Where the program is not installed these tests say so and pass.

use crate::redis_server::{Redis, Reply};
use std::collections::BTreeMap;
use tally_sketch::{Hll, Sketch, Token, redis_token};

const REGISTERS: u16 = 16_384;

/// Elements of several lengths, "v0", "v1", … and longer, of a set that its name tells apart.
fn elements(name: &str, count: u32) -> Vec<Vec<u8>> {
    let element = |number: u32| {
        let tail = "-visitor"
            .get(..usize::try_from(number % 9).unwrap())
            .unwrap();
        format!("{name}{number}{tail}").into_bytes()
    };
    (0..count).map(element).collect()
}

fn hll_of(elements: &[Vec<u8>]) -> Hll {
    let mut hll = Hll::new();
    for element in elements {
        hll.insert(redis_token(element));
    }
    hll
}

fn add(redis: &mut Redis, key: &str, elements: &[Vec<u8>]) {
    redis.call(&[b"DEL", key.as_bytes()]);
    // The first makes the key also where there are no elements.
    redis.call(&[b"PFADD", key.as_bytes()]);
    for chunk in elements.chunks(1_000) {
        let mut command: Vec<&[u8]> = vec![b"PFADD", key.as_bytes()];
        command.extend(chunk.iter().map(Vec::as_slice));
        redis.call(&command);
    }
}

fn get(redis: &mut Redis, key: &str) -> Vec<u8> {
    match redis.call(&[b"GET", key.as_bytes()]) {
        Reply::Bytes(bytes) => bytes,
        other => panic!("GET answers {other:?}"),
    }
}

fn count(redis: &mut Redis, key: &str) -> u64 {
    match redis.call(&[b"PFCOUNT", key.as_bytes()]) {
        Reply::Number(count) => count,
        other => panic!("PFCOUNT answers {other:?}"),
    }
}

fn set(redis: &mut Redis, key: &str, bytes: &[u8]) {
    redis.call(&[b"SET", key.as_bytes(), bytes]);
}

/// What `PFMERGE` into a new key leaves.
fn merged_by(redis: &mut Redis, keys: &[&str]) -> Vec<u8> {
    redis.call(&[b"DEL", b"merged"]);
    let mut command: Vec<&[u8]> = vec![b"PFMERGE", b"merged"];
    command.extend(keys.iter().map(|key| key.as_bytes()));
    assert_eq!(redis.call(&command), Reply::Done);
    get(redis, "merged")
}

/// `assert_eq` would print 12,304 bytes.
fn assert_same(mine: &[u8], theirs: &[u8], what: &str) {
    let first = mine.iter().zip(theirs).position(|(a, b)| a != b);
    assert!(
        mine == theirs,
        "{what}: {} bytes here, {} in Redis, first other at {first:?}",
        mine.len(),
        theirs.len()
    );
}

#[test]
fn the_same_elements_leave_the_same_bytes_and_the_same_count() {
    let Some(mut redis) = Redis::start("same") else {
        return;
    };
    for size in [
        0, 1, 2, 10, 99, 500, 1_000, 1_300, 1_450, 1_600, 2_000, 5_000, 40_000, 100_000,
    ] {
        let elements = elements("v", size);
        let hll = hll_of(&elements);
        add(&mut redis, "theirs", &elements);
        let theirs = get(&mut redis, "theirs");
        assert_same(&hll.to_bytes(), &theirs, &format!("{size} elements"));
        assert_eq!(Hll::from_bytes(&theirs).as_ref(), Ok(&hll));
        let counted = count(&mut redis, "theirs");
        assert_eq!(hll.estimate(), counted, "{size} elements");
        // Now the string holds a count that is not stale; it is not looked at.
        let counted = get(&mut redis, "theirs");
        assert_eq!(Hll::from_bytes(&counted).as_ref(), Ok(&hll));
        // Gathered as tokens first, as cells do.
        let mut sketch = Sketch::new();
        sketch.insert_many(
            &elements
                .iter()
                .map(|element| redis_token(element))
                .collect::<Vec<_>>(),
        );
        assert_same(&Hll::from(&sketch).to_bytes(), &theirs, "gathered");
    }
}

#[test]
fn redis_counts_merges_and_goes_on_with_what_is_written_here() {
    let Some(mut redis) = Redis::start("goes-on") else {
        return;
    };
    for (mine, theirs) in [
        (0, 700),
        (300, 0),
        (400, 900),
        (1_200, 1_200),
        (20, 9_000),
        (9_000, 20),
        (50_000, 80_000),
    ] {
        let (ours, others) = (elements("a", mine), elements("b", theirs));
        let mut hll = hll_of(&ours);
        set(&mut redis, "ours", &hll.to_bytes());
        assert_eq!(count(&mut redis, "ours"), hll.estimate());
        add(&mut redis, "others", &others);
        let bytes = get(&mut redis, "others");
        hll.merge(&Hll::from_bytes(&bytes).unwrap());
        let what = format!("{mine} and {theirs}");
        let merged = merged_by(&mut redis, &["ours", "others"]);
        assert_same(&hll.to_bytes(), &merged, &what);
        assert_eq!(count(&mut redis, "merged"), hll.estimate(), "{what}");
        // A repeat is none there either, and what is new is.
        let again = [
            &b"PFADD"[..],
            b"ours",
            ours.first().map_or(b"a new one", Vec::as_slice),
        ];
        assert_eq!(
            redis.call(&again),
            Reply::Number(u64::from(ours.is_empty()))
        );
    }
}

/// Ranks of registers as random as `seed`, of about so many parts of 1,024 seen: alone or in runs of up
/// to nine equal ones, of few ranks or of all that are sparse, with gaps of all lengths.
fn ranks(seed: u64, density: u64) -> BTreeMap<u16, u8> {
    let mut state = seed;
    // Steele, Lea and Flood, SplitMix (2014).
    let mut draw = |below: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u16::try_from((mixed ^ (mixed >> 31)) % below).unwrap()
    };
    let (longest, highest) = (
        [1, 9, 9, 2][usize::from(draw(4))],
        [1, 2, 6, 32][usize::from(draw(4))],
    );
    let mut drawn = BTreeMap::new();
    let mut register = 0;
    while register < REGISTERS {
        let end = REGISTERS.min(register + 1 + draw(longest));
        if u64::from(draw(1_024)) < density {
            let rank = u8::try_from(1 + draw(highest)).unwrap();
            drawn.extend((register..end).map(|at| (at, rank)));
        }
        register = end;
    }
    drawn
}

fn hll_of_ranks(ranks: &BTreeMap<u16, u8>) -> Hll {
    let mut hll = Hll::new();
    for (register, rank) in ranks {
        let rest = if *rank > 50 { 0 } else { 1 << (50 - rank) };
        hll.insert(Token::from_hash((u64::from(*register) << 50) | rest));
    }
    hll
}

/// The string of these ranks in single opcodes: any length, as of a Redis with another limit.
fn single_opcodes(ranks: &BTreeMap<u16, u8>) -> Vec<u8> {
    let mut bytes = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80".to_vec();
    bytes.extend((0..REGISTERS).map(|register| match ranks.get(&register) {
        Some(rank) => 0x80 | ((rank - 1) << 2),
        None => 0,
    }));
    bytes
}

#[test]
fn any_registers_have_the_string_that_a_merge_in_redis_leaves() {
    let Some(mut redis) = Redis::start("any") else {
        return;
    };
    for seed in 0..120_u64 {
        let density = [2, 20, 60, 200, 900][usize::try_from(seed % 5).unwrap()];
        compare_merged(&mut redis, &ranks(seed, density), &format!("seed {seed}"));
    }
}

#[test]
fn a_string_turns_dense_where_that_of_redis_does() {
    let Some(mut redis) = Redis::start("limit") else {
        return;
    };
    let (mut longest, mut dense) = (0, 0);
    for seed in 0..24_u64 {
        let all: Vec<(u16, u8)> = ranks(seed, 500).into_iter().collect();
        let first = |count: usize| all.iter().copied().take(count).collect();
        // How many of the registers fit into a sparse string.
        let counts: Vec<usize> = (0..all.len()).collect();
        let fit =
            counts.partition_point(|count| hll_of_ranks(&first(*count)).to_bytes().len() <= 3_000);
        for count in fit - 3..fit + 3 {
            let what = format!("seed {seed}, {count} registers");
            match compare_merged(&mut redis, &first(count), &what) {
                12_304 => dense += 1,
                length => longest = longest.max(length),
            }
        }
    }
    assert_eq!(longest, 3_000);
    assert!(dense > 24);
}

/// Compares what is written here with what Redis makes of the same registers; returns its length.
fn compare_merged(redis: &mut Redis, ranks: &BTreeMap<u16, u8>, what: &str) -> usize {
    let hll = hll_of_ranks(ranks);
    let single = single_opcodes(ranks);
    assert_eq!(Hll::from_bytes(&single).as_ref(), Ok(&hll), "{what}");
    set(redis, "single", &single);
    let theirs = merged_by(redis, &["single"]);
    assert_same(&hll.to_bytes(), &theirs, what);
    assert_eq!(count(redis, "single"), hll.estimate(), "{what}");
    theirs.len()
}

#[test]
fn high_ranks_and_dense_strings_stay_dense_as_in_redis() {
    let Some(mut redis) = Redis::start("dense") else {
        return;
    };
    for rank in [32, 33, 51] {
        let hll = hll_of_ranks(&BTreeMap::from([(77, rank), (16_383, 3)]));
        let bytes = hll.to_bytes();
        assert_eq!(bytes.len() == 12_304, rank > 32);
        set(&mut redis, "high", &bytes);
        assert_eq!(count(&mut redis, "high"), hll.estimate());
        let merged = merged_by(&mut redis, &["high"]);
        assert_same(&bytes, &merged, &format!("rank {rank}"));
    }
    // Dense once, dense for good, though it has two registers.
    redis.call(&[b"CONFIG", b"SET", b"hll-sparse-max-bytes", b"0"]);
    add(&mut redis, "few", &elements("v", 2));
    redis.call(&[b"CONFIG", b"SET", b"hll-sparse-max-bytes", b"3000"]);
    let few = Hll::from_bytes(&get(&mut redis, "few")).unwrap();
    assert_same(&few.to_bytes(), &get(&mut redis, "few"), "few but dense");
    let mut hll = hll_of(&elements("w", 5));
    set(&mut redis, "sparse", &hll.to_bytes());
    hll.merge(&few);
    let merged = merged_by(&mut redis, &["sparse", "few"]);
    assert_same(&hll.to_bytes(), &merged, "sparse and dense");
}

#[test]
fn strings_that_redis_refuses_are_refused() {
    let Some(mut redis) = Redis::start("refused") else {
        return;
    };
    let sparse = hll_of(&elements("v", 3)).to_bytes();
    let dense = hll_of(&elements("v", 9_000)).to_bytes();
    let with = |at: usize, byte: u8| {
        let mut bytes = sparse.clone();
        bytes[at] = byte;
        bytes
    };
    for bytes in [
        b"".to_vec(),
        b"HYLL".to_vec(),
        with(0, b'h'),
        with(4, 2),
        dense[..dense.len() - 1].to_vec(),
        [&dense[..], &[0]].concat(),
        sparse[..sparse.len() - 2].to_vec(),
        [&sparse[..], &[0]].concat(),
        [&sparse[..], &[0x80]].concat(),
    ] {
        set(&mut redis, "broken", &bytes);
        let answer = redis.call(&[b"PFCOUNT", b"broken"]);
        assert!(matches!(answer, Reply::Error(_)), "Redis: {answer:?}");
        assert!(Hll::from_bytes(&bytes).is_err(), "{} bytes", bytes.len());
    }
}
