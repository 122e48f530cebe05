//! Connections of Redis's clients: its protocol over TCP, or over TLS where the server has a certificate.
//!
//! Life: bytes arrive → [`Connection`] takes commands from them → its steps are done → its output is sent. One task
//! does all of it, so nothing more is read while output waits for its client.
//!
//! Invariants: commands run by the same code, with the same rights, as those of `/redis`. Everything that a client
//! fills has a bound: [connections and requests in flight](super::clients), the bytes, words and number of commands
//! ([`tally_resp::framing`]), the time between two of them, and how long output may wait.

mod request;
mod streams;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use tally_api::routes::RouteName;
use tally_edge::CommandBatch;
use tally_host::{Host, Memory};
use tally_resp::connection::{Connection, ConnectionStep, Run, shapes_of};
use tally_wire::redis::{Reply, UNAVAILABLE};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::debug;

use super::clients::{self, ClientBounds};
use super::clock::{Turns, monotonic};
use super::ground::Ground;
use super::guest::Guest;
use super::http::tls::Tls;
use super::place::Home;
use request::ConnectionRequest;
use streams::Streams;

/// How many bytes are read at once.
const READ_BYTES: usize = 16 * 1_024;

/// How many bytes that have arrived are read before their commands run.
const READ_AHEAD_BYTES_MAX: usize = 64 * 1_024;

/// Output of more bytes is sent before further commands run. One reply may have more.
const OUTPUT_BYTES_MAX: usize = 64 * 1_024;

/// How long a client may be idle between two commands. One that listens may be silent for ever.
const IDLE_TIME_MAX: Duration = Duration::from_secs(3_600);

/// How long a client may take no output.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take to read why its connection ends.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);

/// What a client gets that is one too many.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// Where Redis's clients enter: a listener with the memory of an edge.
pub(crate) struct RespDoor {
    ground: Rc<Ground>,
    guest: Rc<Guest>,
    memory: Rc<Memory>,
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
}

impl RespDoor {
    /// A door of a node. `tls`: what all of its clients speak. `ends`: whether the end has begun.
    pub(crate) fn new(
        home: Rc<dyn Home>,
        bounds: &Arc<ClientBounds>,
        tls: Option<&Tls>,
        ends: &watch::Receiver<bool>,
    ) -> Rc<Self> {
        Rc::new(Self {
            ground: home.ground().clone(),
            guest: Rc::new(Guest::of_edge(home)),
            memory: Rc::default(),
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
        let connection = Connection::new(self.bounds.next_id(), peer.to_string());
        let mut client = Client {
            stream,
            peer,
            connection,
            inbox: Vec::new(),
            streams: Streams::default(),
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
                    self.host(),
                    self.ground.context(),
                    wanted.clone(),
                );
                let outcome = opened.await;
                let outcome = outcome.map(|stream| client.streams.add(wanted.clone(), &stream));
                connection.listening(&wanted, outcome);
            }
            ConnectionStep::Unlisten => client.streams.retain(|stream| connection.is_heard(stream)),
            ConnectionStep::Close => {}
        }
    }

    fn host(&self) -> Host {
        Host::new(self.guest.clone(), self.memory.clone())
    }

    /// Succeeds for a client that may run commands with this key.
    async fn check(&self, peer: SocketAddr, key: Option<String>) -> Result<(), String> {
        let nothing = Run {
            commands: Vec::new(),
            is_transaction: false,
        };
        self.run(peer, key, nothing).await.map(drop)
    }

    async fn run(
        &self,
        peer: SocketAddr,
        key: Option<String>,
        run: Run,
    ) -> Result<Vec<Reply>, String> {
        let Some(_held) = self.bounds.begin_request() else {
            return Err(format!(
                "{UNAVAILABLE} too many requests are answered at once; nothing was done, try again"
            ));
        };
        let begun = monotonic();
        let Run {
            commands,
            is_transaction,
        } = run;
        let route = match is_transaction {
            true => RouteName::RedisTransaction,
            false => RouteName::RedisPipeline,
        };
        let batch = CommandBatch {
            commands,
            is_transaction,
        };
        let request = Box::new(ConnectionRequest::new(peer, key));
        let ran = tally_edge::run_commands(request, self.host(), self.ground.context(), batch);
        let outcome = ran.await;
        let took = begun.elapsed();
        self.bounds.times().observe(route, took);
        debug!("{} over Redis's protocol {took:?}", route.as_str());
        outcome
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Waits until something arrives.
    async fn wait(&mut self, door: &RespDoor) -> Arrived {
        let time_max = match self.connection.is_known() && !self.connection.is_inside() {
            true if self.connection.is_listening() => Duration::MAX,
            true => IDLE_TIME_MAX,
            false => door.bounds.head_time_max,
        };
        let mut ends = door.ends.clone();
        let (inbox, stream, streams) = (&mut self.inbox, &mut self.stream, &mut self.streams);
        if inbox.is_empty() {
            inbox.shrink_to(READ_BYTES);
        }
        inbox.reserve(READ_BYTES);
        let arrived = async {
            let read = std::pin::pin!(stream.read_buf(inbox));
            let heard = std::pin::pin!(streams.next());
            // Its sender is the signal: if that is gone, the end has begun too.
            let ended = std::pin::pin!(ends.wait_for(|ends| *ends));
            match select(read, select(heard, ended)).await {
                Either::Left((read, _)) => Some(Either::Left(read.unwrap_or(0))),
                Either::Right((Either::Left((heard, _)), _)) => Some(Either::Right(heard)),
                Either::Right((Either::Right(_), _)) => None,
            }
        };
        match tokio::time::timeout(time_max, arrived).await {
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
            _ => Arrived::Nothing,
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
        let farewell = async {
            self.stream.shutdown().await?;
            // A connection that is closed before all of its bytes are read is reset.
            tokio::io::copy(&mut self.stream, &mut tokio::io::sink()).await
        };
        let _ = tokio::time::timeout(FAREWELL_TIME_MAX, farewell).await;
    }
}

impl<S: AsyncWrite + Unpin> Client<S> {
    /// Sends what was written. Returns whether the client takes it.
    async fn send(&mut self) -> bool {
        let output = self.connection.take_output();
        let mut rest = output.as_slice();
        while !rest.is_empty() {
            let written = tokio::time::timeout(WRITE_TIME_MAX, self.stream.write(rest)).await;
            let Ok(Ok(written @ 1..)) = written else {
                return false;
            };
            rest = rest.get(written..).unwrap_or_default();
        }
        let flushed = tokio::time::timeout(WRITE_TIME_MAX, self.stream.flush()).await;
        output.is_empty() || matches!(flushed, Ok(Ok(())))
    }
}
