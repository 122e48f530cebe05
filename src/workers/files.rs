//! The deployment's files: an R2 bucket, or a folder of plain workerd's disk service.

use std::rc::Rc;

use worker::Env;
use worker::js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;
use worker::web_sys::{RequestInit, Response};

use tally_host::{Files, Later};
use tally_wire::names::{SNAPSHOTS_BUCKET, SNAPSHOTS_FOLDER};

/// Host of the folder's URLs; nothing resolves it, the binding alone carries them.
const HOST: &str = "http://files/";

const OK: u16 = 200;
const NOT_FOUND: u16 = 404;

#[wasm_bindgen]
extern "C" {
    /// A bucket. Called without the SDK's wrappers, which read its objects as streams.
    #[derive(Clone)]
    type Bucket;

    #[wasm_bindgen(method, catch)]
    fn put(this: &Bucket, name: &str, bytes: &Uint8Array) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch)]
    fn get(this: &Bucket, name: &str) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch)]
    fn list(this: &Bucket, options: &Object) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch)]
    fn delete(this: &Bucket, name: &str) -> Result<Promise, JsValue>;

    type Body;

    #[wasm_bindgen(method, catch, js_name = arrayBuffer)]
    fn array_buffer(this: &Body) -> Result<Promise, JsValue>;

    type Listed;

    #[wasm_bindgen(method, getter)]
    fn objects(this: &Listed) -> Array;

    #[wasm_bindgen(method, getter, js_name = delimitedPrefixes)]
    fn delimited_prefixes(this: &Listed) -> Array;

    #[wasm_bindgen(method, getter)]
    fn truncated(this: &Listed) -> bool;

    #[wasm_bindgen(method, getter)]
    fn cursor(this: &Listed) -> Option<String>;

    /// A folder.
    #[derive(Clone)]
    type Folder;

    #[wasm_bindgen(method, catch)]
    fn fetch(this: &Folder, url: &str, init: &RequestInit) -> Result<Promise, JsValue>;
}

/// The place for files, where one is bound.
pub(super) fn bound(env: &Env) -> Option<Rc<dyn Files>> {
    let find = |name: &str| {
        let found = Reflect::get(env, &name.into()).ok()?;
        found.is_object().then_some(found)
    };
    if let Some(bucket) = find(SNAPSHOTS_BUCKET) {
        return Some(Rc::new(bucket.unchecked_into::<Bucket>()));
    }
    let folder = find(SNAPSHOTS_FOLDER)?;
    Some(Rc::new(folder.unchecked_into::<Folder>()))
}

fn said(error: JsValue) -> String {
    worker::Error::from(error).to_string()
}

async fn bytes_of(promise: Promise) -> Result<Vec<u8>, JsValue> {
    let buffer = JsFuture::from(promise).await?;
    Ok(Uint8Array::new(&buffer).to_vec())
}

fn name_of(item: &JsValue, member: &str) -> Option<String> {
    Reflect::get(item, &member.into()).ok()?.as_string()
}

impl Bucket {
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, JsValue> {
        let found = JsFuture::from(self.get(name)?).await?;
        if found.is_null() || found.is_undefined() {
            return Ok(None);
        }
        let body: Body = found.unchecked_into();
        bytes_of(body.array_buffer()?).await.map(Some)
    }

    async fn names(&self, folder: &str) -> Result<Vec<String>, JsValue> {
        let mut names = Vec::new();
        let mut cursor = None;
        loop {
            let options = Object::new();
            Reflect::set(&options, &"prefix".into(), &folder.into())?;
            Reflect::set(&options, &"delimiter".into(), &"/".into())?;
            if let Some(cursor) = &cursor {
                Reflect::set(&options, &"cursor".into(), cursor)?;
            }
            let listed: Listed = JsFuture::from(self.list(&options)?).await?.unchecked_into();
            let found = listed.objects();
            names.extend(found.iter().filter_map(|item| name_of(&item, "key")));
            let folders = listed.delimited_prefixes();
            let folders = folders.iter().filter_map(|name| name.as_string());
            names.extend(folders.map(|name| name.trim_end_matches('/').to_owned()));
            cursor = listed.cursor().map(JsValue::from);
            if !listed.truncated() || cursor.is_none() {
                return Ok(names);
            }
        }
    }
}

impl Files for Bucket {
    fn put(&self, name: &str, bytes: Vec<u8>) -> Later<Result<(), String>> {
        let put = Bucket::put(self, name, &Uint8Array::from(bytes.as_slice()));
        Box::pin(async move {
            let put = JsFuture::from(put.map_err(said)?).await;
            put.map(drop).map_err(said)
        })
    }

    fn get(&self, name: &str) -> Later<Result<Option<Vec<u8>>, String>> {
        let (bucket, name) = (self.clone(), name.to_owned());
        Box::pin(async move { bucket.read(&name).await.map_err(said) })
    }

    fn list(&self, folder: &str) -> Later<Result<Vec<String>, String>> {
        let (bucket, folder) = (self.clone(), folder.to_owned());
        Box::pin(async move { bucket.names(&folder).await.map_err(said) })
    }

    fn delete(&self, name: &str) -> Later<Result<(), String>> {
        let deleted = Bucket::delete(self, name);
        Box::pin(async move {
            let deleted = JsFuture::from(deleted.map_err(said)?).await;
            deleted.map(drop).map_err(said)
        })
    }
}

impl Folder {
    /// Sends a request to the disk service; `None` where the file is missing.
    async fn request(
        &self,
        method: &str,
        name: &str,
        bytes: Option<Vec<u8>>,
    ) -> Result<Option<Response>, String> {
        let init = RequestInit::new();
        init.set_method(method);
        if let Some(bytes) = bytes {
            init.set_body(&Uint8Array::from(bytes.as_slice()));
        }
        let promise = self.fetch(&format!("{HOST}{name}"), &init).map_err(said)?;
        let response: Response = JsFuture::from(promise)
            .await
            .map_err(said)?
            .unchecked_into();
        match response.status() {
            NOT_FOUND => Ok(None),
            status if (OK..300).contains(&status) => Ok(Some(response)),
            status => Err(format!("the disk service answered {status}")),
        }
    }
}

impl Files for Folder {
    fn put(&self, name: &str, bytes: Vec<u8>) -> Later<Result<(), String>> {
        let (folder, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let put = folder.request("PUT", &name, Some(bytes)).await?;
            put.map(drop)
                .ok_or_else(|| "the folder is not there".to_owned())
        })
    }

    fn get(&self, name: &str) -> Later<Result<Option<Vec<u8>>, String>> {
        let (folder, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let Some(response) = folder.request("GET", &name, None).await? else {
                return Ok(None);
            };
            let bytes = bytes_of(response.array_buffer().map_err(said)?).await;
            bytes.map(Some).map_err(said)
        })
    }

    fn list(&self, name: &str) -> Later<Result<Vec<String>, String>> {
        let (folder, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let Some(response) = folder.request("GET", &name, None).await? else {
                return Ok(Vec::new());
            };
            let listed = JsFuture::from(response.json().map_err(said)?).await;
            let listed: Array = listed.map_err(said)?.unchecked_into();
            let names = listed.iter().filter_map(|item| name_of(&item, "name"));
            Ok(names.map(|file| format!("{name}{file}")).collect())
        })
    }

    fn delete(&self, name: &str) -> Later<Result<(), String>> {
        let (folder, name) = (self.clone(), name.to_owned());
        Box::pin(async move { folder.request("DELETE", &name, None).await.map(drop) })
    }
}
