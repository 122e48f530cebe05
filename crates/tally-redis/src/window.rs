//! `INCREX`: adds within bounds, and says when the key expires. One command is a window counter of a rate limit.
//! Source: "INCREX", Redis 8.8.

use crate::error;
use crate::options::{Unit, number};
use crate::space::{Space, StoredValue};
use crate::strings::whole_float;
use tally_wire::redis::{CommandResult, Reply};

/// The options of `INCREX`.
#[derive(Default)]
struct Options<'a> {
    /// Whether the amount and the bounds are floats, and the amount.
    by: Option<(bool, &'a str)>,
    low: Option<&'a str>,
    high: Option<&'a str>,
    saturates: bool,
    /// Whether a key that expires keeps its expiry.
    keeps_end: bool,
    /// The expiry; `None` inside for `PERSIST`.
    end: Option<Option<(Unit, &'a str)>>,
}

impl<'a> Options<'a> {
    fn parse(words: &'a [String]) -> Result<Self, Reply> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().map(String::as_str).ok_or_else(error::syntax);
            let is_new = match word.to_ascii_uppercase().as_str() {
                "BYINT" => options.by.replace((false, value()?)).is_none(),
                "BYFLOAT" => options.by.replace((true, value()?)).is_none(),
                "LBOUND" => options.low.replace(value()?).is_none(),
                "UBOUND" => options.high.replace(value()?).is_none(),
                "SATURATE" => !std::mem::replace(&mut options.saturates, true),
                "ENX" => !std::mem::replace(&mut options.keeps_end, true),
                "PERSIST" => options.end.replace(None).is_none(),
                _ => {
                    let unit = Unit::parse(word).ok_or_else(error::syntax)?;
                    options.end.replace(Some((unit, value()?))).is_none()
                }
            };
            if !is_new {
                return Err(error::syntax());
            }
        }
        match options.end {
            None if options.keeps_end => Err(Reply::err("ENX flag requires an expiration")),
            Some(None) if options.keeps_end => Err(error::syntax()),
            _ => Ok(options),
        }
    }
}

/// Whether these words are an `INCREX` that may make its key expire, or keep it from that.
pub fn changes_end(args: &[String]) -> bool {
    Options::parse(&args[2..]).is_ok_and(|options| options.end.is_some())
}

/// Whether these words are an `INCREX` of floats.
pub fn is_float(args: &[String]) -> bool {
    Options::parse(&args[2..]).is_ok_and(|options| options.by.is_some_and(|(is_float, _)| is_float))
}

/// `INCREX`. Amounts and bounds are whole numbers, also as floats.
pub fn increx(space: &mut Space, args: &[String]) -> CommandResult {
    let key = &args[1];
    let options = Options::parse(&args[2..])?;
    let is_float = options.by.is_some_and(|(is_float, _)| is_float);
    let read = if is_float { whole_float } else { number };
    let or = |text: Option<&str>, other| text.map_or(Ok(other), read);
    let delta = or(options.by.map(|(_, amount)| amount), 1)?;
    let (low, high) = (or(options.low, i64::MIN)?, or(options.high, i64::MAX)?);
    if low > high {
        return Err(Reply::err("LBOUND can't be greater than UBOUND"));
    }
    let now_ms = space.now_ms();
    let end = |(unit, amount): (Unit, &str)| unit.end(amount, now_ms, &args[0]);
    let new_end_ms = options
        .end
        .map(|named| named.map(end).transpose())
        .transpose()?;
    let before = space.text(key)?.map_or(Ok(0), read)?;
    let reply = |value: i64, applied: i64| {
        let both = [value, applied];
        Ok(match is_float {
            true => Reply::texts(both.map(|number| number.to_string())),
            false => Reply::Array(both.map(Reply::Integer).to_vec()),
        })
    };
    let sum = before.checked_add(delta);
    let value = match sum {
        Some(sum) if (low..=high).contains(&sum) => sum,
        _ if !options.saturates => return reply(before, 0),
        sum if sum.map_or(delta > 0, |sum| sum > high) => high,
        _ => low,
    };
    let applied = value.checked_sub(before);
    let applied = applied.ok_or_else(|| Reply::err("applied increment would overflow"))?;
    let end_ms = space.get(key).and_then(|entry| entry.expires_ms);
    let kept = options.keeps_end && end_ms.is_some();
    let end_ms = new_end_ms.filter(|_| !kept).unwrap_or(end_ms);
    // As with `INCR`, a string that is no counter does not become one.
    if space.get(key).is_some_and(|entry| !entry.is_counter) {
        space.put_value(key, StoredValue::Text(value.to_string()))?;
        space.expire(key, end_ms);
    } else {
        space.put_text(key, value.to_string(), end_ms)?;
    }
    reply(value, applied)
}
