//! Bodies: bounded before they are stored in memory, drained where they are refused.

use std::pin::pin;

use super::request_context::RequestContext;
use tally_api::batch::decode::{Decoder, of_utf16};
use tally_api::batch::split::BYTE_ORDER_MARK;
use tally_api::bodies::{
    BODY_BYTES_MAX, BULK_BYTES_MAX, DRAIN_BYTES_MAX, DRAIN_PIECE_MS_MAX, PIECE_BYTES, PIECE_MS_MAX,
};
use tally_host::Host;
use tally_host::http::{Pieces, Request};
use tally_wire::problem::{Code, Problem};
use tally_wire::shell_limits::ARRIVAL_MS_MAX;

/// Bodies with at most this announced length are read at once, within the time of a piece.
const WHOLE_BYTES_MAX: u64 = 16 * 1024;

fn too_large(limit: u64) -> Problem {
    Problem::new(
        Code::BodyTooLarge,
        format!("send at most {} MiB in one body", limit / (1024 * 1024)),
    )
}

fn broken_off(error: &str) -> Problem {
    Problem::new(
        Code::InvalidBody,
        format!("the body broke off: {error}; nothing was counted, send it again"),
    )
}

/// How long the reader still waits for a piece after its time is over, milliseconds. If the only thread was busy for
/// that time, the timer fires first although the piece has arrived.
const LATE_MS: u64 = 100;

/// The piece, if it arrives within `wait_ms`; `None` otherwise.
async fn arrived<T>(host: &Host, wait_ms: u64, piece: impl Future<Output = T>) -> Option<T> {
    let mut piece = pin!(piece);
    match host.within_ms(wait_ms, piece.as_mut()).await {
        None => host.within_ms(LATE_MS, piece).await,
        piece => piece,
    }
}

fn too_slow(piece_ms: u64) -> Problem {
    Problem::new(
        Code::BodyTooSlow,
        format!(
            "the body took too long; nothing was counted. Send each {} KiB of it within {} s, and all of it within {} s",
            PIECE_BYTES / 1_024,
            piece_ms.div_ceil(1_000),
            ARRIVAL_MS_MAX / 1_000
        ),
    )
}

/// A body that is being read, piece by piece.
struct Stream<'a> {
    host: &'a Host,
    pieces: Box<dyn Pieces>,
    /// The time spent waiting for all its pieces, milliseconds.
    waited_ms: i64,
    /// How long a piece may take.
    piece_ms: u64,
}

impl<'a> Stream<'a> {
    /// The body's stream; `None` where there is no body, or it was read before.
    fn open(context: &'a RequestContext, piece_ms: u64) -> Option<Self> {
        Some(Self {
            host: &context.host,
            pieces: context.request.pieces(PIECE_BYTES)?,
            waited_ms: 0,
            piece_ms,
        })
    }

    /// The next piece, [`PIECE_BYTES`] long except for the last; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        let begun_ms = self.host.now_ms();
        let wait_ms = self.wait_ms();
        let piece = arrived(self.host, wait_ms, self.pieces.next()).await;
        self.waited_ms += self.host.now_ms().saturating_sub(begun_ms).max(0);
        let piece = piece.ok_or_else(|| too_slow(self.piece_ms))?;
        piece.map_err(|error| broken_off(&error))
    }

    /// How long the next piece may take, milliseconds.
    fn wait_ms(&self) -> u64 {
        let left_ms = ARRIVAL_MS_MAX.saturating_sub(self.waited_ms).max(0);
        self.piece_ms.min(u64::try_from(left_ms).unwrap_or(0))
    }

    async fn drain(&mut self, mut seen: u64) {
        self.piece_ms = self.piece_ms.min(DRAIN_PIECE_MS_MAX);
        while seen < DRAIN_BYTES_MAX {
            match self.next().await {
                Ok(Some(piece)) => seen += length(&piece),
                _ => return,
            }
        }
    }
}

fn length(piece: &[u8]) -> u64 {
    u64::try_from(piece.len()).unwrap_or(u64::MAX)
}

/// Reads the rest of a body and drops it, up to [`DRAIN_BYTES_MAX`].
pub async fn drain(context: &RequestContext) {
    if !context.request.has_body() {
        return;
    }
    if let Some(mut stream) = Stream::open(context, PIECE_MS_MAX) {
        stream.drain(0).await;
    }
}

/// The length that the client announced; the platform enforces it.
pub fn announced_length(request: &dyn Request) -> Option<u64> {
    request.header("content-length")?.parse().ok()
}

/// Reads a small body completely, without a byte order mark.
///
/// # Errors
/// `body-too-large` above [`BODY_BYTES_MAX`], after draining; `body-too-slow`.
pub async fn read_small(context: &RequestContext) -> Result<Vec<u8>, Problem> {
    read_up_to(context, BODY_BYTES_MAX).await
}

/// As [`read_small`], with another bound.
///
/// # Errors
/// As there.
pub async fn read_up_to(context: &RequestContext, bytes_max: u64) -> Result<Vec<u8>, Problem> {
    let request = &*context.request;
    // Most increments have no body, and opening a stream is not free.
    if !request.has_body() {
        return Ok(Vec::new());
    }
    refuse_encoded(request)?;
    let announced = announced_length(request);
    let mut body = Vec::new();
    if announced.is_some_and(|bytes| bytes <= WHOLE_BYTES_MAX) {
        let whole = arrived(&context.host, PIECE_MS_MAX, request.whole()).await;
        let whole = whole.ok_or_else(|| too_slow(PIECE_MS_MAX))?;
        body = whole.map_err(|error| broken_off(&error))?;
    } else {
        each_piece(context, bytes_max, PIECE_MS_MAX, |piece| {
            body.extend_from_slice(piece);
            Ok(())
        })
        .await?;
    }
    if let Some(problem) = of_utf16(&body) {
        return Err(problem);
    }
    if body.starts_with(BYTE_ORDER_MARK) {
        body.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(body)
}

fn refuse_encoded(request: &dyn Request) -> Result<(), Problem> {
    match encoding(request).as_deref() {
        None | Some("identity") => Ok(()),
        Some(other) => Err(Problem::new(
            Code::UnsupportedEncoding,
            format!("send this body as it is, not in the content encoding {other:?}"),
        )),
    }
}

fn encoding(request: &dyn Request) -> Option<String> {
    let value = request.header("content-encoding")?;
    let value = value.trim().to_ascii_lowercase();
    (!value.is_empty()).then_some(value)
}

/// The bytes of a body that are decoded at once. Gzip output has up to a thousand times as many, for differing lines
/// about ten times as many.
const SLICE_BYTES: usize = 4 * 1_024;

/// A bulk body that is being read, a few KiB at a time.
pub struct BulkBody<'a> {
    stream: Option<Stream<'a>>,
    decoder: Decoder,
    piece: Vec<u8>,
    /// The number of decoded bytes of the piece.
    at: usize,
    seen: u64,
}

impl<'a> BulkBody<'a> {
    /// The body of a request; each piece may take `piece_ms`.
    ///
    /// # Errors
    /// `unsupported-encoding`.
    pub fn open(context: &'a RequestContext, piece_ms: u64) -> Result<Self, Problem> {
        // Checks come first: a body that was not opened is drained.
        let decoder = Decoder::new(encoding(&*context.request).as_deref(), BULK_BYTES_MAX)?;
        Ok(Self {
            stream: Stream::open(context, piece_ms),
            decoder,
            piece: Vec::new(),
            at: 0,
            seen: 0,
        })
    }

    /// Reads on, and passes the output to `each`, which may refuse; false at the end.
    ///
    /// # Errors
    /// `body-too-large` above [`BULK_BYTES_MAX`] before or after inflation, `body-too-slow`, `invalid-gzip`,
    /// `unsupported-encoding`, or the problem of `each`; after draining.
    pub async fn next(
        &mut self,
        each: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<bool, Problem> {
        let Some(stream) = &mut self.stream else {
            return Ok(false);
        };
        let mut outcome = Ok(());
        if self.at >= self.piece.len() {
            let Some(piece) = stream.next().await? else {
                return Ok(false);
            };
            self.seen += length(&piece);
            (self.piece, self.at) = (piece, 0);
            if self.seen > BULK_BYTES_MAX {
                outcome = Err(too_large(BULK_BYTES_MAX));
            }
        }
        let rest = self.piece.get(self.at..).unwrap_or_default();
        let slice = rest.get(..SLICE_BYTES).unwrap_or(rest);
        self.at += slice.len();
        let outcome = outcome.and_then(|()| self.decoder.push(slice, each));
        if outcome.is_err() {
            stream.drain(self.seen).await;
        }
        outcome.map(|()| true)
    }

    /// Ends a body that was read to its end.
    ///
    /// # Errors
    /// As [`BulkBody::next`].
    pub fn finish(self, each: impl FnMut(&[u8]) -> Result<(), Problem>) -> Result<(), Problem> {
        self.decoder.finish(each)
    }
}

async fn each_piece(
    context: &RequestContext,
    limit: u64,
    piece_ms: u64,
    mut each: impl FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let Some(mut stream) = Stream::open(context, piece_ms) else {
        return Ok(());
    };
    let mut seen = 0;
    while let Some(piece) = stream.next().await? {
        seen += length(&piece);
        let outcome = if seen > limit {
            Err(too_large(limit))
        } else {
            each(&piece)
        };
        if let Err(problem) = outcome {
            stream.drain(seen).await;
            return Err(problem);
        }
    }
    Ok(())
}
