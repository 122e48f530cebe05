//! The names of the commands about the connection.

use crate::subscriptions::Wanted;

/// Commands about the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    Auth,
    Client,
    Command,
    Discard,
    Exec,
    Hello,
    Multi,
    Quit,
    Reset,
    Select,
    Subscribe(Wanted),
    Unwatch,
    Watch,
}

const OWN: [(&str, Own); 16] = [
    ("AUTH", Own::Auth),
    ("CLIENT", Own::Client),
    ("COMMAND", Own::Command),
    ("DISCARD", Own::Discard),
    ("EXEC", Own::Exec),
    ("HELLO", Own::Hello),
    ("MULTI", Own::Multi),
    ("PSUBSCRIBE", Own::Subscribe(Wanted::Patterns)),
    ("PUNSUBSCRIBE", Own::Subscribe(Wanted::NoPatterns)),
    ("QUIT", Own::Quit),
    ("RESET", Own::Reset),
    ("SELECT", Own::Select),
    ("SUBSCRIBE", Own::Subscribe(Wanted::Channels)),
    ("UNSUBSCRIBE", Own::Subscribe(Wanted::NoChannels)),
    ("UNWATCH", Own::Unwatch),
    ("WATCH", Own::Watch),
];

/// The command about the connection that these words begin with.
pub(crate) fn own_of(args: &[String]) -> Option<Own> {
    let name = args.first()?;
    let found = OWN
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, own)| *own)
}
