//! Where the platform enters an object: a class for each kind.

use std::rc::Rc;

use worker::wasm_bindgen;
use worker::{
    DurableObject, Env, Error, Request, Response, State, WebSocket, WebSocketIncomingMessage,
    console_error, durable_object,
};

use super::storage::Stored;
use super::{host, messages, sockets};
use tally_host::object::{Object, Shell};
use tally_objects::ObjectClass;

/// Close code of a message that named none. It is never sent. Source: RFC 6455 section 7.4.1.
const NO_CODE: u16 = 1_005;

/// How long the alarm of an object outside of the jurisdiction waits, milliseconds: the variable may be set back.
const OUTSIDE_MS: i64 = 3_600_000;

const OUTSIDE: &str = "TALLY_JURISDICTION was changed, and objects of before are left: they do nothing. Set it back, \
    and import an export of this deployment into another one";

async fn fetch(shell: &dyn Shell, env: &Env, request: Request) -> worker::Result<Response> {
    let reply = match messages::read(env, request.inner()).await {
        Ok(arrived) => shell.answer(arrived).await,
        Err(reply) => reply,
    };
    messages::answer(reply).map(Response::from)
}

async fn alarm(shell: &dyn Shell, env: &Env, state: &State) -> worker::Result<Response> {
    if messages::is_outside(env, &state.as_raw().id()?.into()) {
        console_error!("{OUTSIDE}");
        state.storage().set_alarm(OUTSIDE_MS).await?;
        return Response::empty();
    }
    let rung = shell.alarm().await;
    rung.map_err(|fault| Error::RustError(fault.to_string()))?;
    Response::empty()
}

/// A class by the name of its shell.
macro_rules! class {
    ($name:ident) => {
        /// The object as the platform sees it.
        #[durable_object]
        pub struct $name {
            shell: Rc<dyn Shell>,
            state: Rc<State>,
            env: Env,
        }

        impl DurableObject for $name {
            fn new(state: State, env: Env) -> Self {
                let state = Rc::new(state);
                let object = Object::new(Rc::new(Stored::new(state.clone(), env.clone())));
                let shell = ObjectClass::$name.start(object, host(env.clone()));
                Self { shell, state, env }
            }

            async fn fetch(&self, request: Request) -> worker::Result<Response> {
                fetch(&*self.shell, &self.env, request).await
            }

            async fn alarm(&self) -> worker::Result<Response> {
                alarm(&*self.shell, &self.env, &self.state).await
            }

            async fn websocket_message(
                &self,
                socket: WebSocket,
                message: WebSocketIncomingMessage,
            ) -> worker::Result<()> {
                let text = match message {
                    WebSocketIncomingMessage::String(text) => Some(text),
                    WebSocketIncomingMessage::Binary(_) => None,
                };
                self.shell
                    .on_message(sockets::held(&self.state, socket), text);
                Ok(())
            }

            async fn websocket_close(
                &self,
                socket: WebSocket,
                code: usize,
                reason: String,
                _was_clean: bool,
            ) -> worker::Result<()> {
                let code = u16::try_from(code).ok().filter(|code| *code != NO_CODE);
                let said = code.map(|code| (code, reason));
                self.shell
                    .on_close(sockets::held(&self.state, socket), said);
                Ok(())
            }

            async fn websocket_error(
                &self,
                socket: WebSocket,
                _error: Error,
            ) -> worker::Result<()> {
                self.shell.on_error(sockets::held(&self.state, socket));
                Ok(())
            }
        }
    };
}

class!(Board);
class!(Cell);
class!(Directory);
class!(Inbox);
class!(Keyspace);
class!(Limiter);
class!(Tablet);
class!(Watcher);
