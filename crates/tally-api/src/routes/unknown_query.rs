//! Parameters that a call does not know.

/// What a call does with a parameter that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownQuery {
    /// The call is refused: its caller chooses each parameter.
    Refused,
    /// The parameter is ignored. Mail programs, link shorteners, scrapers and proxies of images add their own.
    Ignored,
    /// The parameter is ignored where the parameter of this name has this value, and refused otherwise.
    IgnoredWhere(&'static str, &'static str),
}
