//! What native tests share.

mod calls;
pub mod drawn;
pub mod events;
pub mod exposition;
pub mod fake_platform;
pub mod following;
pub mod home;
pub mod keyed;
pub mod living;
pub mod merging;
pub mod pushing;
pub mod rows;
pub mod stored_cell;
pub mod sums;

pub use tally_testing::config;
