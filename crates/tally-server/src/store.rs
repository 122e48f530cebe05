//! The data folder, and what is stored in it.

pub(crate) mod ahead_log;
pub(crate) mod database;
pub(crate) mod files;
pub(crate) mod folder;
pub(crate) mod loss;
pub(crate) mod opening;
pub(crate) mod registry;
mod values;
