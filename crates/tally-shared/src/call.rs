//! Sends messages. A call is a POST whose path names the message and whose body is postcard. The answer is a postcard
//! `Result`. A failure of the transport is `Unavailable`.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::{directory_ring, leads_apart, unreadable};
use tally_core::cluster::region::location_hint;
use tally_core::cluster::spread::{LimiterCounts, Rings};
use tally_core::cluster::tablets::{LeadPlace, TabletSpread};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::{Host, LATER_STATUS, State, Stream, Target};
use tally_wire::messages::{
    Call, Fault, PROTOCOL, PROTOCOL_BEFORE, Receiver, decode, encode, later,
};
use tally_wire::names;
use tally_wire::names::policy::PolicyName;
use tally_wire::names::{Address, CellAddress, LimiterAddress, Placement, TabletAddress};

/// The time limit of a call, milliseconds.
pub const CALL_MS_MAX: u64 = 5_000;

/// How soon an unanswered question is sent again, milliseconds: a round trip takes 165 ms in the median, and 350 ms
/// between the farthest places.
const AGAIN_MS: u64 = 250;

/// The spread of leads over tablets, by this isolate's variables; `None` if each lead has an object of its own.
struct Tablets(Option<TabletSpread>);

impl State for Tablets {
    fn begin(host: &Host) -> Self {
        Self(spread_over(host.number(names::TABLET_COUNT)))
    }
}

/// How long an isolate uses the former protocol after a receiver did not understand the newest, milliseconds. So during
/// a deployment one message per minute is sent twice.
const BEFORE_MS: i64 = 60_000;

/// Until when this isolate uses the former protocol, unix milliseconds.
struct ProtocolFallback(Cell<i64>);

impl State for ProtocolFallback {
    fn begin(_: &Host) -> Self {
        Self(Cell::new(i64::MIN))
    }
}

impl ProtocolFallback {
    fn protocol(&self, now_ms: i64) -> u8 {
        // If the clock has stepped back, that time is over.
        let left_ms = self.0.get().saturating_sub(now_ms);
        match (1..=BEFORE_MS).contains(&left_ms) {
            true => PROTOCOL_BEFORE,
            false => PROTOCOL,
        }
    }

    fn fall_back(&self, now_ms: i64) {
        self.0.set(now_ms.saturating_add(BEFORE_MS));
    }
}

/// The rings of limiters, by this isolate's variables, which never change. They are separate from those of the
/// partitions, because most isolates never call a limiter and a ring takes time to build.
struct Limiters(Rc<Rings>);

impl State for Limiters {
    fn begin(host: &Host) -> Self {
        let count = |name: &str| host.number(name);
        Self(Rc::new(Rings::new(LimiterCounts {
            now: count(names::LIMITER_COUNT).unwrap_or(names::LIMITER_PARTITIONS),
            before: count(names::LIMITER_COUNT_BEFORE),
        })))
    }
}

/// How leads are spread over this many tablets.
fn spread_over(tablets: Option<u32>) -> Option<TabletSpread> {
    tablets.map(|tablets| TabletSpread::new(tablets, names::DIRECTORY_PARTITIONS))
}

/// Sends a message to its receiver.
///
/// # Errors
/// What the receiver answers, or `Unavailable` where it does not.
pub fn call<'a, C: Call>(
    host: &'a Host,
    message: &C,
) -> impl Future<Output = Result<C::Answer, Fault>> + use<'a, C> {
    call_within(host, message, CALL_MS_MAX)
}

/// Sends a message to its receiver, which must answer within this time.
///
/// # Errors
/// As [`call`].
pub fn call_within<'a, C: Call>(
    host: &'a Host,
    message: &C,
    milliseconds: u64,
) -> impl Future<Output = Result<C::Answer, Fault>> + use<'a, C> {
    let to = target(host, message.to());
    let message = encode(message);
    async move {
        let answer = exchange(host, to, C::PATH, message?, milliseconds).await?;
        answer_of::<C>(host, &answer)
    }
}

/// Asks a question, and asks it again while no answer comes, because a message may be lost. The first answer ends the
/// wait, also a refusal. A failed attempt ends it only if no other attempt is in flight: on an unstable connection one
/// attempt may fail when another succeeds. The time limit of the first attempt limits all of them.
///
/// # Errors
/// As [`call`].
pub fn call_again<'a, C: Call>(
    host: &'a Host,
    question: &C,
    milliseconds: u64,
) -> impl Future<Output = Result<C::Answer, Fault>> + use<'a, C> {
    repeat(host, question, milliseconds, false)
}

/// As [`call_again`], for what an isolate caches: it would use an old value for as long as it may, because of one
/// message. So if the first attempt fails, and not only if it gets no answer, a second one is sent.
///
/// # Errors
/// As [`call`].
pub fn refresh<'a, C: Call>(
    host: &'a Host,
    question: &C,
    milliseconds: u64,
) -> impl Future<Output = Result<C::Answer, Fault>> + use<'a, C> {
    repeat(host, question, milliseconds, true)
}

fn repeat<'a, C: Call>(
    host: &'a Host,
    question: &C,
    milliseconds: u64,
    has_second: bool,
) -> impl Future<Output = Result<C::Answer, Fault>> + use<'a, C> {
    let to = target(host, question.to());
    let question = encode(question);
    async move {
        let asked = exchange_again(host, (to, C::PATH, question?), milliseconds, has_second);
        decode(&asked.await?).map_err(|_| no_answer(C::PATH))
    }
}

/// Sends a message until an attempt has an outcome that ends the wait, and returns the bytes of a successful answer.
/// Not generic, and boxed, as [`exchange`] is.
fn exchange_again<'a>(
    host: &'a Host,
    (to, path, message): (Target, &'static str, Vec<u8>),
    milliseconds: u64,
    mut has_second: bool,
) -> LocalBoxFuture<'a, Result<Vec<u8>, Fault>> {
    Box::pin(async move {
        let begun_ms = host.now_ms();
        let mut attempts = FuturesUnordered::new();
        loop {
            let attempt = exchange(host, to.clone(), path, message.clone(), milliseconds);
            attempts.push(async move { granted(host, path, &attempt.await?).map(<[u8]>::to_vec) });
            let sent_ms = host.now_ms();
            loop {
                let now_ms = host.now_ms();
                let left_ms = AGAIN_MS.saturating_sub(now_ms.abs_diff(sent_ms));
                let is_in_time = now_ms.abs_diff(begun_ms) < milliseconds;
                match host.within_ms(left_ms, attempts.next()).await {
                    Some(Some(Err(Fault::Unavailable(_))))
                        if !attempts.is_empty() && is_in_time => {}
                    Some(Some(Err(Fault::Unavailable(_)))) if has_second && is_in_time => {
                        has_second = false;
                        break;
                    }
                    Some(Some(answer)) => return answer,
                    Some(None) | None => break,
                }
            }
        }
    })
}

/// Sends an encoded message, and returns the encoded answer.
///
/// # Errors
/// `Unavailable` where the receiver does not answer in [`CALL_MS_MAX`].
pub fn carry<'a>(
    host: &'a Host,
    to: Address<'a>,
    path: &'static str,
    message: Vec<u8>,
) -> LocalBoxFuture<'a, Result<Vec<u8>, Fault>> {
    Box::pin(async move { exchange(host, target(host, to), path, message, CALL_MS_MAX).await })
}

/// The target of an address.
pub fn target(host: &Host, address: Address<'_>) -> Target {
    placement(host, address).map_or(Target::Aggregator, Target::Object)
}

/// The object of an address; `None` for the aggregator, which is no object.
fn placement(host: &Host, address: Address<'_>) -> Option<Placement> {
    Some(match address {
        Address::Root(counter) => names::directory(partition_of(host, counter)),
        // They do not move when the directory grows.
        Address::Alert(name) => {
            let id = CounterId::parse(name.as_str()).ok();
            let partition = id.map_or(0, |id| fixed_partition_of(&id));
            names::directory(partition)
        }
        Address::Directory(partition) => names::directory(partition),
        Address::Cell(address) => match tablet_of_cell(host, address) {
            Some(tablet) => names::tablet(&tablet),
            None => names::cell(address),
        },
        Address::Lead(counter, datacenter) => {
            let lead = CellAddress::lead(counter, datacenter);
            return placement(host, Address::Cell(&lead));
        }
        Address::LeadAt(lead) => names::lead_at(lead),
        Address::Tablet(address) => names::tablet(address),
        Address::Inbox(inbox) => names::inbox(inbox),
        Address::Limiter(address) => names::limiter(address),
        Address::Board(board, at, home) => names::board(board, at, home),
        Address::LiveReader(partition) => names::live_reader(partition),
        Address::Hub(datacenter, number) => names::hub(location_hint(datacenter), number),
        Address::Keyspace => names::keyspace(),
        Address::Aggregator => return None,
    })
}

/// The partition of the directory that holds a counter's root, by this isolate's variables.
pub fn partition_of(host: &Host, counter: &CounterId) -> u32 {
    directory_ring::place_among(directory_ring::count(host), counter)
}

/// The partition of a counter among [`names::DIRECTORY_PARTITIONS`]. Leads and live readers are spread by it, so that
/// none moves when the directory grows.
pub fn fixed_partition_of(counter: &CounterId) -> u32 {
    directory_ring::place_among(names::DIRECTORY_PARTITIONS, counter)
}

/// The receiver of a message that may travel in a batch; `None` if its object hosts one tenant alone.
pub fn receiver_of(host: &Host, address: Address<'_>) -> Option<Receiver> {
    match address {
        Address::Root(counter) => Some(Receiver::Directory(partition_of(host, counter))),
        Address::Directory(partition) => Some(Receiver::Directory(partition)),
        Address::Cell(cell) => tablet_of_cell(host, cell).map(Receiver::Tablet),
        Address::Lead(counter, datacenter) => {
            let lead = CellAddress::lead(counter, datacenter);
            tablet_of_cell(host, &lead).map(Receiver::Tablet)
        }
        Address::Tablet(tablet) => Some(Receiver::Tablet(tablet.clone())),
        Address::LeadAt(_)
        | Address::Inbox(_)
        | Address::Limiter(_)
        | Address::Board(..)
        | Address::LiveReader(_)
        | Address::Hub(..)
        | Address::Alert(_)
        | Address::Keyspace
        | Address::Aggregator => None,
    }
}

/// Whether tablets host leads here.
pub fn has_tablets(host: &Host) -> bool {
    host.state::<Tablets>().0.is_some()
}

/// The place of a counter's lead, if leads are spread over this many tablets.
pub fn place_among(tablets: Option<u32>, counter: &CounterId) -> LeadPlace {
    LeadPlace::of(spread_over(tablets), counter, fixed_partition_of(counter))
}

/// The tablet that hosts a cell, as far as this isolate knows; `None` if the cell has an object of its own.
pub fn tablet_of_cell(host: &Host, cell: &CellAddress) -> Option<TabletAddress> {
    let tablet = tablet_by_setting(host, cell)?;
    (!leads_apart::is_known(host, cell)).then_some(tablet)
}

/// The tablet that hosts a cell which does not live apart, by this isolate's variables.
pub fn tablet_by_setting(host: &Host, cell: &CellAddress) -> Option<TabletAddress> {
    let tablets = host.state::<Tablets>().0.filter(|_| cell.is_lead())?;
    let partition = fixed_partition_of(&cell.counter);
    Some(TabletAddress {
        datacenter: cell.datacenter.clone(),
        number: tablets.of(&cell.counter, partition),
    })
}

/// The limiter of a key: that of a datacenter, or the global one.
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

/// The text that is hashed to choose the limiter of a key.
pub fn limiter_key(policy: &PolicyName, key: &CounterId) -> String {
    [policy.as_str(), "/", key.as_str()].concat()
}

/// The rings of limiters, by this isolate's variables.
pub fn limiters(host: &Host) -> Rc<Rings> {
    host.state::<Limiters>().0.clone()
}

/// Sends bytes, and returns the answer. Not generic, and boxed, so that its code exists once and not in each future
/// that waits for it.
pub(super) fn exchange<'a>(
    host: &'a Host,
    to: Target,
    path: &'static str,
    message: Vec<u8>,
    milliseconds: u64,
) -> LocalBoxFuture<'a, Result<Vec<u8>, Fault>> {
    Box::pin(async move {
        let sent = send_newest(host, to, path, message);
        match host.within_ms(milliseconds, sent).await {
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(error)) => Err(Fault::Unavailable(format!("{path} failed: {error}"))),
            None => Err(Fault::Unavailable(format!(
                "{path} took over {milliseconds} ms"
            ))),
        }
    })
}

/// Sends a message in the newest protocol that receivers have understood lately. If the receiver does not understand
/// it, it has done nothing, and the message is sent again in the former protocol.
async fn send_newest(
    host: &Host,
    to: Target,
    path: &'static str,
    message: Vec<u8>,
) -> Result<Vec<u8>, String> {
    let fallback = host.state::<ProtocolFallback>();
    let (protocol, platform) = (fallback.protocol(host.now_ms()), host.platform());
    if protocol == PROTOCOL_BEFORE {
        return platform.send(to, protocol, path, message).await;
    }
    let answer = platform.send(to.clone(), protocol, path, message.clone());
    let answer = answer.await?;
    if later(&answer) != Some(PROTOCOL_BEFORE) {
        return Ok(answer);
    }
    fallback.fall_back(host.now_ms());
    platform.send(to, PROTOCOL_BEFORE, path, message).await
}

/// As [`send_newest`], to an object that answers with a stream.
async fn open(
    host: &Host,
    to: Placement,
    path: &'static str,
    message: Vec<u8>,
    upgrade: Option<String>,
) -> Result<Stream, String> {
    let fallback = host.state::<ProtocolFallback>();
    let (protocol, platform) = (fallback.protocol(host.now_ms()), host.platform());
    let opened = platform.open(to.clone(), protocol, path, message.clone(), upgrade.clone());
    let stream = opened.await?;
    if stream.status != LATER_STATUS || protocol == PROTOCOL_BEFORE {
        return Ok(stream);
    }
    fallback.fall_back(host.now_ms());
    platform
        .open(to, PROTOCOL_BEFORE, path, message, upgrade)
        .await
}

/// Decodes the answer to a call.
///
/// # Errors
/// What the receiver answers, or `Unavailable` for what is no answer.
pub fn answer_of<C: Call>(host: &Host, bytes: &[u8]) -> Result<C::Answer, Fault> {
    let answer = granted(host, C::PATH, bytes)?;
    decode(answer).map_err(|_| no_answer(C::PATH))
}

/// The bytes of a successful answer. Not generic, so that the decoding of a refusal exists once.
fn granted<'a>(host: &Host, path: &str, bytes: &'a [u8]) -> Result<&'a [u8], Fault> {
    // Postcard writes the number of a variant first; that of `Ok` is 0.
    if let [0, answer @ ..] = bytes {
        return Ok(answer);
    }
    let fault = match decode::<Result<(), Fault>>(bytes) {
        Ok(Err(fault)) => fault,
        _ => no_answer(path),
    };
    unreadable::record(host, path, &fault);
    Err(fault)
}

/// The fault of a call that got the platform's own error page instead of an answer.
fn no_answer(path: &str) -> Fault {
    Fault::Unavailable(format!("{path} was not answered"))
}

/// Opens a stream from an object; `upgrade` is the protocol that its client wants instead of HTTP.
///
/// # Errors
/// `Unavailable` where the object does not answer, `Broken` where the message is for none.
pub async fn stream<C: Call>(
    host: &Host,
    message: &C,
    upgrade: Option<&str>,
) -> Result<Stream, Fault> {
    let upgrade = upgrade.map(str::to_owned);
    let no_object = || Fault::Broken(format!("{} has no stream", C::PATH));
    let to = placement(host, message.to()).ok_or_else(no_object)?;
    let sent = open(host, to, C::PATH, encode(message)?, upgrade);
    let failed = |what: String| Fault::Unavailable(format!("{} {what}", C::PATH));
    match host.within_ms(CALL_MS_MAX, sent).await {
        Some(answered) => answered.map_err(|error| failed(format!("failed: {error}"))),
        None => Err(failed(format!("took over {CALL_MS_MAX} ms"))),
    }
}
