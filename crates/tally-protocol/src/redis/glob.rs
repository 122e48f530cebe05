//! Patterns of names for `KEYS` and `SCAN`. Source: `stringmatchlen` of Redis.

/// Returns whether a name matches: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a character that stands for itself.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut seen) = (0, 0);
    // The last star, and how much of the name it matches so far: backtracking to the last star is enough.
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, seen));
                at += 1;
                continue;
            }
            Some(_) => one(&pattern[at..], name[seen]),
            None => None,
        };
        match (step, star) {
            (Some(length), _) => (at, seen) = (at + length, seen + 1),
            (None, Some((after, taken))) => {
                star = Some((after, taken + 1));
                (at, seen) = (after, taken + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// How much of the pattern one byte of the name consumes; `None` where it does not match.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', rest @ ..] => class(rest, byte),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

fn class(rest: &[u8], byte: u8) -> Option<usize> {
    let negates = rest.first() == Some(&b'^');
    let mut at = usize::from(negates);
    let mut is_in = false;
    loop {
        match rest.get(at..) {
            None | Some([]) => break,
            Some([b']', ..]) => {
                at += 1;
                break;
            }
            Some([b'\\', literal, ..]) => {
                is_in |= *literal == byte;
                at += 2;
            }
            Some([from, b'-', to, ..]) => {
                is_in |= (*from.min(to)..=*from.max(to)).contains(&byte);
                at += 3;
            }
            Some([literal, ..]) => {
                is_in |= *literal == byte;
                at += 1;
            }
        }
    }
    // Includes the opening bracket.
    (is_in != negates).then_some(at + 1)
}

/// The literal beginning of all matching names.
pub fn literal_prefix(pattern: &str) -> &str {
    let end = pattern.find(['*', '?', '[', '\\']);
    &pattern[..end.unwrap_or(pattern.len())]
}
