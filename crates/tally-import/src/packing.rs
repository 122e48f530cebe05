//! How files are packed, by their first bytes.

/// Packings, and what they begin with.
const MAGIC: [(&str, &[u8]); 5] = [
    ("gzip", &[0x1f, 0x8b]),
    ("zstd", &[0x28, 0xb5, 0x2f, 0xfd]),
    ("bzip2", b"BZh"),
    ("xz", &[0xfd, b'7', b'z', b'X']),
    ("zip", b"PK\x03\x04"),
];

/// Returns how bytes are packed, by the first of them; `None` where they are not.
pub fn packing(head: &[u8]) -> Option<&'static str> {
    let found = MAGIC.iter().find(|(_, magic)| head.starts_with(magic));
    found.map(|(name, _)| *name)
}

/// What a member of an archive begins with: `cat a.gz b.gz` puts one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveMember {
    /// What it packs comes behind so many bytes.
    Behind(usize),
    /// More bytes say.
    Unknown,
    /// None begins here.
    None,
}

/// Returns what the next member of an archive begins with.
pub fn member(kind: &str, bytes: &[u8]) -> ArchiveMember {
    match kind {
        "gzip" => gzip(bytes),
        "zstd" => zstd(bytes),
        _ => ArchiveMember::None,
    }
}

/// Source: RFC 8878, sections 3.1.1 and 3.1.2. Frames that hold something of a program's own are skipped by decoders.
fn zstd(bytes: &[u8]) -> ArchiveMember {
    match bytes {
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            ArchiveMember::Behind(0)
        }
        [_, _, _, _, ..] => ArchiveMember::None,
        _ => ArchiveMember::Unknown,
    }
}

/// Source: RFC 1952, section 2.3.
fn gzip(bytes: &[u8]) -> ArchiveMember {
    let magic = [0x1f, 0x8b, 8];
    if bytes
        .iter()
        .zip(magic)
        .any(|(byte, wanted)| *byte != wanted)
    {
        return ArchiveMember::None;
    }
    let end = (|| {
        let flags = *bytes.get(3)?;
        let has = |flag: u8| flags & flag != 0;
        let mut end = 10;
        if has(4) {
            let length = u16::from_le_bytes([*bytes.get(10)?, *bytes.get(11)?]);
            end += 2 + usize::from(length);
        }
        // The name, and a comment, each with a zero behind it.
        for flag in [8, 16] {
            if has(flag) {
                end += bytes.get(end..)?.iter().position(|byte| *byte == 0)? + 1;
            }
        }
        Some(end + if has(2) { 2 } else { 0 })
    })();
    end.filter(|end| *end < bytes.len())
        .map_or(ArchiveMember::Unknown, ArchiveMember::Behind)
}
