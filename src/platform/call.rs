//! Messages on their way: a call is a POST whose path names it and whose body is postcard; the
//! answer is a postcard `Result`. Any failure below that is `Unavailable`.

use std::cell::OnceCell;
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use worker::js_sys::{Promise, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;
use worker::web_sys::{Headers, RequestInit, Response, ResponseInit};
use worker::{Env, Request};

use crate::cluster::ring::Ring;
use crate::cluster::root::Root;
use crate::cluster::spread::{Counts, Rings};
use crate::counter::id::{CounterId, Datacenter};
use crate::platform::clock::within_ms;
use crate::platform::setting;
use crate::protocol::limits::PolicyName;
use crate::protocol::messages::{Call, Fault, LookUp, decode, encode};
use crate::protocol::names::{self, AGGREGATOR, CellAddress, LimiterAddress, Placement};

/// How long one message may take before its sender looks elsewhere.
pub const CALL_MS_MAX: u64 = 5_000;

/// Header that carries a small message, in base64: a body costs a stream at either end, which was a
/// fifth of a call's time.
const SMALL: &str = "tally-message";

/// The largest message that travels in a header: in base64 2,732 bytes, below the 16 KB that all
/// headers of a request may have together.
const SMALL_BYTES_MAX: usize = 2_048;

/// Host of the messages' URLs; nothing resolves it, the bindings alone carry them.
const HOST: &str = "http://tally";

#[wasm_bindgen]
extern "C" {
    /// A stub or a service. Called without the SDK's wrappers, which read the answer as a stream: six
    /// calls into JavaScript a message more.
    type Fetcher;

    #[wasm_bindgen(method, catch)]
    fn fetch(this: &Fetcher, url: &str, init: &RequestInit) -> Result<Promise, JsValue>;
}

thread_local! {
    static RING: Ring = Ring::new(names::DIRECTORY_PARTITIONS);
    /// Read once: an isolate's variables never change.
    static LIMITERS: OnceCell<Rc<Rings>> = const { OnceCell::new() };
}

/// Calls the object at a placement.
///
/// # Errors
/// What the object answers, or `Unavailable` where it does not.
pub async fn object<C: Call>(
    env: &Env,
    placement: &Placement,
    call: &C,
) -> Result<C::Answer, Fault> {
    let bytes = exchange(env, Some(placement), C::PATH, encode(call)?, CALL_MS_MAX).await?;
    answer_of::<C>(&bytes)
}

/// Calls the object at a placement, which must answer within a time.
///
/// # Errors
/// As [`object`].
pub async fn object_within<C: Call>(
    env: &Env,
    to: &Placement,
    call: &C,
    milliseconds: u64,
) -> Result<C::Answer, Fault> {
    let bytes = exchange(env, Some(to), C::PATH, encode(call)?, milliseconds).await?;
    answer_of::<C>(&bytes)
}

/// Calls a cell that must answer within a time.
///
/// # Errors
/// As [`object`].
pub async fn cell_within<C: Call>(
    env: &Env,
    to: &CellAddress,
    call: &C,
    milliseconds: u64,
) -> Result<C::Answer, Fault> {
    let placement = names::cell(to);
    let bytes = exchange(env, Some(&placement), C::PATH, encode(call)?, milliseconds).await?;
    answer_of::<C>(&bytes)
}

/// Calls a cell.
///
/// # Errors
/// As [`object`].
pub async fn cell<C: Call>(env: &Env, to: &CellAddress, call: &C) -> Result<C::Answer, Fault> {
    object(env, &names::cell(to), call).await
}

/// The partition of the directory that holds a counter's root.
pub fn partition_of(counter: &CounterId) -> u32 {
    RING.with(|ring| ring.partition_of(counter.as_str()))
}

/// The limiter of a key, in a datacenter or of the world.
pub fn limiter_of(
    env: &Env,
    datacenter: Option<&Datacenter>,
    policy: &PolicyName,
    key: &CounterId,
) -> LimiterAddress {
    LimiterAddress {
        datacenter: datacenter.cloned(),
        partition: limiters(env).now(&limiter_key(policy, key)),
    }
}

/// What decides by which limiter a key is judged.
pub fn limiter_key(policy: &PolicyName, key: &CounterId) -> String {
    [policy.as_str(), "/", key.as_str()].concat()
}

/// How keys are spread over limiters, as this isolate's variables say it.
pub fn limiters(env: &Env) -> Rc<Rings> {
    let count = |name: &str| setting::number(env, name);
    LIMITERS.with(|rings| {
        let read = || {
            Rc::new(Rings::new(Counts {
                now: count(names::LIMITER_COUNT).unwrap_or(names::LIMITER_PARTITIONS),
                before: count(names::LIMITER_COUNT_BEFORE),
            }))
        };
        rings.get_or_init(read).clone()
    })
}

/// Calls the partition that holds a counter's root.
///
/// # Errors
/// As [`object`].
pub async fn root<C: Call>(env: &Env, counter: &CounterId, call: &C) -> Result<C::Answer, Fault> {
    let partition = partition_of(counter);
    object(env, &names::directory(partition), call).await
}

/// What is known of a counter that lives.
///
/// # Errors
/// As [`object`].
pub async fn look_up(env: &Env, counter: &CounterId) -> Result<Option<Root>, Fault> {
    let look_up = LookUp {
        counter: counter.clone(),
    };
    root(env, counter, &look_up).await
}

/// Calls the partition that holds a counter's root, which must answer within a time.
///
/// # Errors
/// As [`object`].
pub async fn root_within<C: Call>(
    env: &Env,
    counter: &CounterId,
    call: &C,
    milliseconds: u64,
) -> Result<C::Answer, Fault> {
    let partition = partition_of(counter);
    let to = names::directory(partition);
    let bytes = exchange(env, Some(&to), C::PATH, encode(call)?, milliseconds).await?;
    answer_of::<C>(&bytes)
}

/// Calls the global aggregator.
///
/// # Errors
/// As [`object`].
pub async fn aggregator<C: Call>(env: &Env, call: &C) -> Result<C::Answer, Fault> {
    aggregator_within(env, call, CALL_MS_MAX).await
}

/// Calls the global aggregator, which must answer within a time.
///
/// # Errors
/// As [`object`].
pub async fn aggregator_within<C: Call>(
    env: &Env,
    call: &C,
    milliseconds: u64,
) -> Result<C::Answer, Fault> {
    let bytes = exchange(env, None, C::PATH, encode(call)?, milliseconds).await?;
    answer_of::<C>(&bytes)
}

/// Carries bytes to an object, or to the aggregator where no placement is given, and its answer
/// back. Not generic, so that the code for it is there once (it was 30 KB of Wasm when it was not).
async fn exchange(
    env: &Env,
    to: Option<&Placement>,
    path: &'static str,
    body: Vec<u8>,
    milliseconds: u64,
) -> Result<Vec<u8>, Fault> {
    let sent = async {
        let init = RequestInit::new();
        init.set_method("POST");
        if body.len() <= SMALL_BYTES_MAX {
            let headers = Headers::new()?;
            headers.set(SMALL, &STANDARD_NO_PAD.encode(&body))?;
            init.set_headers(&headers);
        } else {
            init.set_body(&Uint8Array::from(body.as_slice()));
        }
        let target: Fetcher = match to {
            None => env.service(AGGREGATOR)?.into_rpc(),
            Some(to) => stub(env, to)?,
        };
        let url = format!("{HOST}{path}");
        let response: Response = JsFuture::from(target.fetch(&url, &init)?)
            .await?
            .unchecked_into();
        if let Some(small) = response.headers().get(SMALL)? {
            return STANDARD_NO_PAD
                .decode(small)
                .map_err(|error| worker::Error::RustError(error.to_string()));
        }
        let body = JsFuture::from(response.array_buffer()?).await?;
        Ok::<_, worker::Error>(Uint8Array::new(&body).to_vec())
    };
    match within_ms(milliseconds, sent).await {
        Some(Ok(bytes)) => Ok(bytes),
        Some(Err(error)) => Err(Fault::Unavailable(format!("{path} failed: {error}"))),
        None => Err(Fault::Unavailable(format!(
            "{path} took over {milliseconds} ms"
        ))),
    }
}

fn answer_of<C: Call>(bytes: &[u8]) -> Result<C::Answer, Fault> {
    decode::<Result<C::Answer, Fault>>(bytes).unwrap_or_else(|_| {
        // Not our encoding: the platform's own error page, so the call did not get through.
        Err(Fault::Unavailable(format!("{} was not answered", C::PATH)))
    })
}

/// Asks an object for a stream: the response as it is, with its body or its socket.
///
/// # Errors
/// `Unavailable` where the object does not answer, `Broken` where the message is too long for a header.
pub async fn stream<C: Call>(
    env: &Env,
    to: &Placement,
    call: &C,
    upgrade: Option<&str>,
) -> Result<Response, Fault> {
    let small = STANDARD_NO_PAD.encode(encode(call)?);
    let sent = async {
        let headers = Headers::new()?;
        headers.set(SMALL, &small)?;
        if let Some(protocol) = upgrade {
            headers.set("upgrade", protocol)?;
        }
        let init = RequestInit::new();
        init.set_headers(&headers);
        let target = stub(env, to)?;
        let url = format!("{HOST}{}", C::PATH);
        let response = JsFuture::from(target.fetch(&url, &init)?).await?;
        Ok::<_, worker::Error>(response.unchecked_into())
    };
    let failed = |what: String| Fault::Unavailable(format!("{} {what}", C::PATH));
    match within_ms(CALL_MS_MAX, sent).await {
        Some(answered) => answered.map_err(|error| failed(format!("failed: {error}"))),
        None => Err(failed(format!("took over {CALL_MS_MAX} ms"))),
    }
}

fn stub(env: &Env, to: &Placement) -> worker::Result<Fetcher> {
    let namespace = env.durable_object(to.binding)?;
    let stub = match to.location_hint {
        Some(hint) => namespace.get_by_name_with_location_hint(&to.name, hint)?,
        None => namespace.get_by_name(&to.name)?,
    };
    Ok(stub.into_rpc())
}

/// Reads a call's message out of a request.
///
/// # Errors
/// `Broken` where it is none.
pub async fn read<C: Call>(request: &mut Request) -> Result<C, Fault> {
    let unreadable = |error: worker::Error| Fault::Broken(error.to_string());
    let bytes = match request.headers().get(SMALL).map_err(unreadable)? {
        Some(small) => STANDARD_NO_PAD
            .decode(small)
            .map_err(|error| Fault::Broken(error.to_string()))?,
        None => request.bytes().await.map_err(unreadable)?,
    };
    decode(&bytes)
}

/// Answers a call.
///
/// # Errors
/// The platform's, where no response can be made.
pub fn reply<C: Call>(answer: &Result<C::Answer, Fault>) -> worker::Result<worker::Response> {
    let bytes = encode(answer).map_err(|fault| worker::Error::RustError(fault.to_string()))?;
    if bytes.len() > SMALL_BYTES_MAX {
        return worker::Response::from_bytes(bytes);
    }
    let headers = Headers::new()?;
    headers.set(SMALL, &STANDARD_NO_PAD.encode(&bytes))?;
    let init = ResponseInit::new();
    init.set_headers(&headers);
    Ok(Response::new_with_opt_str_and_init(None, &init)?.into())
}
