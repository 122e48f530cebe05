//! Clients of keyed writes, each request as `edge::keyed` and `platform::keyed`: claimed at the root, then
//! counted by the lead that has the key.

use std::rc::Rc;

use tally::core::counter::id::Datacenter;
use tally::core::counter::ledger::{Keyed, KeyedOutcome, Keys, SeenValue, WriteKey};
use tally::protocol::keyed::{self, Carrier, Landed};
use tally::protocol::messages::{
    Claimed, Counted, Fault, Holder, Operate, Operated, Operation, OperationKey,
};

use super::deeds;
use super::edge::Edge;
use super::network::{Answer, Message, Reply};
use super::oracle::Totals;
use super::reader::sum_world;
use super::{Air, datacenter};

/// How often one write is sent: it may have to bring the value along, and to be given a home first.
const ROUNDS_MAX: usize = 3;

/// A keyed write as its client names it; `delta` must belong to the fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub key: WriteKey,
    pub fingerprint: u64,
    pub delta: Totals,
}

/// As `read::value_seen`.
pub async fn value_seen(air: &Rc<Air>) -> SeenValue {
    let sum = sum_world(air, false).await.ok().flatten();
    sum.map_or_else(SeenValue::default, |sum| SeenValue {
        value: sum.value(),
        is_set: sum.root.operations.number() > 0,
    })
}

/// A write as it leaves an isolate.
pub fn new_keyed(edge: &Edge, wish: Wish) -> Keyed {
    let second = edge.now_ms().div_euclid(1_000);
    Keyed {
        key: wish.key,
        fingerprint: wish.fingerprint,
        generation: 0,
        added: wish.delta.0,
        removed: wish.delta.1,
        live: vec![(second, wish.delta.0)],
        past: Vec::new(),
        seen: None,
        condition: None,
        samples: Vec::new(),
    }
}

/// Sends a keyed write once through an isolate. True if the client has its last answer.
pub async fn send(edge: Rc<Edge>, wish: Wish) -> bool {
    let air = edge.air.clone();
    let here = datacenter(edge.datacenter);
    let mut write = new_keyed(&edge, wish);
    air.oracle
        .borrow_mut()
        .keys
        .wants(wish.key, wish.fingerprint, wish.delta);
    let mut landed = Vec::new();
    for _ in 0..ROUNDS_MAX {
        landed = count_keyed(&air, &here, std::slice::from_ref(&write)).await;
        match landed[0].1 {
            Ok(KeyedOutcome::NeedsView) => write.seen = Some(value_seen(&air).await),
            Ok(KeyedOutcome::NeedsHome) => {
                if !operate(edge.clone(), Operation::SettleHome, None).await {
                    break;
                }
            }
            _ => break,
        }
    }
    let (lead, outcome) = landed.pop().expect("an outcome");
    let mut oracle = air.oracle.borrow_mut();
    oracle.answers(wish.key, wish.fingerprint, &lead, &outcome)
}

/// Calls the objects of one counter.
struct Caller<'a>(&'a Air, Keys);

impl Carrier for Caller<'_> {
    async fn claim(
        &self,
        here: &Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<Holder>,
    ) -> Result<Claimed, Fault> {
        let claim = Message::Claim(here.clone(), keys, struck_at);
        let to = match self.1 {
            Keys::Numbered => self.0.lead_of(here),
            _ => self.0.root(),
        };
        match twice(self.0, to, claim).await? {
            Answer::Claimed(claimed) => Ok(claimed),
            other => unreachable!("{other:?} answers no claim"),
        }
    }

    async fn count(
        &self,
        lead: &Datacenter,
        moves: Option<u32>,
        writes: Vec<Keyed>,
    ) -> Result<Counted, Fault> {
        let (to, count) = (self.0.lead_of(lead), Message::Count(writes, moves, self.1));
        let counted = |reply: Answer| match reply {
            Answer::Counted(counted) => counted,
            other => unreachable!("{other:?} answers no write"),
        };
        match self.0.call(to, count.clone()).await {
            Err(Fault::Unavailable(_)) => {
                let reply = self.0.call(to, count).await?;
                keyed::after_unknown(moves, counted(reply))
            }
            outcome => outcome.map(counted),
        }
    }
}

/// Asks the objects of one counter, and changes nothing.
struct Recaller<'a>(&'a Air);

impl Carrier for Recaller<'_> {
    async fn claim(
        &self,
        _here: &Datacenter,
        keys: Vec<WriteKey>,
        _struck_at: Option<Holder>,
    ) -> Result<Claimed, Fault> {
        match twice(self.0, self.0.root(), Message::FindClaims(keys)).await? {
            Answer::Claimed(claimed) => Ok(claimed),
            other => unreachable!("{other:?} answers no claim"),
        }
    }

    async fn count(
        &self,
        lead: &Datacenter,
        _moves: Option<u32>,
        writes: Vec<Keyed>,
    ) -> Result<Counted, Fault> {
        match twice(self.0, self.0.lead_of(lead), Message::Recall(writes)).await? {
            Answer::Counted(counted) => Ok(counted),
            other => unreachable!("{other:?} answers no write"),
        }
    }
}

/// Asks once, through an isolate, what became of a write that comes too late to be counted, as
/// `platform::keyed::recall_keyed`.
pub async fn recall(edge: Rc<Edge>, wish: Wish) {
    let air = edge.air.clone();
    let told = air.oracle.borrow().keys.told(wish.key).cloned();
    let write = new_keyed(&edge, wish);
    let here = datacenter(edge.datacenter);
    let mut landed = keyed::count_claimed(&Recaller(&air), &here, &[write]).await;
    let (lead, outcome) = landed.pop().expect("an outcome");
    let mut oracle = air.oracle.borrow_mut();
    if outcome != Ok(KeyedOutcome::Unknown) {
        oracle.answers(wish.key, wish.fingerprint, &lead, &outcome);
    } else if let Some((_, told)) = told {
        let has_ended = !oracle.is_living(told.generation);
        assert!(
            has_ended,
            "{:?} was acknowledged and is not known",
            wish.key
        );
    }
}

/// As `platform::keyed::count_keyed`.
pub async fn count_keyed(air: &Air, here: &Datacenter, writes: &[Keyed]) -> Vec<Landed> {
    keyed::count_claimed(&Caller(air, Keys::Clients), here, writes).await
}

/// As `platform::keyed::count_unclaimed`.
pub async fn count_unclaimed(
    air: &Air,
    lead: &Datacenter,
    writes: &[Keyed],
    keys: Keys,
) -> Vec<Landed> {
    keyed::count_unclaimed(&Caller(air, keys), lead, writes).await
}

/// Calls, and once more where the outcome is unknown.
async fn twice(air: &Air, to: usize, message: Message) -> Reply {
    match air.call(to, message.clone()).await {
        Err(Fault::Unavailable(_)) => air.call(to, message).await,
        outcome => outcome,
    }
}

/// Asks the root for an operation once. True if the client has its last answer.
pub async fn operate(edge: Rc<Edge>, operation: Operation, key: Option<OperationKey>) -> bool {
    let air = &edge.air;
    let operate = Operate {
        counter: air.name(),
        datacenter: datacenter(edge.datacenter),
        operation,
        key,
        condition: None,
    };
    match air.call(air.root(), Message::Operate(operate)).await {
        Ok(Answer::Operated(Operated::Full | Operated::Changed)) => {
            panic!("there is room for keys, and none has a condition")
        }
        Ok(Answer::Operated(Operated::Reused)) => {
            assert!(
                key.is_some_and(deeds::is_shared),
                "{key:?} names one operation"
            );
            true
        }
        Ok(Answer::Operated(_)) => true,
        Ok(other) => unreachable!("{other:?} answers no operation"),
        Err(_) => false,
    }
}
