//! Objects to try the platform with.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use tally_host::http::{Body, Context, Request, Response};
use tally_host::object::{Events, IncomingCall, Object, Reply, Rows, Shell, Socket, SqlValue};
use tally_host::{Host, Level, Target};
use tally_simulation::{Options, Site, World};
use tally_wire::messages::{Fault, PROTOCOL};
use tally_wire::names::Placement;

pub const TILLS: &str = "TILLS";

pub fn till(name: &str) -> Placement {
    Placement {
        binding: TILLS,
        name: name.to_owned(),
        location_hint: None,
    }
}

/// Counts what it is told, each with a row of its own.
pub struct Till {
    object: Object,
    host: Host,
    sum: Cell<i64>,
    rings: Cell<i64>,
    streams: std::cell::RefCell<Vec<Rc<dyn Events>>>,
}

fn first(rows: &Rows) -> i64 {
    match rows.first().and_then(|row| row.first()) {
        Some(SqlValue::Integer(number)) => *number,
        _ => 0,
    }
}

impl Till {
    fn run(&self, statement: &str, values: Vec<SqlValue>) -> Result<Rows, String> {
        self.object.platform().run(statement, values)
    }

    fn add(&self, count: i64) -> Result<i64, String> {
        self.run(
            "CREATE TABLE IF NOT EXISTS adds (number INTEGER PRIMARY KEY, count INTEGER NOT NULL)",
            vec![],
        )?;
        self.run("INSERT INTO adds (count) VALUES (?)", vec![count.into()])?;
        let sum = first(&self.run("SELECT SUM(count) FROM adds", vec![])?);
        self.sum.set(sum);
        Ok(sum)
    }
}

fn text_reply(text: impl Into<String>) -> Reply {
    Reply::Answer(text.into().into_bytes())
}

fn refused(why: String) -> Reply {
    Reply::Refused(500, why)
}

impl Till {
    fn start(object: Object, host: Host) -> Self {
        let till = Self {
            object,
            host,
            sum: Cell::new(0),
            rings: Cell::new(0),
            streams: std::cell::RefCell::default(),
        };
        let sum = till.run("SELECT SUM(count) FROM adds", vec![]);
        till.sum.set(sum.map_or(0, |rows| first(&rows)));
        till
    }
}

impl Shell for Till {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(async move {
            match arrived.path.as_str() {
                "/add" => match self.add(1) {
                    Ok(sum) => text_reply(sum.to_string()),
                    Err(error) => refused(error),
                },
                "/add-slowly" => {
                    let added = self.add(1);
                    self.host.sleep_ms(50).await;
                    added.map_or_else(refused, |sum| text_reply(sum.to_string()))
                }
                "/undone" => {
                    let platform = self.object.platform();
                    let done = platform.atomically(&mut || self.add(1).is_err());
                    done.map_or_else(refused, |()| text_reply("undone"))
                }
                "/read" => text_reply(self.sum.get().to_string()),
                "/sync" => {
                    let added = self.add(1);
                    self.object.platform().sync().await.expect("no fault");
                    self.host.platform().log(Level::Warning, "durable");
                    added.map_or_else(refused, |sum| text_reply(sum.to_string()))
                }
                "/wipe" => {
                    self.object.platform().delete_all().await.expect("no fault");
                    text_reply("")
                }
                "/never" => std::future::pending().await,
                "/arm" => {
                    let at_ms = self.host.now_ms() + 1_000;
                    let set = self.object.platform().set_alarm(at_ms).await;
                    set.map_or_else(refused, |()| text_reply(at_ms.to_string()))
                }
                "/armed" => {
                    let armed = self.object.platform().alarm().await;
                    armed.map_or_else(refused, |at_ms| text_reply(format!("{at_ms:?}")))
                }
                "/watch" => match arrived.upgrade {
                    Some(_) => {
                        let (socket, stream) = self
                            .object
                            .platform()
                            .accept("7", "kept".to_owned())
                            .expect("room");
                        socket.send("welcome");
                        Reply::Stream(stream)
                    }
                    None => {
                        let (events, stream) = self.object.platform().events().expect("room");
                        events.send("data: first\n\n");
                        self.streams.borrow_mut().push(events);
                        Reply::Stream(stream)
                    }
                },
                "/tell" => {
                    let text = String::from_utf8_lossy(&arrived.message).into_owned();
                    let sockets = self.object.platform().sockets();
                    let receivers = sockets.iter().filter(|socket| socket.send(&text)).count();
                    let streams = self.streams.borrow();
                    for stream in streams.iter() {
                        stream.send(&text);
                    }
                    let states: Vec<_> = streams.iter().map(|stream| stream.readiness()).collect();
                    text_reply(format!("{receivers} {states:?}"))
                }
                _ => Reply::Unknown,
            }
        })
    }

    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            self.rings.set(self.rings.get() + 1);
            let failed = |error: String| Fault::Unavailable(error);
            self.add(100).map_err(failed)?;
            if self.host.setting("FAILS").is_some() {
                return Err(Fault::Broken("as it was told".to_owned()));
            }
            Ok(())
        })
    }

    fn on_message(&self, socket: Rc<dyn Socket>, text: Option<String>) {
        let (name, kept) = (
            socket.name().unwrap_or_default(),
            socket.kept().unwrap_or_default(),
        );
        socket.send(&format!("{name} {kept} heard {}", text.unwrap_or_default()));
    }

    fn on_error(&self, _socket: Rc<dyn Socket>) {
        self.host.platform().log(Level::Warning, "closed None");
    }

    fn on_close(&self, socket: Rc<dyn Socket>, close_reason: Option<(u16, String)>) {
        self.host
            .platform()
            .log(Level::Warning, &format!("closed {close_reason:?}"));
        if let Some((code, reason)) = close_reason {
            socket.close(Some(code), Some(&reason));
        }
    }
}

/// `POST /TILL/PATH` calls a till, `GET /TILL/watch` opens a stream.
pub async fn edge(request: Box<dyn Request>, host: Host, _context: Context) -> Response {
    let path = request
        .url()
        .strip_prefix(tally_simulation::ORIGIN)
        .unwrap_or_default();
    let (name, call) = path
        .trim_start_matches('/')
        .split_once('/')
        .unwrap_or_default();
    let paths = [
        "/add",
        "/add-slowly",
        "/undone",
        "/read",
        "/sync",
        "/wipe",
        "/never",
        "/arm",
        "/armed",
        "/watch",
        "/tell",
    ];
    let call = paths
        .into_iter()
        .find(|path| &path[1..] == call)
        .unwrap_or("/unknown");
    let message = request.whole().await.unwrap_or_default();
    let platform = host.platform();
    if call == "/watch" {
        let upgrade = request.header("upgrade");
        let opened = host
            .within_ms(
                5_000,
                platform.open(till(name), PROTOCOL, call, message, upgrade),
            )
            .await;
        return match opened {
            Some(Ok(stream)) => Response::new(stream.status, vec![], Body::Stream(stream)),
            _ => text(503, "no stream"),
        };
    }
    let sent = platform.send(Target::Object(till(name)), PROTOCOL, call, message);
    match host.within_ms(5_000, sent).await {
        Some(Ok(bytes)) => text(200, &String::from_utf8_lossy(&bytes)),
        Some(Err(error)) => text(503, &error),
        None => text(504, "too late"),
    }
}

fn text(status: u16, text: &str) -> Response {
    Response::new(
        status,
        vec![("content-type", "text/plain".to_owned())],
        Body::Text(text.into()),
    )
}

/// A world with two sites of two edges each, and tills.
pub fn world(seed: u64, options: Options) -> (World, Site, Site) {
    let world = World::new(seed, options);
    if std::env::var_os("SEED").is_some() {
        world.keep_log(true);
    }
    world.register(TILLS, |object, host| Rc::new(Till::start(object, host)));
    world.set_edge(edge);
    let (near, far) = (world.site("FRA", 2), world.site("SYD", 2));
    (world, near, far)
}
