//! Stored bodies whose bits change: found, named, put back, or removed where that is asked for.

mod kept;
mod objects;
mod remembered;
mod scene;
mod unreadable;
