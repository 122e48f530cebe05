//! What moves while the service runs: leads where the number of tablets is changed, roots where that of the
//! directory's partitions is.

mod hot;
mod late;
mod leads;
mod roots;
mod service;
