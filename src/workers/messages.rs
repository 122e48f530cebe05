//! How messages travel: a call is a POST whose path names it and whose body is postcard; so is the answer.

use std::cell::OnceCell;
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use worker::js_sys::{Promise, Reflect, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;
use worker::web_sys::{Headers, Request, RequestInit, Response, ResponseInit};
use worker::{Env, Error, ObjectNamespace};

use super::settings;
use tally_host::object::{IncomingCall, Reply};
use tally_host::{LATER_STATUS, Stream, Target, UNKNOWN_CALL, trimmed};
use tally_wire::messages::{Fault, PROTOCOL, encode, later, origin, path_within, protocol_of};
use tally_wire::names::{AGGREGATOR, DIRECTORY, JURISDICTION, Placement};

/// Header that carries a small message, in base64: a body costs a stream at either end, which was a
/// fifth of a call's time.
const SMALL: &str = "tally-message";

/// The largest message that travels in a header: in base64 2,732 bytes, below the 16 KB that all
/// headers of a request may have together.
const SMALL_BYTES_MAX: usize = 2_048;

/// Header that says which protocol a client wants.
const UPGRADE: &str = "upgrade";

#[wasm_bindgen]
extern "C" {
    /// A stub or a service. Called without the SDK's wrappers, which read the answer as a stream: six
    /// calls into JavaScript a message more.
    type Fetcher;

    /// A namespace of the platform.
    type Whole;

    /// The part of it in a jurisdiction. Throws for a name that the platform does not know.
    #[wasm_bindgen(method, catch)]
    fn jurisdiction(this: &Whole, name: &str) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(method, catch, js_name = idFromName)]
    fn id_of(this: &Whole, name: &str) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(method, catch)]
    fn fetch(this: &Fetcher, url: &str, init: &RequestInit) -> Result<Promise, JsValue>;
}

/// The jurisdiction of the deployment, and the origin of the URLs of its messages.
struct Within {
    name: Option<String>,
    origin: String,
}

thread_local! {
    /// The settings of an isolate do not change.
    static WITHIN: OnceCell<Rc<Within>> = const { OnceCell::new() };
}

fn within(env: &Env) -> Rc<Within> {
    let read = || {
        let name = settings::read(env, JURISDICTION).and_then(|text| trimmed(&text));
        let origin = origin(name.as_deref());
        Rc::new(Within { name, origin })
    };
    WITHIN.with(|known| known.get_or_init(read).clone())
}

/// The namespace of a binding, in the jurisdiction of the deployment if it has one. The address of every object is made
/// from it (`tests/docs/jurisdictions.test.mjs`), so no object is elsewhere.
pub(super) fn namespace(env: &Env, binding: &str) -> worker::Result<ObjectNamespace> {
    let namespace = env.durable_object(binding)?;
    let within = within(env);
    let Some(name) = &within.name else {
        return Ok(namespace);
    };
    let whole: &Whole = namespace.as_ref().unchecked_ref();
    Ok(ObjectNamespace::unchecked_from_js(
        whole.jurisdiction(name)?,
    ))
}

/// Whether an object is outside of the jurisdiction of the deployment: it is left from before the variable was changed.
/// Its alarms ring on, and would write to objects within the new jurisdiction.
pub(super) fn is_outside(env: &Env, id: &JsValue) -> bool {
    let of = |id: &JsValue| Reflect::get(id, &"jurisdiction".into()).ok()?.as_string();
    let Some(own) = within(env).name.clone() else {
        return of(id).is_some();
    };
    // Where ids do not name a jurisdiction, nothing is known of any object.
    let sample = || {
        let namespace = namespace(env, DIRECTORY).ok()?;
        let whole: &Whole = namespace.as_ref().unchecked_ref();
        of(&whole.id_of("").ok()?)
    };
    of(id).as_ref() != Some(&own) && sample() == Some(own)
}

fn stub(env: &Env, to: &Placement) -> worker::Result<Fetcher> {
    let namespace = namespace(env, to.binding)?;
    let stub = match to.location_hint {
        Some(hint) => namespace.get_by_name_with_location_hint(&to.name, hint)?,
        None => namespace.get_by_name(&to.name)?,
    };
    Ok(stub.into_rpc())
}

/// Carries a message, and returns what is answered.
pub(super) async fn send(
    env: &Env,
    to: &Target,
    path: &str,
    message: &[u8],
) -> worker::Result<Vec<u8>> {
    let init = RequestInit::new();
    init.set_method("POST");
    if message.len() <= SMALL_BYTES_MAX {
        let headers = Headers::new()?;
        headers.set(SMALL, &STANDARD_NO_PAD.encode(message))?;
        init.set_headers(&headers);
    } else {
        init.set_body(&Uint8Array::from(message));
    }
    let target: Fetcher = match to {
        Target::Aggregator => env.service(AGGREGATOR)?.into_rpc(),
        Target::Object(to) => stub(env, to)?,
    };
    let url = [&within(env).origin, path].concat();
    let response: Response = JsFuture::from(target.fetch(&url, &init)?)
        .await?
        .unchecked_into();
    if let Some(small) = response.headers().get(SMALL)? {
        return decoded(&small);
    }
    let body = JsFuture::from(response.array_buffer()?).await?;
    Ok(Uint8Array::new(&body).to_vec())
}

fn decoded(small: &str) -> worker::Result<Vec<u8>> {
    let bytes = STANDARD_NO_PAD.decode(small);
    bytes.map_err(|error| Error::RustError(error.to_string()))
}

/// Carries a message to an object that answers with a stream. It must fit into a header.
pub(super) async fn open(
    env: &Env,
    to: &Placement,
    path: &str,
    message: &[u8],
    upgrade: Option<&str>,
) -> worker::Result<Stream> {
    let headers = Headers::new()?;
    headers.set(SMALL, &STANDARD_NO_PAD.encode(message))?;
    if let Some(protocol) = upgrade {
        headers.set(UPGRADE, protocol)?;
    }
    let init = RequestInit::new();
    init.set_headers(&headers);
    let url = [&within(env).origin, path].concat();
    let opened = JsFuture::from(stub(env, to)?.fetch(&url, &init)?).await?;
    let stream = carried(opened.unchecked_into());
    let small = carrier(&stream)?.headers().get(SMALL)?;
    let is_later =
        small.is_some_and(|small| decoded(&small).is_ok_and(|answer| later(&answer).is_some()));
    let status = if is_later {
        LATER_STATUS
    } else {
        stream.status
    };
    Ok(Stream { status, ..stream })
}

/// A response of the platform's as a stream.
pub(super) fn carried(response: Response) -> Stream {
    Stream {
        status: response.status(),
        carrier: Rc::new(response),
    }
}

/// The response that carries a stream.
pub(super) fn carrier(stream: &Stream) -> worker::Result<&Response> {
    let carrier = stream.carrier.downcast_ref();
    carrier.ok_or_else(|| Error::RustError("a stream of another platform".to_owned()))
}

/// Reads a call; where it cannot be read, what its sender is told.
pub(super) async fn read(env: &Env, request: &Request) -> Result<IncomingCall, Reply> {
    let headers = request.headers();
    let reading = async {
        let message = match headers.get(SMALL)? {
            Some(small) => decoded(&small)?,
            None => {
                let body = JsFuture::from(request.array_buffer()?).await?;
                Uint8Array::new(&body).to_vec()
            }
        };
        Ok::<_, Error>((message, headers.get(UPGRADE)?))
    };
    let url = request.url();
    let read = match path_within(&url, within(env).name.as_deref()) {
        Ok(path) => {
            let read = reading
                .await
                .map_err(|error| Fault::Broken(error.to_string()));
            read.map(|(message, upgrade)| {
                let (protocol, path) = protocol_of(path);
                IncomingCall {
                    protocol,
                    path: path.to_owned(),
                    message,
                    upgrade,
                }
            })
        }
        Err(fault) => Err(fault),
    };
    // The same bytes whatever the call would have been answered with.
    let refused = |fault| Reply::Answer(encode(&Err::<(), Fault>(fault)).unwrap_or_default());
    read.map_err(refused)?.understood_by(PROTOCOL)
}

/// Answers a call.
pub(super) fn answer(reply: Reply) -> worker::Result<Response> {
    let refused = |status: u16, why: &str| {
        let init = ResponseInit::new();
        init.set_status(status);
        Response::new_with_opt_str_and_init(Some(why), &init)
    };
    let bytes = match reply {
        Reply::Answer(bytes) => bytes,
        Reply::Stream(stream) => return Ok(Clone::clone(carrier(&stream)?)),
        Reply::Refused(status, why) => return Ok(refused(status, &why)?),
        Reply::Unknown => return Ok(refused(404, UNKNOWN_CALL)?),
    };
    if bytes.len() > SMALL_BYTES_MAX {
        let body = Uint8Array::from(bytes.as_slice());
        return Ok(Response::new_with_opt_js_u8_array(Some(&body))?);
    }
    let headers = Headers::new()?;
    headers.set(SMALL, &STANDARD_NO_PAD.encode(&bytes))?;
    let init = ResponseInit::new();
    init.set_headers(&headers);
    Ok(Response::new_with_opt_str_and_init(None, &init)?)
}
