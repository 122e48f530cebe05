//! WebSockets: they stay open while their object's memory is gone.

use std::rc::{Rc, Weak};
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::{SinkExt, StreamExt, future::Either, future::select};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tally_host::Stream;
use tally_host::object::Socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::clock::Turns;
use super::live_socket::{LiveSocket, Outbound, SocketCarrier, SocketPhase};
use super::place::Place;

/// Bytes of what a socket keeps. Source:
/// <https://developers.cloudflare.com/durable-objects/best-practices/websockets/>.
const KEPT_BYTES_MAX: usize = 16_384;

/// Bytes of a message of a client, which waits for its end in memory: twice what a hub reads, so that one that is a
/// little too long gets a refusal. What is longer ends the socket.
const MESSAGE_BYTES_MAX: usize = 2 * tally_api::live::MESSAGE_BYTES_MAX;

/// How long, and how many bytes, a client may still send that has broken the protocol.
const LEFTOVER: Duration = Duration::from_secs(1);
const LEFTOVER_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a client that are read at once. Most messages have a few.
const READ_BYTES: usize = 4 * 1_024;

/// Close code of a close that names none. Source: RFC 6455 section 7.4.1.
const NO_CODE: u16 = 1_005;

/// A client's end.
struct ClientEnd {
    socket: Rc<LiveSocket>,
    place: Weak<Place>,
}

impl ClientEnd {
    /// Ends the connection without a word.
    fn break_off(&self) {
        self.socket.break_off();
    }

    /// The connection was lost before it began.
    fn lose(&self) {
        self.hear(Heard::Closed(None));
    }

    /// Lets the object hear of a message or of the end.
    fn hear(&self, what: Heard) {
        let Some(place) = self.place.upgrade() else {
            return;
        };
        let Ok(place) = place.home.clone().place(&place.key) else {
            return self.break_off();
        };
        let Some(shell) = place.incarnation().shell() else {
            return;
        };
        let end: Rc<dyn Socket> = Rc::new(ObjectEnd {
            socket: self.socket.clone(),
            place: self.place.clone(),
            number: place.number(),
        });
        match what {
            Heard::Text(text) => shell.on_message(end, text),
            Heard::Closed(said) => {
                let was_open = self.socket.is_open();
                self.socket.phase.set(match was_open && said.is_some() {
                    true => SocketPhase::ClientClosed,
                    false => SocketPhase::Closed,
                });
                place
                    .sockets
                    .borrow_mut()
                    .retain(|known| !Rc::ptr_eq(known, &self.socket));
                shell.on_close(end, said);
            }
        }
    }

    /// Moves frames between the object and a connection, until one of them ends it.
    async fn serve(self, connection: Upgraded) {
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = READ_BYTES;
        config.max_message_size = Some(MESSAGE_BYTES_MAX);
        config.max_frame_size = Some(MESSAGE_BYTES_MAX);
        let connection = TokioIo::new(connection);
        let mut stream =
            WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
        let mut said = None;
        loop {
            let next = std::pin::pin!(self.socket.next());
            let step = match select(next, stream.next()).await {
                Either::Left((outbound, _)) => Either::Left(outbound),
                Either::Right((inbound, _)) => Either::Right(inbound),
            };
            match step {
                Either::Left(None) => break,
                Either::Left(Some(Outbound::Text(text))) => {
                    if stream.send(Message::text(text)).await.is_err() {
                        break;
                    }
                }
                Either::Left(Some(Outbound::Close(reason))) => {
                    let _ = stream.close(reason.map(frame_of)).await;
                }
                Either::Right(Some(Ok(Message::Text(text)))) => {
                    self.hear(Heard::Text(Some(text.as_str().to_owned())));
                }
                Either::Right(Some(Ok(Message::Binary(_)))) => self.hear(Heard::Text(None)),
                Either::Right(Some(Ok(Message::Close(frame)))) => {
                    let reason = frame.map_or((NO_CODE, String::new()), |frame| {
                        (frame.code.into(), frame.reason.as_str().to_owned())
                    });
                    said = Some(reason);
                }
                Either::Right(Some(Ok(_))) => {}
                Either::Right(None) => break,
                Either::Right(Some(Err(error))) => {
                    if let Some(code) = code_of(&error) {
                        let reason = (code, error.to_string());
                        let _ = stream.close(Some(frame_of(reason))).await;
                        let _ = timeout(LEFTOVER, read_off(stream.get_mut())).await;
                    }
                    break;
                }
            }
        }
        if self.socket.phase.get() != SocketPhase::Closed || said.is_some() {
            let said = said.filter(|(code, _)| *code != NO_CODE);
            self.hear(Heard::Closed(said));
        }
        self.socket.phase.set(SocketPhase::Closed);
    }
}

enum Heard {
    /// `None` for what is no text.
    Text(Option<String>),
    Closed(Option<(u16, String)>),
}

/// Stops sending, and reads what the client still sends. A connection that is closed with unread bytes is reset, and
/// its client does not get the last frame.
async fn read_off(connection: &mut TokioIo<Upgraded>) {
    let _ = connection.shutdown().await;
    let mut rest = connection.take(LEFTOVER_BYTES_MAX);
    let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
}

/// What a client hears that has broken the protocol; `None` where the connection is lost. Source: RFC 6455, section
/// 7.4.1.
fn code_of(error: &Error) -> Option<u16> {
    let code = match error {
        Error::Capacity(_) => CloseCode::Size,
        Error::Utf8(_) => CloseCode::Invalid,
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return None,
        Error::Protocol(_) => CloseCode::Protocol,
        _ => return None,
    };
    Some(code.into())
}

fn frame_of((code, reason): (u16, String)) -> CloseFrame {
    CloseFrame {
        code: CloseCode::from(code),
        reason: reason.into(),
    }
}

/// An object's end of a socket.
struct ObjectEnd {
    socket: Rc<LiveSocket>,
    place: Weak<Place>,
    number: u64,
}

impl ObjectEnd {
    fn release(&self, what: Outbound) {
        if let Some(place) = self.place.upgrade() {
            let socket = self.socket.clone();
            place.release(self.number, move || socket.push(what));
        }
    }
}

impl Socket for ObjectEnd {
    fn name(&self) -> Option<String> {
        Some(self.socket.name.clone())
    }

    fn kept(&self) -> Option<String> {
        Some(self.socket.kept.borrow().clone())
    }

    fn keep(&self, text: String) -> Result<(), String> {
        check_kept(&text)?;
        *self.socket.kept.borrow_mut() = text;
        Ok(())
    }

    fn send(&self, text: &str) -> bool {
        let is_open = self.socket.is_open();
        if is_open {
            self.release(Outbound::Text(text.to_owned()));
        }
        is_open
    }

    fn close(&self, code: Option<u16>, reason: Option<&str>) {
        if self.socket.phase.replace(SocketPhase::Closed) == SocketPhase::Closed {
            return;
        }
        let said = code.map(|code| (code, reason.unwrap_or_default().to_owned()));
        self.release(Outbound::Close(said));
    }
}

fn check_kept(text: &str) -> Result<(), String> {
    match text.len() > KEPT_BYTES_MAX {
        true => Err(format!("a socket keeps at most {KEPT_BYTES_MAX} bytes")),
        false => Ok(()),
    }
}

/// The sockets of a place that are open.
pub(crate) fn open_of(place: &Rc<Place>, number: u64) -> Vec<Rc<dyn Socket>> {
    let sockets = place.sockets.borrow();
    let open = sockets.iter().filter(|socket| socket.is_open());
    open.map(|socket| -> Rc<dyn Socket> {
        Rc::new(ObjectEnd {
            socket: socket.clone(),
            place: Rc::downgrade(place),
            number,
        })
    })
    .collect()
}

/// Makes a socket.
///
/// # Errors
/// If it cannot keep the text.
pub(crate) fn accept(
    place: &Rc<Place>,
    number: u64,
    name: &str,
    kept: String,
) -> Result<(Rc<dyn Socket>, Stream), String> {
    check_kept(&kept)?;
    let socket = Rc::new(LiveSocket::new(name, kept, &place.ground.held));
    place.sockets.borrow_mut().push(socket.clone());
    let clock = place.ground.clock.clone();
    let place = Rc::downgrade(place);
    let client = ClientEnd {
        socket: socket.clone(),
        place: place.clone(),
    };
    let (begins, begun) = oneshot::channel();
    let work = async move {
        match begun.await {
            Ok(connection) => client.serve(connection).await,
            Err(_) => client.lose(),
        }
    };
    tokio::task::spawn_local(Turns::new(&clock, work));
    let carrier = Rc::new(SocketCarrier::from(begins));
    let end = Rc::new(ObjectEnd {
        socket,
        place,
        number,
    });
    Ok((
        end,
        Stream {
            status: 101,
            carrier,
        },
    ))
}
