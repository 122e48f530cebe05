//! The deployment's data set of Analytics Engine, where it has one.
//!
//! Source: developers.cloudflare.com/analytics/analytics-engine/get-started, "writeDataPoint".

use worker::Env;
use worker::js_sys::{Array, Object, Reflect};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;

use tally_host::Point;
use tally_wire::names::ANALYTICS;

#[wasm_bindgen]
extern "C" {
    /// The binding.
    pub(super) type DataSet;

    #[wasm_bindgen(method, catch, js_name = writeDataPoint)]
    fn write_data_point(this: &DataSet, point: &Object) -> Result<(), JsValue>;
}

/// The data set; `None` where there is none.
pub(super) fn bound(env: &Env) -> Option<DataSet> {
    let value = Reflect::get(env, &JsValue::from_str(ANALYTICS)).ok()?;
    value.is_object().then(|| value.unchecked_into())
}

/// Writes a point. One that is refused is lost.
pub(super) fn write(bound: &DataSet, point: &Point) {
    let object = Object::new();
    let list = |values: &mut dyn Iterator<Item = JsValue>| values.collect::<Array>();
    let texts = list(&mut point.texts.iter().map(|text| JsValue::from_str(text)));
    let indexes = Array::of1(&JsValue::from_str(&point.index));
    let numbers = Array::of1(&JsValue::from_f64(point.number));
    for (name, value) in [("indexes", indexes), ("blobs", texts), ("doubles", numbers)] {
        if Reflect::set(&object, &JsValue::from_str(name), &value).is_err() {
            return;
        }
    }
    let _ = bound.write_data_point(&object);
}
