//! Gzip, inflated as it arrives. At most [`PIECE_BYTES`] bytes of inflated data wait for the caller. The caller
//! receives at most the limit, which stops a decompression bomb.
//!
//! A compressed chunk goes in, and pieces come out by a callback, member after member (files made by `cat a.gz b.gz`
//! are valid gzip). `finish` says whether the last member was whole. Output before an error must not be used: the
//! checksum is at the end of a member. Source: RFC 1952 (gzip), RFC 1951 (deflate).

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;

use super::length;
use tally_wire::problem::{Code, Problem};

/// The most inflated bytes that wait. One step of the decoder empties its buffer of 32 KiB and refills it, and repeats
/// this as long as it takes no input. Without input it can write its window of 32 KiB, and 32 copies of 258 bytes from
/// at most 64 bits that it read ahead. 4 * 32,768 = 131,072 bytes hold all of it.
pub const PIECE_BYTES: usize = 128 * 1024;

/// Inflates one gzip body, chunk by chunk.
pub struct Inflate {
    decoder: MultiGzDecoder<Sink>,
    bytes_max: u64,
    refused: Option<Problem>,
}

/// Where the decoder writes: a piece that waits, and how much more may come.
struct Sink {
    waiting: Vec<u8>,
    bytes_left: u64,
    overrun: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.bytes_left.checked_sub(length(bytes.len())) else {
            self.overrun = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.bytes_left = left;
        self.waiting.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Inflate {
    /// Returns a reader of one body that may inflate to `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Self {
        let sink = Sink {
            waiting: Vec::new(),
            bytes_left: bytes_max,
            overrun: false,
        };
        Self {
            decoder: MultiGzDecoder::new(sink),
            bytes_max,
            refused: None,
        }
    }

    /// Inflates a chunk and hands what comes out to `each`, in pieces of at most [`PIECE_BYTES`].
    /// A chunk of 1 KB can come out as 1 MB, in 8 pieces or more.
    ///
    /// # Errors
    /// `body-too-large` when the limit is passed, `invalid-gzip` for anything that is not gzip, and
    /// whatever `each` refuses with. After an error every further call repeats it.
    pub fn push(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut rest = chunk;
        while !rest.is_empty() {
            self.check()?;
            let step = self.decoder.write(rest);
            // Output before an error is within the limit, and nobody uses it.
            let read = match step {
                Ok(read) if read > 0 => read,
                Ok(_) | Err(_) => return self.refuse(),
            };
            self.hand_out(&mut each)?;
            rest = rest.get(read..).unwrap_or_default();
        }
        self.check()
    }

    /// Ends the body: hands out the rest and checks the last member's length and checksum.
    ///
    /// # Errors
    /// As [`Inflate::push`]; a body that ends early, or has no bytes at all, is `invalid-gzip`.
    pub fn finish(
        mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        self.check()?;
        if self.decoder.try_finish().is_err() {
            return self.refuse();
        }
        self.hand_out(&mut each)
    }

    fn check(&self) -> Result<(), Problem> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    fn hand_out(
        &mut self,
        each: &mut impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let waiting = &mut self.decoder.get_mut().waiting;
        if waiting.is_empty() {
            return Ok(());
        }
        debug_assert!(waiting.len() <= PIECE_BYTES);
        let outcome = each(waiting);
        waiting.clear();
        if let Err(problem) = &outcome {
            self.refused = Some(problem.clone());
        }
        outcome
    }

    /// Remembers and returns why the decoder stopped: it must not be given more input.
    fn refuse(&mut self) -> Result<(), Problem> {
        let problem = if self.decoder.get_ref().overrun {
            let detail = format!(
                "the body inflates to more than {} bytes: send less at once",
                self.bytes_max
            );
            Problem::new(Code::BodyTooLarge, detail)
        } else {
            Problem::new(
                Code::InvalidGzip,
                "the body is not gzip, is damaged, or ends early: send it again",
            )
        };
        self.refused = Some(problem.clone());
        Err(problem)
    }
}
