//! Lines of AWS's load balancers: Application Load Balancers, whose lines begin with the type of the request, and
//! classic ones.
//!
//! Identified by a time in RFC 3339 as the first or second word, eleven words in their order, and the request in
//! quotes.
//! Source: AWS, "Access logs for your Application Load Balancer" and "Access logs for your Classic Load Balancer".

use std::borrow::Cow;

use super::clf::{quoted_text, target_of, text_of_log};
use crate::address;
use crate::hit::{Hit, Unread, marked, said, visitor};
use crate::prefix::is_balanced;
use crate::time::parse_rfc3339;

/// Returns the request of a line.
///
/// # Errors
/// [`Unread`] that says what is missing.
pub fn read(line: &[u8]) -> Result<Option<Hit<'_>>, Unread> {
    marked(line, read_text)
}

fn read_text(line: &str) -> Result<Option<Hit<'_>>, Unread> {
    let no_line =
        || Unread::Why("the line has not the eleven words of a load balancer before its request");
    let (head, _) = line.split_once(" \"").ok_or_else(no_line)?;
    let mut words = head.split(' ').peekable();
    words.next_if(|word| is_balanced(word.as_bytes()));
    let time = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    // The balancer, client, target, three times, two statuses, two sizes.
    let &[_, client, _, _, _, _, status, _, _, _] = words.as_slice() else {
        return Err(no_line());
    };
    let at_ms =
        parse_rfc3339(time).ok_or(Unread::Why("the line does not begin with a real time"))?;
    let (request, rest) = quoted_text(line.as_bytes().get(head.len()..).unwrap_or_default());
    let request = request.unwrap_or_default();
    let user_agent = quoted_text(rest).0;
    // What is no request is logged as `- http://shop.example:80- `.
    let target = match request.starts_with(b"- ") {
        true => Err("the request is empty: the client sent none"),
        false => target_of(request),
    };
    let mut hit = Hit::at(at_ms, target.map(text_of_log));
    // The port always stands behind the address, without brackets too.
    let without_port = client.rsplit_once(':').map_or(client, |(before, _)| before);
    hit.visitor = match address::parse(without_port) {
        Some(_) => visitor(without_port),
        None => visitor(client),
    };
    if hit.target.is_ok() {
        hit.method = text_of_log(
            request
                .split(|byte| *byte == b' ')
                .next()
                .unwrap_or_default(),
        );
    }
    hit.status = said(Cow::Borrowed(status));
    hit.user_agent = user_agent.map(|text| said(text_of_log(text)));
    Ok(Some(hit))
}
