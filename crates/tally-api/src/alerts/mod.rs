//! Requests and answers about alerts, and the requests of deliveries.
//!
//! | module | holds |
//! |---|---|
//! | [`body`] | an alert as clients send it |
//! | [`answer`] | answers to clients |
//! | [`request`] | the content and the signature of deliveries |

pub mod answer;
pub mod body;
pub mod request;
