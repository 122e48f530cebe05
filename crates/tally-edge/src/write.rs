//! Writes to one counter, and what changes it as a whole.
//!
//! | module | holds |
//! |---|---|
//! | [`counter`] | increments and decrements |
//! | [`increment`] | one write of a client |
//! | [`flush_sender`] | the lanes of writes to cells |
//! | [`lead_reports`] | reports of what bulk bodies have counted |
//! | [`keyed_writes`] | writes that count once for any number of repeats |
//! | [`unique_elements`] | the unique element of one write |
//! | [`administration`] | settings, endings |

pub(crate) mod administration;
pub(crate) mod counter;
pub(crate) mod flush_sender;
pub(crate) mod increment;
pub(crate) mod keyed_writes;
pub(crate) mod lead_reports;
pub(crate) mod unique_elements;
