//! Dimensions in bodies and requests.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};

use crate::json::Text;
use tally_core::counter::dimensions::{
    DIMENSION_VALUE_BYTES_MAX, DIMENSIONS_PER_WRITE_MAX, Dimensions,
};
use tally_logs::fields::{LogField, LoggedRequest};
use tally_logs::user_agent::{browser, device};
use tally_wire::problem::{Code, Problem};

/// The value that stands for what the request itself says.
const AUTO: &str = "auto";

/// The dimensions that may have the value [`AUTO`].
const AUTOMATIC: [&str; 3] = ["country", "device", "browser"];

/// The dimensions that the address of a page gives.
const OF_PAGE: [LogField; 2] = [LogField::Referrer, LogField::UtmSource];

const _: () = assert!(LogField::ALL.len() <= DIMENSIONS_PER_WRITE_MAX);
const _: () = assert!(tally_logs::reader::VALUE_BYTES_MAX == DIMENSION_VALUE_BYTES_MAX);

/// Returns the dimensions of these fields of a request; `site` is the site's own host.
pub fn of_request(
    request: &LoggedRequest<'_>,
    fields: &[LogField],
    site: Option<&str>,
) -> Dimensions {
    let mut dimensions = Dimensions::default();
    for field in fields {
        dimensions.insert_cut(field.name(), &request.value(*field, site));
    }
    dimensions
}

/// The object of a body that holds dimensions, as sent.
#[derive(Debug, Default)]
pub(crate) struct ByWire<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de> Deserialize<'de> for ByWire<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = ByWire<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object of names with texts in `by`")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ByWire<'de>, M::Error> {
                let mut pairs = Vec::new();
                while let Some(Text(name)) = map.next_key()? {
                    let value = map.next_value_seed(ValueOf(&name))?;
                    pairs.push((name, value));
                }
                Ok(ByWire(pairs))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

/// The value of the dimension with this name.
struct ValueOf<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for ValueOf<'_> {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for ValueOf<'_> {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "text as the value of `{}` in `by`", self.0)
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_owned()))
    }
}

impl ByWire<'_> {
    /// Checks the dimensions of a body.
    ///
    /// # Errors
    /// `invalid-body`.
    pub(crate) fn read(wire: Option<&Self>) -> Result<Dimensions, Problem> {
        let mut dimensions = Dimensions::default();
        for (name, value) in wire.iter().flat_map(|wire| &wire.0) {
            if dimensions.get(name).is_some() {
                let detail = format!("`{name}` is in `by` twice; send it once");
                return Err(Problem::new(Code::InvalidBody, detail));
            }
            dimensions.insert(name, value)?;
        }
        Ok(dimensions)
    }
}

/// Reads a list such as `country,device,campaign:spring`: names with values, or names whose values come from the
/// request, each once. `referer` is the address of the page that sends the request; the referrer's host and the
/// `utm_source` are those of this address.
///
/// # Errors
/// `invalid-query`.
pub fn parse_list(list: &str, referer: &str) -> Result<Dimensions, Problem> {
    let page = LoggedRequest {
        target: referer,
        referrer: referer,
        ..LoggedRequest::default()
    };
    let of_page = of_request(&page, &OF_PAGE, None);
    let mut dimensions = Dimensions::default();
    let refuse = |detail: String| Err(Problem::new(Code::InvalidQuery, detail));
    let mut names = Vec::new();
    for item in list.split(',') {
        let (name, value) = match item.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None if AUTOMATIC.contains(&item) => (item, Some(AUTO)),
            None if OF_PAGE.map(LogField::name).contains(&item) => (item, of_page.get(item)),
            None => {
                return refuse(format!(
                    "by is a list of name:value, or of {}, {}, which the request says; {item:?} has no value",
                    AUTOMATIC.join(", "),
                    OF_PAGE.map(LogField::name).join(", ")
                ));
            }
        };
        if names.contains(&name) {
            return refuse(format!("{name:?} is in by twice; send it once"));
        }
        names.push(name);
        // A request without a page has no such value.
        let Some(value) = value else { continue };
        if let Err(fault) = dimensions.insert(name, value) {
            return refuse(fault.to_string());
        }
    }
    Ok(dimensions)
}

/// Replaces `auto` by what the request says, and removes dimensions that it does not say.
pub fn fill_in(
    dimensions: &mut Dimensions,
    country: impl FnOnce() -> Option<String>,
    user_agent: impl FnOnce() -> Option<String>,
) {
    let mut is_auto = |name: &str| {
        let is_auto = dimensions.get(name) == Some(AUTO);
        if is_auto {
            dimensions.remove(name);
        }
        is_auto
    };
    let [of_country, of_device, of_browser] = AUTOMATIC.map(&mut is_auto);
    if of_country && let Some(country) = country() {
        dimensions.insert_cut("country", &country);
    }
    if of_device || of_browser {
        let user_agent = user_agent().unwrap_or_default();
        let found = [
            ("device", device(&user_agent).filter(|_| of_device)),
            ("browser", browser(&user_agent).filter(|_| of_browser)),
        ];
        for (name, value) in found {
            dimensions.insert_cut(name, value.unwrap_or_default());
        }
    }
}

/// Refuses `auto` where the request is not the visitor's.
///
/// # Errors
/// `invalid-body`.
pub(crate) fn refuse_auto(dimensions: &Dimensions) -> Result<(), Problem> {
    let left = AUTOMATIC
        .iter()
        .find(|name| dimensions.get(name) == Some(AUTO));
    left.map_or(Ok(()), |name| {
        let detail = format!(
            "`{name}` in `by` of a line needs a value: only requests of visitors take `auto`"
        );
        Err(Problem::new(Code::InvalidBody, detail))
    })
}
