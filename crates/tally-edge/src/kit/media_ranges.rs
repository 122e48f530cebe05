//! What a client accepts, by its header `Accept`.

/// The media range at the head of an element of `Accept`, and its weight: 1 if it has none, 0 if it is no number.
/// Source: RFC 9110, sections 12.4.2 and 12.5.1.
pub fn weighted(range: &str) -> (&str, f64) {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    let weight = weight.map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0));
    (media, weight)
}

/// Whether a header `Accept` names HTML, and wants it no less than JSON.
pub fn prefers_html(accepts: &str) -> bool {
    let quality = |wanted: &str| {
        let ranges = accepts.split(',').map(weighted);
        let of_wanted = ranges.filter(|(media, _)| media.eq_ignore_ascii_case(wanted));
        of_wanted.map(|(_, weight)| weight).fold(0.0, f64::max)
    };
    let html = quality("text/html");
    html > 0.0 && html >= quality("application/json")
}
