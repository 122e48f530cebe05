//! What the errors of this crate say: each says what is wrong, and who must act, the caller, time or the operator.

use core::error::Error;
use core::fmt;

use super::policy::PolicyFault;

impl fmt::Display for PolicyFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, min, max } = self;
        write!(formatter, "{field} must be from {min} to {max}")
    }
}

impl Error for PolicyFault {}

#[cfg(feature = "std")]
mod of_tables {
    use super::{Error, fmt};
    use crate::table::log::Broken;
    use crate::table::{Full, ReservationRefusal};

    impl fmt::Display for Broken {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter
                .write_str("a stored row of limits cannot be read: delete it, or put a copy back")
        }
    }

    impl Error for Broken {}

    impl fmt::Display for Full {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("the table has no room for another key: try again later")
        }
    }

    impl Error for Full {}

    impl fmt::Display for ReservationRefusal {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::NotAdmitted(verdicts) => {
                    let refused = verdicts.iter().filter(|verdict| !verdict.is_allowed);
                    let (refused, all) = (refused.count(), verdicts.len());
                    write!(
                        formatter,
                        "{refused} of {all} checks are over their limits: try again later"
                    )
                }
                Self::Full => fmt::Display::fmt(&Full, formatter),
                Self::Cancelled => {
                    formatter.write_str("the reservation was cancelled before it came")
                }
            }
        }
    }

    impl Error for ReservationRefusal {}
}
