//! The options of the program, and the settings of the deployment that follow from them.
//!
//! Invariant: access is open only on a loopback address without keys. Any other address needs keys. What
//! `make serve` sets by itself is set here too, so that both answer alike.

mod log;
pub(crate) mod machine;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::builder::RangedI64ValueParser;
use clap::{CommandFactory, FromArgMatches, Parser};
use hyper::header::HeaderName;
use tally_api::access::Access;
use tally_wire::names::{
    ACCESS, ACCESS_OPEN, DATACENTERS, DATACENTERS_ONE, KEYS, LIMITER_COUNT, OPEN_OBJECTS_MAX, ROLE,
    STARTED_AT, SUBREQUESTS, TABLET_COUNT,
};
use tally_wire::settings;
use tracing::level_filters::LevelFilter;

use log::LogFormat;

/// The most edges: each has a port and caches of its own.
const EDGES_MAX: u16 = 64;

/// The most threads: each has a share of the open objects.
const THREADS_MAX: u16 = 256;

/// Calls that may wait for a thread. A call has some 200 bytes, and a batch of increments more.
const WAITING_CALLS_DEFAULT: u32 = 10_000;

/// How long a client may take to a head, seconds.
const HEAD_SECONDS_DEFAULT: u16 = 60;

/// Each tablet that a commit reaches is a file to sync, so increments of many counters share few syncs with few
/// tablets: 16 instead of 64 took a quarter of the time. There are as many as partitions of the directory, because the
/// leads of a tablet then have their roots in one of them.
const TABLETS_DEFAULT: &str = "16";

/// All objects share the machine, so more limiters judge no faster, and fewer of them share fuller messages.
const LIMITERS_DEFAULT: &str = "4";

/// Nothing counts the calls of a request here, so the memory of a bulk body bounds how many counters it names.
const SUBREQUESTS_DEFAULT: &str = "1000000";

/// Runs Tally on this machine. All other settings are TALLY_ variables of the environment: see
/// docs/operate/variables.md.
#[derive(Parser)]
#[command(name = "tally-server", version)]
pub(crate) struct ServerOptions {
    /// The address to listen on. Any address except loopback needs keys.
    #[arg(long, env = "TALLY_HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,

    /// The port. 0 chooses a free one.
    #[arg(long, env = "TALLY_PORT", default_value_t = 8788)]
    pub(crate) port: u16,

    /// The data folder. Only one server can use it at a time.
    #[arg(long, env = "TALLY_DATA", default_value = "tally-data")]
    pub(crate) data: PathBuf,

    /// Forgets databases that are missing or empty, and logs that cannot be read. Use it for one start. Without it,
    /// calls for the counters in them get 503.
    #[arg(long)]
    pub(crate) accept_loss: bool,

    /// A file with the keys. The variable TALLY_KEYS contains their JSON itself.
    #[arg(long)]
    pub(crate) keys: Option<PathBuf>,

    /// How many ports listen. Each is an edge with separate caches.
    #[arg(long, env = "SERVE_EDGES", default_value_t = 1, value_parser = edges())]
    pub(crate) edges: u16,

    /// How many threads answer requests. By default, one for each core.
    #[arg(long, env = "TALLY_THREADS", value_parser = threads())]
    threads: Option<u16>,

    /// How many calls may wait for a thread. Further calls get 503.
    #[arg(long, default_value_t = WAITING_CALLS_DEFAULT, value_parser = waiting_calls())]
    pub(crate) waiting_calls: u32,

    /// The TLS certificate, a PEM file. With it, the port speaks TLS.
    #[arg(long, requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// The private key of the certificate, a PEM file.
    #[arg(long, requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Speaks Redis's protocol on this port of 127.0.0.1, or on an address and a port such as 0.0.0.0:6379. Any address
    /// except loopback needs keys. With a TLS certificate, this port speaks TLS too.
    #[arg(long, env = "TALLY_RESP", value_name = "PORT", value_parser = resp_address)]
    pub(crate) resp: Option<SocketAddr>,

    /// How many seconds a client may take to send the head of a request, and may be idle between two requests.
    #[arg(long, env = "TALLY_HEAD_SECONDS", default_value_t = HEAD_SECONDS_DEFAULT, value_parser = head_seconds())]
    pub(crate) head_seconds: u16,

    /// The least level of the log: off, error, warn, info, debug or trace.
    #[arg(long, env = "TALLY_LOG", default_value = "info")]
    pub(crate) log: LevelFilter,

    /// How a line of the log is written.
    #[arg(long, env = "TALLY_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// The header in which a proxy sends JSON with the colo, country and clientIp of a request.
    #[arg(long, env = "CF_BLOB_HEADER", value_parser = header_name)]
    pub(crate) cf_blob_header: Option<String>,
}

fn threads() -> RangedI64ValueParser<u16> {
    RangedI64ValueParser::new().range(1..=i64::from(THREADS_MAX))
}

fn waiting_calls() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(1..=1_000_000)
}

fn head_seconds() -> RangedI64ValueParser<u16> {
    RangedI64ValueParser::new().range(1..=3_600)
}

fn header_name(text: &str) -> Result<String, String> {
    let name = HeaderName::from_bytes(text.as_bytes());
    let why = |_| "it is no name of a header: give one such as cf-blob".to_owned();
    name.map(|name| name.as_str().to_owned()).map_err(why)
}

fn resp_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
    }
    let why =
        "give a port, such as 6379, or an address and a port, such as 0.0.0.0:6379 or [::1]:6379";
    text.parse().map_err(|_| why.to_owned())
}

fn edges() -> RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=i64::from(EDGES_MAX))
}

/// The variables of the environment that are Tally's and are set. Others' may be no text.
fn variables() -> Result<HashMap<String, String>, String> {
    let all = std::env::vars_os().map(|(name, value)| (name.into_string(), value.into_string()));
    all.filter_map(|(name, value)| {
        Some((name.ok().filter(|name| name.starts_with("TALLY_"))?, value))
    })
    .map(|(name, value)| match value {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(format!(
            "{name} is no text in UTF-8: correct it, or leave it out"
        )),
    })
    .collect()
}

/// The settings of the deployment, by their names.
#[derive(Clone)]
pub(crate) struct ServerSettings(HashMap<String, String>);

impl ServerSettings {
    /// A setting; `None` where it is not set.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

impl ServerOptions {
    /// The options of this process. A variable that is set and empty counts as not set.
    pub(crate) fn of_process() -> Self {
        let command = Self::command().mut_args(|option| {
            let value = option.get_env().and_then(std::env::var_os);
            match value.is_some_and(|value| value.is_empty()) {
                true => option.env(None::<&str>),
                false => option,
            }
        });
        let options = Self::from_arg_matches(&command.get_matches());
        options.unwrap_or_else(|error| error.exit())
    }

    /// Begins the log of this process.
    pub(crate) fn begin_log(&self) {
        log::begin(self.log, self.log_format);
    }

    /// How many threads answer.
    pub(crate) fn threads(&self) -> u16 {
        let cores = || {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            u16::try_from(cores).unwrap_or(THREADS_MAX).min(THREADS_MAX)
        };
        self.threads.unwrap_or_else(cores)
    }

    /// The settings that the environment and these options give. `addresses`: what the host resolves to. `noted`: the
    /// tablets of the data folder, `None` where it is new. `open_objects_max`: how many objects may be open.
    ///
    /// # Errors
    /// What may not be so, as a sentence.
    pub(crate) fn settings(
        &self,
        addresses: &[IpAddr],
        noted: Option<&str>,
        open_objects_max: usize,
        started_ms: i64,
    ) -> Result<ServerSettings, String> {
        let own = [
            ROLE,
            ACCESS,
            STARTED_AT,
            "TALLY_HOST",
            "TALLY_PORT",
            "TALLY_DATA",
            "TALLY_RESP",
        ];
        let mut known = variables()?;
        // An empty setting or note says that each counter has an object of its own.
        let tablets = known.get(TABLET_COUNT).cloned();
        let tablets = tablets.as_deref().or(noted).unwrap_or(TABLETS_DEFAULT);
        let tablets = tablets.trim().to_owned();
        known.retain(|_, value| !value.trim().is_empty());
        let access = known.get(ACCESS).cloned();
        known.retain(|name, _| !own.contains(&name.as_str()));
        if let Some(file) = &self.keys {
            known.insert(KEYS.to_owned(), keys_of(file)?);
        }
        let configured = Access::from_config(known.get(KEYS).map(String::as_str), true);
        configured.map_err(|problem| problem.to_string())?;
        let is_loopback = addresses.iter().all(IpAddr::is_loopback) && !addresses.is_empty();
        let has_keys = known.contains_key(KEYS);
        if !is_loopback && !has_keys {
            return Err(format!(
                "--host {} can be reached from other machines, so keys are needed: add --keys keys.json (docs/operate/keys.md shows its form), or leave --host out to serve this machine only",
                self.host
            ));
        }
        if let Some(resp) = self.resp.filter(|resp| !resp.ip().is_loopback())
            && !has_keys
        {
            return Err(format!(
                "--resp {resp} can be reached from other machines, so keys are needed: add --keys keys.json (docs/operate/keys.md shows its form), or give the port alone to serve this machine only"
            ));
        }
        let access = access.unwrap_or_else(|| ACCESS_OPEN.to_owned());
        if access != ACCESS_OPEN || !has_keys {
            known.insert(ACCESS.to_owned(), access);
        }
        let mut set = |name: &str, value: String| {
            known.entry(name.to_owned()).or_insert(value);
        };
        // Without it nothing says where a request entered, and looking there costs each of them time.
        if self.cf_blob_header.is_none() {
            set(DATACENTERS, DATACENTERS_ONE.to_owned());
        }
        set(LIMITER_COUNT, LIMITERS_DEFAULT.to_owned());
        set(SUBREQUESTS, SUBREQUESTS_DEFAULT.to_owned());
        set(OPEN_OBJECTS_MAX, open_objects_max.to_string());
        set(STARTED_AT, started_ms.to_string());
        if !tablets.is_empty() {
            set(TABLET_COUNT, tablets);
        }
        let problem = settings::check_all(|name| known.get(name).cloned());
        problem.map_err(|problem| problem.to_string())?;
        Ok(ServerSettings(known))
    }
}

/// The keys of a file.
///
/// # Errors
/// It cannot be read, or is empty.
fn keys_of(file: &Path) -> Result<String, String> {
    let keys = std::fs::read_to_string(file);
    let keys = keys.map_err(|error| format!("--keys {}: {error}", file.display()))?;
    // Editors of Windows write a byte order mark.
    let keys = keys.strip_prefix('\u{feff}').unwrap_or(&keys);
    match keys.trim().is_empty() {
        true => Err(format!("--keys {}: the file is empty", file.display())),
        false => Ok(keys.to_owned()),
    }
}
