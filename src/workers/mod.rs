//! The platform, on Cloudflare Workers and on workerd. It compiles for wasm32 only, and decides nothing.
//!
//! | module | holds |
//! |---|---|
//! | [`entry`] | where the platform enters a Worker |
//! | [`classes`] | where it enters an object |
//! | [`messages`] | how messages travel between them |
//! | [`storage`] | an object's database, alarm and sockets |
//! | [`sockets`] | WebSockets and streams of server-sent events |
//! | [`points`] | the deployment's data set |
//! | [`queue`], [`files`] | the deployment's queue, and its files |
//! | [`request`], [`response`] | requests and responses of clients |
//! | [`outside`] | requests that leave the deployment |
//! | [`settings`] | variables and secrets |
//! | [`timer`] | timers |

mod classes;
mod entry;
mod files;
mod messages;
mod outside;
mod points;
mod queue;
mod request;
mod response;
mod settings;
mod sockets;
mod storage;
mod timer;

use std::rc::Rc;

use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::{Env, console_error, console_warn};

use tally_host::{File, Files, Host, Later, Level, Memory, Platform, Point, Stream, Target};
use tally_wire::alerts::Outgoing;
use tally_wire::messages::path_in;
use tally_wire::names::{DIRECTORY, Placement};

thread_local! {
    /// What this isolate holds for the edge, and for the aggregator and the objects; it runs one thread. Two, since one
    /// Worker may have both roles.
    static MEMORY: [Rc<Memory>; 2] = Default::default();
}

/// The platform by its bindings.
struct Workers(Env);

/// The platform of this isolate, for the aggregator and the objects.
fn host(env: Env) -> Host {
    let memory = MEMORY.with(|[_, objects]| objects.clone());
    Host::new(Rc::new(Workers(env)), memory)
}

/// The same for the edge.
fn edge_host(env: Env) -> Host {
    let memory = MEMORY.with(|[edge, _]| edge.clone());
    Host::new(Rc::new(Workers(env)), memory)
}

#[wasm_bindgen]
extern "C" {
    type StoredFile;

    /// Throws where the module was built without the files.
    #[wasm_bindgen(catch, js_name = tallyFile)]
    fn find(name: &str) -> Result<Option<StoredFile>, JsValue>;

    #[wasm_bindgen(method, getter)]
    fn text(this: &StoredFile) -> String;

    #[wasm_bindgen(method, getter)]
    fn etag(this: &StoredFile) -> String;
}

impl Platform for Workers {
    /// One call into JavaScript; the SDK's `Date` makes an object and costs three.
    #[expect(
        clippy::as_conversions,
        reason = "whole milliseconds, which a double holds exactly to the year 287,396"
    )]
    fn now_ms(&self) -> i64 {
        worker::js_sys::Date::now() as i64
    }

    /// A failure is a trap, after which the next call begins a new instance.
    fn random(&self) -> u64 {
        getrandom::u64().unwrap_or_else(|error| {
            console_error!("The platform has no randomness: {error}");
            std::process::abort()
        })
    }

    fn fill_secret(&self, secret: &mut [u8]) -> Result<(), String> {
        getrandom::fill(secret).map_err(|error| error.to_string())
    }

    fn sleep(&self, milliseconds: u64) -> Later<()> {
        Box::pin(timer::Timer::new(milliseconds))
    }

    fn setting(&self, name: &str) -> Option<String> {
        settings::read(&self.0, name)
    }

    fn jurisdiction_fault(&self, _name: &str) -> Option<String> {
        let namespace = messages::namespace(&self.0, DIRECTORY);
        let said = namespace.err()?.to_string();
        let bare = said.strip_prefix("Error: ").unwrap_or(&said);
        Some(bare.trim_end_matches('.').to_owned())
    }

    fn send(
        &self,
        to: Target,
        protocol: u8,
        path: &'static str,
        message: Vec<u8>,
    ) -> Later<Result<Vec<u8>, String>> {
        let env = self.0.clone();
        Box::pin(async move {
            let sent = messages::send(&env, &to, &path_in(protocol, path), &message).await;
            sent.map_err(|error| error.to_string())
        })
    }

    fn open(
        &self,
        to: Placement,
        protocol: u8,
        path: &'static str,
        message: Vec<u8>,
        upgrade: Option<String>,
    ) -> Later<Result<Stream, String>> {
        let env = self.0.clone();
        Box::pin(async move {
            let opened = messages::open(
                &env,
                &to,
                &path_in(protocol, path),
                &message,
                upgrade.as_deref(),
            )
            .await;
            opened.map_err(|error| error.to_string())
        })
    }

    fn has_queue(&self) -> bool {
        queue::bound(&self.0).is_some()
    }

    fn enqueue(&self, messages: Rc<[Vec<u8>]>) -> Later<Result<(), String>> {
        let bound = queue::bound(&self.0);
        Box::pin(async move {
            let bound = bound.ok_or("no queue is bound")?;
            let sent = queue::send(&bound, &messages).await;
            sent.map_err(|error| worker::Error::from(error).to_string())
        })
    }

    fn has_points(&self) -> bool {
        points::bound(&self.0).is_some()
    }

    fn write_points(&self, points: &[Point]) {
        if let Some(bound) = points::bound(&self.0) {
            points.iter().for_each(|point| points::write(&bound, point));
        }
    }

    fn post(&self, request: Outgoing) -> Later<Result<u16, String>> {
        let named = outside::bound(&self.0);
        Box::pin(async move {
            let posted = outside::post(request, named).await;
            posted.map_err(|error| outside::said(&error))
        })
    }

    fn file(&self, name: &str) -> Result<Option<File>, String> {
        let found = find(name).map_err(|_| "this module was built without its files")?;
        Ok(found.map(|file| File {
            text: file.text(),
            etag: file.etag(),
        }))
    }

    fn files(&self) -> Option<Rc<dyn Files>> {
        files::bound(&self.0)
    }

    fn log(&self, level: Level, text: &str) {
        match level {
            Level::Warning => console_warn!("{text}"),
            Level::Error => console_error!("{text}"),
        }
    }
}
