//! Targets of requests, as paths and queries.
//!
//! Invariant: a request has the same path in whatever form its target came. A proxy is asked for the absolute form,
//! `http://shop.example:8080/a?b`, which is `/a?b` of that server. Source: RFC 9112, section 3.2.

/// Returns a target without the scheme and the authority of its absolute form.
pub fn origin_form(target: &str) -> &str {
    let Some((scheme, rest)) = target.split_once("://") else {
        return target;
    };
    let is_scheme = scheme.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !is_scheme {
        return target;
    }
    match rest.find(['/', '?']) {
        Some(end) => rest.get(end..).unwrap_or_default(),
        None => "/",
    }
}

/// Returns the path of a target, and its query with its mark.
pub fn split(target: &str) -> (&str, &str) {
    let target = origin_form(target);
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    match path {
        // An absolute form without a path: `http://shop.example?b`.
        "" => ("/", query),
        _ => (path, query),
    }
}
