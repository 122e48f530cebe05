//! Rate limits.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | policies, and checks of one key |
//! | [`checks`] | several checks together |
//! | [`resolved_check`] | a check with its policy and its limiter |
//! | [`limiters`] | the lanes of checks to limiters, and cached policies and refusals |
//! | [`local_quota`] | the isolate's part of the limits of hot keys |
//! | [`repeated_checks`] | checks that are repeated at once |
//! | [`verdicts`], [`verdict_reads`] | the numbers of allowed and refused checks of each policy, and reads of them |

pub(crate) mod calls;
pub(crate) mod checks;
pub(crate) mod limiters;
pub(crate) mod local_quota;
pub(crate) mod repeated_checks;
pub(crate) mod resolved_check;
pub(crate) mod verdict_reads;
pub(crate) mod verdicts;
