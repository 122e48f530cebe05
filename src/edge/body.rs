//! Bodies: bounded before they are held, drained where they are refused.

use worker::js_sys::{Object, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;
use worker::web_sys::{ReadableStream, Request};

use super::incoming::Incoming;
use crate::platform::clock::{now_ms, within_ms};
use crate::protocol::batch::decode::Decoder;
use crate::protocol::batch::split::BYTE_ORDER_MARK;
use crate::protocol::bodies::{
    ARRIVAL_MS_MAX, BODY_BYTES_MAX, BULK_BYTES_MAX, DRAIN_BYTES_MAX, DRAIN_PIECE_MS_MAX,
    PIECE_BYTES, PIECE_MS_MAX,
};
use crate::protocol::problem::{Code, Problem};

/// Bodies that announce no more are read at once and without a deadline: what they hold meanwhile is less than what their
/// connection does.
const UNTIMED_BYTES_MAX: u64 = 16 * 1024;

#[wasm_bindgen]
extern "C" {
    /// A body as the platform reads it. Its `readAtLeast` is older than the standard's `min`.
    /// Source: developers.cloudflare.com/workers/runtime-apis/streams/readablestreambyobreader
    type Pieces;

    #[wasm_bindgen(method, catch, js_name = readAtLeast)]
    fn read_at_least(this: &Pieces, bytes: u32, into: &Uint8Array) -> Result<Promise, JsValue>;
}

fn too_large(limit: u64) -> Problem {
    Problem::new(
        Code::BodyTooLarge,
        format!("send at most {} MiB in one body", limit / (1024 * 1024)),
    )
}

fn broken_off(error: &dyn std::fmt::Display) -> Problem {
    Problem::new(
        Code::InvalidBody,
        format!("the body broke off: {error}; nothing was counted, send it again"),
    )
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
struct Stream {
    pieces: Pieces,
    /// What the next piece is read into: the platform takes it and gives it back with the piece.
    buffer: Uint8Array,
    begun_ms: i64,
    /// How long a piece may take.
    piece_ms: u64,
}

impl Stream {
    /// The body's stream; `None` where there is no body.
    fn open(request: &Request, piece_ms: u64) -> Option<Self> {
        let body: ReadableStream = request.body()?;
        let options = Object::new();
        Reflect::set(&options, &"mode".into(), &"byob".into()).ok()?;
        let reader = body.get_reader_with_options(options.unchecked_ref());
        Some(Self {
            pieces: reader.unchecked_into(),
            buffer: Uint8Array::new_with_length(PIECE_BYTES),
            begun_ms: now_ms(),
            piece_ms,
        })
    }

    /// The next piece, [`PIECE_BYTES`] long but for the last; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        let read = async {
            let promise = self.pieces.read_at_least(PIECE_BYTES, &self.buffer)?;
            let read = JsFuture::from(promise).await?;
            Reflect::get(&read, &"value".into())
        };
        let value = within_ms(self.wait_ms(), read).await;
        let value = value.ok_or_else(|| too_slow(self.piece_ms))?;
        let value = value.map_err(|error| broken_off(&worker::Error::from(error)))?;
        let Some(piece) = value
            .dyn_ref::<Uint8Array>()
            .filter(|piece| piece.length() > 0)
        else {
            return Ok(None);
        };
        let bytes = piece.to_vec();
        self.buffer = Uint8Array::new(&piece.buffer());
        Ok(Some(bytes))
    }

    /// How long the next piece may take, milliseconds.
    fn wait_ms(&self) -> u64 {
        let taken_ms = now_ms().saturating_sub(self.begun_ms).max(0);
        let left_ms = ARRIVAL_MS_MAX.saturating_sub(taken_ms);
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

/// Reads what is left of a body and throws it away, up to [`DRAIN_BYTES_MAX`].
pub async fn drain(request: &Incoming) {
    // A body that was read before has its stream taken already.
    if !request.has_body() || request.raw.body_used() {
        return;
    }
    if let Some(mut stream) = Stream::open(&request.raw, PIECE_MS_MAX) {
        stream.drain(0).await;
    }
}

/// Reads a small body whole, without a byte order mark.
///
/// # Errors
/// `body-too-large` above [`BODY_BYTES_MAX`], after draining; `body-too-slow`.
pub async fn read_small(request: &Incoming) -> Result<Vec<u8>, Problem> {
    // Most increments have no body: a stream for nothing took a tenth of their time.
    if !request.has_body() {
        return Ok(Vec::new());
    }
    refuse_encoded(request)?;
    let announced = request.announced_length();
    let mut body = Vec::new();
    if announced.is_some_and(|bytes| bytes <= UNTIMED_BYTES_MAX) {
        body = read_whole(request).await?;
    } else {
        each_piece(request, BODY_BYTES_MAX, PIECE_MS_MAX, |piece| {
            body.extend_from_slice(piece);
            Ok(())
        })
        .await?;
    }
    if body.starts_with(BYTE_ORDER_MARK) {
        body.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(body)
}

async fn read_whole(request: &Incoming) -> Result<Vec<u8>, Problem> {
    let read = async {
        let buffer = JsFuture::from(request.raw.array_buffer()?).await?;
        Ok::<_, worker::Error>(Uint8Array::new(&buffer).to_vec())
    };
    read.await.map_err(|error| broken_off(&error))
}

fn refuse_encoded(request: &Incoming) -> Result<(), Problem> {
    match encoding(request).as_deref() {
        None | Some("identity") => Ok(()),
        Some(other) => Err(Problem::new(
            Code::UnsupportedEncoding,
            format!("send this body as it is, not in the content encoding {other:?}"),
        )),
    }
}

fn encoding(request: &Incoming) -> Option<String> {
    let value = request.header("content-encoding")?;
    let value = value.trim().to_ascii_lowercase();
    (!value.is_empty()).then_some(value)
}

/// Reads a bulk body piece by piece, decoded; each piece may take `piece_ms`. `each` may refuse; nothing may be counted
/// before this has returned well, since a fault at the end refuses the whole body.
///
/// # Errors
/// `body-too-large` above [`BULK_BYTES_MAX`] before or after inflation, `body-too-slow`, `invalid-gzip`,
/// `unsupported-encoding`, or what `each` says; after draining.
pub async fn read_bulk(
    request: &Incoming,
    piece_ms: u64,
    mut each: impl FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut decoder = Decoder::new(encoding(request).as_deref(), BULK_BYTES_MAX)?;
    each_piece(request, BULK_BYTES_MAX, piece_ms, |piece| {
        decoder.push(piece, &mut each)
    })
    .await?;
    decoder.finish(each)
}

async fn each_piece(
    request: &Incoming,
    limit: u64,
    piece_ms: u64,
    mut each: impl FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let Some(mut stream) = Stream::open(&request.raw, piece_ms) else {
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
