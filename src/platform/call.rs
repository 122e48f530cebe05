//! Messages on their way: a call is a POST whose path names it and whose body is postcard; the
//! answer is a postcard `Result`. Any failure below that is `Unavailable`.

use std::future::Future;

use worker::js_sys::Uint8Array;
use worker::{Env, Method, Request, RequestInit, Response};

use crate::cluster::ring::Ring;
use crate::counter::id::CounterId;
use crate::platform::clock::within_ms;
use crate::protocol::messages::{Call, Fault, decode, encode};
use crate::protocol::names::{self, AGGREGATOR, CellAddress, Placement};

/// How long one message may take before its sender looks elsewhere.
pub const CALL_MS_MAX: u64 = 5_000;

/// Host of the messages' URLs; nothing resolves it, the bindings alone carry them.
const HOST: &str = "http://tally";

thread_local! {
    static RING: Ring = Ring::new(names::DIRECTORY_PARTITIONS);
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
    let request = request(call)?;
    let sent = async {
        let namespace = env.durable_object(placement.binding)?;
        let stub = match placement.location_hint {
            Some(hint) => namespace.get_by_name_with_location_hint(&placement.name, hint)?,
            None => namespace.get_by_name(&placement.name)?,
        };
        let mut response = stub.fetch_with_request(request).await?;
        response.bytes().await
    };
    answered::<C>(sent).await
}

/// Calls a cell.
///
/// # Errors
/// As [`object`].
pub async fn cell<C: Call>(env: &Env, to: &CellAddress, call: &C) -> Result<C::Answer, Fault> {
    object(env, &names::cell(to), call).await
}

/// Calls the partition that holds a counter's root.
///
/// # Errors
/// As [`object`].
pub async fn root<C: Call>(env: &Env, counter: &CounterId, call: &C) -> Result<C::Answer, Fault> {
    let partition = RING.with(|ring| ring.partition_of(counter.as_str()));
    object(env, &names::directory(partition), call).await
}

/// Calls the global aggregator.
///
/// # Errors
/// As [`object`].
pub async fn aggregator<C: Call>(env: &Env, call: &C) -> Result<C::Answer, Fault> {
    let request = request(call)?;
    let sent = async {
        let mut response = env.service(AGGREGATOR)?.fetch_request(request).await?;
        response.bytes().await
    };
    answered::<C>(sent).await
}

fn request<C: Call>(call: &C) -> Result<Request, Fault> {
    let body = encode(call)?;
    let mut init = RequestInit::new();
    init.with_method(Method::Post)
        .with_body(Some(Uint8Array::from(body.as_slice()).into()));
    Request::new_with_init(&format!("{HOST}{}", C::PATH), &init)
        .map_err(|error| Fault::Broken(error.to_string()))
}

async fn answered<C: Call>(
    sent: impl Future<Output = worker::Result<Vec<u8>>>,
) -> Result<C::Answer, Fault> {
    match within_ms(CALL_MS_MAX, sent).await {
        Some(Ok(bytes)) => decode::<Result<C::Answer, Fault>>(&bytes).unwrap_or_else(|_| {
            // Not our encoding: the platform's own error page, so the call did not get through.
            Err(Fault::Unavailable(format!("{} was not answered", C::PATH)))
        }),
        Some(Err(error)) => Err(Fault::Unavailable(format!("{} failed: {error}", C::PATH))),
        None => Err(Fault::Unavailable(format!(
            "{} took over {CALL_MS_MAX} ms",
            C::PATH
        ))),
    }
}

/// Reads a call's message out of a request.
///
/// # Errors
/// `Broken` where it is none.
pub async fn read<C: Call>(request: &mut Request) -> Result<C, Fault> {
    let bytes = request
        .bytes()
        .await
        .map_err(|error| Fault::Broken(error.to_string()))?;
    decode(&bytes)
}

/// Answers a call.
///
/// # Errors
/// The platform's, where no response can be made.
pub fn reply<C: Call>(answer: &Result<C::Answer, Fault>) -> worker::Result<Response> {
    let bytes = encode(answer).map_err(|fault| worker::Error::RustError(fault.to_string()))?;
    Response::from_bytes(bytes)
}
