//! An object and its platform: what the object needs in addition to what its isolate needs, and what the platform
//! calls.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use futures_util::future::{LocalBoxFuture, ready};

use super::{LATER_STATUS, Later, Stream, UNKNOWN_CALL};
use tally_wire::messages::{Call, Fault, PROTOCOL, PROTOCOL_MIN, encode, later};
use tally_wire::names::Placement;

/// A value of SQL. Integers are those that a JavaScript number holds.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<i32> for SqlValue {
    fn from(number: i32) -> Self {
        Self::Integer(number.into())
    }
}

impl<T: Into<SqlValue>> From<Option<T>> for SqlValue {
    fn from(known: Option<T>) -> Self {
        known.map_or(Self::Null, Into::into)
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<u8>> for SqlValue {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Blob(bytes)
    }
}

/// The rows of an answer.
pub type Rows = Vec<Vec<SqlValue>>;

/// What an object asks of its platform. Writes are durable before anything that is sent after them leaves the object.
pub trait ObjectPlatform {
    /// Its name among all objects of its kind.
    fn id(&self) -> String;

    /// Whether this object is the one of a placement.
    fn is_at(&self, placement: &Placement) -> bool;

    /// Lets work continue after the answer.
    fn wait_until(&self, work: Later<()>);

    /// Runs a statement of SQLite's SQL, and returns its rows.
    ///
    /// # Errors
    /// If SQLite refuses it.
    fn run(&self, statement: &str, values: Vec<SqlValue>) -> Result<Rows, String>;

    /// Bytes of its database.
    fn database_bytes(&self) -> u64;

    /// Runs several statements as one transaction. If `body` returns `true`, the effects of all its statements are
    /// kept, and otherwise none.
    ///
    /// # Errors
    /// If nothing can be kept.
    fn atomically(&self, body: &mut dyn FnMut() -> bool) -> Result<(), String>;

    /// Waits until all that was written so far is durable.
    fn sync(&self) -> Later<Result<(), String>>;

    /// Deletes all that is stored, except the alarm.
    fn delete_all(&self) -> Later<Result<(), String>>;

    /// When the alarm rings, unix milliseconds, if it is set.
    fn alarm(&self) -> Later<Result<Option<i64>, String>>;

    /// Sets the alarm to a time, unix milliseconds.
    fn set_alarm(&self, at_ms: i64) -> Later<Result<(), String>>;

    /// The sockets that it has accepted and that are open.
    fn sockets(&self) -> Vec<Rc<dyn Socket>>;

    /// Accepts a socket that keeps a name and a text as long as it is open. Returns it, and the answer that carries its
    /// other end. Whatever can fail must come before: a socket that is accepted and cannot be served would stay open.
    ///
    /// # Errors
    /// Where none can be made.
    fn accept(&self, name: &str, kept: String) -> Result<(Rc<dyn Socket>, Stream), String>;

    /// A stream of server-sent events, and the answer that carries its other end.
    ///
    /// # Errors
    /// Where none can be made.
    fn events(&self) -> Result<(Rc<dyn Events>, Stream), String>;
}

/// A WebSocket that an object holds. It stays open while the object's memory is gone.
pub trait Socket {
    /// The name that it was accepted under.
    fn name(&self) -> Option<String>;

    /// The text that it keeps.
    fn kept(&self) -> Option<String>;

    /// Lets it keep another text.
    ///
    /// # Errors
    /// Where the platform has no room for it.
    fn keep(&self, text: String) -> Result<(), String>;

    /// Sends a text. Returns whether the socket is still open.
    fn send(&self, text: &str) -> bool;

    /// Closes the socket. A socket that is gone already is left as it is.
    fn close(&self, code: Option<u16>, reason: Option<&str>);
}

/// Whether a stream can be sent something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Yes.
    Ready,
    /// It has not yet taken what it was sent.
    Slow,
    /// It can never be sent anything again.
    Gone,
}

/// A stream of server-sent events that an object holds. It takes one chunk at a time, and ends with the object's
/// memory.
pub trait Events {
    /// Whether it can be sent something now.
    fn readiness(&self) -> Readiness;

    /// Sends a text.
    fn send(&self, text: &str);

    /// Ends the stream after what it was sent.
    fn close(&self);
}

/// The alarm that was set last, as far as this incarnation knows.
#[derive(Debug, Default)]
struct SetAlarm {
    /// When it is meant to ring by the clock of the isolate, unix milliseconds; `None` once it has rung.
    due_ms: Cell<Option<i64>>,
    /// The time that was set at the platform, unix milliseconds.
    set_ms: Cell<i64>,
    /// Whether an alarm has rung in this incarnation. The first one may be an earlier incarnation's, which started this
    /// one: the platform names no alarm while it rings, so what the start sets may be far later.
    has_rung: Cell<bool>,
}

/// How much earlier than its time an alarm may ring, milliseconds. Clocks of one machine differ by less.
const EARLY_MS_MAX: i64 = 100;

/// The longest time by which an early alarm is postponed at once, milliseconds. An alarm may ring this much too late if
/// a clock is corrected meanwhile.
const PUT_OFF_MS_MAX: i64 = 1_000;

/// An object's platform. A copy costs two reference counts.
#[derive(Clone)]
pub struct Object(Rc<dyn ObjectPlatform>, Rc<SetAlarm>);

impl Object {
    /// The object that this platform carries.
    pub fn new(platform: Rc<dyn ObjectPlatform>) -> Self {
        Self(platform, Rc::default())
    }

    /// Sets the alarm to a time, unix milliseconds.
    ///
    /// # Errors
    /// Where the platform refuses.
    pub fn set_alarm(&self, at_ms: i64) -> LocalBoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.1.due_ms.set(Some(at_ms));
            self.1.set_ms.set(at_ms);
            let set = self.0.set_alarm(at_ms).await;
            if set.is_err() {
                self.1.due_ms.set(None);
            }
            set
        })
    }

    /// Postpones an alarm that rings too early, and returns whether it did. The clock by which alarms ring may be ahead
    /// of this isolate's clock. Then an alarm rings before anything is due. If it were set to the same time again, it
    /// would ring at once, again and again until this clock reaches that time. The first alarm of an incarnation is not
    /// postponed, because it may be another one than this incarnation has set.
    ///
    /// # Errors
    /// Where the platform refuses.
    pub fn put_off_alarm(&self, now_ms: i64) -> LocalBoxFuture<'_, Result<bool, String>> {
        Box::pin(async move {
            let SetAlarm {
                due_ms,
                set_ms,
                has_rung,
            } = &*self.1;
            let is_first = !has_rung.replace(true);
            let early_ms = due_ms
                .get()
                .map_or(0, |due_ms| due_ms.saturating_sub(now_ms));
            if is_first || early_ms <= EARLY_MS_MAX {
                due_ms.set(None);
                return Ok(false);
            }
            set_ms.set(set_ms.get().saturating_add(early_ms.min(PUT_OFF_MS_MAX)));
            self.0.set_alarm(set_ms.get()).await?;
            Ok(true)
        })
    }

    /// The platform itself.
    pub fn platform(&self) -> &dyn ObjectPlatform {
        &*self.0
    }

    /// Lets work continue after the answer.
    pub fn wait_until(&self, work: impl Future<Output = ()> + 'static) {
        self.0.wait_until(Box::pin(work));
    }
}

/// A call of an object or of the aggregator, as it arrives.
pub struct IncomingCall {
    /// The protocol that it is in.
    pub protocol: u8,
    /// Names the call, see [`Call::PATH`].
    pub path: String,
    /// The message.
    pub message: Vec<u8>,
    /// The protocol that the client of a stream wants instead of HTTP.
    pub upgrade: Option<String>,
}

/// The answer to a call.
pub enum Reply {
    /// The bytes of a result.
    Answer(Vec<u8>),
    /// A stream.
    Stream(Stream),
    /// No stream: a status, and why.
    Refused(u16, String),
    /// There is no such call.
    Unknown,
}

impl Reply {
    /// What the sender of a message gets.
    ///
    /// # Errors
    /// The receiver refused the message, or answered with a stream.
    pub fn into_bytes(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Answer(bytes) => Ok(bytes),
            Self::Unknown => Ok(UNKNOWN_CALL.into()),
            Self::Refused(status, why) => Err(format!("it answered {status}: {why}")),
            Self::Stream(_) => Err("it answered with a stream".to_owned()),
        }
    }

    /// What the sender of a message gets that asks for a stream. `refused` makes the stream of a refusal.
    ///
    /// # Errors
    /// The receiver answered without a stream.
    pub fn into_stream(
        self,
        refused: impl FnOnce(u16, String) -> Stream,
    ) -> Result<Stream, String> {
        match self {
            Self::Stream(stream) => Ok(stream),
            Self::Refused(status, why) => Ok(refused(status, why)),
            Self::Unknown => Ok(refused(404, UNKNOWN_CALL.to_owned())),
            Self::Answer(bytes) if later(&bytes).is_some() => {
                Ok(refused(LATER_STATUS, "a newer protocol".to_owned()))
            }
            Self::Answer(_) => Err("it answered without a stream".to_owned()),
        }
    }
}

/// Answers a call. The message of the call's path is decoded as `$request`, which is a `Result`. The expression beside
/// its type is the answer, also a `Result`. Each message is named once, so its path, its type and its answer agree.
#[macro_export]
macro_rules! dispatch {
    ($arrived:expr, $request:ident, { $($(#[$built:meta])* $call:ty => $answer:expr),+ $(,)? }) => {{
        let arrived: &$crate::object::IncomingCall = $arrived;
        match arrived.path.as_str() {
            $($(#[$built])* <$call as ::tally_wire::messages::Call>::PATH => {
                let $request = ::tally_wire::messages::decode::<$call>(&arrived.message);
                $crate::object::reply::<$call>(&$answer)
            })+
            _ => $crate::object::Reply::Unknown,
        }
    }};
}

impl IncomingCall {
    /// A call that another call carried. It has the protocol of that call.
    pub fn within(path: String, message: Vec<u8>) -> Self {
        Self {
            protocol: PROTOCOL,
            path,
            message,
            upgrade: None,
        }
    }

    /// The call, if a build with the protocol `newest` understands it.
    ///
    /// # Errors
    /// The answer to a call that is not understood, of which nothing may be done: `Later` if its protocol is newer.
    pub fn understood_by(self, newest: u8) -> Result<Self, Reply> {
        let fault = match self.protocol {
            protocol if protocol > newest => Fault::Later(newest),
            protocol if protocol < PROTOCOL_MIN.max(newest.saturating_sub(1)) => {
                Fault::Broken(format!(
                    "protocol {protocol} is not understood any more: deploy each release between"
                ))
            }
            _ => return Ok(self),
        };
        let refusal = encode(&Err::<(), Fault>(fault));
        Err(refusal.map_or(Reply::Unknown, Reply::Answer))
    }
}

/// The reply with the answer to a call, see [`dispatch`].
pub fn reply<C: Call>(answer: &Result<C::Answer, Fault>) -> Reply {
    encode(answer).map_or_else(unencodable, Reply::Answer)
}

fn unencodable(fault: Fault) -> Reply {
    Reply::Refused(500, fault.to_string())
}

/// An object, as the platform calls it. Its futures are boxed, so that their code exists once, in the crate of the
/// object.
pub trait Shell {
    /// Answers a call.
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply>;

    /// Reads what is stored once more, after damaged rows were removed.
    fn reload(&self) {}

    /// The alarm rings. If this fails, the platform rings again, a few times.
    ///
    /// # Errors
    /// If the alarm must ring again.
    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(ready(Ok(())))
    }

    /// The process stops in order: the object writes what it has in memory only, and returns what it has borrowed. This
    /// is called twice, because other objects may send something between. A platform that ends objects without notice
    /// never calls it.
    fn before_stop(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    /// A socket has sent a message; `None` if it is not text.
    fn on_message(&self, _socket: Rc<dyn Socket>, _text: Option<String>) {}

    /// A socket is closed, with the code and the reason that its client sent, if it sent any.
    fn on_close(&self, _socket: Rc<dyn Socket>, _said: Option<(u16, String)>) {}

    /// A socket has failed: there is nothing to close.
    fn on_error(&self, _socket: Rc<dyn Socket>) {}
}
