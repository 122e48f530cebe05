//! What clients may have of this server, by whichever door they enter.
//!
//! Invariant: connections and requests in flight are bounded for all doors of all threads together. A client beyond a
//! bound gets an error, as long as a descriptor is free for it.

pub(crate) mod held_bytes;
mod request_times;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicUsize};
use std::time::Duration;

use futures_util::future::{Either, select};
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::warn;

use held_bytes::HeldRoom;
use request_times::RequestTimes;

/// The most requests that are answered at once. Each takes some 4 KB.
const REQUESTS_MAX: usize = 20_000;

/// How long no connection is accepted where there is no descriptor for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// One of this number of pauses is logged: one in 10 s.
const WARN_EVERY: u32 = 200;

/// How long a refused client may take to read the error.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(1);

/// At most one in `REFUSALS_SHARE` connections is being refused.
const REFUSALS_SHARE: usize = 4;

/// What clients may have of the doors of all threads together.
pub(crate) struct ClientBounds {
    /// The most connections.
    connections_max: usize,
    /// How long a client may take to send the head of a request, may be idle between two requests, and may take nothing
    /// of an answer.
    pub(crate) head_time_max: Duration,
    connections: Arc<AtomicUsize>,
    /// Requests that are being answered.
    requests: AtomicUsize,
    /// Connections that are being refused.
    refusals: Arc<AtomicUsize>,
    /// The memory that clients fill.
    held: Arc<HeldRoom>,
    /// The number of the last connection of Redis's protocol.
    last_id: AtomicI64,
    /// How long their requests took.
    times: RequestTimes,
}

/// Counts as long as it is held.
pub(crate) struct Held(Arc<AtomicUsize>);

impl Held {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A request that is being answered.
pub(crate) struct HeldRequest<'a>(&'a AtomicUsize);

impl Drop for HeldRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl ClientBounds {
    /// `held_bytes_max`: what clients may fill together.
    pub(crate) fn new(
        connections_max: usize,
        held_bytes_max: usize,
        head_time_max: Duration,
    ) -> Self {
        Self {
            connections_max,
            head_time_max,
            connections: Arc::default(),
            requests: AtomicUsize::default(),
            refusals: Arc::default(),
            held: HeldRoom::new(held_bytes_max),
            last_id: AtomicI64::default(),
            times: RequestTimes::default(),
        }
    }

    /// How many clients are connected.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// The number of a new connection of Redis's protocol.
    pub(crate) fn next_id(&self) -> i64 {
        self.last_id.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// The memory that clients fill.
    pub(crate) fn held(&self) -> &Arc<HeldRoom> {
        &self.held
    }

    /// How long requests took.
    pub(crate) fn times(&self) -> &RequestTimes {
        &self.times
    }

    /// Counts a connection from now on, because many may be accepted before the first of their tasks begins; `None` for
    /// one too many.
    pub(crate) fn admit(&self) -> Option<Held> {
        (self.connections() < self.connections_max).then(|| Held::begin(&self.connections))
    }

    /// Counts a request; `None` for one too many.
    pub(crate) fn begin_request(&self) -> Option<HeldRequest<'_>> {
        (self.requests.load(Relaxed) < REQUESTS_MAX).then(|| {
            self.requests.fetch_add(1, Relaxed);
            HeldRequest(&self.requests)
        })
    }

    /// Sends an error to a client beyond the bound. If too many are being refused already, it gets none.
    pub(crate) fn refuse(&self, mut stream: TcpStream, text: &'static [u8]) {
        if self.refusals.load(Relaxed) >= self.connections_max / REFUSALS_SHARE {
            return;
        }
        let held = Held::begin(&self.refusals);
        let said = async move {
            stream.write_all(text).await?;
            stream.shutdown().await?;
            // A connection that is closed before its request is read is reset, and the client does not see the answer.
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
        };
        tokio::task::spawn_local(async move {
            let _ = tokio::time::timeout(REFUSAL_TIME_MAX, said).await;
            drop(held);
        });
    }
}

/// Accepts clients until the end begins. `unread_time_max`: how long a client may take nothing of what it was sent.
pub(crate) async fn accept(
    listener: &TcpListener,
    unread_time_max: Duration,
    mut ends: watch::Receiver<bool>,
    admit: impl Fn(TcpStream, SocketAddr),
) {
    let mut refusals = 0u32;
    loop {
        let accepted = {
            let accept = std::pin::pin!(listener.accept());
            let ended = std::pin::pin!(ends.changed());
            match select(accept, ended).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(_) => return,
            }
        };
        match accepted {
            Ok((stream, peer)) => {
                // Without it each answer waits for the acknowledgement of the one before.
                let _ = stream.set_nodelay(true);
                let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(unread_time_max));
                admit(stream, peer);
            }
            Err(error) => {
                if refusals.is_multiple_of(WARN_EVERY) {
                    warn!("no connection can be accepted: {error}; those that are open are served");
                }
                refusals = refusals.wrapping_add(1);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
