//! Inflation is exact for any chunking, and bounded whatever comes in.

use crate::common::config;
use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use tally_api::batch::inflate::{Inflate, PIECE_BYTES};
use tally_wire::problem::{Code, Problem};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn inflate(compressed: &[u8], chunk_bytes: usize, bytes_max: u64) -> Result<Vec<u8>, Code> {
    let mut inflated = Vec::new();
    let mut take = |piece: &[u8]| {
        assert!(
            piece.len() <= PIECE_BYTES,
            "a piece of {} bytes",
            piece.len()
        );
        inflated.extend_from_slice(piece);
        Ok(())
    };
    let mut inflate = Inflate::new(bytes_max);
    for chunk in compressed.chunks(chunk_bytes) {
        inflate
            .push(chunk, &mut take)
            .map_err(|problem| problem.code())?;
    }
    inflate
        .finish(&mut take)
        .map_err(|problem| problem.code())?;
    assert!(u64::try_from(inflated.len()).unwrap() <= bytes_max);
    Ok(inflated)
}

proptest! {
    #![proptest_config(config(2, 64))]

    #[test]
    fn members_come_out_in_order_for_any_chunking(
        members in prop::collection::vec(prop::collection::vec(0u8..4, 0..3000), 1..4),
        chunk_bytes in 1usize..600,
    ) {
        let compressed: Vec<u8> = members.iter().flat_map(|member| gzip(member)).collect();
        prop_assert_eq!(inflate(&compressed, chunk_bytes, 1 << 20), Ok(members.concat()));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), flip in 0usize..200) {
        prop_assert!(inflate(&bytes, 7, 1 << 20).is_err());
        let text: Vec<u8> = (0..200u8).collect();
        let mut damaged = gzip(&text);
        let at = flip % damaged.len();
        damaged[at] ^= 0x10;
        // What a header says about the file, and bits that pad a block, change nothing.
        let read = inflate(&damaged, 7, 1 << 20);
        prop_assert!(read == Err(Code::InvalidGzip) || read == Ok(text));
        let checksum = gzip(&[1; 200]);
        let mut damaged = checksum.clone();
        damaged[checksum.len() - 1 - flip % 8] ^= 0x10;
        prop_assert_eq!(inflate(&damaged, 7, 1 << 20), Err(Code::InvalidGzip));
    }
}

#[test]
fn a_body_may_inflate_to_the_limit_and_not_beyond() {
    let compressed = gzip(&[b'x'; 100_000]);
    for chunk_bytes in [1, 64, compressed.len()] {
        assert_eq!(
            inflate(&compressed, chunk_bytes, 100_000).map(|out| out.len()),
            Ok(100_000)
        );
        assert_eq!(
            inflate(&compressed, chunk_bytes, 99_999),
            Err(Code::BodyTooLarge)
        );
    }
    let two = [gzip(&[0; 60_000]), gzip(&[0; 60_000])].concat();
    assert_eq!(
        inflate(&two, 50, 100_000),
        Err(Code::BodyTooLarge),
        "the limit is of the body, not of a member"
    );
}

#[test]
fn a_bomb_is_stopped_at_the_limit_and_stays_stopped() {
    let bomb = gzip(&vec![0; 64 << 20]);
    assert!(bomb.len() < 70_000);
    let mut seen = 0;
    let mut piece_max = 0;
    let mut take = |piece: &[u8]| {
        seen += piece.len();
        piece_max = piece_max.max(piece.len());
        Ok(())
    };
    let mut inflate = Inflate::new(32 << 20);
    let refusal = inflate.push(&bomb, &mut take).unwrap_err();
    assert_eq!(refusal.code(), Code::BodyTooLarge);
    assert_eq!(inflate.push(&bomb, &mut take), Err(refusal.clone()));
    assert_eq!(inflate.finish(&mut take), Err(refusal));
    assert!(seen <= 32 << 20);
    assert!(piece_max <= PIECE_BYTES);
}

#[test]
fn a_body_that_ends_early_or_goes_on_is_refused() {
    let whole = gzip(b"{\"id\":\"a\"}\n");
    for end in 0..whole.len() {
        assert_eq!(
            inflate(&whole[..end], 5, 1000),
            Err(Code::InvalidGzip),
            "cut at {end}"
        );
    }
    let followed = [&whole[..], b"junk"].concat();
    assert_eq!(inflate(&followed, 5, 1000), Err(Code::InvalidGzip));
    assert_eq!(
        inflate(b"{\"id\":\"a\"}\n", 5, 1000),
        Err(Code::InvalidGzip)
    );
}

#[test]
fn the_refusal_of_the_reader_stops_inflation() {
    let compressed = gzip(&vec![7; 1 << 20]);
    let mut calls = 0;
    let mut refuse = |_: &[u8]| {
        calls += 1;
        Err(Problem::new(Code::InvalidJson, "no"))
    };
    let mut inflate = Inflate::new(1 << 30);
    assert_eq!(
        inflate.push(&compressed, &mut refuse).unwrap_err().code(),
        Code::InvalidJson
    );
    assert_eq!(
        inflate.push(&compressed, &mut refuse).unwrap_err().code(),
        Code::InvalidJson
    );
    assert_eq!(calls, 1);
}

#[test]
fn a_damaged_body_stays_refused_whatever_follows() {
    let whole = gzip(b"one");
    let mut damaged = whole.clone();
    damaged[whole.len() - 5] ^= 1;
    for bad in [&damaged[..], b"junk"] {
        let mut inflate = Inflate::new(1000);
        // The checksum is looked at when the next member begins, so that one is in the same chunk.
        let refusal = inflate
            .push(&[bad, &whole].concat(), |_| Ok(()))
            .unwrap_err();
        assert_eq!(refusal.code(), Code::InvalidGzip);
        assert_eq!(inflate.push(&whole, |_| Ok(())), Err(refusal.clone()));
        assert_eq!(inflate.finish(|_| Ok(())), Err(refusal));
    }
}
