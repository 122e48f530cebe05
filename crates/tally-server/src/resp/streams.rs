//! The streams that a connection listens to, one for each command that subscribes.

use std::task::Poll;

use bytes::Bytes;
use tally_host::Stream;
use tally_redis::notifications::Subscription;

use crate::event_stream::{EventCarrier, EventReader};

/// A stream, as the connection reads it.
struct Listened {
    wanted: Subscription,
    reader: EventReader,
    /// Data that has arrived, up to the end of the last complete frame that was read.
    begun: Vec<u8>,
}

/// The end of a frame.
const FRAME_END: &[u8] = b"\n\n";

/// The streams of a connection.
#[derive(Default)]
pub(crate) struct Streams(Vec<Listened>);

impl Streams {
    /// Adds a stream.
    pub(crate) fn add(&mut self, wanted: Subscription, stream: &Stream) {
        let carrier = stream.carrier.downcast_ref::<EventCarrier>();
        if let Some(reader) = carrier.and_then(EventCarrier::take) {
            let begun = Vec::new();
            self.0.push(Listened {
                wanted,
                reader,
                begun,
            });
        }
    }

    /// Closes all streams but those.
    pub(crate) fn retain(&mut self, stays: impl Fn(&Subscription) -> bool) {
        self.0.retain(|listened| stays(&listened.wanted));
    }

    /// The next frames of a stream, complete; `None` where one has ended.
    pub(crate) async fn next(&mut self) -> Option<(Subscription, String)> {
        std::future::poll_fn(|context| {
            for listened in &mut self.0 {
                while let Poll::Ready(chunk) = listened.reader.poll(context) {
                    let Some(chunk) = chunk else {
                        return Poll::Ready(None);
                    };
                    if let Some(frames) = listened.frames(&chunk) {
                        return Poll::Ready(Some((listened.wanted.clone(), frames)));
                    }
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl Listened {
    /// The complete frames after a chunk; `None` where there are none.
    fn frames(&mut self, chunk: &Bytes) -> Option<String> {
        self.begun.extend_from_slice(chunk);
        let mut windows = self.begun.windows(FRAME_END.len());
        let last = windows.rposition(|two| two == FRAME_END)?;
        let rest = self.begun.split_off(last + FRAME_END.len());
        let frames = std::mem::replace(&mut self.begun, rest);
        Some(String::from_utf8_lossy(&frames).into_owned())
    }
}
