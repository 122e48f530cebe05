//! Bodies: bounded before they are held, drained where they are refused.

use futures_util::StreamExt;
use worker::ByteStream;
use worker::web_sys::Request;

use crate::protocol::batch::inflate::Inflate;
use crate::protocol::bodies::{BODY_BYTES_MAX, BULK_BYTES_MAX, DRAIN_BYTES_MAX};
use crate::protocol::problem::{Code, Problem};

fn too_large(limit: u64) -> Problem {
    Problem::new(
        Code::BodyTooLarge,
        format!("send at most {} MiB in one body", limit / (1024 * 1024)),
    )
}

fn broken_off(error: &worker::Error) -> Problem {
    Problem::new(
        Code::InvalidBody,
        format!("the body broke off: {error}; nothing was counted, send it again"),
    )
}

fn length(chunk: &[u8]) -> u64 {
    u64::try_from(chunk.len()).unwrap_or(u64::MAX)
}

/// The body's stream; `None` where there is no body.
fn stream(request: &Request) -> Option<ByteStream> {
    request.body()?;
    worker::Request::from(Clone::clone(request)).stream().ok()
}

async fn drain_stream(stream: &mut ByteStream, mut seen: u64) {
    while seen < DRAIN_BYTES_MAX {
        match stream.next().await {
            Some(Ok(chunk)) => seen += length(&chunk),
            _ => return,
        }
    }
}

/// Reads what is left of a body and throws it away, up to [`DRAIN_BYTES_MAX`].
pub async fn drain(request: &Request) {
    // A body that was read before has its stream taken already.
    if announced_length(request) == Some(0) || request.body_used() {
        return;
    }
    if let Some(mut stream) = stream(request) {
        drain_stream(&mut stream, 0).await;
    }
}

/// Reads a small body whole.
///
/// # Errors
/// `body-too-large` above [`BODY_BYTES_MAX`], after draining.
pub async fn read_small(request: &Request) -> Result<Vec<u8>, Problem> {
    // Most increments have no body: a stream for nothing took a tenth of their time.
    let announced = announced_length(request);
    if announced == Some(0) || request.body().is_none() {
        return Ok(Vec::new());
    }
    refuse_encoded(request)?;
    if announced.is_some_and(|bytes| bytes <= BODY_BYTES_MAX) {
        let mut request = worker::Request::from(Clone::clone(request));
        return request.bytes().await.map_err(|error| broken_off(&error));
    }
    let mut body = Vec::new();
    each_chunk(request, BODY_BYTES_MAX, |chunk| {
        body.extend_from_slice(chunk);
        Ok(())
    })
    .await?;
    Ok(body)
}

/// The length that the client announced; the platform holds it to that.
fn announced_length(request: &Request) -> Option<u64> {
    request.headers().get("content-length").ok()??.parse().ok()
}

fn refuse_encoded(request: &Request) -> Result<(), Problem> {
    match encoding(request).as_deref() {
        None | Some("identity") => Ok(()),
        Some(other) => Err(Problem::new(
            Code::UnsupportedEncoding,
            format!("send this body as it is, not in the content encoding {other:?}"),
        )),
    }
}

fn encoding(request: &Request) -> Option<String> {
    let value = request.headers().get("content-encoding").ok().flatten()?;
    let value = value.trim().to_ascii_lowercase();
    (!value.is_empty()).then_some(value)
}

/// Reads a bulk body piece by piece, inflating gzip. `each` may refuse; nothing may be counted
/// before this has returned well, since a fault at the end refuses the whole body.
///
/// # Errors
/// `body-too-large` above [`BULK_BYTES_MAX`] before or after inflation, `invalid-gzip`,
/// `unsupported-encoding`, or what `each` says; after draining.
pub async fn read_bulk(
    request: &Request,
    mut each: impl FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    match encoding(request).as_deref() {
        None | Some("identity") => each_chunk(request, BULK_BYTES_MAX, each).await,
        Some("gzip" | "x-gzip") => {
            let mut inflate = Inflate::new(BULK_BYTES_MAX);
            each_chunk(request, BULK_BYTES_MAX, |chunk| {
                inflate.push(chunk, &mut each)
            })
            .await?;
            inflate.finish(each)
        }
        Some(other) => Err(Problem::new(
            Code::UnsupportedEncoding,
            format!("send the body as it is or with content encoding gzip, not {other:?}"),
        )),
    }
}

async fn each_chunk(
    request: &Request,
    limit: u64,
    mut each: impl FnMut(&[u8]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let Some(mut stream) = stream(request) else {
        return Ok(());
    };
    let mut seen = 0;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| broken_off(&error))?;
        seen += length(&chunk);
        let outcome = if seen > limit {
            Err(too_large(limit))
        } else {
            each(&chunk)
        };
        if let Err(problem) = outcome {
            drain_stream(&mut stream, seen).await;
            return Err(problem);
        }
    }
    Ok(())
}
