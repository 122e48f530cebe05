//! A fuzz target over the parser of Redis's strings: valid ones, damaged at random, against a reader that takes its
//! time.
//!
//! Law: the parser takes exactly what the slow reader takes, with the same registers, and writes them back the same;
//! nothing makes it panic. A case is a seed, so a failure names the case that lives again. Bounded by [`CASES`],
//! about 2 s; `FUZZ_CASES=1000000 FUZZ_FROM=7 cargo test --release -p tally-sketch --test laws hll_fuzz` goes on
//! elsewhere.

use tally_sketch::{Hll, Sketch, Token};
use tally_testing::chance::Chance;

/// How many damaged strings are tried where nobody says more.
const CASES: u64 = 3_000;

/// The most damages of one string.
const DAMAGES_MAX: u64 = 4;

const REGISTERS: usize = 16_384;
const HEADER_BYTES: usize = 16;
const DENSE_BYTES: usize = 12_304;
const RANK_MAX: u8 = 51;

/// The registers of a string, one bit and one opcode at a time; `None` for what is none.
fn read_slowly(string: &[u8]) -> Option<Vec<u8>> {
    let (header, body) = string.split_at_checked(HEADER_BYTES)?;
    if !header.starts_with(b"HYLL") {
        return None;
    }
    let registers = match header[4] {
        0 if string.len() == DENSE_BYTES => read_dense(body),
        1 => read_sparse(body)?,
        _ => return None,
    };
    let is_whole = registers.len() == REGISTERS && registers.iter().all(|rank| *rank <= RANK_MAX);
    is_whole.then_some(registers)
}

fn read_dense(body: &[u8]) -> Vec<u8> {
    let bit = |at: usize| body[at / 8] >> (at % 8) & 1;
    let register = |number: usize| {
        (0..6)
            .map(|bit_index| bit(6 * number + bit_index) << bit_index)
            .sum()
    };
    (0..REGISTERS).map(register).collect()
}

fn read_sparse(body: &[u8]) -> Option<Vec<u8>> {
    let mut registers = Vec::new();
    let mut bytes = body.iter();
    while let Some(first) = bytes.next() {
        let (rank, length) = match first >> 6 {
            0 => (0, usize::from(*first) + 1),
            1 => (
                0,
                usize::from(first & 0x3f) * 256 + usize::from(*bytes.next()?) + 1,
            ),
            _ => ((first >> 2 & 0x1f) + 1, usize::from(first & 3) + 1),
        };
        registers.resize(registers.len() + length, rank);
        if registers.len() > REGISTERS {
            return None;
        }
    }
    Some(registers)
}

/// A token of this register and rank.
fn token(register: usize, rank: u8) -> Token {
    let register = u64::try_from(register).expect("14 bits");
    let rest = if rank > 50 { 0 } else { 1 << (50 - rank) };
    Token::from_hash((register << 50) | rest)
}

fn hll_of(registers: &[u8]) -> Hll {
    let mut hll = Hll::new();
    for (register, rank) in registers.iter().enumerate().filter(|(_, rank)| **rank > 0) {
        hll.insert(token(register, *rank));
    }
    hll
}

/// Valid strings of every form: of nothing, of few, runs, near the sparse limit, dense, of the highest ranks.
fn corpus(chance: &mut Chance) -> Vec<Vec<u8>> {
    let mut strings = Vec::new();
    for (count, rank_max) in [
        (0, 1),
        (1, 32),
        (40, 32),
        (700, 4),
        (1_400, 9),
        (3_000, 32),
        (9_000, 51),
        (20, 51),
    ] {
        let mut registers = vec![0; REGISTERS];
        for _ in 0..count {
            let register = chance.below(16_384);
            let rank = 1 + chance.below(rank_max);
            registers[usize::try_from(register).expect("14 bits")] =
                u8::try_from(rank).expect("6 bits");
        }
        strings.push(hll_of(&registers).to_bytes());
    }
    strings
}

fn index(chance: &mut Chance, length: usize) -> usize {
    let bound = u64::try_from(length).expect("a length").max(1);
    usize::try_from(chance.below(bound)).expect("a place")
}

fn damage(bytes: &mut Vec<u8>, others: &[Vec<u8>], chance: &mut Chance) {
    let at = index(chance, bytes.len());
    let byte = u8::try_from(chance.below(256)).expect("a byte");
    match chance.below(8) {
        _ if bytes.is_empty() => bytes.push(byte),
        0 => bytes[at] ^= 1 << (byte % 8),
        1 => bytes[at] = byte,
        2 => bytes.insert(at, byte),
        3 => drop(bytes.remove(at)),
        4 => bytes.truncate(at),
        // Runs of one byte cut and covered anew: two zeros of 64 are one of 128.
        5 => {
            let end = (at + 1 + usize::from(byte % 9)).min(bytes.len());
            bytes.extend_from_within(at..end);
        }
        // What follows is of another string.
        6 => {
            let other = &others[index(chance, others.len())];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[index(chance, other.len())..]);
        }
        // Opcodes in another cut: a long run of zeros, split.
        _ => split_zeros(bytes, chance),
    }
}

/// Cuts one long run of zeros in two, which changes nothing that the string says.
fn split_zeros(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let mut at = HEADER_BYTES;
    while bytes.get(4) == Some(&1) && at + 1 < bytes.len() {
        if bytes[at] >> 6 != 1 {
            at += 1;
            continue;
        }
        let length = u16::from_be_bytes([bytes[at] & 0x3f, bytes[at + 1]]) + 1;
        if length > 1 {
            let first = 1 + u16::try_from(index(chance, usize::from(length) - 1)).expect("14 bits");
            let opcode = |length: u16| {
                let [high, low] = (length - 1).to_be_bytes();
                [0x40 | high, low]
            };
            let both = [opcode(first), opcode(length - first)].concat();
            bytes.splice(at..at + 2, both);
            return;
        }
        at += 2;
    }
}

/// Whether the string was taken.
fn check(string: &[u8], case: u64) -> bool {
    let slow = read_slowly(string);
    let hll = match (Hll::from_bytes(string), &slow) {
        (Err(fault), None) => {
            assert!(!fault.to_string().is_empty(), "case {case}");
            return false;
        }
        (Ok(hll), Some(registers)) => {
            assert_eq!(hll, hll_of(registers), "case {case}");
            hll
        }
        (parsed, _) => panic!(
            "case {case}: {parsed:?}; slowly it is taken: {}",
            slow.is_some()
        ),
    };
    let written = hll.to_bytes();
    assert_eq!(read_slowly(&written), slow, "case {case}");
    assert_eq!(Hll::from(&Sketch::from(&hll)), hll, "case {case}");
    true
}

fn setting(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn damaged_strings_are_read_as_slowly_or_refused() {
    let (from, cases) = (setting("FUZZ_FROM", 0), setting("FUZZ_CASES", CASES));
    let strings = corpus(&mut Chance(1));
    let mut taken = 0;
    for case in from..from + cases {
        let mut chance = Chance(case);
        let mut string = strings[index(&mut chance, strings.len())].clone();
        for _ in 0..chance.below(DAMAGES_MAX + 1) {
            damage(&mut string, &strings, &mut chance);
        }
        taken += u64::from(check(&string, case));
    }
    // Both ways are gone often enough to mean something.
    assert!(
        (cases / 5..cases * 4 / 5).contains(&taken),
        "{taken} of {cases} were taken"
    );
}
