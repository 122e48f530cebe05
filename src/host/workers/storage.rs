//! An object's platform: its database, its alarm, its sockets.

use std::rc::Rc;

use worker::js_sys::{Date, Function, Reflect};
use worker::wasm_bindgen::closure::ScopedClosure;
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::{Env, ScheduledTime, SqlStorage, SqlStorageValue, State, Storage};

use super::sockets;
use crate::host::object::{Events, ObjectPlatform, Rows, Socket, SqlValue};
use crate::host::{Later, Stream};
use crate::protocol::names::Placement;

/// One object, by what the platform gives it.
pub(super) struct Stored {
    state: Rc<State>,
    env: Env,
    storage: Rc<Storage>,
    sql: SqlStorage,
}

impl Stored {
    pub(super) fn new(state: Rc<State>, env: Env) -> Self {
        let storage = state.storage();
        Self {
            state,
            env,
            sql: storage.sql(),
            storage: Rc::new(storage),
        }
    }
}

fn said(error: worker::Error) -> String {
    error.to_string()
}

fn given(value: SqlValue) -> SqlStorageValue {
    match value {
        SqlValue::Null => SqlStorageValue::Null,
        SqlValue::Integer(number) => SqlStorageValue::Integer(number),
        SqlValue::Real(number) => SqlStorageValue::Float(number),
        SqlValue::Text(text) => SqlStorageValue::String(text),
        SqlValue::Blob(bytes) => SqlStorageValue::Blob(bytes),
    }
}

fn taken(value: SqlStorageValue) -> SqlValue {
    match value {
        SqlStorageValue::Null => SqlValue::Null,
        SqlStorageValue::Boolean(is_true) => SqlValue::Integer(is_true.into()),
        SqlStorageValue::Integer(number) => SqlValue::Integer(number),
        SqlStorageValue::Float(number) => SqlValue::Real(number),
        SqlStorageValue::String(text) => SqlValue::Text(text),
        SqlStorageValue::Blob(bytes) => SqlValue::Blob(bytes),
    }
}

impl ObjectPlatform for Stored {
    fn id(&self) -> String {
        self.state.id().to_string()
    }

    fn is_at(&self, placement: &Placement) -> bool {
        let namespace = self.env.durable_object(placement.binding);
        let id = namespace
            .and_then(|namespace| Ok(namespace.id_from_name(&placement.name)?.to_string()));
        id.is_ok_and(|id| id == self.id())
    }

    fn wait_until(&self, work: Later<()>) {
        self.state.wait_until(work);
    }

    /// Statements that give no rows are read to their end too: a cursor that is left open keeps its prepared
    /// statement from the next call, which cost a flush a fifth of its time.
    fn run(&self, statement: &str, values: Vec<SqlValue>) -> Result<Rows, String> {
        let values: Vec<SqlStorageValue> = values.into_iter().map(given).collect();
        let cursor = self.sql.exec(statement, values).map_err(said)?;
        let taken = |row: worker::Result<Vec<SqlStorageValue>>| {
            Ok(row.map_err(said)?.into_iter().map(taken).collect())
        };
        cursor.raw().map(taken).collect()
    }

    fn database_bytes(&self) -> u64 {
        u64::try_from(self.sql.database_size()).unwrap_or(0)
    }

    fn atomically(&self, body: &mut dyn FnMut() -> bool) -> Result<(), String> {
        let raw: &JsValue = self.storage.as_raw().as_ref();
        let method = Reflect::get(raw, &JsValue::from_str("transactionSync"))
            .ok()
            .and_then(|method| method.dyn_into::<Function>().ok())
            .ok_or("this runtime has no transactionSync")?;
        let mut is_undone = false;
        let mut run = || -> Result<(), JsValue> {
            is_undone = !body();
            if is_undone {
                Err(JsValue::from_str("undo"))
            } else {
                Ok(())
            }
        };
        let called = {
            let callback: ScopedClosure<'_, dyn FnMut() -> Result<(), JsValue>> =
                ScopedClosure::borrow_mut(&mut run);
            method.call1(raw, callback.as_js_value())
        };
        match called {
            Err(error) if !is_undone => Err(format!("{error:?}")),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> Later<Result<(), String>> {
        let storage = self.storage.clone();
        Box::pin(async move { storage.sync().await.map_err(said) })
    }

    fn delete_all(&self) -> Later<Result<(), String>> {
        let storage = self.storage.clone();
        Box::pin(async move { storage.delete_all().await.map_err(said) })
    }

    fn alarm(&self) -> Later<Result<Option<i64>, String>> {
        let storage = self.storage.clone();
        Box::pin(async move { storage.get_alarm().await.map_err(said) })
    }

    #[expect(
        clippy::as_conversions,
        reason = "times in milliseconds are far below 2^53"
    )]
    fn set_alarm(&self, at_ms: i64) -> Later<Result<(), String>> {
        let storage = self.storage.clone();
        let date = Date::new(&JsValue::from_f64(at_ms as f64));
        Box::pin(async move {
            let set = storage.set_alarm(ScheduledTime::new(date)).await;
            set.map_err(said)
        })
    }

    fn sockets(&self) -> Vec<Rc<dyn Socket>> {
        let held = |socket| sockets::held(&self.state, socket);
        self.state.get_websockets().into_iter().map(held).collect()
    }

    fn accept(&self, name: &str, kept: String) -> Result<(Rc<dyn Socket>, Stream), String> {
        sockets::accept(&self.state, name, kept).map_err(said)
    }

    fn events(&self) -> Result<(Rc<dyn Events>, Stream), String> {
        sockets::events().map_err(said)
    }
}
