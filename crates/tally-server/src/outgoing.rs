//! Responses to clients, as hyper takes them.

use std::borrow::Cow;
use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tally_host::http::{self, Pieces};
use tally_host::{Later, Stream};
use tokio::sync::watch;

use super::clients::held_bytes::{HeldBytes, HeldRoom, UNCOUNTED_BYTES};
use super::event_stream::{EventCarrier, ServedStream};

/// The most that a connection is given of a body at once, bytes: it keeps what its client has not taken.
const FRAME_BYTES_MAX: usize = 64 * 1_024;

/// A body of a known length.
pub(crate) struct FullBody {
    bytes: Bytes,
    /// What the body takes of the memory of all clients.
    held: Option<HeldBytes>,
}

impl From<Bytes> for FullBody {
    fn from(bytes: Bytes) -> Self {
        let held = None;
        Self { bytes, held }
    }
}

impl Body for FullBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }
}

impl FullBody {
    fn next(&mut self) -> Option<Frame<Bytes>> {
        let end = self.bytes.len().min(FRAME_BYTES_MAX);
        (end > 0).then(|| Frame::data(self.bytes.split_to(end)))
    }
}

/// What the next piece of a body comes from.
type NextPiece = Later<Result<Option<Vec<u8>>, String>>;

/// The body of an answer.
pub(crate) enum AnswerBody {
    /// Of a known length.
    Full(FullBody),
    /// Produced while it is sent.
    Pieces(Box<dyn Pieces>, Cell<Option<NextPiece>>),
    /// Server-sent events.
    Events(ServedStream),
}

impl From<Vec<u8>> for AnswerBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Full(FullBody::from(Bytes::from(bytes)))
    }
}

impl AnswerBody {
    /// Counts the body as memory of clients until it is sent.
    ///
    /// # Errors
    /// The bytes of the body, for which there is no room.
    pub(crate) fn hold(&mut self, room: &Arc<HeldRoom>) -> Result<(), usize> {
        let Self::Full(full) = self else {
            return Ok(());
        };
        let bytes = full.bytes.len();
        if bytes <= UNCOUNTED_BYTES {
            return Ok(());
        }
        let held = full.held.insert(HeldBytes::new(room));
        held.set(bytes).then_some(()).ok_or(bytes)
    }
}

/// A body that could not be produced to its end: the connection is broken off.
#[derive(Debug)]
pub(crate) struct BrokenBody(String);

impl std::fmt::Display for BrokenBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BrokenBody {}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        match self.get_mut() {
            Self::Full(full) => Poll::Ready(full.next().map(Ok)),
            Self::Events(stream) => stream
                .poll(context)
                .map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk)))),
            Self::Pieces(pieces, asked) => {
                let mut next = asked.take().unwrap_or_else(|| pieces.next());
                match next.as_mut().poll(context) {
                    Poll::Ready(Ok(Some(bytes))) => {
                        Poll::Ready(Some(Ok(Frame::data(bytes.into()))))
                    }
                    Poll::Ready(Ok(None)) => Poll::Ready(None),
                    Poll::Ready(Err(why)) => Poll::Ready(Some(Err(BrokenBody(why)))),
                    Poll::Pending => {
                        asked.set(Some(next));
                        Poll::Pending
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(full) => full.is_end_stream(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(full) => full.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

/// Adds a header. A value with a line's end is none, and is left out: it would be a header that nobody gave.
fn append(headers: &mut HeaderMap, name: &str, value: Bytes) {
    let name = HeaderName::from_bytes(name.as_bytes());
    let value = HeaderValue::from_maybe_shared(value);
    if let (Ok(name), Ok(value)) = (name, value) {
        headers.append(name, value);
    }
}

/// Status and headers of an answer with that body.
fn answer_with(response: http::Response, body: AnswerBody) -> Response<AnswerBody> {
    let status = StatusCode::from_u16(response.head.status);
    let mut made = Response::new(body);
    *made.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = made.headers_mut();
    match Rc::try_unwrap(response.head) {
        // Most have a head of their own, whose values need no copy.
        Ok(own) if response.changed.is_empty() => {
            for (name, value) in own.headers {
                append(headers, name, value.into());
            }
        }
        head => {
            let head = head.map_or_else(|shared| shared, Rc::new);
            let response = http::Response { head, ..response };
            for (name, value) in response.headers() {
                append(headers, name, Bytes::copy_from_slice(value.as_bytes()));
            }
        }
    }
    made
}

/// Makes an answer. That of a socket is left to the caller, who has the connection. `ends`: whether the server ends,
/// and with it a stream.
pub(crate) fn answer_of(
    mut response: http::Response,
    ends: &watch::Receiver<bool>,
) -> Result<Response<AnswerBody>, Stream> {
    let body = std::mem::replace(&mut response.body, http::Body::Empty);
    let body = match body {
        http::Body::Socket(stream) => return Err(stream),
        http::Body::Empty => AnswerBody::from(Vec::new()),
        http::Body::Text(text) => AnswerBody::from(text.as_bytes().to_vec()),
        http::Body::Bytes(Cow::Borrowed(bytes)) => {
            AnswerBody::Full(FullBody::from(Bytes::from_static(bytes)))
        }
        http::Body::Bytes(Cow::Owned(bytes)) => AnswerBody::from(bytes),
        http::Body::Pieces(pieces) => AnswerBody::Pieces(pieces, Cell::new(None)),
        http::Body::Stream(stream) => {
            let carrier = stream.carrier.downcast_ref::<EventCarrier>();
            let reader = carrier.and_then(EventCarrier::take);
            reader.map_or_else(
                || AnswerBody::from(Vec::new()),
                |reader| AnswerBody::Events(ServedStream::new(reader, ends.clone())),
            )
        }
    };
    Ok(answer_with(response, body))
}

#[cfg(test)]
mod tests {
    //! Law: bodies that clients have not taken are counted, and given to their connections in small frames.

    use std::task::Waker;

    use super::*;

    fn next(body: &mut AnswerBody) -> Option<usize> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(body).poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().ok().map(|bytes| bytes.len()),
            _ => None,
        }
    }

    #[test]
    fn a_body_takes_room_until_it_is_sent_or_its_client_is_gone() {
        let room = HeldRoom::new(200_000);
        let [mut one, mut other, mut third] = [0; 3].map(|_| AnswerBody::from(vec![0; 150_000]));
        let mut small = AnswerBody::from(vec![0; UNCOUNTED_BYTES]);
        assert_eq!(one.hold(&room), Ok(()));
        assert_eq!(other.hold(&room), Err(150_000));
        drop(other);
        assert_eq!(small.hold(&room), Ok(()));
        assert_eq!(next(&mut one), Some(FRAME_BYTES_MAX));
        assert_eq!(one.size_hint().exact(), Some(84_464));
        assert_eq!(third.hold(&room), Err(150_000));
        assert_eq!(next(&mut one), Some(FRAME_BYTES_MAX));
        assert_eq!(next(&mut one), Some(18_928));
        assert!(one.is_end_stream());
        drop(one);
        assert_eq!(third.hold(&room), Ok(()));
        drop(third);
        assert!(
            HeldBytes::new(&room).set(200_000),
            "all of it is free again"
        );
    }
}
