//! Operations on a counter as a whole: settings, set, reset, deletion.

use crate::kit::body;
use crate::kit::isolate;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use crate::read::cache;
use crate::read::counter::not_found;
use crate::read::last_seen;
use tally_api::access::Caller;
use tally_api::bodies::{parse_set, parse_settings};
use tally_api::idempotency_keys::{KeyKind, parse_if_match};
use tally_api::keyed_routes;
use tally_api::metrics::Metric;
use tally_api::public::{Freshness, SummedCounter, deleted_json};
use tally_api::query::Query;
use tally_core::callers::account::AccountId;
use tally_core::cluster::root::Root;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::WriteKey;
use tally_core::sketch::Uniques;
use tally_shared::metrics;
use tally_shared::{call, call_within};
use tally_wire::messages::{
    Done, GlobalSum, LookUp, Operate, Operation, OperationCondition, OperationKey,
    OperationOutcome, Read, ReadDrained, ReadParts, StoreAnswer, StoredAnswer,
};
use tally_wire::problem::{Code, Problem};
use tally_wire::shell_limits::OPERATE_MS_MAX;

/// `PUT /counters/{id}`: replaces the settings, creating the counter if need be.
///
/// # Errors
/// `invalid-body`, `unknown-field`, `needs-home`, `below-floor`, `hash-mismatch`, `precondition-failed`, `unavailable`.
pub async fn put(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
) -> Result<Answer, Problem> {
    let parse = |bytes: &[u8]| parse_settings(bytes).map(Operation::Put);
    change(context, caller, id, ("put", Metric::AcknowledgedPut), parse).await
}

/// `PUT /counters/{id}/value`: sets the value, creating the counter if need be.
///
/// # Errors
/// `invalid-body`, `unknown-field`, `below-floor`, `precondition-failed`, `needs-home`, `unavailable`.
pub async fn set(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
) -> Result<Answer, Problem> {
    let parse = |bytes: &[u8]| parse_set(bytes).map(Operation::Set);
    change(context, caller, id, ("set", Metric::AcknowledgedSet), parse).await
}

/// Carries out the operation that the body of a call says.
async fn change(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
    (call, metric): (&'static str, Metric),
    parse: fn(&[u8]) -> Result<Operation, Problem>,
) -> Result<Answer, Problem> {
    let strings = Query::parse(context.query(), &["numbers"])?.numbers_as_strings()?;
    let bytes = body::read_small(context).await?;
    let operation = parse(&bytes)?;
    let sent = Sent {
        caller,
        call,
        body: &bytes,
        strings,
    };
    operate(context, id, operation, sent, metric).await
}

/// `DELETE /counters/{id}`: ends the counter, storage included.
///
/// # Errors
/// `counter-not-found`, `precondition-failed`, `needs-home`, `unavailable`.
pub async fn delete(
    context: &RequestContext,
    caller: &Caller,
    id: CounterId,
) -> Result<Answer, Problem> {
    Query::parse(context.query(), &[])?;
    let sent = Sent {
        caller,
        call: "delete",
        body: &[],
        strings: false,
    };
    let metric = Metric::AcknowledgedDelete;
    operate(context, id, Operation::Delete, sent, metric).await
}

/// Runs an operation at the root, and answers with the counter after it. Under a key it is done once, and a repeat gets
/// the stored answer.
async fn operate(
    context: &RequestContext,
    id: CounterId,
    operation: Operation,
    sent: Sent<'_>,
    metric: Metric,
) -> Result<Answer, Problem> {
    let key = key_of(context, &sent).await?;
    let header = context.precondition()?;
    let condition = header.as_deref().map(parse_if_match).transpose()?;
    let is_delete = operation == Operation::Delete;
    let operate = Operate {
        counter: id.clone(),
        datacenter: context.datacenter(),
        operation,
        key,
        condition,
    };
    let _waiting = context.waiting();
    let requested_ms = context.host.now_ms();
    let done = match done_of(&id, send(context, &operate).await?)? {
        Ok(done) => done,
        Err(answered) => {
            metrics::count(&context.host, Metric::Replayed);
            return Ok(answer_of(answered).replayed());
        }
    };
    let answered = if is_delete {
        StoredAnswer {
            status: 200,
            body: deleted_json(&id, &done.pending),
        }
    } else {
        let outcome = Outcome {
            operation: &operate.operation,
            done: &done,
            requested_ms,
        };
        state_after(context, &id, &outcome, sent.strings).await?
    };
    metrics::count(
        &context.host,
        if done.is_repeat {
            Metric::Replayed
        } else {
            metric
        },
    );
    let Some(OperationKey { key, .. }) = key else {
        return Ok(answer_of(answered));
    };
    let kept = keep(context, id, key, answered).await?;
    let answer = answer_of(kept);
    Ok(if done.is_repeat {
        answer.replayed()
    } else {
        answer
    })
}

/// Has an operation done, and forgets what is cached of its counter.
async fn send(context: &RequestContext, operate: &Operate) -> Result<OperationOutcome, Problem> {
    let id = &operate.counter;
    if matches!(operate.operation, Operation::Set(_)) {
        // Events that were acknowledged before are counted first; those that cannot be counted now count after it.
        let read = question(id);
        let _ = call(&context.host, &ReadDrained { read }).await;
    }
    let operated = call_within(&context.host, operate, OPERATE_MS_MAX).await?;
    cache::forget(&context.host, id);
    last_seen::forget(&context.host, id);
    isolate::forget_home(&context.host, id);
    let needs_counter = operate.condition == Some(OperationCondition::Exists);
    if needs_counter && operated == OperationOutcome::Changed {
        let detail = "there is no such counter; nothing was changed";
        return Err(Problem::new(Code::PreconditionFailed, detail));
    }
    Ok(operated)
}

/// Stores the answer to an operation at the root: every repeat gets the same answer, also one that ran meanwhile.
async fn keep(
    context: &RequestContext,
    counter: CounterId,
    key: WriteKey,
    answer: StoredAnswer,
) -> Result<StoredAnswer, Problem> {
    let keep = StoreAnswer {
        counter,
        key,
        answer,
    };
    Ok(call(&context.host, &keep).await?)
}

fn answer_of(answered: StoredAnswer) -> Answer {
    Answer::json(answered.body).with_status(answered.status)
}

/// What a client sent with an operation.
struct Sent<'a> {
    caller: &'a Caller,
    /// The name of the call.
    call: &'static str,
    body: &'a [u8],
    /// Whether its answer has numbers as strings.
    strings: bool,
}

/// The key of an operation, if its client sent one.
async fn key_of(
    context: &RequestContext,
    sent: &Sent<'_>,
) -> Result<Option<OperationKey>, Problem> {
    let key = RequestKey::of(context, sent.caller).await?;
    Ok(key.map(|key| OperationKey {
        account: context.account(),
        key: key.name(KeyKind::Write),
        fingerprint: key.request_hash(
            &[sent.call.as_bytes(), &[u8::from(sent.strings)]],
            sent.body,
        ),
    }))
}

/// The effect of an operation, or its earlier answer.
pub fn done_of(
    id: &CounterId,
    operated: OperationOutcome,
) -> Result<Result<Done, StoredAnswer>, Problem> {
    Err(match operated {
        OperationOutcome::Done(done) => return Ok(Ok(done)),
        OperationOutcome::Answered(answered) => return Ok(Err(answered)),
        OperationOutcome::NotFound => not_found(id),
        OperationOutcome::Reused => Problem::new(
            Code::IdempotencyKeyReused,
            "this key was used for another write; send another key with another write",
        ),
        OperationOutcome::Full => Problem::new(
            Code::Overloaded,
            "too many keys are remembered here; nothing was changed, try again later or without a key",
        ),
        OperationOutcome::PartFull(account) => part_full(account),
        OperationOutcome::NeedsHome => needs_home(),
        OperationOutcome::BelowFloor => Problem::new(
            Code::BelowFloor,
            "the value would be below the counter's floor; nothing was changed",
        ),
        OperationOutcome::Exists => Problem::new(
            Code::AlreadyExists,
            "there is such a counter already; nothing was changed",
        ),
        OperationOutcome::HashMismatch => Problem::new(
            Code::HashMismatch,
            "the counter has unique elements of another hash; nothing was changed, use another counter or delete this one",
        ),
        OperationOutcome::Changed => Problem::new(
            Code::PreconditionFailed,
            "the counter has changed since the version in If-Match; nothing was changed, read it again",
        ),
    })
}

/// The question for a counter's whole state.
fn question(id: &CounterId) -> Read {
    Read {
        counter: id.clone(),
        datacenter: None,
        wanted: ReadParts::default(),
    }
}

/// An operation, its effect, and when the client asked, unix milliseconds.
struct Outcome<'a> {
    operation: &'a Operation,
    done: &'a Done,
    requested_ms: i64,
}

impl Outcome<'_> {
    /// The counter if it cannot be read any more: it was deleted since then, or has expired by the reader's clock. Its
    /// value is that of the last set, if there was one, and is not exact.
    fn of_ended(&self) -> GlobalSum {
        let mut root = Root::create(None, self.requested_ms);
        root.generation = self.done.generation;
        if let Operation::Set(value) = self.operation {
            root.set(*value, Vec::new(), self.requested_ms);
        }
        GlobalSum {
            root,
            datacenters: Vec::new(),
            is_whole: true,
            uniques: Uniques::new(),
            window_uniques: Uniques::new(),
            is_drained: false,
        }
    }
}

/// The counter after an operation. The operation was done, so this is never "no such counter".
async fn state_after(
    context: &RequestContext,
    id: &CounterId,
    outcome: &Outcome<'_>,
    strings: bool,
) -> Result<StoredAnswer, Problem> {
    let begun_ms = context.host.now_ms();
    // Every datacenter is asked, because its last push is from before the operation.
    let message = ReadDrained { read: question(id) };
    let found = call(&context.host, &message).await?;
    // A set value was the counter's value at least at that time; after other operations an ended counter has none.
    let is_set = matches!(outcome.operation, Operation::Set(_));
    let as_of_ms = match &found {
        None if is_set => outcome.requested_ms,
        _ => begun_ms,
    };
    let freshness = Freshness {
        as_of_ms,
        now_ms: context.host.now_ms(),
        fresh: found.is_some(),
    };
    let sum = found.unwrap_or_else(|| outcome.of_ended());
    let done = outcome.done;
    let view = SummedCounter::new(id, &sum, freshness).rounded(context.rounding()?);
    Ok(StoredAnswer {
        status: if done.created { 201 } else { 200 },
        body: view.to_json(strings, None, Some(&done.pending)),
    })
}

/// The home of a counter, if it has one.
///
/// # Errors
/// `unavailable`.
pub async fn home_now(
    context: &RequestContext,
    id: &CounterId,
) -> Result<Option<Datacenter>, Problem> {
    let known = isolate::known_of(&context.host, id);
    if known.home.is_some() {
        return Ok(known.home.clone());
    }
    let counter = id.clone();
    let root = call(&context.host, &LookUp { counter }).await?;
    let home = root.and_then(|root| root.home);
    match &home {
        Some(home) => isolate::cache_home(&context.host, id, home),
        None => isolate::forget_home(&context.host, id),
    }
    Ok(home)
}

/// The home of a counter, set if it has none.
///
/// # Errors
/// As [`assign_home`].
pub async fn home_for_good(
    context: &RequestContext,
    id: &CounterId,
) -> Result<Datacenter, Problem> {
    if let Some(home) = &isolate::known_of(&context.host, id).home {
        return Ok(home.clone());
    }
    assign_home(context, id).await
}

/// Sets the home of a counter, so that conditional operations can be decided.
///
/// # Errors
/// `needs-home` where several datacenters have written, `precondition-failed` where there is no such counter,
/// `unavailable`.
pub async fn assign_home(context: &RequestContext, id: &CounterId) -> Result<Datacenter, Problem> {
    let operate = Operate {
        counter: id.clone(),
        datacenter: context.datacenter(),
        operation: Operation::AssignHome,
        key: None,
        condition: None,
    };
    let operated = call(&context.host, &operate).await?;
    if operated == OperationOutcome::NotFound {
        let detail = "there is no such counter any more; nothing was counted";
        return Err(Problem::new(Code::PreconditionFailed, detail));
    }
    match done_of(id, operated)? {
        Ok(Done {
            home: Some(home), ..
        }) => {
            isolate::cache_home(&context.host, id, &home);
            Ok(home)
        }
        _ => Err(needs_home()),
    }
}

/// When a write may be sent again whose account has filled its part of the room for keys, seconds. Keys are forgotten
/// some hours' worth at once.
const PART_FULL_SECONDS: u32 = 3_600;

/// The problem of an account that has filled its part of the room for keys.
pub fn part_full(account: AccountId) -> Problem {
    let problem = Problem::new(Code::QuotaExceeded, keyed_routes::part_full(account));
    problem.with_retry_after(PART_FULL_SECONDS)
}

/// The problem of a call that one cell must decide, where several count.
pub fn needs_home() -> Problem {
    Problem::new(
        Code::NeedsHome,
        "several datacenters count this counter: set its \"home\" by PUT first",
    )
}
