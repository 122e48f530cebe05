//! Boards: requests and answers.
//!
//! | module | holds |
//! |---|---|
//! | `body` | settings and writes as clients send them |
//! | `metadata` | the form of metadata |
//! | `query` | the members that a read asks for |
//! | `answer`, `refusals` | answers, and why a write or a read is refused |
//! | `merged` | several boards read as one |
//! | `token` | versions of boards, cursors, tags of members |

mod answer;
mod body;
mod merged;
mod metadata;
mod query;
mod refusals;
mod token;

pub use answer::{
    ReadBoard, board_line, configured_json, deleted_json, list_json, live_board, member_lines,
    members_json, one_json, rows_json, rows_ndjson, written_json,
};
pub use body::{
    EXPIRES_SECONDS_MAX, LINES_MAX, MemberLines, WRITES_AT_ONCE, parse_board_line, parse_lines,
    parse_member_line, parse_settings, parse_write,
};
pub use merged::{MERGED_BOARDS_MAX, MergedBoards, MergedQuery};
pub use metadata::{compact, parse_metadata};
pub use query::{
    AROUND_MAX, BoardQuery, EXPORTED_MAX, MEMBERS_ASKED_MAX, MEMBERS_QUERY, WantedMembers,
};
pub use refusals::{not_found, problem_of, refusal_of, settings_fixed};
pub use token::{BoardVersion, cursor_of, parse_if_match, tag_text};
