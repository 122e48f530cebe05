//! Why stored or received bytes and numbers are refused.

use core::fmt;

/// Why bytes are not a sketch, or a number is no token or no class: stored or sent state is broken, or newer than this
/// program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SketchError(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Version(u8, u8),
    Form(u8),
    Length(usize),
    Token(u32),
    Class(u8),
    Order,
    Rank,
    Blank,
    Parts,
}

impl SketchError {
    pub(super) const fn of(kind: Kind) -> Self {
        Self(kind)
    }

    pub(super) const fn of_version(version: u8, read: u8) -> Self {
        Self(Kind::Version(version, read))
    }

    pub(super) const fn of_length(bytes: usize) -> Self {
        Self(Kind::Length(bytes))
    }

    pub(super) const fn of_token(bits: u32) -> Self {
        Self(Kind::Token(bits))
    }

    pub(super) const fn of_class(number: u8) -> Self {
        Self(Kind::Class(number))
    }

    pub(super) const fn of_parts() -> Self {
        Self(Kind::Parts)
    }
}

impl core::error::Error for SketchError {}

impl fmt::Display for SketchError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Version(version, read) => {
                write!(
                    formatter,
                    "a sketch of version {version}; this program reads {read}"
                )
            }
            Kind::Parts => {
                formatter.write_str("the sketches of a counter must ascend, none of them empty")
            }
            Kind::Form(form) => write!(formatter, "a sketch has no form {form}"),
            Kind::Length(bytes) => write!(formatter, "no sketch of this form has {bytes} bytes"),
            Kind::Token(bits) => write!(formatter, "no hash has the token {bits:#010x}"),
            Kind::Class(number) => {
                write!(formatter, "no class of elements has the number {number}")
            }
            Kind::Order => formatter.write_str("the tokens of a sparse sketch must ascend"),
            Kind::Rank => formatter.write_str("a register of a dense sketch is above 51"),
            Kind::Blank => formatter.write_str("a dense sketch has no register above 0"),
        }
    }
}
