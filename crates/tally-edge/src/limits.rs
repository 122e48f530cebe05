//! Rate limits.
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | policies, and checks of one key |
//! | [`asks`], [`answers`] | what is asked of limiters, and how checks are answered |
//! | [`checks`] | several checks together |
//! | [`gate`] | the address that a proxy asks before it lets a request through |
//! | [`named_calls`], [`holds`], [`holders`] | calls that a limiter does once, holds, and who holds most |
//! | [`resolved_check`] | a check with its policy and its limiter |
//! | [`limiters`] | the lanes of checks to limiters, and cached refusals |
//! | [`policies`], [`override_calls`] | cached policies and overrides, and calls that change overrides |
//! | [`local_quota`] | the isolate's part of the limits of hot keys |
//! | [`repeated_checks`] | checks that are repeated at once |
//! | [`verdicts`], [`verdict_reads`] | the numbers of allowed and refused checks of each policy, and reads of them |

pub(crate) mod answers;
pub(crate) mod asks;
pub(crate) mod calls;
#[cfg(feature = "limits")]
pub(crate) mod checks;
#[cfg(feature = "limits")]
pub(crate) mod gate;
pub(crate) mod holders;
#[cfg(feature = "limits")]
pub(crate) mod holds;
pub(crate) mod limiters;
pub(crate) mod local_quota;
pub(crate) mod named_calls;
pub(crate) mod override_calls;
pub(crate) mod policies;
pub(crate) mod repeated_checks;
pub(crate) mod resolved_check;
pub(crate) mod verdict_reads;
pub(crate) mod verdicts;
