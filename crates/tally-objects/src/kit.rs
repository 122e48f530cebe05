//! What every object is made of, whatever it holds.
//!
//! | module | holds |
//! |---|---|
//! | [`store`] | SQL, and the schema's version |
//! | [`storage_guard`] | refusal of calls while storage cannot be read |
//! | [`row_prefetch`] | rows that were read together, for the calls of one batch |
//! | [`batch`] | answers to many calls in one message |
//! | [`own_task`] | work in a task of its own |
//! | [`outbox`] | joins messages of tenants to the directory, and of roots to tablets |
//! | [`alarm_turns`] | the order in which alarms of tablets run |
//! | [`measured_object`] | an object that reports its size and its isolate's counts |
//! | [`object_sizes`] | the database sizes of objects |
//! | `left_out` | the object of a feature that this build does not have |

pub(crate) mod alarm_turns;
pub(crate) mod batch;
pub(crate) mod left_out;
pub(crate) mod measured_object;
pub(crate) mod object_sizes;
pub(crate) mod outbox;
pub(crate) mod own_task;
pub(crate) mod row_prefetch;
pub(crate) mod storage_guard;
pub(crate) mod store;
