//! Connections of Redis's clients: its protocol over TCP, or over TLS where the server has a certificate.
//!
//! Life: bytes arrive → [`Connection`] takes commands from them → its steps are done → its output is sent. One task
//! does all of it, so nothing more is read while output waits for its client.
//!
//! Invariants: commands run by the same code, with the same rights, as those of `/redis`. Everything that a client
//! fills has a bound: [connections and requests in flight](super::clients), the bytes, words and number of commands
//! ([`tally_resp::framing`]), the memory that clients fill together ([`HeldBytes`]), the time in which a client is
//! admitted and a command arrives, and how long output may wait.

mod gathering;
mod request;
mod streams;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use tally_api::routes::RouteName;
use tally_redis::notifications::Subscription;
use tally_redis::request::CommandBatch;
use tally_redis::together::BatchKind;
use tally_resp::connection::{Connection, shapes_of};
use tally_resp::step::{ConnectionStep, OUTPUT_BYTES_MAX, Owed};
use tally_wire::redis::UNAVAILABLE;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::debug;

use super::clients::held_bytes::HeldBytes;
use super::clients::{self, ClientBounds};
use super::clock::{Turns, monotonic};
use super::ground::Ground;
use super::guest::Guest;
use super::http::tls::Tls;
use super::place::Home;
use gathering::{Gathering, Outcome};
use request::ConnectionRequest;
use streams::Streams;

/// How many bytes are read at once.
const READ_BYTES: usize = 16 * 1_024;

/// How many bytes that have arrived are read before their commands run.
const READ_AHEAD_BYTES_MAX: usize = 64 * 1_024;

/// How long a client may be idle between two commands. One that listens may be silent for ever.
const IDLE_TIME_MAX: Duration = Duration::from_secs(3_600);

/// How long a client may take for each [`OUTPUT_BYTES_MAX`] of its output.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take to read why its connection ends.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);

/// What a client gets that is one too many.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// Where Redis's clients enter: a listener with the memory of an edge.
pub(crate) struct RespDoor {
    ground: Rc<Ground>,
    gathering: Rc<Gathering>,
    tls: Option<Tls>,
    bounds: Arc<ClientBounds>,
    ends: watch::Receiver<bool>,
}

/// What a connection waits for.
enum Arrived {
    /// Bytes of the client, or data of a stream.
    Something,
    /// Nothing more: the client is gone or silent, a stream or the server ends.
    Nothing,
}

/// A connection of a client, with what the platform has of it.
struct Client<S> {
    stream: S,
    peer: SocketAddr,
    connection: Connection,
    inbox: Vec<u8>,
    streams: Streams,
    bounds: Arc<ClientBounds>,
    held: HeldBytes,
    /// What the client has yet to send, and since when.
    owed: Option<(Owed, Instant)>,
}

impl RespDoor {
    /// A door of a node. `tls`: what all of its clients speak. `ends`: whether the end has begun.
    pub(crate) fn new(
        home: Rc<dyn Home>,
        bounds: &Arc<ClientBounds>,
        tls: Option<&Tls>,
        ends: &watch::Receiver<bool>,
    ) -> Rc<Self> {
        let ground = home.ground().clone();
        let guest = Rc::new(Guest::of_edge(home));
        Rc::new(Self {
            gathering: Gathering::new(ground.clone(), guest),
            ground,
            tls: tls.cloned(),
            bounds: bounds.clone(),
            ends: ends.clone(),
        })
    }

    /// Accepts clients until the end begins.
    pub(crate) async fn listen(self: Rc<Self>, listener: TcpListener) {
        let ends = self.ends.clone();
        let admit = |stream, peer| self.clone().admit(stream, peer);
        clients::accept(&listener, self.bounds.head_time_max, ends, admit).await;
    }

    fn admit(self: Rc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Some(held) = self.bounds.admit() else {
            return self.bounds.refuse(stream, TOO_MANY);
        };
        let clock = self.ground.clock.clone();
        let work = async move {
            match &self.tls {
                None => self.serve(stream, peer).await,
                Some(tls) => {
                    if let Some(stream) = tls.accept(stream).await {
                        Box::pin(self.serve(stream, peer)).await;
                    }
                }
            }
            drop(held);
        };
        tokio::task::spawn_local(Turns::new(&clock, work));
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, peer: SocketAddr) {
        let mut connection = Connection::new(self.bounds.next_id(), peer.to_string());
        if self.check(peer, None).await.is_ok() {
            connection.admit();
        }
        let mut client = Client {
            stream,
            peer,
            connection,
            inbox: Vec::new(),
            streams: Streams::default(),
            bounds: self.bounds.clone(),
            held: HeldBytes::new(self.bounds.held()),
            owed: None,
        };
        while let Arrived::Something = client.wait(self).await {
            let goes_on = self.run_all(&mut client).await;
            if !client.send().await {
                return;
            }
            if !goes_on {
                break;
            }
        }
        client.end().await;
    }

    /// Runs all commands that have arrived. Returns whether the connection goes on.
    async fn run_all<S: AsyncWrite + Unpin>(&self, client: &mut Client<S>) -> bool {
        loop {
            let taken = client.connection.receive(&client.inbox);
            client.inbox.drain(..taken);
            let Some(step) = client.connection.step() else {
                if taken > 0 {
                    continue;
                }
                return true;
            };
            if step == ConnectionStep::Close {
                return false;
            }
            self.step(client, step).await;
            if client.connection.output_bytes() > OUTPUT_BYTES_MAX && !client.send().await {
                return false;
            }
        }
    }

    async fn step<S>(&self, client: &mut Client<S>, step: ConnectionStep) {
        let connection = &mut client.connection;
        match step {
            ConnectionStep::Prove => {
                let key = connection.key().map(str::to_owned);
                let outcome = self.check(client.peer, key).await;
                connection.proved(outcome);
            }
            ConnectionStep::Authenticate(login) => {
                let outcome = self.check(client.peer, Some(login.key.clone())).await;
                connection.authenticated(login, outcome);
            }
            ConnectionStep::Run(run) => {
                let (shapes, is_transaction) = (shapes_of(&run.commands), run.is_transaction);
                let key = connection.key().map(str::to_owned);
                let outcome = self.run(client.peer, key, run).await;
                connection.ran(&shapes, is_transaction, outcome);
            }
            ConnectionStep::Listen(wanted) => {
                let key = connection.key().map(str::to_owned);
                let request = ConnectionRequest::new(client.peer, key);
                let opened = tally_edge::open_subscription(
                    Box::new(request),
                    self.gathering.host(),
                    self.ground.context(),
                    wanted.clone(),
                );
                let outcome = opened.await;
                let outcome = outcome.map(|stream| client.streams.add(wanted.clone(), &stream));
                connection.listening(&wanted, outcome);
            }
            // What is more than that is sent after each step.
            ConnectionStep::Send => {}
            ConnectionStep::Unlisten => client.streams.retain(|stream| connection.is_heard(stream)),
            ConnectionStep::Close => {}
        }
    }

    /// Succeeds for a client that may run commands with this key.
    async fn check(&self, peer: SocketAddr, key: Option<String>) -> Result<(), String> {
        let nothing = CommandBatch {
            commands: Vec::new(),
            is_transaction: false,
        };
        self.run(peer, key, nothing).await.map(drop)
    }

    async fn run(&self, peer: SocketAddr, key: Option<String>, batch: CommandBatch) -> Outcome {
        let Some(_held) = self.bounds.begin_request() else {
            return Err(format!(
                "{UNAVAILABLE} too many requests are answered at once; nothing was done, try again"
            ));
        };
        let begun = monotonic();
        let route = match batch.is_transaction {
            true => RouteName::RedisTransaction,
            false => RouteName::RedisPipeline,
        };
        let kind = BatchKind::of(&batch.commands).filter(|_| !batch.is_transaction);
        let outcome = match kind {
            Some(kind) => self.gathering.run(peer, key, kind, batch.commands).await,
            None => self.run_alone(peer, key, batch).await,
        };
        let took = begun.elapsed();
        self.bounds.times().observe(route, took);
        debug!("{} over Redis's protocol {took:?}", route.as_str());
        outcome
    }

    async fn run_alone(
        &self,
        peer: SocketAddr,
        key: Option<String>,
        batch: CommandBatch,
    ) -> Outcome {
        let request = Box::new(ConnectionRequest::new(peer, key));
        let context = self.ground.context();
        tally_edge::run_commands(request, self.gathering.host(), context, batch).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// How long to wait for the client; `None` where it has had its time.
    fn time_max(&mut self) -> Option<Duration> {
        let owed = self.connection.owed(!self.inbox.is_empty());
        let Some(owed) = owed else {
            self.owed = None;
            let is_listening = self.connection.is_listening();
            return Some(match is_listening {
                true => Duration::MAX,
                false => IDLE_TIME_MAX,
            });
        };
        let since = match self.owed {
            Some((known, since)) if known == owed => since,
            _ => monotonic(),
        };
        self.owed = Some((owed, since));
        let left = self.bounds.head_time_max.checked_sub(since.elapsed());
        left.filter(|left| !left.is_zero())
    }

    /// Waits until something arrives.
    async fn wait(&mut self, door: &RespDoor) -> Arrived {
        if !self.has_room(0) {
            self.connection.refuse_room(self.bounds.held().bytes_max());
            return Arrived::Nothing;
        }
        let arrived = match self.time_max() {
            Some(time_max) => tokio::time::timeout(time_max, self.arrives(door)).await,
            None => return self.give_up(),
        };
        match arrived {
            Err(_) => self.give_up(),
            Ok(Some(Either::Left(read))) if read > 0 => {
                self.read_ahead();
                Arrived::Something
            }
            Ok(Some(Either::Right(Some((wanted, data))))) => {
                match self.connection.hear(&wanted, &data) {
                    // As in Redis, a client that reads too slowly has to connect again.
                    true => Arrived::Nothing,
                    false => Arrived::Something,
                }
            }
            Ok(_) => Arrived::Nothing,
        }
    }

    /// Writes why the client is not waited for.
    fn give_up(&mut self) -> Arrived {
        if let Some((owed, _)) = self.owed {
            let seconds = self.bounds.head_time_max.as_secs();
            let has_more = !self.inbox.is_empty();
            self.connection.give_up(owed, has_more, seconds);
        }
        Arrived::Nothing
    }

    /// What arrives next: bytes of the client, data of a stream, or, as `None`, the end of the server.
    async fn arrives(
        &mut self,
        door: &RespDoor,
    ) -> Option<Either<usize, Option<(Subscription, String)>>> {
        let mut ends = door.ends.clone();
        let (inbox, stream, streams) = (&mut self.inbox, &mut self.stream, &mut self.streams);
        if inbox.is_empty() {
            inbox.shrink_to(READ_BYTES);
        }
        inbox.reserve(READ_BYTES);
        let read = std::pin::pin!(stream.read_buf(inbox));
        let heard = std::pin::pin!(streams.next());
        // Its sender is the signal: if that is gone, the end has begun too.
        let ended = std::pin::pin!(ends.wait_for(|ends| *ends));
        match select(read, select(heard, ended)).await {
            Either::Left((read, _)) => Some(Either::Left(read.unwrap_or(0))),
            Either::Right((Either::Left((heard, _)), _)) => Some(Either::Right(heard)),
            Either::Right((Either::Right(_), _)) => None,
        }
    }

    /// Reads what has arrived as well, without waiting.
    fn read_ahead(&mut self) {
        while self.inbox.len() < READ_AHEAD_BYTES_MAX {
            self.inbox.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.inbox).now_or_never();
            if !matches!(read, Some(Ok(1..))) {
                return;
            }
        }
    }

    /// Ends the connection, so that the client sees what it was sent last.
    async fn end(mut self) {
        if !self.send().await {
            return;
        }
        let farewell = async {
            self.stream.shutdown().await?;
            // A connection that is closed before all of its bytes are read is reset.
            tokio::io::copy(&mut self.stream, &mut tokio::io::sink()).await
        };
        let _ = tokio::time::timeout(FAREWELL_TIME_MAX, farewell).await;
    }
}

impl<S: AsyncWrite + Unpin> Client<S> {
    /// Counts what the client fills, with that number of bytes of output. Returns whether there is room for it.
    fn has_room(&mut self, output_bytes: usize) -> bool {
        let arriving = self.inbox.len() + self.connection.held_bytes();
        self.held.set(arriving.saturating_add(output_bytes))
    }

    /// Sends what was written. Returns whether the client takes it. If not, the connection ends.
    async fn send(&mut self) -> bool {
        let output = self.connection.take_output();
        if output.len() <= OUTPUT_BYTES_MAX || self.has_room(output.len()) {
            return self.write(&output).await;
        }
        drop(output);
        self.connection.lose_replies(self.bounds.held().bytes_max());
        let why = self.connection.take_output();
        let _ = self.write(&why).await;
        false
    }

    async fn write(&mut self, output: &[u8]) -> bool {
        for chunk in output.chunks(OUTPUT_BYTES_MAX) {
            let written = tokio::time::timeout(WRITE_TIME_MAX, self.stream.write_all(chunk)).await;
            if !matches!(written, Ok(Ok(()))) {
                return false;
            }
        }
        let flushed = tokio::time::timeout(WRITE_TIME_MAX, self.stream.flush()).await;
        output.is_empty() || matches!(flushed, Ok(Ok(())))
    }
}
