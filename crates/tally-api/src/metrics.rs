//! The metrics of one isolate and of the deployment, and their text for Prometheus.
//!
//! | module | holds |
//! |---|---|
//! | `registry` | the metrics of one isolate |
//! | `reporter` | what an isolate has reported of its counts, and its next report |
//! | `fleet` | current values of the deployment |
//! | `text` | the text |
//! | `otlp` | the metrics of the deployment in the form of OTLP/HTTP |

mod fleet;
mod otlp;
mod registry;
mod reporter;
mod text;

pub use otlp::{OTLP_CONTENT_TYPE, OtlpContext, otlp_body};
pub use registry::{CONTENT_TYPE, Metric, Metrics, changed, fleet_text, named, series_ids};
pub use reporter::{Reporter, UnsentReport};
pub use text::{Exposition, seconds};
