//! Whether the write-ahead log of a database is complete, as far as that can be seen.
//!
//! SQLite takes a log to end at its first frame that is not as it was written: after a power failure that is the rest
//! of a commit that was not acknowledged. The same rule drops acknowledged commits if the log was damaged later.
//! So a log is refused if two commits follow the frame at which it would end. Each commit is on the disk before the
//! next one begins, so a power failure leaves parts of one at the most.
//!
//! **Source**: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The first four bytes, but for their last bit: that says in which order the words of checksums are read.
const MAGIC: u32 = 0x377f_0682;

/// The largest page of SQLite.
const PAGE_BYTES_MAX: usize = 65_536;

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    u32::from_be_bytes(word.unwrap_or_default())
}

/// The running checksum of a log.
#[derive(Clone, Copy, Default, PartialEq)]
struct Checksum(u32, u32);

impl Checksum {
    fn stored(bytes: &[u8], at: usize) -> Self {
        Self(word(bytes, at), word(bytes, at + 4))
    }

    fn with(mut self, bytes: &[u8], is_big_endian: bool) -> Self {
        let read = |four: &[u8]| {
            let four = four.try_into().unwrap_or_default();
            match is_big_endian {
                true => u32::from_be_bytes(four),
                false => u32::from_le_bytes(four),
            }
        };
        for eight in bytes.chunks_exact(8) {
            let (first, second) = eight.split_at(4);
            self.0 = self.0.wrapping_add(read(first)).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(read(second)).wrapping_add(self.0);
        }
        self
    }
}

/// Reads until a buffer is full. Returns whether there was so much.
fn is_filled(source: &mut impl Read, buffer: &mut [u8]) -> Result<bool, String> {
    match source.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// Looks through a log.
///
/// # Errors
/// Why it is not complete.
fn check_bytes(source: &mut impl Read) -> Result<(), String> {
    let mut header = [0; HEADER_BYTES];
    let is_whole = is_filled(source, &mut header)?;
    let page_bytes = usize::try_from(word(&header, 8)).unwrap_or(usize::MAX);
    if !is_whole || word(&header, 0) & !1 != MAGIC || page_bytes > PAGE_BYTES_MAX {
        return Err("its beginning is damaged".to_owned());
    }
    let is_big_endian = word(&header, 0) & 1 == 1;
    let mut checksum = Checksum::stored(&header, HEADER_BYTES - 8);
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let (mut is_over, mut commits_beyond) = (false, 0);
    while is_filled(source, &mut frame)? {
        let (head, page) = frame.split_at(FRAME_HEADER_BYTES);
        // Frames of the log before this one, which has begun again from the front, have other salts.
        let is_of_this_log = head.get(8..16) == header.get(16..24);
        let (numbers, _) = head.split_at(8);
        checksum = checksum
            .with(numbers, is_big_endian)
            .with(page, is_big_endian);
        is_over |= !is_of_this_log || checksum != Checksum::stored(head, 16);
        let is_commit = word(head, 4) != 0;
        commits_beyond += u8::from(is_over && is_of_this_log && is_commit);
        if commits_beyond > 1 {
            return Err("a part of it is damaged, and commits follow".to_owned());
        }
    }
    Ok(())
}

/// Looks through the log in a file.
///
/// # Errors
/// Why it is not complete, as the end of a sentence about the database.
pub(crate) fn check(file: &Path) -> Result<(), String> {
    let checked = match File::open(file) {
        Ok(file) => check_bytes(&mut BufReader::new(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Err("it is missing".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    checked.map_err(|why| format!("its log {} cannot be used, since {why}", file.display()))
}
