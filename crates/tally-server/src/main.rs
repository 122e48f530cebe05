//! Tally as one native program: the same crates as on Workers, on tokio, hyper and SQLite.
//!
//! | module | holds |
//! |---|---|
//! | [`options`] | options, the settings of the deployment, and the log |
//! | [`store`] | the data folder, its registry, and the database of an object |
//! | [`seat`], [`far`] | a thread from its start to its end, and calls between threads |
//! | [`ground`] | what a thread has beneath its objects |
//! | [`node`], [`place`], [`key`] | the objects of a thread, where one of them lives, and what identifies it |
//! | [`commits`], [`alarm`], [`ringing`], [`clock`] | the commits of a tick, alarms, the clock of a turn |
//! | [`guest`] | the platform as Workers and objects see it |
//! | [`clients`] | what clients may have, by whichever door they enter, and how long their requests take |
//! | [`http`], [`mod@http::tls`], [`outgoing`] | connections, requests and answers of clients |
//! | [`resp`] | connections of Redis's clients |
//! | [`live_socket`], [`socket`] | WebSockets: what both ends share, and the ends |
//! | [`event_stream`], [`event_writer`] | streams of server-sent events, likewise |
//! | [`webhook`] | requests that leave the deployment |
//! | [`pages`], [`randomness`] | files that are served as they stand, random numbers |
//!
//! Life: options → data folder → settings → listeners → threads → ready → signal → drained → closed → exit 0.

// They panic where the line cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod alarm;
mod clients;
mod clock;
mod commits;
mod event_stream;
mod event_writer;
mod far;
mod ground;
mod guest;
mod http;
mod key;
mod live_socket;
mod node;
mod options;
mod outgoing;
mod pages;
mod place;
mod randomness;
mod resp;
mod ringing;
mod seat;
mod socket;
mod store;
mod webhook;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::umask;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Barrier, watch};
use tracing::{error, warn};

use clients::ClientBounds;
use clock::TurnClock;
use far::Threads;
use ground::{EXIT_FAILED, ServerMetrics};
use http::tls::Tls;
use key::ClassNumber;
use options::ServerOptions;
use options::machine::{descriptors, memory_bytes, shares_of};
use seat::Seat;
use store::folder::DataFolder;
use store::loss;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The most further threads of a thread: they wait for the disk, and end when they have nothing to do.
const WAITING_THREADS_MAX: usize = 16;

/// What clients may fill together, with answers that wait and commands of Redis's protocol that arrive: at most this,
/// and at most an eighth of the memory.
const HELD_BYTES_MAX: u64 = 256 * 1_024 * 1_024;

/// The fewest objects that may be open in one of several threads.
const OPEN_OBJECTS_PER_THREAD_MIN: usize = 16;

fn main() -> ExitCode {
    let options = ServerOptions::of_process();
    // SQLite names no mode for its files.
    umask(Mode::RWXG | Mode::RWXO);
    options.begin_log();
    match run(serve(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            tell(io::stderr(), format_args!("serve: {sentence}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs work to its end on this thread.
fn run(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(WAITING_THREADS_MAX)
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

async fn addresses(host: &str) -> Result<Vec<IpAddr>, String> {
    let found = tokio::net::lookup_host((host, 0)).await.map_err(|_| {
        format!(
            "--host {host} is unknown: give an address of this machine or a name that leads to one"
        )
    })?;
    Ok(found.map(|found| found.ip()).collect())
}

async fn listeners(options: &ServerOptions, address: IpAddr) -> Result<Vec<TcpListener>, String> {
    let mut listeners = Vec::new();
    for index in 0..options.edges {
        let port = match options.port {
            0 => 0,
            port => port
                .checked_add(index)
                .ok_or("--port leaves no room for --edges")?,
        };
        let bound = TcpListener::bind(SocketAddr::new(address, port)).await;
        listeners.push(bound.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => format!(
                "port {port} on {} is taken: end what listens there, or choose another one with --port",
                options.host
            ),
            _ => format!("port {port} on {} cannot be listened on: {error}", options.host),
        })?);
    }
    Ok(listeners)
}

/// The listener of Redis's protocol, where one is wanted.
async fn resp_listener(options: &ServerOptions) -> Result<Option<TcpListener>, String> {
    let Some(address) = options.resp else {
        return Ok(None);
    };
    let bound = TcpListener::bind(address).await;
    bound.map(Some).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!(
                "{address} is taken: end what listens there, or choose another port with --resp"
            )
        }
        _ => format!("--resp {address} cannot be listened on: {error}"),
    })
}

/// The address by which this machine calls a listener.
fn url_of(scheme: &str, listener: &TcpListener) -> Result<String, String> {
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    Ok(format!(
        "{scheme}://{}",
        SocketAddr::new(ip, address.port())
    ))
}

/// Forgets what is lost, and says what.
fn accept_loss(folder: &DataFolder) -> Result<(), String> {
    for sentence in loss::accept(&folder.registry(), &folder.objects())? {
        warn!("{sentence}");
    }
    Ok(())
}

/// What clients speak, where that is not plain HTTP.
fn tls(options: &ServerOptions) -> Result<Option<Tls>, String> {
    match (&options.tls_certificate, &options.tls_key) {
        (Some(certificate), Some(key)) => Tls::read(certificate, key).map(Some),
        _ => Ok(None),
    }
}

/// Where clients enter.
struct Doors {
    listeners: Vec<StdListener>,
    resp: Option<StdListener>,
    /// What clients speak, where that is not in the clear.
    tls: Option<Tls>,
    urls: Vec<String>,
    resp_url: Option<String>,
}

impl Doors {
    async fn open(options: &ServerOptions, address: IpAddr) -> Result<Self, String> {
        let listeners = listeners(options, address).await?;
        let resp = resp_listener(options).await?;
        let tls = tls(options)?;
        let (scheme, resp_scheme) = match tls {
            None => ("http", "redis"),
            Some(_) => ("https", "rediss"),
        };
        let urls = listeners.iter().map(|listener| url_of(scheme, listener));
        let urls = urls.collect::<Result<_, _>>()?;
        let resp_url = resp.as_ref().map(|resp| url_of(resp_scheme, resp));
        let listeners = listeners.into_iter().map(TcpListener::into_std);
        Ok(Self {
            listeners: listeners.collect::<Result<_, _>>().map_err(said)?,
            resp: resp.map(TcpListener::into_std).transpose().map_err(said)?,
            tls,
            urls,
            resp_url: resp_url.transpose()?,
        })
    }

    /// The listeners of a further thread.
    fn listeners(&self) -> Result<(Vec<StdListener>, Option<StdListener>), String> {
        let listeners = self.listeners.iter().map(StdListener::try_clone);
        let resp = self.resp.as_ref().map(StdListener::try_clone);
        let listeners = listeners.collect::<Result<_, _>>().map_err(said)?;
        Ok((listeners, resp.transpose().map_err(said)?))
    }

    /// Says where the server answers.
    fn announce(&self) {
        let tell = |sentence: fmt::Arguments<'_>| tell(io::stdout(), sentence);
        if let Some(resp_url) = &self.resp_url {
            tell(format_args!("Redis's clients connect to {resp_url}"));
        }
        tell(format_args!(
            "Tally is ready on {}\nThe dashboard is on {}/dashboard/",
            self.urls.join(", "),
            self.urls.first().map_or("", String::as_str)
        ));
    }
}

async fn serve(options: &ServerOptions) -> Result<(), String> {
    let clock = TurnClock::default();
    clock.begin();
    let descriptors = descriptors()?;
    let count = usize::from(options.threads());
    let memory_bytes = memory_bytes();
    let (open_max, connections_max) = shares_of(descriptors, memory_bytes);
    let open_max = (number_of(open_max) / count).max(OPEN_OBJECTS_PER_THREAD_MIN);
    let addresses = addresses(&options.host).await?;
    let address = *addresses.first().ok_or("--host leads to no address")?;
    let classes = ClassNumber::all().map(ClassNumber::folder);
    let folder = DataFolder::open(&options.data, classes, options.accept_loss)?;
    let noted = folder.tablets()?;
    let settings = options.settings(&addresses, noted.as_deref(), open_max, clock.now_ms())?;
    let tablets = settings
        .get(tally_wire::names::TABLET_COUNT)
        .unwrap_or_default();
    folder.note_tablets(&tablets)?;
    if options.accept_loss {
        accept_loss(&folder)?;
    }
    let doors = Doors::open(options, address).await?;
    let (end, ends) = watch::channel(false);
    let head_time_max = Duration::from_secs(options.head_seconds.into());
    let held_bytes_max = HELD_BYTES_MAX.min(memory_bytes / 8);
    let [connections_max, held_bytes_max] = [connections_max, held_bytes_max].map(number_of);
    let bounds = ClientBounds::new(connections_max, held_bytes_max, head_time_max);
    let bounds = Arc::new(bounds);
    let (folder, drained) = (Arc::new(folder), Arc::new(Barrier::new(count)));
    let metrics = Arc::<ServerMetrics>::default();
    let waiting_max = number_of(options.waiting_calls.into());
    let seats = Threads::all(count, waiting_max)
        .into_iter()
        .map(|(threads, calls)| {
            let (listeners, resp) = doors.listeners()?;
            Ok(Seat {
                settings: settings.clone(),
                folder: folder.clone(),
                metrics: metrics.clone(),
                threads,
                calls,
                listeners,
                resp,
                blob: options.cf_blob_header.clone(),
                bounds: bounds.clone(),
                tls: doors.tls.clone(),
                open_max,
                ends: ends.clone(),
                drained: drained.clone(),
            })
        });
    let mut seats: Vec<Seat> = seats.collect::<Result<_, String>>()?;
    drop(ends);
    let own = seats.pop().ok_or("there is no thread")?;
    let others: Vec<_> = seats.into_iter().map(begin).collect::<Result<_, _>>()?;
    doors.announce();
    drop(doors);
    tokio::task::spawn_local(async move {
        if let Err(why) = signalled().await {
            error!("signals cannot be received: {why}");
        }
        let _ = end.send(true);
    });
    own.run().await?;
    for other in others {
        other.join().map_err(|_| "a thread has failed".to_owned())?;
    }
    Ok(())
}

/// Begins a thread. If it fails, the process ends: its objects are away.
fn begin(seat: Seat) -> Result<JoinHandle<()>, String> {
    let work = move || {
        if let Err(why) = run(seat.run()) {
            tell(io::stderr(), format_args!("serve: {why}"));
            std::process::exit(EXIT_FAILED);
        }
    };
    std::thread::Builder::new().spawn(work).map_err(said)
}

/// Writes a line. A line that cannot be written, as to a full disk, is lost.
fn tell(mut to: impl io::Write, sentence: fmt::Arguments<'_>) {
    let _ = writeln!(to, "{sentence}");
}

fn number_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn said(error: io::Error) -> String {
    error.to_string()
}

/// Waits for a signal to end. A second one ends the process at once.
async fn signalled() -> Result<(), String> {
    let listen = |kind| signal(kind).map_err(|error| error.to_string());
    let mut signals = [
        listen(SignalKind::terminate())?,
        listen(SignalKind::interrupt())?,
        listen(SignalKind::hangup())?,
    ];
    any(&mut signals).await;
    tokio::task::spawn_local(async move {
        any(&mut signals).await;
        std::process::exit(EXIT_FAILED);
    });
    Ok(())
}

async fn any(signals: &mut [tokio::signal::unix::Signal; 3]) {
    let received = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
    futures_util::future::select_all(received).await;
}
