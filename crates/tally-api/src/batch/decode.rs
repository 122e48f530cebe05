//! The encoding of a bulk body: its content encoding, or else what its first bytes show. Clients that send a file from
//! disk do not name the encoding.
//!
//! Invariant: the output does not depend on how the body was cut into pieces.

use super::inflate::Inflate;
use tally_logs::text::{TAR_HEAD_BYTES, UTF16, is_tar, is_utf16};
use tally_wire::problem::{Code, Problem};

/// The first bytes of a gzip file. No text begins with them, because no UTF-8 character begins with the second byte.
/// Source: RFC 1952, section 2.3.1.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Other compressed formats of logs: first bytes, name, and the command that prints the content. No log line begins so.
const OTHERS: [(&[u8], &str, &str); 4] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstd -dc FILE"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", "xz -dc FILE"),
    (b"BZh91AY&SY", "bzip2", "bzip2 -dc FILE"),
    (&[b'P', b'K', 3, 4], "zip", "unzip -p FILE"),
];

/// How many bytes are needed to recognise the format.
const HEAD_BYTES: usize = TAR_HEAD_BYTES;

/// Decodes one body, piece by piece.
pub struct Decoder {
    bytes_max: u64,
    form: Form,
    inflated: Beginning,
}

/// The first bytes of what was inflated.
#[derive(Default)]
struct Beginning(Vec<u8>);

impl Beginning {
    /// # Errors
    /// As [`no_lines`].
    fn take(&mut self, piece: &[u8]) -> Result<(), Problem> {
        let missing = HEAD_BYTES - self.0.len();
        if missing == 0 {
            return Ok(());
        }
        self.0.extend(piece.iter().take(missing));
        no_lines(&self.0).map_or(Ok(()), Err)
    }
}

enum Form {
    /// Not known yet; these are the first bytes.
    Untold(Vec<u8>),
    Plain,
    Gzip(Box<Inflate>),
}

impl Decoder {
    /// Returns a decoder of a body with this content encoding, which may decode to `bytes_max` bytes.
    ///
    /// # Errors
    /// `unsupported-encoding` for any but `identity` and `gzip`.
    pub fn new(encoding: Option<&str>, bytes_max: u64) -> Result<Self, Problem> {
        let form = match encoding {
            None | Some("identity") => Form::Untold(Vec::new()),
            Some("gzip" | "x-gzip") => Form::Gzip(Box::new(Inflate::new(bytes_max))),
            Some(other) => {
                let known = OTHERS.iter().find(|(_, name, _)| *name == other);
                return Err(match known {
                    Some((_, name, command)) => unsupported(name, command),
                    None => Problem::new(
                        Code::UnsupportedEncoding,
                        format!(
                            "send the body as it is or with content encoding gzip, not {other:?}"
                        ),
                    ),
                });
            }
        };
        Ok(Self {
            bytes_max,
            form,
            inflated: Beginning::default(),
        })
    }

    /// Decodes a piece, and hands the output to `each`.
    ///
    /// # Errors
    /// `unsupported-encoding` for a body in another compressed form, in UTF-16, or of a tar archive;
    /// as [`Inflate::push`].
    pub fn push(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if let Form::Untold(head) = &mut self.form {
            if head.is_empty() && piece.len() >= HEAD_BYTES {
                self.form = self.form_of(piece)?;
            } else {
                head.extend_from_slice(piece);
                if head.len() < HEAD_BYTES {
                    return Ok(());
                }
                let head = std::mem::take(head);
                self.form = self.form_of(&head)?;
                return self.decode(&head, &mut each);
            }
        }
        self.decode(piece, &mut each)
    }

    /// Ends the body.
    ///
    /// # Errors
    /// As [`Decoder::push`] and [`Inflate::finish`].
    pub fn finish(
        mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if let Form::Untold(head) = &mut self.form {
            let head = std::mem::take(head);
            self.form = self.form_of(&head)?;
            self.decode(&head, &mut each)?;
        }
        let mut inflated = self.inflated;
        match self.form {
            Form::Gzip(inflate) => inflate.finish(|piece| {
                inflated.take(piece)?;
                each(piece)
            }),
            Form::Untold(_) | Form::Plain => Ok(()),
        }
    }

    fn decode(
        &mut self,
        piece: &[u8],
        each: &mut impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let inflated = &mut self.inflated;
        match &mut self.form {
            Form::Gzip(inflate) => inflate.push(piece, |piece| {
                inflated.take(piece)?;
                each(piece)
            }),
            Form::Untold(_) | Form::Plain if piece.is_empty() => Ok(()),
            Form::Untold(_) | Form::Plain => each(piece),
        }
    }

    fn form_of(&self, head: &[u8]) -> Result<Form, Problem> {
        if head.starts_with(GZIP) {
            return Ok(Form::Gzip(Box::new(Inflate::new(self.bytes_max))));
        }
        if let Some(problem) = no_lines(head) {
            return Err(problem);
        }
        match OTHERS.iter().find(|(begin, ..)| head.starts_with(begin)) {
            Some((_, name, command)) => Err(unsupported(name, command)),
            None => Ok(Form::Plain),
        }
    }
}

/// Returns the problem of a body that is neither compressed nor lines of text, by its first bytes.
fn no_lines(head: &[u8]) -> Option<Problem> {
    let detail = "the body is a tar archive, which is not read here; nothing was counted. Unpack it first: \
                  `tar -xOf FILE | gzip | curl --data-binary @- …`";
    let tar = || is_tar(head).then(|| Problem::new(Code::UnsupportedEncoding, detail));
    of_utf16(head).or_else(tar)
}

/// Returns the problem of a body in UTF-16, by its first bytes.
pub fn of_utf16(head: &[u8]) -> Option<Problem> {
    let detail = || format!("{UTF16}; nothing was counted");
    is_utf16(head).then(|| Problem::new(Code::UnsupportedEncoding, detail()))
}

fn unsupported(name: &str, command: &str) -> Problem {
    let detail = format!(
        "the body is compressed by {name}, which is not read here; nothing was counted. Send it by gzip: \
         `{command} | gzip | curl --data-binary @- …`"
    );
    Problem::new(Code::UnsupportedEncoding, detail)
}
