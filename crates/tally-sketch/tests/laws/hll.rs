//! Redis's HyperLogLog without Redis: golden values, the laws of merging, and a parser that no bytes
//! can hurt. What a real Redis makes of it is in `redis.rs`.

use proptest::collection::vec;
use proptest::prelude::*;
use tally_sketch::{Hll, Sketch, Token, redis_hash, redis_token};
use tally_testing::config;

const REGISTERS: usize = 16_384;
const DENSE_BYTES: usize = 12_304;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hll_of(elements: std::ops::Range<u32>) -> Hll {
    let mut hll = Hll::new();
    for element in elements {
        hll.insert(redis_token(element.to_string().as_bytes()));
    }
    hll
}

fn merged(left: &Hll, right: &Hll) -> Hll {
    let mut both = left.clone();
    both.merge(right);
    both
}

fn refusal(bytes: &[u8]) -> String {
    match Hll::from_bytes(bytes) {
        Ok(hll) => format!("accepted as {hll:?}"),
        Err(fault) => fault.to_string(),
    }
}

/// A sparse string of these opcodes.
fn sparse(opcodes: &[u8]) -> Vec<u8> {
    [&b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80"[..], opcodes].concat()
}

/// The register and the rank of an element, by counting bits one at a time.
fn slow_register_and_rank(element: &[u8]) -> (u16, u8) {
    let hash = redis_hash(element);
    let mut rank = 1;
    while rank <= 50 && hash >> (13 + rank) & 1 == 0 {
        rank += 1;
    }
    (
        u16::try_from(hash % 16_384).unwrap(),
        u8::try_from(rank).unwrap(),
    )
}

#[test]
fn the_hash_is_that_of_redis_for_every_length_of_the_last_word() {
    // Found by Redis 7.0.15: the register and the rank of each element, alone in a new key.
    for (element, register, rank) in [
        ("", 5_938, 2),
        ("a", 12_711, 2),
        ("ab", 719, 1),
        ("abc", 9_474, 1),
        ("abcd", 11_070, 8),
        ("abcde", 3_726, 4),
        ("abcdef", 13_647, 2),
        ("abcdefg", 5_634, 2),
        ("abcdefgh", 1_383, 1),
        ("abcdefghi", 6_903, 1),
        ("abcdefghijklmnop", 9_328, 1),
    ] {
        let token = redis_token(element.as_bytes());
        assert_eq!(
            (element, token.register(), token.rank()),
            (element, register, rank)
        );
    }
}

#[test]
fn strings_never_change() {
    assert_eq!(
        hex(&Hll::new().to_bytes()),
        "48594c4c0100000000000000000000807fff"
    );
    let mut one = Hll::new();
    assert!(one.insert(redis_token(b"a")));
    assert!(!one.insert(redis_token(b"a")));
    assert_eq!(
        hex(&one.to_bytes()),
        "48594c4c01000000000000000000008071a6844e57"
    );
    assert_eq!(one.estimate(), 1);
    assert_eq!(Hll::new().estimate(), 0);
    let many = hll_of(0..100_000);
    assert_eq!(many.estimate(), 99_565);
    assert_eq!(many.to_bytes().len(), DENSE_BYTES);
    assert_eq!(
        hex(&many.to_bytes()[..16]),
        "48594c4c000000000000000000000080"
    );
}

#[test]
fn bytes_that_are_no_string_are_refused_with_the_reason() {
    let dense = hll_of(0..9_000).to_bytes();
    let with = |mut bytes: Vec<u8>, at: usize, byte: u8| {
        bytes[at] = byte;
        bytes
    };
    let empty = sparse(&[0x7f, 0xff]);
    for (bytes, reason) in [
        (vec![], "the string does not begin with HYLL"),
        (b"HYL".to_vec(), "the string does not begin with HYLL"),
        (
            with(empty.clone(), 3, b'l'),
            "the string does not begin with HYLL",
        ),
        (
            empty[..15].to_vec(),
            "the string ends after 15 bytes, within its header of 16",
        ),
        (
            with(empty.clone(), 4, 2),
            "encoding 2 is unknown; 0 is dense, 1 sparse",
        ),
        (
            with(empty.clone(), 4, 0),
            "a dense string has 12304 bytes, this one 18",
        ),
        (
            dense[..DENSE_BYTES - 1].to_vec(),
            "a dense string has 12304 bytes, this one 12303",
        ),
        (
            [&dense[..], &[0]].concat(),
            "a dense string has 12304 bytes, this one 12305",
        ),
        (with(dense.clone(), 16, 52), "a register is above 51"),
        (
            with(dense.clone(), DENSE_BYTES - 1, 0xff),
            "a register is above 51",
        ),
        (sparse(&[]), "the opcodes cover 0 of 16384 registers"),
        (
            sparse(&[0x7f, 0xfe]),
            "the opcodes cover 16383 of 16384 registers",
        ),
        (
            sparse(&[0x7f, 0xfe, 0x81]),
            "the opcodes cover more than 16384 registers",
        ),
        (
            sparse(&[0x7f, 0xff, 0x00]),
            "the opcodes cover more than 16384 registers",
        ),
        (sparse(&[0x80, 0x7f]), "the string ends within an opcode"),
    ] {
        assert_eq!(refusal(&bytes), reason);
    }
    assert!(Hll::from_bytes(&with(dense, 16, 51)).is_ok());
    // Redis looks neither at the reserved bytes nor, here, anyone at its count.
    let mut counted = empty;
    counted[5..16].copy_from_slice(&[7; 11]);
    assert_eq!(Hll::from_bytes(&counted).as_ref(), Ok(&Hll::new()));
    assert_eq!(Hll::from_bytes(&counted).map(|hll| hll.estimate()), Ok(0));
}

#[test]
fn a_dense_string_of_nothing_is_the_empty_one() {
    let mut bytes = vec![0; DENSE_BYTES];
    bytes[..4].copy_from_slice(b"HYLL");
    let hll = Hll::from_bytes(&bytes).unwrap();
    assert!(hll.is_empty());
    assert_eq!(Sketch::from(&hll), Sketch::new());
    assert_eq!(hll.to_bytes().len(), DENSE_BYTES);
}

#[test]
fn a_sketch_of_tokens_and_one_of_strings_agree() {
    for (here, there) in [(0, 0), (5, 0), (0, 70), (400, 900), (9_000, 20_000)] {
        let mut sketch = Sketch::new();
        for element in 0..here {
            sketch.insert(redis_token(format!("{element}").as_bytes()));
        }
        let other = hll_of(here / 2..there);
        sketch.merge(&Sketch::from(&other));
        let whole = merged(&hll_of(0..here), &other);
        assert_eq!(Hll::from(&sketch), whole);
        assert_eq!(Hll::from(&sketch).to_bytes(), whole.to_bytes());
    }
}

/// Strings as Redis may write them: opcodes in any cut, of any values, that cover all registers.
fn opcodes() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        3 => (0x80..=0xff_u8).prop_map(|value| vec![value]),
        2 => (0..0x40_u8).prop_map(|zeros| vec![zeros]),
        2 => (0x40..0x44_u8, any::<u8>()).prop_map(|(high, low)| vec![high, low]),
    ];
    vec(opcode, 0..600).prop_map(|opcodes| {
        let (mut bytes, mut covered) = (Vec::new(), 0);
        for opcode in opcodes {
            let length = covers(&opcode);
            if covered + length <= REGISTERS {
                covered += length;
                bytes.extend(opcode);
            }
        }
        if covered < REGISTERS {
            let [high, low] = u16::try_from(REGISTERS - covered - 1)
                .unwrap()
                .to_be_bytes();
            bytes.extend([0x40 | high, low]);
        }
        sparse(&bytes)
    })
}

fn covers(opcode: &[u8]) -> usize {
    match opcode {
        [first] if *first >= 0x80 => usize::from(first % 4) + 1,
        [first] => usize::from(*first) + 1,
        [first, second] => usize::from(*first - 0x40) * 256 + usize::from(*second) + 1,
        _ => 0,
    }
}

/// The registers of a sparse string, one after the other.
fn slow_registers(string: &[u8]) -> Vec<u8> {
    let mut registers = Vec::new();
    let mut bytes = string[16..].iter();
    while let Some(first) = bytes.next() {
        let opcode: Vec<u8> = if (0x40..0x80).contains(first) {
            vec![*first, *bytes.next().unwrap()]
        } else {
            vec![*first]
        };
        let rank = if *first >= 0x80 {
            (first - 0x80) / 4 + 1
        } else {
            0
        };
        registers.extend(std::iter::repeat_n(rank, covers(&opcode)));
    }
    registers
}

fn string() -> impl Strategy<Value = Vec<u8>> {
    let dense = (0..6_000_u64, 1..=51_u32).prop_map(|(from, highest)| {
        let mut hll = Hll::new();
        for register in from..from + 3_000 {
            let rank = 1 + (register * register % u64::from(highest));
            let rest = if rank > 50 { 0 } else { 1 << (50 - rank) };
            hll.insert(Token::from_hash((register << 50) | rest));
        }
        hll.to_bytes()
    });
    prop_oneof![6 => opcodes(), 1 => dense]
}

#[derive(Clone, Debug)]
enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Cut(prop::sample::Index),
    Twice,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        2 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        2 => any::<prop::sample::Index>().prop_map(Change::Remove),
        1 => any::<prop::sample::Index>().prop_map(Change::Cut),
        1 => Just(Change::Twice),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        match change {
            Change::Set(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Change::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
            Change::Remove(at) => {
                bytes.remove(at.index(bytes.len()));
            }
            Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Change::Twice => bytes.extend_from_within(16.min(bytes.len())..),
        }
    }
    bytes
}

/// Whatever parses is sound: it has the same registers as its own string, counts, merges and grows.
fn is_sound_or_refused(bytes: &[u8]) -> Result<bool, TestCaseError> {
    let Ok(hll) = Hll::from_bytes(bytes) else {
        return Ok(false);
    };
    let written = hll.to_bytes();
    prop_assert!(written.len() == DENSE_BYTES || (18..=3_000).contains(&written.len()));
    let again =
        Hll::from_bytes(&written).map_err(|fault| TestCaseError::fail(fault.to_string()))?;
    prop_assert_eq!(&again, &hll);
    prop_assert_eq!(again.estimate(), hll.estimate());
    prop_assert!(
        again.to_bytes() == written,
        "the string of a string is itself"
    );
    prop_assert!(
        !hll.clone().merge(&again),
        "a merge with itself adds nothing"
    );
    let mut grown = hll.clone();
    let grows = grown.insert(redis_token(b"one more"));
    prop_assert_eq!(grows, grown != hll);
    prop_assert_eq!(&Hll::from(&Sketch::from(&hll)), &hll);
    Ok(true)
}

proptest! {
    #![proptest_config(config(71, 2_000))]

    #[test]
    fn random_bytes_never_hurt(
        header in prop_oneof![
            1 => vec(any::<u8>(), 0..20),
            4 => Just(sparse(&[])),
        ],
        body in vec(any::<u8>(), 0..300),
    ) {
        is_sound_or_refused(&[header, body].concat())?;
    }

    #[test]
    fn places_are_those_counted_bit_by_bit(element in vec(any::<u8>(), 0..40)) {
        let token = redis_token(&element);
        prop_assert_eq!((token.register(), token.rank()), slow_register_and_rank(&element));
    }
}

proptest! {
    #![proptest_config(config(72, 400))]

    #[test]
    fn strings_in_any_cut_are_read(bytes in opcodes()) {
        let hll = Hll::from_bytes(&bytes);
        prop_assert!(hll.is_ok() && is_sound_or_refused(&bytes)?);
        let mut single = sparse(&[]);
        for rank in slow_registers(&bytes) {
            single.push(if rank == 0 { 0 } else { 0x80 | ((rank - 1) << 2) });
        }
        prop_assert_eq!(Hll::from_bytes(&single), hll);
    }

    #[test]
    fn changed_strings_never_hurt(bytes in string(), changes in vec(change(), 0..6)) {
        is_sound_or_refused(&changed(bytes, &changes))?;
    }
}

proptest! {
    #![proptest_config(config(73, 60))]

    #[test]
    fn merging_is_a_join(a in string(), b in string(), c in string()) {
        let read = |bytes: &[u8]| Hll::from_bytes(bytes).map_err(|fault| TestCaseError::fail(fault.to_string()));
        let (a, b, c) = (read(&a)?, read(&b)?, read(&c)?);
        prop_assert!(merged(&a, &b).to_bytes() == merged(&b, &a).to_bytes());
        prop_assert!(merged(&merged(&a, &b), &c).to_bytes() == merged(&a, &merged(&b, &c)).to_bytes());
        prop_assert!(merged(&a, &a).to_bytes() == a.to_bytes());
        prop_assert!(merged(&Hll::new(), &a).to_bytes() == a.to_bytes());
    }
}
