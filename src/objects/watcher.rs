//! The Durable Object of live views. An object is a hub or a lookout, by what it is asked; neither stores more than its alarm.

use std::rc::Rc;

use worker::wasm_bindgen;
use worker::{
    DurableObject, Env, Error, Request, Response, State, WebSocket, WebSocketIncomingMessage,
    durable_object,
};

use super::hub::Hub;
use super::lookout::Lookout;
use super::sink::answer_close;
use crate::platform::call;
use crate::protocol::messages::{Call, Join, Look};

/// A hub or a lookout, as the platform sees it.
#[durable_object]
pub struct Watcher {
    hub: Rc<Hub>,
    lookout: Rc<Lookout>,
}

impl DurableObject for Watcher {
    fn new(object: State, env: Env) -> Self {
        let object = Rc::new(object);
        Self {
            lookout: Rc::new(Lookout::new(object.clone(), env.clone())),
            hub: Rc::new(Hub::new(object, env)),
        }
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let path = request.path();
        match path.as_str() {
            Look::PATH => {
                call::reply::<Look>(&self.lookout.on_look(call::read(&mut request).await).await)
            }
            Join::PATH => self.hub.on_join(&mut request).await,
            _ => Response::error("no such call", 404),
        }
    }

    async fn alarm(&self) -> worker::Result<Response> {
        let rung = self.hub.on_alarm().await;
        rung.map_err(|fault| Error::RustError(fault.to_string()))?;
        Response::empty()
    }

    async fn websocket_message(
        &self,
        socket: WebSocket,
        message: WebSocketIncomingMessage,
    ) -> worker::Result<()> {
        self.hub.on_message(&socket, message);
        Ok(())
    }

    async fn websocket_close(
        &self,
        socket: WebSocket,
        code: usize,
        reason: String,
        _was_clean: bool,
    ) -> worker::Result<()> {
        answer_close(&socket, code, &reason);
        self.hub.on_close(&socket);
        Ok(())
    }

    async fn websocket_error(&self, socket: WebSocket, _error: Error) -> worker::Result<()> {
        self.hub.on_close(&socket);
        Ok(())
    }
}
