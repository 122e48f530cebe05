//! Packings and their members are known by their first bytes.

use tally_import::packing::{ArchiveMember, member, packing};

#[test]
fn packings_are_known_by_their_first_bytes() {
    assert_eq!(packing(&[0x28, 0xb5, 0x2f, 0xfd, 0]), Some("zstd"));
    assert_eq!(packing(&[0x1f, 0x8b, 8]), Some("gzip"));
    assert_eq!(
        [packing(b"127.0.0.1"), packing(b""), packing(b"P")],
        [None; 3]
    );
}

#[test]
fn a_member_of_gzip_begins_behind_all_that_its_head_may_have() {
    let plain = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1];
    assert_eq!(member("gzip", &plain), ArchiveMember::Behind(10));
    let mut full = vec![0x1f, 0x8b, 8, 0x1e, 0, 0, 0, 0, 0, 3, 2, 0, 7, 7];
    full.extend(b"a\0b\0cc!");
    assert_eq!(member("gzip", &full), ArchiveMember::Behind(20));
    for end in 0..full.len() {
        assert_eq!(
            member("gzip", &full[..end]),
            ArchiveMember::Unknown,
            "{end}"
        );
    }
    for wrong in [&b"the disk was full"[..], &[0x1f, 0x8c], &[0x1f, 0x8b, 7]] {
        assert_eq!(member("gzip", wrong), ArchiveMember::None);
    }
}

#[test]
fn a_frame_of_zstd_may_be_one_to_skip() {
    for (bytes, wanted) in [
        (&[0x28, 0xb5, 0x2f, 0xfd][..], ArchiveMember::Behind(0)),
        (&[0x5a, 0x2a, 0x4d, 0x18, 1], ArchiveMember::Behind(0)),
        (&[0x28, 0xb5], ArchiveMember::Unknown),
        (b"text", ArchiveMember::None),
    ] {
        assert_eq!(member("zstd", bytes), wanted);
    }
}
