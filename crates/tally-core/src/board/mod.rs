//! Boards: members with scores, in order.
//!
//! | module | holds |
//! |---|---|
//! | [`score`] | scores and their order |
//! | [`key`] | a member's place in the order of a board |
//! | [`settings`] | how a board ranks, and what it keeps |
//! | [`period`] | hours, days, weeks and months of a zone |
//! | [`summary`] | what is known of a shard elsewhere |
//! | [`zone`] | zones by their names, with summer time |
//! | [`placing`] | where a board lives, and which shard has which member |
//! | [`member`] | what is kept of a member, and how a write changes it |
//! | [`directory`] | how many members lie in each segment of the order: ranks without reading all rows |

pub mod directory;
pub mod key;
pub mod member;
pub mod period;
pub mod placing;
pub mod score;
pub mod settings;
pub mod summary;
pub mod zone;
