//! An object's platform: its database, its alarm, its sockets.

use std::rc::Rc;

use worker::js_sys::{Array, ArrayBuffer, Date, Function, Reflect, Uint8Array};
use worker::wasm_bindgen::closure::ScopedClosure;
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen::{self, JsCast, JsValue};
use worker::{Env, ScheduledTime, State, Storage};

use super::{messages, sockets};
use tally_host::object::{Events, ObjectPlatform, Rows, Socket, SqlValue};
use tally_host::{Later, Stream};
use tally_wire::names::Placement;

#[wasm_bindgen]
extern "C" {
    /// The database. Called without the SDK's wrappers, which read each row by calls of its own: five calls into
    /// JavaScript a row more, and three a value.
    type Sql;

    #[wasm_bindgen(method, catch, variadic)]
    fn exec(this: &Sql, statement: &str, values: &Array) -> Result<Cursor, JsValue>;

    type Cursor;

    /// Its rows, each an array.
    #[wasm_bindgen(method, catch)]
    fn raw(this: &Cursor) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(catch, js_namespace = Array, js_name = from)]
    fn all(rows: &JsValue) -> Result<Array, JsValue>;
}

/// The largest whole number that a JavaScript number holds exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

/// One object, by what the platform gives it.
pub(super) struct Stored {
    state: Rc<State>,
    env: Env,
    storage: Rc<Storage>,
    sql: Sql,
}

impl Stored {
    pub(super) fn new(state: Rc<State>, env: Env) -> Self {
        let storage = state.storage();
        Self {
            state,
            env,
            sql: JsValue::from(storage.sql().as_ref()).unchecked_into(),
            storage: Rc::new(storage),
        }
    }
}

fn said(error: worker::Error) -> String {
    error.to_string()
}

#[expect(
    clippy::as_conversions,
    reason = "integers are those that a JavaScript number holds"
)]
fn given(value: &SqlValue) -> JsValue {
    match value {
        SqlValue::Null => JsValue::NULL,
        SqlValue::Integer(number) => JsValue::from_f64(*number as f64),
        SqlValue::Real(number) => JsValue::from_f64(*number),
        SqlValue::Text(text) => JsValue::from_str(text),
        SqlValue::Blob(bytes) => Uint8Array::from(bytes.as_slice()).into(),
    }
}

#[expect(
    clippy::as_conversions,
    reason = "the number is whole and within the range of the integers"
)]
fn taken(value: &JsValue) -> Result<SqlValue, String> {
    if let Some(number) = value.as_f64() {
        return Ok(match number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
            true => SqlValue::Integer(number as i64),
            false => SqlValue::Real(number),
        });
    }
    if let Some(text) = value.as_string() {
        return Ok(SqlValue::Text(text));
    }
    match value.dyn_ref::<ArrayBuffer>() {
        Some(bytes) => Ok(SqlValue::Blob(Uint8Array::new(bytes).to_vec())),
        None if value.is_null() => Ok(SqlValue::Null),
        None => Err("a column has a value of an unknown kind".to_owned()),
    }
}

impl ObjectPlatform for Stored {
    fn id(&self) -> String {
        self.state.id().to_string()
    }

    fn is_at(&self, placement: &Placement) -> bool {
        let namespace = messages::namespace(&self.env, placement.binding);
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
        let values: Array = values.iter().map(given).collect();
        let cursor = self.sql.exec(statement, &values);
        let rows = cursor.and_then(|cursor| all(&cursor.raw()?));
        let rows = rows.map_err(|error| said(error.into()))?;
        let taken = |row: JsValue| {
            row.unchecked_into::<Array>()
                .iter()
                .map(|it| taken(&it))
                .collect()
        };
        rows.iter().map(taken).collect()
    }

    fn database_bytes(&self) -> u64 {
        u64::try_from(self.storage.sql().database_size()).unwrap_or(0)
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
