//! The Durable Object of live views. Its first call makes an object a hub or a live reader; neither stores more than
//! its alarm.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::hub::Hub;
use super::reader::LiveReader;
use super::streams::answer_close;
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Object, Reply, Shell, Socket};
use tally_wire::messages::{Call, Fault, Join, Look};

/// A hub or a live reader, as the platform sees it.
pub struct Watcher {
    hub: Rc<Hub>,
    reader: Rc<LiveReader>,
}

impl Watcher {
    /// Starts the object from what is stored.
    pub fn start(object: Object, host: Host) -> Self {
        Self {
            reader: Rc::new(LiveReader::new(object.clone(), host.clone())),
            hub: Rc::new(Hub::new(object, host)),
        }
    }
}

impl Shell for Watcher {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(async move {
            if arrived.path == Join::PATH {
                return self.hub.on_join(&arrived).await;
            }
            dispatch!(&arrived, message, {
                Look => self.reader.on_look(message).await,
            })
        })
    }

    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.hub.on_alarm().await })
    }

    fn on_message(&self, socket: Rc<dyn Socket>, text: Option<String>) {
        self.hub.on_message(&*socket, text);
    }

    fn on_close(&self, socket: Rc<dyn Socket>, code_and_reason: Option<(u16, String)>) {
        answer_close(&*socket, code_and_reason);
        self.hub.on_close(&*socket);
    }

    fn on_error(&self, socket: Rc<dyn Socket>) {
        self.hub.on_close(&*socket);
    }
}
