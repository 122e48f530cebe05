//! The consumer of the deployment's queue, where it has one: messages become counts.
//!
//! Invariant: a message is acknowledged only when it is settled: counted under its key in the ledger of its
//! lead, or durable in an inbox, as a dead letter or as a write that the inbox goes on trying. Every step
//! before that may be repeated: a crash, or a queue that delivers twice, counts nothing twice.
//!
//! It is the aggregator's and not the edge's: it has no clients, calls objects only, and is deployed with them.

use std::collections::BTreeMap;

use worker::Env;
use worker::js_sys::{Array, ArrayBuffer, Object, Reflect, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;

use crate::counter::produce::Sent;
use crate::counter::queue::{
    DeadLetter, Death, Due, HAND_OVER_DELIVERIES, InboxId, Verdict, retry_seconds, verdict,
};
use crate::platform::clock::now_ms;
use crate::platform::dues::{count_dues, is_living};
use crate::platform::settled::all_settled;
use crate::platform::{call, measure};
use crate::protocol::messages::{Appended, Settle};
use crate::protocol::metrics::Metric;
use crate::protocol::names;
use crate::protocol::queued::{Group, Message, group};

/// Groups that are counted at once: a batch of 100 messages may be of as many counters.
const GROUPS_AT_ONCE: usize = 16;

#[wasm_bindgen]
extern "C" {
    /// A batch as the platform gives it. Read without the SDK's wrappers, which panic where it throws.
    pub type MessageBatch;

    #[wasm_bindgen(method, getter)]
    fn messages(this: &MessageBatch) -> Array;

    type Delivered;

    #[wasm_bindgen(method, getter)]
    fn body(this: &Delivered) -> JsValue;

    #[wasm_bindgen(method, getter)]
    fn attempts(this: &Delivered) -> Option<u32>;

    #[wasm_bindgen(method, catch)]
    fn ack(this: &Delivered) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch)]
    fn retry(this: &Delivered, options: &Object) -> Result<(), JsValue>;
}

/// What an inbox is to take over, and the places of its messages.
#[derive(Default)]
struct Parcel {
    places: Vec<usize>,
    dead: Vec<DeadLetter>,
    dues: Vec<Due>,
}

/// Counts a batch. Every message is acknowledged or will come again.
pub async fn consume(batch: &MessageBatch, env: &Env) {
    let delivered: Vec<Delivered> = batch
        .messages()
        .iter()
        .map(JsCast::unchecked_into)
        .collect();
    let mut readable = Vec::with_capacity(delivered.len());
    // One for dead letters and one for writes: an inbox may have no room for the latter.
    let mut parcels: BTreeMap<(InboxId, bool), Parcel> = BTreeMap::new();
    for (place, message) in delivered.iter().enumerate() {
        match read(&message.body()) {
            Some(sent) => readable.push((place, sent)),
            None => {
                let parcel = parcels.entry((InboxId::of_queue(), true)).or_default();
                parcel.places.push(place);
                parcel.dead.push(DeadLetter::unreadable(now_ms()));
            }
        }
    }
    let oldest = readable.iter().map(|(_, sent)| sent.second).min();
    let mut settled = vec![false; delivered.len()];
    let count = |group: Group| async move {
        let verdicts = count(env, &group).await;
        (group, verdicts)
    };
    for (group, verdicts) in
        all_settled(group(readable).into_iter().map(count), GROUPS_AT_ONCE).await
    {
        let inbox = InboxId {
            datacenter: group.datacenter,
            number: 0,
        };
        for ((place, due), verdict) in group.places.into_iter().zip(group.dues).zip(verdicts) {
            let deliveries = delivered.get(place).and_then(Delivered::attempts);
            match verdict {
                Verdict::Done => set(&mut settled, place),
                Verdict::Dead(death) => {
                    let parcel = parcels.entry((inbox.clone(), true)).or_default();
                    parcel.places.push(place);
                    parcel.dead.push(DeadLetter::of(&due, death, now_ms()));
                }
                Verdict::Later if deliveries.unwrap_or(1) >= HAND_OVER_DELIVERIES => {
                    let parcel = parcels.entry((inbox.clone(), false)).or_default();
                    parcel.places.push(place);
                    parcel.dues.push(due);
                }
                Verdict::Later => {}
            }
        }
    }
    let hand_over = |((inbox, _), parcel): ((InboxId, bool), Parcel)| async move {
        let dead = u64::try_from(parcel.dead.len()).unwrap_or(u64::MAX);
        let settle = Settle {
            to: inbox,
            dead: parcel.dead,
            dues: parcel.dues,
        };
        let taken = call::object(env, &names::inbox(&settle.to), &settle).await;
        if taken != Ok(Appended::Logged) {
            return Vec::new();
        }
        measure::add(Metric::DeadLetter, dead);
        parcel.places
    };
    for places in all_settled(parcels.into_iter().map(hand_over), GROUPS_AT_ONCE).await {
        for place in places {
            set(&mut settled, place);
        }
    }
    for (message, is_settled) in delivered.iter().zip(settled) {
        // A message that neither could be done to comes again by itself.
        let _ = if is_settled {
            message.ack()
        } else {
            try_again(message)
        };
    }
    if let Some(oldest) = oldest {
        let lag_ms = now_ms().saturating_sub(oldest.saturating_mul(1_000));
        measure::add(Metric::QueueLagSum, u64::try_from(lag_ms).unwrap_or(0));
        measure::add(Metric::QueueLagCount, 1);
    }
}

/// What a message says. Only bytes are looked at: anything else might be made to look like a lot of them.
fn read(body: &JsValue) -> Option<Sent> {
    let bytes = match body.dyn_ref::<ArrayBuffer>() {
        Some(buffer) => Uint8Array::new(buffer),
        None => body.dyn_ref::<Uint8Array>()?.clone(),
    };
    Message::read(&bytes.to_vec())
}

fn set(settled: &mut [bool], place: usize) {
    if let Some(known) = settled.get_mut(place) {
        *known = true;
    }
}

/// Asks for a message again, later each time.
fn try_again(message: &Delivered) -> Result<(), JsValue> {
    let options = Object::new();
    let seconds = retry_seconds(message.attempts().unwrap_or(1));
    Reflect::set(&options, &"delaySeconds".into(), &seconds.into())?;
    message.retry(&options)
}

/// Counts the writes of a group. Returns what becomes of each.
async fn count(env: &Env, group: &Group) -> Vec<Verdict> {
    let all = |verdict: Verdict| vec![verdict; group.dues.len()];
    let Some(first) = group.dues.first() else {
        return Vec::new();
    };
    match is_living(env, &first.counter, first.write.generation).await {
        Ok(true) => {}
        Ok(false) => return all(Verdict::Dead(Death::Ended)),
        Err(_) => return all(Verdict::Later),
    }
    let dues: Vec<&Due> = group.dues.iter().collect();
    let counted = count_dues(env, &group.datacenter, &dues).await;
    counted
        .into_iter()
        .map(|outcome| outcome.map_or(Verdict::Later, verdict))
        .collect()
}
