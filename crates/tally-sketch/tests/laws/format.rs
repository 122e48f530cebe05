//! The sketch at rest: sizes, golden bytes, and what is refused.

use proptest::collection::vec;
use proptest::prelude::*;
use tally_sketch::{
    Class, HashKey, Histogram, Sample, Sketch, SketchError, Source, Token, Uniques, hash,
};
use tally_testing::config;

const DENSE_BYTES: usize = 12_290;

/// The sketch of the elements "0", "1", … under the key 0, 1, … 15.
fn sketch_of(elements: u32) -> Sketch {
    let key = HashKey::from([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    let tokens: Vec<Token> = (0..elements)
        .map(|element| Token::from_hash(hash(&key, element.to_string().as_bytes())))
        .collect();
    let mut sketch = Sketch::new();
    sketch.insert_many(&tokens);
    sketch
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn refusal(bytes: &[u8]) -> String {
    match Sketch::from_bytes(bytes) {
        Ok(sketch) => format!("accepted as {sketch:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sizes_at_rest_keep_their_limits() {
    for (elements, bytes_max) in [
        (0, 2),
        (10, 60),
        (100, 450),
        (1_000, 4_096),
        (3_072, 12_304),
        (3_100, 12_304),
        (200_000, 12_304),
    ] {
        let bytes = sketch_of(elements).to_bytes();
        assert!(
            bytes.len() <= bytes_max,
            "{elements} elements take {} bytes",
            bytes.len()
        );
    }
}

#[test]
fn a_sparse_sketch_never_changes() {
    assert_eq!(hex(&Sketch::new().to_bytes()), "0100");
    assert_eq!(
        hex(&sketch_of(5).to_bytes()),
        "01008075141c0486f677c01449aa424cb8b1005a9ee1"
    );
}

#[test]
fn a_dense_sketch_never_changes() {
    let bytes = sketch_of(20_000).to_bytes();
    assert_eq!(bytes.len(), DENSE_BYTES);
    assert_eq!(
        hex(&bytes[..32]),
        "010182201847200c023000412000021024c10000422004811004000010000104"
    );
    let checksum = hash(&HashKey::from([0; 16]), &bytes);
    assert_eq!(checksum, 0x18cb_2535_8ce4_bb4b, "{checksum:#018x}");
}

#[test]
fn a_register_lies_where_the_table_says() {
    let mut dense = vec![0; DENSE_BYTES];
    dense[..2].copy_from_slice(&[1, 1]);
    // Registers 4, 5, 6, 7 have ranks 1, 2, 3, 51: bits 100000 010000 110000 110011.
    dense[5..8].copy_from_slice(&[0b1000_0001, 0b0011_0000, 0b1100_1100]);
    let mut sketch = Sketch::from_bytes(&dense).unwrap();
    let zeros_of = |rank: u64| 1_u64 << (50 - rank);
    for (register, rank) in [(4, 1), (5, 2), (6, 3)] {
        assert!(!sketch.insert(Token::from_hash((register << 50) | zeros_of(rank))));
        assert!(sketch.insert(Token::from_hash((register << 50) | zeros_of(rank + 1))));
    }
    assert!(
        !sketch.insert(Token::from_hash(7 << 50)),
        "51 is the highest rank"
    );
    assert!(sketch.insert(Token::from_hash((8 << 50) | zeros_of(1))));
}

#[test]
fn bytes_that_are_no_sketch_are_refused_with_the_reason() {
    let with = |start: &[u8], length: usize| {
        let mut bytes = start.to_vec();
        bytes.resize(length, 0);
        bytes
    };
    let sparse = |tokens: &[u32]| {
        let tokens = tokens.iter().flat_map(|token| token.to_le_bytes());
        [1, 0].into_iter().chain(tokens).collect::<Vec<u8>>()
    };
    for (bytes, reason) in [
        (vec![], "no sketch of this form has 0 bytes"),
        (vec![1], "no sketch of this form has 1 bytes"),
        (vec![0, 0], "a sketch of version 0; this program reads 1"),
        (vec![2], "a sketch of version 2; this program reads 1"),
        (vec![1, 2], "a sketch has no form 2"),
        (vec![1, 0, 0], "no sketch of this form has 3 bytes"),
        (
            sparse(&[64, 64]),
            "the tokens of a sparse sketch must ascend",
        ),
        (
            sparse(&[128, 64]),
            "the tokens of a sparse sketch must ascend",
        ),
        (sparse(&[38, 39]), "no hash has the token 0x00000027"),
        (
            sparse(&(0..3_073).map(|n| n << 6).collect::<Vec<u32>>()),
            "no sketch of this form has 12294 bytes",
        ),
        (
            with(&[1, 1, 1], DENSE_BYTES - 1),
            "no sketch of this form has 12289 bytes",
        ),
        (
            with(&[1, 1, 1], DENSE_BYTES + 1),
            "no sketch of this form has 12291 bytes",
        ),
        (
            with(&[1, 1], DENSE_BYTES),
            "a dense sketch has no register above 0",
        ),
        (
            with(&[1, 1, 52], DENSE_BYTES),
            "a register of a dense sketch is above 51",
        ),
        (
            [with(&[1, 1], DENSE_BYTES - 1), vec![0xfc]].concat(),
            "a register of a dense sketch is above 51",
        ),
    ] {
        assert_eq!(refusal(&bytes), reason);
    }
    assert!(Sketch::from_bytes(&sparse(&(0..3_072).map(|n| n << 6).collect::<Vec<u32>>())).is_ok());
    assert!(Sketch::from_bytes(&with(&[1, 1, 51], DENSE_BYTES)).is_ok());
}

/// Bytes that come near to being a sketch: most have a right header, many a right length.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let body = prop_oneof![
        vec(any::<u8>(), 0..40),
        vec(0..=38_u8, DENSE_BYTES - 2),
        vec(any::<u8>(), DENSE_BYTES - 2),
        vec((any::<u32>(), 0..40_u32), 0..6).prop_map(|mut words| {
            words.sort_unstable();
            words
                .iter()
                .flat_map(|(index, zeros)| ((index & !63) | zeros).to_le_bytes())
                .collect()
        }),
    ];
    let header = prop_oneof![9 => (Just(1), 0..=1_u8), 1 => any::<(u8, u8)>()];
    prop_oneof![
        1 => vec(any::<u8>(), 0..3),
        9 => (header, body)
            .prop_map(|((version, form), body)| [vec![version, form], body].concat()),
    ]
}

proptest! {
    #![proptest_config(config(3, 256))]

    #[test]
    fn any_bytes_are_refused_or_are_those_of_a_sound_sketch(bytes in bytes()) {
        if let Ok(mut sketch) = Sketch::from_bytes(&bytes) {
            prop_assert_eq!(sketch.to_bytes(), bytes);
            prop_assert!(sketch.estimate() >= 0.0 && sketch.estimate() <= 2_f64.powi(64));
            sketch.insert(Token::from_hash(u64::MAX));
            prop_assert!(!sketch.is_empty());
        }
    }

    #[test]
    fn a_sketch_survives_its_bytes(elements in prop_oneof![0..50_u32, 3_000..3_200_u32]) {
        let sketch = sketch_of(elements);
        prop_assert_eq!(Sketch::from_bytes(&sketch.to_bytes()), Ok(sketch));
    }
}

/// As bytes where a format has them, and as numbers where it has none.
#[test]
fn sketches_uniques_and_histograms_travel_as_their_bytes_at_rest() {
    fn travels<T>(value: &T, at_rest: &[u8])
    where
        T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let json = serde_json::to_string(value).unwrap();
        assert_eq!(serde_json::from_str::<Vec<u8>>(&json).unwrap(), at_rest);
        assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *value);
        let packed = postcard::to_allocvec(value).unwrap();
        assert_eq!(postcard::from_bytes::<T>(&packed).unwrap(), *value);
        assert!(serde_json::from_str::<T>("[7,7,7]").is_err());
    }
    let key = HashKey::from([7; 16]);
    for elements in [0_u32, 3, 5_000] {
        let tokens = (0..elements).map(|element| key.token(&element.to_be_bytes()));
        let sketch: Sketch = tokens.collect();
        travels(&sketch, &sketch.to_bytes());
        let uniques = Uniques::of(Source::of_all(key.id()), sketch);
        travels(&uniques, &uniques.to_bytes());
        let mut histogram = Histogram::new();
        for sample in 0..elements {
            histogram.insert(Sample::new(sample.into()).unwrap());
        }
        travels(&histogram, &histogram.to_bytes());
    }
}

#[test]
fn the_token_of_an_element_is_that_of_its_hash_under_the_key() {
    let key = HashKey::from(*b"a key of sixteen");
    for element in [&b""[..], b"ada", &[0; 100]] {
        assert_eq!(key.token(element), Token::from_hash(hash(&key, element)));
    }
}

#[test]
fn numbers_that_stand_for_nothing_are_refused_with_an_error_that_says_so() {
    let refused = |error: SketchError| Box::<dyn std::error::Error>::from(error).to_string();
    assert_eq!(
        refused(Token::try_from(39).unwrap_err()),
        "no hash has the token 0x00000027"
    );
    assert_eq!(
        refused(Class::try_from(128).unwrap_err()),
        "no class of elements has the number 128"
    );
}
