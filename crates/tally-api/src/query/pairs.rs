//! The pairs of a query as they stand in the URL, before they are read.

/// Whether a query has a parameter; of a value where one is given.
pub fn has_parameter(query: &str, name: &str, value: Option<&str>) -> bool {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.any(|(other, given)| other == name && value.is_none_or(|value| given == value))
}

/// The pairs of a query whose names are known, as they stand in the URL.
pub(super) fn known_pairs(query: &str, known: &[&str]) -> String {
    let is_known = |pair: &&str| {
        form_urlencoded::parse(pair.as_bytes()).any(|(name, _)| known.contains(&&*name))
    };
    let pairs: Vec<&str> = query.split('&').filter(is_known).collect();
    pairs.join("&")
}
