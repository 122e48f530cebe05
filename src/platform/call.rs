//! Messages on their way: a call is a POST whose path names it and whose body is postcard; the
//! answer is a postcard `Result`. Any failure below that is `Unavailable`.

use std::rc::Rc;

use crate::cluster::ring::Ring;
use crate::cluster::root::Root;
use crate::cluster::spread::{Counts, Rings};
use crate::counter::id::{CounterId, Datacenter};
use crate::host::{Host, State, Stream, Target};
use crate::protocol::limits::PolicyName;
use crate::protocol::messages::{Call, Fault, LookUp, decode, encode};
use crate::protocol::names::{self, CellAddress, LimiterAddress, Placement};

/// How long one message may take before its sender looks elsewhere.
pub const CALL_MS_MAX: u64 = 5_000;

/// The directory's partitions, and how keys are spread over limiters, as this isolate's variables say it: they never change.
struct Spread {
    partitions: Ring,
    limiters: Rc<Rings>,
}

impl State for Spread {
    fn begin(host: &Host) -> Self {
        let count = |name: &str| host.number(name);
        let counts = Counts {
            now: count(names::LIMITER_COUNT).unwrap_or(names::LIMITER_PARTITIONS),
            before: count(names::LIMITER_COUNT_BEFORE),
        };
        Self {
            partitions: Ring::new(names::DIRECTORY_PARTITIONS),
            limiters: Rc::new(Rings::new(counts)),
        }
    }
}

/// Calls the object at a placement.
///
/// # Errors
/// What the object answers, or `Unavailable` where it does not.
pub async fn object<C: Call>(
    host: &Host,
    placement: &Placement,
    call: &C,
) -> Result<C::Answer, Fault> {
    let bytes = exchange(
        host,
        Target::Object(placement.clone()),
        C::PATH,
        encode(call)?,
        CALL_MS_MAX,
    )
    .await?;
    answer_of::<C>(&bytes)
}

/// Calls the object at a placement, which must answer within a time.
///
/// # Errors
/// As [`object`].
pub async fn object_within<C: Call>(
    host: &Host,
    to: &Placement,
    call: &C,
    milliseconds: u64,
) -> Result<C::Answer, Fault> {
    let bytes = exchange(
        host,
        Target::Object(to.clone()),
        C::PATH,
        encode(call)?,
        milliseconds,
    )
    .await?;
    answer_of::<C>(&bytes)
}

/// Calls a cell that must answer within a time.
///
/// # Errors
/// As [`object`].
pub async fn cell_within<C: Call>(
    host: &Host,
    to: &CellAddress,
    call: &C,
    milliseconds: u64,
) -> Result<C::Answer, Fault> {
    let to = Target::Object(names::cell(to));
    let bytes = exchange(host, to, C::PATH, encode(call)?, milliseconds).await?;
    answer_of::<C>(&bytes)
}

/// Calls a cell.
///
/// # Errors
/// As [`object`].
pub async fn cell<C: Call>(host: &Host, to: &CellAddress, call: &C) -> Result<C::Answer, Fault> {
    object(host, &names::cell(to), call).await
}

/// The partition of the directory that holds a counter's root.
pub fn partition_of(host: &Host, counter: &CounterId) -> u32 {
    host.state::<Spread>()
        .partitions
        .partition_of(counter.as_str())
}

/// The limiter of a key, in a datacenter or of the world.
pub fn limiter_of(
    host: &Host,
    datacenter: Option<&Datacenter>,
    policy: &PolicyName,
    key: &CounterId,
) -> LimiterAddress {
    LimiterAddress {
        datacenter: datacenter.cloned(),
        partition: limiters(host).now(&limiter_key(policy, key)),
    }
}

/// What decides by which limiter a key is judged.
pub fn limiter_key(policy: &PolicyName, key: &CounterId) -> String {
    [policy.as_str(), "/", key.as_str()].concat()
}

/// How keys are spread over limiters, as this isolate's variables say it.
pub fn limiters(host: &Host) -> Rc<Rings> {
    host.state::<Spread>().limiters.clone()
}

/// Calls the partition that holds a counter's root.
///
/// # Errors
/// As [`object`].
pub async fn root<C: Call>(host: &Host, counter: &CounterId, call: &C) -> Result<C::Answer, Fault> {
    let partition = partition_of(host, counter);
    object(host, &names::directory(partition), call).await
}

/// What is known of a counter that lives.
///
/// # Errors
/// As [`object`].
pub async fn look_up(host: &Host, counter: &CounterId) -> Result<Option<Root>, Fault> {
    let look_up = LookUp {
        counter: counter.clone(),
    };
    root(host, counter, &look_up).await
}

/// Calls the partition that holds a counter's root, which must answer within a time.
///
/// # Errors
/// As [`object`].
pub async fn root_within<C: Call>(
    host: &Host,
    counter: &CounterId,
    call: &C,
    milliseconds: u64,
) -> Result<C::Answer, Fault> {
    let partition = partition_of(host, counter);
    let to = Target::Object(names::directory(partition));
    let bytes = exchange(host, to, C::PATH, encode(call)?, milliseconds).await?;
    answer_of::<C>(&bytes)
}

/// Calls the global aggregator.
///
/// # Errors
/// As [`object`].
pub async fn aggregator<C: Call>(host: &Host, call: &C) -> Result<C::Answer, Fault> {
    aggregator_within(host, call, CALL_MS_MAX).await
}

/// Calls the global aggregator, which must answer within a time.
///
/// # Errors
/// As [`object`].
pub async fn aggregator_within<C: Call>(
    host: &Host,
    call: &C,
    milliseconds: u64,
) -> Result<C::Answer, Fault> {
    let bytes = exchange(
        host,
        Target::Aggregator,
        C::PATH,
        encode(call)?,
        milliseconds,
    )
    .await?;
    answer_of::<C>(&bytes)
}

/// Carries bytes, and the answer back. Not generic, so that the code for it is there once (it was 30 KB of Wasm when it was not).
async fn exchange(
    host: &Host,
    to: Target,
    path: &'static str,
    message: Vec<u8>,
    milliseconds: u64,
) -> Result<Vec<u8>, Fault> {
    let sent = host.platform().send(to, path, message);
    match host.within_ms(milliseconds, sent).await {
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

/// Asks an object for a stream; `upgrade` is the protocol that its client wants instead of HTTP.
///
/// # Errors
/// `Unavailable` where the object does not answer.
pub async fn stream<C: Call>(
    host: &Host,
    to: &Placement,
    call: &C,
    upgrade: Option<&str>,
) -> Result<Stream, Fault> {
    let upgrade = upgrade.map(str::to_owned);
    let sent = host
        .platform()
        .open(to.clone(), C::PATH, encode(call)?, upgrade);
    let failed = |what: String| Fault::Unavailable(format!("{} {what}", C::PATH));
    match host.within_ms(CALL_MS_MAX, sent).await {
        Some(answered) => answered.map_err(|error| failed(format!("failed: {error}"))),
        None => Err(failed(format!("took over {CALL_MS_MAX} ms"))),
    }
}
