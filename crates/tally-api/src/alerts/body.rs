//! An alert as clients send it.

use serde::Deserialize;

use crate::json::{WholeNumber, present, read_object};
use crate::query::WINDOW_UNIQUES_SECONDS_MAX;
use tally_core::alert::condition::{Condition, Measure};
use tally_core::alert::digest::{DAY_SECONDS, WEEK_SECONDS};
use tally_core::counter::id::{COUNTER_ID_BYTES_MAX, CounterId};
use tally_wire::alerts::webhook::{Allowed, check};
use tally_wire::alerts::{Alert, AlertPut, Secret, Watched};
use tally_wire::names::LIMIT_RIGHTS;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};

/// The longest silence: 30 days.
pub const SILENCE_SECONDS_MAX: u64 = 2_592_000;

/// The largest threshold: what a JavaScript number holds exactly.
const THRESHOLD_MAX: i64 = 9_007_199_254_740_991;

/// The longest time for which a condition must hold before the alert fires: a day.
pub const FOR_SECONDS_MAX: u32 = 86_400;

/// The shortest and the longest window, seconds: counts are of whole minutes, and kept by the day for 30 days.
const WINDOW_SECONDS: std::ops::RangeInclusive<u32> = 60..=2_592_000;

/// Windows of a prefix: whole hours of the last day, as the directory keeps them.
const HOUR_SECONDS: u32 = 3_600;
const PREFIX_HOURS_MAX: u32 = 24;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    #[serde(default, deserialize_with = "present")]
    counter: Option<String>,
    /// All counters whose ids begin so.
    #[serde(default, deserialize_with = "present")]
    prefix: Option<String>,
    #[serde(default, deserialize_with = "present")]
    policy: Option<String>,
    when: When,
    /// For how long it must be over before it fires.
    #[serde(default, deserialize_with = "present")]
    for_seconds: Option<WholeNumber>,
    /// Where it is delivered: https, and no address of an inner network unless `TALLY_ALERTS_ALLOW` has it.
    webhook: String,
    /// What deliveries are signed with: `whsec_` and 24 to 64 bytes in base64. No answer has it.
    #[serde(default, deserialize_with = "present")]
    secret: Option<String>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object such as {\"value\":{\"above\":1000}}"
)]
struct When {
    #[serde(default, deserialize_with = "present")]
    value: Option<Thresholds>,
    #[serde(default, deserialize_with = "present")]
    rate_per_minute: Option<Thresholds>,
    #[serde(default, deserialize_with = "present")]
    count_in: Option<Thresholds>,
    #[serde(default, deserialize_with = "present")]
    uniques_in: Option<Thresholds>,
    #[serde(default, deserialize_with = "present")]
    silent_for: Option<Thresholds>,
    #[serde(default, deserialize_with = "present")]
    refused_in: Option<Thresholds>,
    #[serde(default, deserialize_with = "present")]
    allowed_percent_in: Option<Thresholds>,
    #[serde(default, deserialize_with = "present")]
    digest: Option<Every>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object such as {\"every\":\"day\"}"
)]
struct Every {
    every: String,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object of `above`, `below` and `seconds`, such as {\"above\":1000}"
)]
struct Thresholds {
    #[serde(default, deserialize_with = "present")]
    above: Option<f64>,
    #[serde(default, deserialize_with = "present")]
    below: Option<f64>,
    #[serde(default, deserialize_with = "present")]
    seconds: Option<WholeNumber>,
}

fn refuse<T>(detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::new(Code::InvalidBody, detail))
}

/// Reads `{"counter"|"prefix"|"policy", "when": {…}, "for_seconds"?, "webhook", "secret"?}`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-id`, `webhook-not-allowed`.
pub fn parse_alert(body: &[u8], allowed: &Allowed) -> Result<AlertPut, Problem> {
    let wire: Wire = read_object(body)?;
    let watched = watched_of(wire.counter, wire.prefix, wire.policy)?;
    let condition = condition_of(wire.when)?;
    fits(&watched, condition.measure)?;
    let for_seconds = wire
        .for_seconds
        .map_or(Ok(0), |WholeNumber(seconds)| u32::try_from(seconds));
    let Some(for_seconds) = for_seconds
        .ok()
        .filter(|seconds| *seconds <= FOR_SECONDS_MAX)
    else {
        return refuse(format!(
            "for_seconds must be whole seconds up to {FOR_SECONDS_MAX}"
        ));
    };
    if matches!(condition.measure, Measure::Digest(_)) && for_seconds > 0 {
        return refuse("a digest is sent when its day or week has ended: it takes no for_seconds");
    }
    check(&wire.webhook, allowed)?;
    let secret = match wire.secret {
        None => None,
        Some(text) => match Secret::parse(&text) {
            Some(secret) => Some(secret),
            None => {
                return refuse(
                    "secret must be `whsec_` and 24 to 64 random bytes in base64, as Standard Webhooks has it: \
                     echo whsec_$(openssl rand -base64 32)",
                );
            }
        },
    };
    Ok(AlertPut {
        alert: Alert {
            watched,
            condition,
            for_seconds,
            webhook: wire.webhook,
        },
        secret,
    })
}

fn watched_of(
    counter: Option<String>,
    prefix: Option<String>,
    policy: Option<String>,
) -> Result<Watched, Problem> {
    match (counter, prefix, policy) {
        (Some(counter), None, None) => Ok(Watched::Counter(CounterId::parse(counter)?)),
        (None, Some(prefix), None) => {
            if prefix.len() > COUNTER_ID_BYTES_MAX || prefix.chars().any(char::is_control) {
                return refuse(format!(
                    "prefix begins no counter id: ids have at most {COUNTER_ID_BYTES_MAX} bytes and no control characters"
                ));
            }
            if prefix.starts_with(LIMIT_RIGHTS) {
                return refuse(format!(
                    "a prefix is of counters, and one that begins with `{LIMIT_RIGHTS}` covers limits: name a policy instead"
                ));
            }
            Ok(Watched::Prefix(prefix))
        }
        (None, None, Some(policy)) => Ok(Watched::Policy(PolicyName::parse(policy)?)),
        _ => refuse("name what is watched by one of counter, prefix and policy"),
    }
}

fn condition_of(when: When) -> Result<Condition, Problem> {
    type Make = fn(u32) -> Measure;
    let kinds: [(&str, Option<Thresholds>, Make, bool); 7] = [
        ("value", when.value, |_| Measure::Value, false),
        (
            "rate_per_minute",
            when.rate_per_minute,
            |_| Measure::RatePerMinute,
            false,
        ),
        ("count_in", when.count_in, Measure::CountIn, true),
        ("uniques_in", when.uniques_in, Measure::UniquesIn, true),
        ("silent_for", when.silent_for, |_| Measure::Silence, true),
        ("refused_in", when.refused_in, Measure::RefusedIn, true),
        (
            "allowed_percent_in",
            when.allowed_percent_in,
            Measure::AllowedPercentIn,
            true,
        ),
    ];
    let mut given = kinds
        .into_iter()
        .filter_map(|(name, thresholds, make, has_seconds)| {
            Some((name, thresholds?, make, has_seconds))
        });
    let (name, thresholds, make, has_seconds) = match (when.digest, given.next(), given.next()) {
        (None, Some(given), None) => given,
        (Some(Every { every }), None, None) => return digest_of(&every),
        _ => {
            return refuse(
                "when must name one of value, rate_per_minute, count_in, uniques_in, silent_for, refused_in, \
                 allowed_percent_in and digest",
            );
        }
    };
    let Thresholds {
        above,
        below,
        seconds,
    } = thresholds;
    let window_of = |WholeNumber(seconds)| u32::try_from(seconds).unwrap_or(u32::MAX);
    let seconds = match (has_seconds, seconds.map(window_of)) {
        (true, Some(seconds)) if WINDOW_SECONDS.contains(&seconds) => seconds,
        (false, None) => 0,
        (false, Some(_)) => return refuse(format!("{name} takes no seconds")),
        (true, _) => {
            return refuse(format!(
                "{name} needs seconds from {} to {}",
                WINDOW_SECONDS.start(),
                WINDOW_SECONDS.end()
            ));
        }
    };
    if name == "silent_for" {
        return match (above, below) {
            (None, None) => Ok(Condition::silent_for(seconds)),
            _ => refuse("silent_for takes seconds alone"),
        };
    }
    if above.is_none() && below.is_none() {
        return refuse(format!("{name} needs above, below or both"));
    }
    let (above, below) = thresholds_of(above, below)?;
    Ok(Condition {
        measure: make(seconds),
        above,
        below,
    })
}

fn digest_of(every: &str) -> Result<Condition, Problem> {
    match every {
        "day" => Ok(Condition::digest(DAY_SECONDS)),
        "week" => Ok(Condition::digest(WEEK_SECONDS)),
        _ => refuse("digest needs every: \"day\" or \"week\""),
    }
}

/// What is too much, and what is too little. No number may be both.
fn thresholds_of(
    above: Option<f64>,
    below: Option<f64>,
) -> Result<(Option<i64>, Option<i64>), Problem> {
    let above = above.map(threshold_of).transpose()?;
    let below = below.map(threshold_of).transpose()?;
    match (above, below) {
        (Some(most), Some(least)) if least > most => refuse(format!(
            "each number is above {most} or below {least}, so the alert would never end: give a `below` of at most `above`"
        )),
        _ => Ok((above, below)),
    }
}

fn threshold_of(number: f64) -> Result<i64, Problem> {
    // Without a sign before 0. A whole number is written without a point.
    let whole = format!("{}", number + 0.0).parse().ok();
    let small = whole.filter(|whole: &i64| whole.abs() <= THRESHOLD_MAX);
    small.map_or_else(
        || {
            refuse(format!(
                "a threshold is a whole number of at most {THRESHOLD_MAX}"
            ))
        },
        Ok,
    )
}

/// Succeeds if this measure exists for that subject.
fn fits(watched: &Watched, measure: Measure) -> Result<(), Problem> {
    match (watched, measure) {
        (
            Watched::Counter(_) | Watched::Prefix(_),
            Measure::RefusedIn(_) | Measure::AllowedPercentIn(_),
        ) => refuse("refused_in and allowed_percent_in are of a policy: name one instead"),
        (Watched::Policy(_), Measure::Value | Measure::UniquesIn(_)) => {
            refuse("a policy has no value and no uniques: use refused_in, count_in or another")
        }
        (Watched::Prefix(_), Measure::UniquesIn(_)) => {
            refuse("uniques_in is of a counter: those of a prefix are not kept by time")
        }
        (Watched::Prefix(_), Measure::CountIn(seconds))
            if seconds % HOUR_SECONDS != 0 || seconds > PREFIX_HOURS_MAX * HOUR_SECONDS =>
        {
            refuse(format!(
                "count_in of a prefix takes whole hours: seconds from {HOUR_SECONDS} to {} that {HOUR_SECONDS} divides",
                PREFIX_HOURS_MAX * HOUR_SECONDS
            ))
        }
        (_, Measure::UniquesIn(seconds)) if i64::from(seconds) > WINDOW_UNIQUES_SECONDS_MAX => {
            refuse(format!(
                "uniques are kept for {WINDOW_UNIQUES_SECONDS_MAX} seconds; watch less"
            ))
        }
        _ => Ok(()),
    }
}

/// Reads `{"for_seconds": 3600}`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`.
pub fn parse_silence(body: &[u8]) -> Result<u64, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SilenceWire {
        for_seconds: WholeNumber,
    }
    let SilenceWire {
        for_seconds: WholeNumber(for_seconds),
    } = read_object(body)?;
    if for_seconds > SILENCE_SECONDS_MAX {
        return refuse(format!(
            "for_seconds must be whole seconds up to {}; 0 ends a silence",
            SILENCE_SECONDS_MAX
        ));
    }
    Ok(for_seconds)
}
