//! Forms of user agents by which programs are known that are in no list. `scripts/bots.mjs` names their expressions.
//!
//! Invariant: texts are in lower case, and each form is looked at once, from the beginning or from the end.

/// Returns whether a user agent has one of the forms.
pub(super) fn is_program(agent: &[u8]) -> bool {
    is_one_product(agent)
        || is_one_long_word(agent)
        || begins_with_a_number(agent)
        || begins_with_a_search(agent)
        || is_a_product_and_a_word(agent)
        || is_mozilla_and_a_word(agent)
        || is_mozilla_and_a_comment(agent)
        || ends_in_a_word_between_semicolons(agent)
        || has_a_mail_address(agent)
        || has_a_first_version(agent)
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Splits a text behind its first bytes that fit.
fn taken(text: &[u8], fits: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !fits(*byte));
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns what follows `1`, `1.2` or `1.2.3`.
fn behind_version(text: &[u8]) -> Option<&[u8]> {
    let (digits, mut rest) = taken(text, |byte| byte.is_ascii_digit());
    digits.first()?;
    while let Some(part) = rest.strip_prefix(b".") {
        let (digits, after) = taken(part, |byte| byte.is_ascii_digit());
        if digits.is_empty() {
            break;
        }
        rest = after;
    }
    Some(rest)
}

/// A name alone, perhaps with a version: `kube-probe/1.30`, `Consul Health Check`, `Envoy/HC`. A bare `Mozilla/5.0` is
/// what many programs of people send.
fn is_one_product(agent: &[u8]) -> bool {
    let (name, rest) = taken(agent, |byte| is_word(byte) || b" .-(?:)%".contains(&byte));
    let Some(rest) = rest.strip_prefix(b"/") else {
        return !name.is_empty() && matches!(rest.first(), None | Some(b','));
    };
    if name.is_empty() || name == b"mozilla" {
        return false;
    }
    let version = rest.strip_prefix(b"v").unwrap_or(rest);
    if behind_version(version).is_some_and(|rest| matches!(rest.first(), None | Some(b','))) {
        return true;
    }
    let is_name = |text: &[u8]| text.iter().all(|byte| is_word(*byte) || *byte == b'-');
    let is_label = |text: &[u8]| {
        text.iter()
            .all(|byte| is_word(*byte) || b"()".contains(byte))
    };
    is_name(name) && !rest.contains(&b'-') && is_label(rest)
}

fn is_one_long_word(agent: &[u8]) -> bool {
    agent.len() >= 50 && agent.iter().all(u8::is_ascii_graphic)
}

fn begins_with_a_number(agent: &[u8]) -> bool {
    let (digits, rest) = taken(agent, |byte| byte.is_ascii_digit());
    !digits.is_empty() && !rest.first().is_some_and(|byte| is_word(*byte))
}

fn begins_with_a_search(agent: &[u8]) -> bool {
    taken(agent, is_word).0.ends_with(b"search")
}

/// `name/1.0 (word)`.
fn is_a_product_and_a_word(agent: &[u8]) -> bool {
    let (name, rest) = taken(agent, is_word);
    match rest {
        [b'/', a, b'.', b, b' ', b'(', word @ .., b')'] => {
            !name.is_empty()
                && a.is_ascii_digit()
                && b.is_ascii_digit()
                && !word.is_empty()
                && word.iter().all(|byte| is_word(*byte) || *byte == b'@')
        }
        _ => false,
    }
}

/// What stands behind `mozilla/5.0 `.
fn behind_mozilla(agent: &[u8]) -> Option<&[u8]> {
    match agent.strip_prefix(b"mozilla/")? {
        [a, b'.', b, b' ', rest @ ..] => (a.is_ascii_digit() && b.is_ascii_digit()).then_some(rest),
        _ => None,
    }
}

fn is_mozilla_and_a_word(agent: &[u8]) -> bool {
    behind_mozilla(agent).is_some_and(|rest| {
        !rest.is_empty()
            && rest
                .iter()
                .all(|byte| is_word(*byte) || b".-".contains(byte))
    })
}

/// `mozilla/5.0 (compatible; name/1.0)`, and no more.
fn is_mozilla_and_a_comment(agent: &[u8]) -> bool {
    let inner = behind_mozilla(agent)
        .and_then(|rest| rest.strip_prefix(b"("))
        .and_then(|rest| rest.strip_suffix(b")"));
    let Some(inner) = inner else { return false };
    let inner = inner.strip_prefix(b"compatible;").unwrap_or(inner);
    let inner = inner.strip_prefix(b" ").unwrap_or(inner);
    let (name, rest) = taken(inner, |byte| is_word(byte) || b".-".contains(&byte));
    match rest.split_first() {
        None => name.is_empty(),
        Some((b' ' | b'/', version)) => {
            !name.is_empty()
                && version.contains(&b'.')
                && behind_version(version).is_some_and(<[u8]>::is_empty)
        }
        Some(_) => false,
    }
}

/// `…; word;`.
fn ends_in_a_word_between_semicolons(agent: &[u8]) -> bool {
    let Some(rest) = agent.strip_suffix(b";") else {
        return false;
    };
    let Some(at) = rest.iter().rposition(|byte| !is_word(*byte)) else {
        return false;
    };
    let (before, word) = rest.split_at(at);
    before.ends_with(b";") && word.len() > 1 && matches!(word.first(), Some(b' ' | b'\t'))
}

/// `name@host.`.
fn has_a_mail_address(agent: &[u8]) -> bool {
    let mut rest = agent;
    while let Some(at) = rest.iter().position(|byte| *byte == b'@') {
        rest = rest.get(at + 1..).unwrap_or_default();
        let (host, after) = taken(rest, |byte| is_word(byte) || byte == b'-');
        if host.len() > 1
            && host.first().is_some_and(u8::is_ascii_alphabetic)
            && after.starts_with(b".")
        {
            return true;
        }
    }
    false
}

/// `name/1.0;`.
fn has_a_first_version(agent: &[u8]) -> bool {
    agent.windows(6).any(|bytes| match bytes {
        [before, b'/', b'1', b'.', b'0', b';'] => is_word(*before),
        _ => false,
    })
}
