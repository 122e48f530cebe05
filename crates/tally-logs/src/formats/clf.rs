//! Lines in Common and Combined Log Format: `address ident user [time] "request" status bytes "referrer" "agent"`.
//! A line is a request if its time and its request can be read; the rest of it may be damaged or missing.
//!
//! Identified by `[dd/Mon/yyyy:HH:MM:SS ±zzzz] "`, with a real time. The request is found by it. User names may hold
//! spaces and brackets, but never a bare quote: servers write a quote as `\"` or `\x22`. Source: Apache HTTP Server,
//! "Log Files", Common Log Format and Combined Log Format.

use std::borrow::Cow;
use std::net::SocketAddr;

use crate::address::{self, is_private};
use crate::hit::{Hit, Unread, said, visitor};
use crate::prefix::{carried, is_time};
use crate::text::{unescaped, unescaped_of_haproxy};
use crate::time::{CLF_TIME_BYTES, parse_clf_time};

/// Returns the request of a line, without its newline. A carrier's prefix and the name of a virtual host may stand
/// before the address.
///
/// # Errors
/// [`Unread`] that says what is missing.
pub fn read(line: &[u8]) -> Result<Hit<'_>, Unread> {
    match carried(line)? {
        Cow::Borrowed(line) => read_plain(line),
        Cow::Owned(line) => read_plain(&line).map(Hit::into_owned),
    }
}

/// The same, of a line without a prefix.
pub(crate) fn read_plain(line: &[u8]) -> Result<Hit<'_>, Unread> {
    let (head, unix_seconds, quoted) = find_request(line).ok_or(Unread::Why(
        "there is no `[dd/Mon/yyyy:HH:MM:SS ±zzzz] \"` with a real time",
    ))?;
    // Servers escape it: the lines behind it would be taken for what follows the request.
    if quoted.trim_ascii_end().contains(&b'\r') {
        return Err(Unread::Why(
            "there is a carriage return in the line: end lines by line feeds",
        ));
    }
    let request = until_quote(quoted).ok_or(Unread::Why(
        "the request has no closing quote, so its target may be cut off",
    ))?;
    let target = target_of(request);
    let method = match &target {
        Ok(_) => request.trim_ascii().split(|byte| *byte == b' ').next(),
        Err(_) => None,
    };
    let after = quoted.get(request.len() + 1..).unwrap_or_default();
    if after.trim_ascii_start().starts_with(b"HTTP/") {
        return Err(Unread::Why(
            "the request holds a quote that is not escaped, so its target is cut off",
        ));
    }
    let (status, rest) = status_of(after);
    let (referrer, rest) = quoted_text(rest);
    let (user_agent, rest) = quoted_text(rest);
    let is_of_haproxy = referrer == Some(b"") && is_of_haproxy(rest);
    let user_agent =
        user_agent.filter(|agent| !(is_of_haproxy || *agent == b"-" && is_of_traefik(rest)));
    let text = |bytes| said(text_of_log(bytes));
    let target = match (target, is_of_haproxy) {
        (Ok(target), true) => Ok(text_of(unescaped_of_haproxy(target))),
        (Ok(target), false) => Ok(match unescaped(target) {
            Cow::Borrowed(target) => {
                Cow::Borrowed(std::str::from_utf8(target).map_err(|_| Unread::NotUtf8)?)
            }
            // A server of JSON writes what is no text in the same way.
            Cow::Owned(target) => text_of(Cow::Owned(target)),
        }),
        (Err(why), _) => Err(why),
    };
    let mut hit = Hit::at(unix_seconds.saturating_mul(1000), target);
    hit.visitor = client(head)?.and_then(visitor);
    hit.method = text(method.unwrap_or_default());
    hit.status = text(status);
    hit.referrer = text(referrer.unwrap_or_default());
    hit.user_agent = user_agent.map(text);
    Ok(hit)
}

/// Returns what a server wrote into its log as a text.
pub(crate) fn text_of_log(bytes: &[u8]) -> Cow<'_, str> {
    text_of(unescaped(bytes))
}

/// Returns the text of bytes; a mark for each that is none.
fn text_of(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(
            String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        ),
    }
}

/// Returns the text of the client before the time: the first word, or the second behind the name of a virtual host. A
/// time before them is that of a carrier. Behind a proxy, many servers log the client's address before the proxy's
/// (`%{X-Forwarded-For}i %h`), or in brackets after it (`%h (%{X-Forwarded-For}i)`, AWS Elastic Beanstalk). `None` for
/// a client that is logged by its name, or not at all.
fn client(head: &[u8]) -> Result<Option<&str>, Unread> {
    let mut words = head
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty())
        .skip_while(|word| is_time(word))
        .map(|word| std::str::from_utf8(word).unwrap_or("?"));
    let first = words.next().unwrap_or_default();
    let (second, third) = (words.next(), words.next());
    let is_more = words.next().is_some();
    let is_client = is_name(first) || is_address(first);
    let bracket = |word: Option<&str>| word.is_some_and(|word| word.starts_with('('));
    // A list is never a virtual host.
    if first.contains(',') && is_client {
        return Ok(Some(first));
    }
    if is_client && bracket(second) {
        let named = Some(first).filter(|word| is_address(word));
        return Ok(second.and_then(bracketed).or(named));
    }
    if bracket(third) && second.is_some_and(is_address) {
        return Ok(third.and_then(bracketed).or(second));
    }
    let has_host = is_more && second.is_some_and(|second| is_host_before(first, second));
    // The address of a machine, before the name of its program.
    let is_carried = second.is_some_and(|word| word.ends_with(':'));
    if is_address(first) && !has_host && !is_carried {
        return Ok(Some(first));
    }
    match (second, third) {
        (Some(second), _) if is_address(second) => Ok(Some(second)),
        // The client's name, perhaps behind that of a virtual host.
        (None | Some("-"), _) if is_name(first) => Ok(None),
        (Some(second), Some("-")) if second != "-" && is_name(second) => Ok(None),
        (_, Some(third)) if !is_more && is_name(first) && !is_address(third) => Ok(None),
        (_, None) if is_name(first) => Ok(None),
        _ => Err(Unread::Why(
            "the text before the time does not begin with an address or with a known prefix",
        )),
    }
}

fn is_address(word: &str) -> bool {
    address::parse(word).is_some()
}

/// Returns the address with which the list in these brackets begins, up to the first space.
fn bracketed(word: &str) -> Option<&str> {
    let list = word.strip_prefix('(')?.trim_end_matches(')');
    Some(list).filter(|list| is_address(list))
}

/// Whether a word before an address is a virtual host: a server without a name logs its address. An address before a
/// private one is the client's, because the private one is the proxy's. Exceptions are loopback addresses, and with a
/// port (`%v:%p`) private addresses and ports that clients do not have. An address before a public one is a host: the
/// public one is the peer's, and anybody can send `X-Forwarded-For`.
fn is_host_before(word: &str, next: &str) -> bool {
    let (Some(address), Some(next)) = (address::parse(word), address::parse(next)) else {
        return is_address(next);
    };
    let port = word.parse::<SocketAddr>().map(|socket| socket.port());
    let is_socket = port.is_ok_and(|port| is_private(address) || is_of_server(port));
    !is_private(next) || address.is_loopback() || is_socket
}

/// Whether a port is one that servers listen on, and clients do not have.
fn is_of_server(port: u16) -> bool {
    port < 1_024 || matches!(port, 8_080 | 8_443)
}

/// Whether a word may be a client's name, a socket, or a list of them. A word with other signs is of a prefix that is
/// not known, such as `MESSAGE=203.0.113.9`.
fn is_name(word: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-._,".contains(&byte);
    word.starts_with("unix:") || word.bytes().all(is_sign)
}

/// Returns the status (the word after the request) and the text after it. If there is no status, quotes follow the
/// request.
fn status_of(after: &[u8]) -> (&[u8], &[u8]) {
    let after = after.trim_ascii_start();
    let end = after.iter().position(|byte| matches!(byte, b' ' | b'"'));
    after.split_at(end.unwrap_or(after.len()))
}

/// Whether this follows the user agent in a line of HAProxy, which is empty there whatever the client sent: the port of
/// the client, milliseconds, and the name of the frontend in quotes. Source: HAProxy, `option httplog clf`.
fn is_of_haproxy(after: &[u8]) -> bool {
    let mut words = after.trim_ascii_start().split(|byte| *byte == b' ');
    let mut is_number = || {
        words
            .next()
            .is_some_and(|word| !word.is_empty() && word.iter().all(u8::is_ascii_digit))
    };
    let are_numbers = is_number() && is_number();
    are_numbers && words.next().is_some_and(|word| word.starts_with(b"\""))
}

/// Whether this follows the user agent in a line of Traefik, which drops all headers unless its configuration keeps
/// them: how many requests there were, the names of router and server in quotes, and the time it took. Source: Traefik,
/// "Access Logs".
fn is_of_traefik(after: &[u8]) -> bool {
    let mut words = after.trim_ascii().split(|byte| *byte == b' ');
    let is_number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let is_count = words.next().is_some_and(is_number);
    let is_time = words.next_back().and_then(|word| word.strip_suffix(b"ms"));
    let are_names = words.clone().count() == 2 && words.all(|word| word.starts_with(b"\""));
    is_count && are_names && is_time.is_some_and(is_number)
}

/// Returns what the next quotes hold, and what follows them. What is cut off says what is left of it.
pub(crate) fn quoted_text(text: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let open = text.iter().position(|byte| *byte == b'"');
    let rest = open
        .and_then(|open| text.get(open + 1..))
        .unwrap_or_default();
    match until_quote(rest) {
        Some(held) => (Some(held), rest.get(held.len() + 1..).unwrap_or_default()),
        None => (open.map(|_| rest), &[]),
    }
}

/// Returns what stands before the time, the time, and what follows the quote that opens the request.
fn find_request(line: &[u8]) -> Option<(&[u8], i64, &[u8])> {
    const FIELD_BYTES: usize = CLF_TIME_BYTES + 4;
    line.windows(FIELD_BYTES)
        .enumerate()
        .find_map(|(at, field)| {
            let time = field.strip_prefix(b"[")?.strip_suffix(b"] \"")?;
            let (head, rest) = line.split_at(at);
            Some((head, parse_clf_time(time)?, rest.get(FIELD_BYTES..)?))
        })
}

/// Returns the text before the closing quote. That is the first quote that is not escaped and is followed by a space or
/// by the end. If there is none (the target holds bare quotes, or the line is damaged), it is the first quote that is
/// not escaped.
fn until_quote(text: &[u8]) -> Option<&[u8]> {
    let mut first = None;
    let mut escaped = false;
    for (at, &byte) in text.iter().enumerate() {
        if escaped {
            escaped = false;
        } else if byte == b'\\' {
            escaped = true;
        } else if byte == b'"' {
            if matches!(text.get(at + 1), None | Some(b' ')) {
                return text.get(..at);
            }
            first = first.or(Some(at));
        }
    }
    text.get(..first?)
}

/// Returns the target of `METHOD target HTTP/x`: all that is between the first word and a last word that begins with
/// `HTTP/`, spaces included. HTTP/0.9 has no last word.
pub(crate) fn target_of(request: &[u8]) -> Result<&[u8], &'static str> {
    let request = request.trim_ascii();
    if matches!(request, b"" | b"-") {
        return Err("the request is empty: the client sent none");
    }
    let method_bytes = request
        .iter()
        .position(|&byte| byte == b' ')
        .unwrap_or(request.len());
    let (method, rest) = request.split_at(method_bytes);
    if !method.iter().all(|&byte| is_token(byte)) {
        return Err("the request does not begin with a method");
    }
    let last_word = rest
        .iter()
        .rposition(|&byte| byte == b' ')
        .map_or(0, |space| space + 1);
    let target = match rest.split_at(last_word) {
        (target, protocol) if protocol.starts_with(b"HTTP/") => target,
        _ => rest,
    };
    match target.trim_ascii() {
        [] => Err("the request has no target"),
        target => Ok(target),
    }
}

/// The bytes of a method (RFC 9110, section 5.6.2). A request with other bytes is no HTTP: TLS sent to a plain port,
/// for example, is logged as `\x16\x03\x01`.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
