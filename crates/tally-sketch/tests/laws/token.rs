//! A token says of its element what the full 64-bit hash says.

use proptest::prelude::*;
use tally_sketch::Token;
use tally_testing::config;

/// Register and rank as the full hash gives them.
fn of_full_hash(hash: u64) -> (u64, u32) {
    let zeros = (hash << 14).leading_zeros().min(50);
    (hash >> 50, zeros + 1)
}

fn of_token(token: Token) -> (u64, u32) {
    (u64::from(token.register()), u32::from(token.rank()))
}

/// Hashes of every rank: random ones have a rank above 12 once in 4,096.
fn any_hash() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..=50_u32).prop_map(|(random, zeros)| {
        let register = random & (u64::MAX << 50);
        register | (random & (u64::MAX >> 14) >> zeros)
    })
}

proptest! {
    #![proptest_config(config(1, 4_000))]

    #[test]
    fn register_and_rank_are_those_of_the_full_hash(hash in any_hash()) {
        prop_assert_eq!(of_token(Token::from_hash(hash)), of_full_hash(hash));
    }

    #[test]
    fn a_token_survives_its_bits(hash in any_hash()) {
        let token = Token::from_hash(hash);
        prop_assert_eq!(Token::from_bits(token.bits()), Some(token));
    }

    #[test]
    fn only_bits_of_hashes_are_tokens(bits in any::<u32>()) {
        prop_assert_eq!(Token::from_bits(bits).is_some(), bits % 64 <= 38);
    }

    #[test]
    fn in_messages_it_is_its_bits_and_others_are_refused(bits in any::<u32>()) {
        let json = bits.to_string();
        match serde_json::from_str::<Token>(&json) {
            Ok(token) => prop_assert_eq!(serde_json::to_string(&token).ok(), Some(json)),
            Err(_) => prop_assert!(bits % 64 > 38),
        }
    }

    #[test]
    fn order_is_the_order_of_the_bits(a in any_hash(), b in any_hash()) {
        let (a, b) = (Token::from_hash(a), Token::from_hash(b));
        prop_assert_eq!(a.cmp(&b), a.bits().cmp(&b.bits()));
    }
}

#[test]
fn every_rank_is_reached_at_its_edge() {
    for zeros in 0..50 {
        let lone = 1_u64 << (49 - zeros);
        for hash in [lone, (lone << 1) - 1, lone | (0x2aaa << 50)] {
            let token = Token::from_hash(hash);
            assert_eq!(of_token(token), of_full_hash(hash), "{hash:#018x}");
            assert_eq!(u32::from(token.rank()), zeros + 1, "{hash:#018x}");
        }
    }
    assert_eq!(Token::from_hash(0).rank(), 51);
    assert_eq!(Token::from_hash(u64::MAX << 50).rank(), 51);
}

#[test]
fn the_stored_layout_never_changes() {
    for (hash, bits) in [
        (0, 0x0000_0026),
        (1, 0x0000_0025),
        (u64::MAX, 0xffff_ffc0),
        (1 << 63, 0x8000_0026),
        (1 << 50, 0x0004_0026),
        (1 << 38, 0x0000_0066),
        (1 << 37, 0x0000_0000),
        (0x0123_4547_89ab_cdef, 0x0123_4543),
        (0xdead_beef_0000_0001, 0xdead_bec0),
    ] {
        let found = Token::from_hash(hash).bits();
        assert_eq!(found, bits, "{hash:#018x} has token {found:#010x}");
    }
}
