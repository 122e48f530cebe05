//! Alerts as they are stored and sent.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::names::policy::PolicyName;
use tally_core::alert::condition::Condition;
use tally_core::counter::id::CounterId;

/// The most alerts of one partition of the directory: 2,048 in the deployment. They are 128 measurements a minute for
/// an object that takes 1,000 messages a second.
pub const ALERTS_MAX: u64 = 128;

/// The most deliveries that an answer lists, of one alert or of all: 100 of at most 1 KB.
pub const DELIVERIES_MAX: usize = 100;

/// The most waiting deliveries of one alert. Beyond that, the receiver gets the current state once there is room.
pub const WAITING_MAX: usize = 20;

/// What a secret begins with. Source: <https://www.standardwebhooks.com>.
const SECRET_START: &str = "whsec_";

/// How many bytes a secret has. Source: as above.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = SECRET_BYTES_MIN..=64;

/// The length of a secret that Tally makes.
pub const SECRET_BYTES_MIN: usize = 24;

/// What an alert watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Watched {
    /// A counter.
    Counter(CounterId),
    /// All counters whose names begin so.
    Prefix(String),
    /// The checks of a policy.
    Policy(PolicyName),
}

/// What deliveries are signed with. No answer shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl Secret {
    /// Parses a secret: `whsec_` and 24 to 64 bytes in base64.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(SECRET_START)?).ok()?;
        SECRET_BYTES.contains(&bytes.len()).then_some(Self(bytes))
    }

    /// A secret of random bytes.
    pub fn random(bytes: [u8; SECRET_BYTES_MIN]) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// An alert, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Alert+")]
pub struct Alert {
    /// What it watches.
    pub watched: Watched,
    /// The condition.
    pub condition: Condition,
    /// For how long the condition must hold before the alert fires, in seconds.
    pub for_seconds: u32,
    /// The address of its deliveries.
    pub webhook: String,
}

/// An alert as a client sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertPut {
    /// The alert.
    pub alert: Alert,
    /// Its secret; `None` keeps the stored one.
    pub secret: Option<Secret>,
}
