//! What lines hold, as the simulation has it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tally_simulation::{Answer, ClientRequest, Verdict};

/// A text; empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// A number; `otherwise` where there is none.
pub(crate) fn number<T: TryFrom<u64>>(value: &Value, name: &str, otherwise: T) -> T {
    let number = value[name].as_u64();
    let number = number.and_then(|number| number.try_into().ok());
    number.unwrap_or(otherwise)
}

/// A request; a body of `length` bytes begins the payload, and is taken from there.
pub(crate) fn ask(request: &Value, payload: &mut &[u8]) -> ClientRequest {
    let mut ask = ClientRequest::new(text(request, "method"), text(request, "url"))
        .at(number(request, "edge", 0))
        .colo(request["colo"].as_str())
        .address(request["address"].as_str())
        .country(request["country"].as_str());
    for header in request["headers"].as_array().into_iter().flatten() {
        let part = |place: usize| header[place].as_str().unwrap_or_default();
        ask = ask.header(part(0), part(1));
    }
    if request["length"].is_u64() {
        let (body, rest) = payload.split_at(number(request, "length", 0));
        *payload = rest;
        ask = ask.body(body);
    }
    ask
}

/// An answer.
pub(crate) fn answer(id: u64, answer: &Answer) -> Value {
    json!({
        "id": id,
        "status": answer.status,
        "headers": answer.headers,
        "body": STANDARD.encode(&answer.body),
        "live": answer.live.is_some(),
    })
}

/// What becomes of a call.
pub(crate) fn verdict(name: &str) -> Verdict {
    match name {
        "" => Verdict::Answered,
        "before" => Verdict::Unreached,
        "after" => Verdict::AnswerLost,
        "unkept" => Verdict::Unkept,
        "hang" => Verdict::Unanswered,
        other => panic!("a rule says {other:?}, which this platform cannot do"),
    }
}
