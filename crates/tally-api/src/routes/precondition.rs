//! Which writes read the precondition of their request. All other writes refuse one.

use super::route::RouteName;

impl RouteName {
    /// Whether the call reads `If-Match`, and refuses `If-None-Match` itself.
    pub const fn takes_precondition(self) -> bool {
        matches!(
            self,
            Self::Increment
                | Self::Decrement
                | Self::Put
                | Self::Delete
                | Self::Set
                | Self::WriteMembers
                | Self::WriteMember
                | Self::RemoveMember
        )
    }
}
