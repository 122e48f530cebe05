//! What may be counted of a request besides its path.

use std::borrow::Cow;

use crate::hit::Hit;
use crate::target;
use crate::user_agent::{browser, device};

/// What may be counted of a log line besides its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogField {
    /// The request target without its query.
    Page,
    /// The host of the referring page, unless it is the site's own.
    Referrer,
    /// The status.
    Status,
    /// The method.
    Method,
    /// The browser's family.
    Browser,
    /// The kind of device.
    Device,
    /// `utm_source` of the query.
    UtmSource,
    /// The client's country, of Logpush alone.
    Country,
}

impl LogField {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Page,
        Self::Referrer,
        Self::Status,
        Self::Method,
        Self::Browser,
        Self::Device,
        Self::UtmSource,
        Self::Country,
    ];

    /// The name of its dimension.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Referrer => "referrer",
            Self::Status => "status",
            Self::Method => "method",
            Self::Browser => "browser",
            Self::Device => "device",
            Self::UtmSource => "utm_source",
            Self::Country => "country",
        }
    }

    /// Reads a list of names such as `referrer,browser`; `None` where one is not known or stands twice.
    pub fn list(names: &str) -> Option<Vec<Self>> {
        let mut fields = Vec::new();
        for name in names.split(',') {
            let field = Self::ALL.into_iter().find(|field| field.name() == name)?;
            if fields.contains(&field) {
                return None;
            }
            fields.push(field);
        }
        Some(fields)
    }
}

/// A request, by what its fields say. A field that is not known is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoggedRequest<'a> {
    /// The target, with its query.
    pub target: &'a str,
    /// The method.
    pub method: &'a str,
    /// The status.
    pub status: &'a str,
    /// The address of the page before.
    pub referrer: &'a str,
    /// The user agent.
    pub user_agent: &'a str,
    /// The client's country.
    pub country: &'a str,
}

impl<'a> From<&'a Hit<'_>> for LoggedRequest<'a> {
    fn from(hit: &'a Hit<'_>) -> Self {
        Self {
            target: hit.target.as_deref().unwrap_or_default(),
            method: &hit.method,
            status: &hit.status,
            referrer: &hit.referrer,
            user_agent: hit.user_agent.as_deref().unwrap_or_default(),
            country: &hit.country,
        }
    }
}

impl<'a> LoggedRequest<'a> {
    /// Returns the value of a field; empty where there is none. `site` is the site's own host.
    pub fn value(&self, field: LogField, site: Option<&str>) -> Cow<'a, str> {
        let (page, query) = target::split(self.target);
        let value = match field {
            LogField::Page => Cow::Borrowed(page),
            LogField::Referrer => referrer_host(self.referrer, site)
                .unwrap_or_default()
                .into(),
            LogField::Status => self.status.into(),
            LogField::Method => self.method.into(),
            LogField::Browser => browser(self.user_agent).unwrap_or_default().into(),
            LogField::Device => device(self.user_agent).unwrap_or_default().into(),
            LogField::UtmSource => utm_source(query.strip_prefix('?').unwrap_or(query)).into(),
            LogField::Country => self.country.to_ascii_uppercase().into(),
        };
        crate::hit::said(value)
    }
}

/// A host without a leading `www.`.
fn plain_host(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    host.strip_prefix("www.")
        .map_or(host.clone(), str::to_owned)
}

/// The host of an address, in lower case and without `www.`, port and user; `None` for text that is no address, and for
/// the site's own host.
fn referrer_host(address: &str, site: Option<&str>) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    if scheme.is_empty()
        || !scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        return None;
    }
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.rsplit_once(':') {
        Some((before, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => before,
        _ => host,
    };
    let host = plain_host(host);
    let is_own = site.is_some_and(|site| plain_host(site) == host);
    let is_host =
        !host.is_empty() && !host.contains(|sign: char| sign.is_whitespace() || sign == '"');
    (is_host && !is_own).then_some(host)
}

fn utm_source(query: &str) -> String {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let found = pairs.find(|(name, _)| name == "utm_source");
    found.map_or_else(String::new, |(_, value)| value.into_owned())
}
