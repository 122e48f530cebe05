//! What the lines of a body are.

use tally_api::access::Permission;
use tally_api::batch::BulkRecord;
use tally_api::batch::by::Actor;
use tally_api::batch::event::parse_line;
use tally_api::batch::gathered::Times;
use tally_api::batch::ingest::Ingest;
use tally_api::batch::split::Splitter;
use tally_api::metrics::Metric;
use tally_wire::problem::Problem;
use tally_wire::visitor::day_of;

/// The kind of records of a body.
pub enum Records {
    /// Of `/events`.
    Events,
    /// Of `/ingest`.
    Logs(Ingest),
}

impl Records {
    /// Reads one; `None` for a line that is no record.
    ///
    /// # Errors
    /// Those of its line.
    pub fn read<'a>(
        &self,
        record: &'a [u8],
    ) -> Result<Option<(BulkRecord<'a>, Actor<'a>)>, Problem> {
        match self {
            Self::Events => parse_line(record).map(Some),
            Self::Logs(ingest) => {
                let record = ingest.read(record)?;
                Ok(record.map(|record| (record, Actor::default())))
            }
        }
    }

    /// Whether a record that is no event writes to a board.
    pub fn writes_to_board(&self, record: &[u8]) -> bool {
        let name: &[u8] = b"\"board\"";
        matches!(self, Self::Events) && record.windows(name.len()).any(|part| part == name)
    }

    /// The splitter for such a body.
    pub fn splitter(&self) -> Splitter {
        match self {
            Self::Events => Splitter::detect(),
            Self::Logs(ingest) => ingest.splitter(),
        }
    }

    /// The permissions that each needs where no key is sent. Logs are of the past.
    pub const fn needs(&self) -> &'static [Permission] {
        match self {
            Self::Events => &[],
            Self::Logs(_) => &[Permission::Ingest],
        }
    }

    /// What of the metrics counts them.
    pub fn acknowledged(&self) -> Metric {
        match self {
            Self::Events => Metric::AcknowledgedEvent,
            Self::Logs(_) => Metric::AcknowledgedLog,
        }
    }

    /// The call of a body, and its query.
    pub fn request_parts(&self) -> Vec<&[u8]> {
        match self {
            Self::Events => vec![b"events"],
            Self::Logs(ingest) => {
                let query = ingest.query_values();
                let query = query.iter().map(|text| text.as_bytes());
                std::iter::once(&b"ingest"[..]).chain(query).collect()
            }
        }
    }

    /// The day whose visitors the records may have.
    pub fn day(&self, now_ms: i64) -> Option<i64> {
        match self {
            Self::Events => Some(day_of(now_ms)),
            Self::Logs(_) => None,
        }
    }

    /// Which times they may have.
    pub fn times(&self) -> Times {
        match self {
            Self::Events => Times::Live,
            Self::Logs(_) => Times::Past,
        }
    }
}
