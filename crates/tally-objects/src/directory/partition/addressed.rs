//! Whom a call is for: a root, or all partitions together.

use tally_wire::messages::{
    AmountOf, BeginRun, Call, Claim, CloseSession, FindClaims, FindKey, ForgetBoard, LetInboxesGo,
    List, ListBoards, ListPastStates, ListRows, ListRuns, LocateLead, LookUp, OpenSession, Operate,
    PlaceLead, PushView, ReadPastStates, Reconcile, Register, RegisterBoard, RegisterInbox,
    StoreAnswer, TopOf, ViewOf,
};

/// Whether a call is for a root, whose name is the first field of its message.
pub(super) fn is_of_root(path: &str) -> bool {
    [
        PushView::PATH,
        Register::PATH,
        ViewOf::PATH,
        LookUp::PATH,
        Claim::PATH,
        FindClaims::PATH,
        LocateLead::PATH,
        PlaceLead::PATH,
        Operate::PATH,
        StoreAnswer::PATH,
        Reconcile::PATH,
        AmountOf::PATH,
        FindKey::PATH,
        RegisterBoard::PATH,
        ForgetBoard::PATH,
        ReadPastStates::PATH,
        RegisterInbox::PATH,
        LetInboxesGo::PATH,
        OpenSession::PATH,
        CloseSession::PATH,
    ]
    .contains(&path)
}

/// Whether a call is one that all partitions are asked together.
pub(super) fn is_of_all(path: &str) -> bool {
    [
        List::PATH,
        ListRows::PATH,
        TopOf::PATH,
        ListBoards::PATH,
        BeginRun::PATH,
        ListRuns::PATH,
        ListPastStates::PATH,
    ]
    .contains(&path)
}
