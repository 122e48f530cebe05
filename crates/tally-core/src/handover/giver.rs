//! The place that is asked for a bundle.
//!
//! | it has | a request of an older layout | the sealed place, again | with proof that the sealed place has nothing | any other |
//! |---|---|---|---|---|
//! | a debt | `Pay` | | | `Pay` |
//! | nothing | `Nothing` | | | `Nothing` |
//! | rows in use | `Old` | | | `Seal`, then rows |
//! | sealed rows | `Old` | rows, or `Seal` by a newer layout | `Seal`, then rows | `Elsewhere` |

use std::cmp::Ordering;

use super::Holding;

/// A request for a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GiverRequest<P, V> {
    /// The place that asks.
    pub to: P,
    /// The layout by which the bundle belongs there.
    pub version: V,
    /// The seal of a transfer to another place that will never complete.
    pub failed: Option<u64>,
    /// The transfer whose next page is asked for; `None` to begin.
    pub continued: Option<u64>,
}

/// What a place does about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given<P> {
    /// It refuses: it knows a newer layout, or the transfer that continues is over.
    Old,
    /// It pays its debt to the former place, and then looks at the request again.
    Pay,
    /// It has nothing. First it voids its own searches and grants, so that none of them brings rows here later.
    Nothing,
    /// It has given the rows to another place.
    Elsewhere {
        /// The place.
        to: P,
        /// The seal.
        seal: u64,
    },
    /// It seals the rows for the one that asks, durably, and voids its own work. Then it answers with the rows.
    Seal {
        /// The earlier seal that the new one replaces.
        replaced: Option<u64>,
    },
    /// It answers with the rows.
    Rows {
        /// The seal.
        seal: u64,
    },
}

/// Decides about a request, by what the place has now. `has_debt`: the place from which the bundle came may still have
/// a copy.
pub fn asked<P: Copy + PartialEq, V: Copy + Ord>(
    holding: &Holding<P, V>,
    has_debt: bool,
    request: &GiverRequest<P, V>,
) -> Given<P> {
    if has_debt {
        return Given::Pay;
    }
    let sealed = match holding {
        Holding::Nothing => return Given::Nothing,
        Holding::Here { since } => {
            let is_old = since.is_some_and(|since| since >= request.version);
            return match is_old || request.continued.is_some() {
                true => Given::Old,
                false => Given::Seal { replaced: None },
            };
        }
        Holding::Sealed(sealed) => sealed,
    };
    let (to, seal) = (sealed.to, sealed.seal);
    let (is_theirs, replaced) = (to == request.to, Some(seal));
    let order = sealed.version.map(|known| request.version.cmp(&known));
    match request.continued {
        Some(continued) if is_theirs && continued == seal => Given::Rows { seal },
        Some(_) => Given::Old,
        None if is_theirs => match order {
            None | Some(Ordering::Equal) => Given::Rows { seal },
            Some(Ordering::Greater) => Given::Seal { replaced },
            Some(Ordering::Less) => Given::Old,
        },
        None if request.failed == replaced && order.is_none_or(Ordering::is_gt) => {
            Given::Seal { replaced }
        }
        None => Given::Elsewhere { to, seal },
    }
}
