//! What pages embed and show.
//!
//! | module | holds |
//! |---|---|
//! | [`embeds`] | elements of pages: the pixel, badges |
//! | [`files`] | static files: the dashboard, the script for pages, the API's description |
//! | [`live`] | streams of watched counters |

#[cfg(feature = "pages")]
pub(crate) mod embeds;
pub(crate) mod files;
#[cfg(feature = "live")]
pub(crate) mod live;
