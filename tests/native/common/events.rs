//! Lines of `/events`.

use tally_api::batch::BulkRecord;
use tally_api::batch::event::parse_line;
use tally_wire::problem::Problem;

/// Returns the record of a line alone.
pub fn parse_event(json: &[u8]) -> Result<BulkRecord<'_>, Problem> {
    parse_line(json).map(|(record, _)| record)
}
