//! A message and its answer.

use serde::{Serialize, de::DeserializeOwned};

use crate::names::Address;

/// A message and its answer.
pub trait Call: Serialize + DeserializeOwned {
    /// Path of the request that carries it.
    const PATH: &'static str;
    /// The answer of a successful call.
    type Answer: Serialize + DeserializeOwned;

    /// The receiver.
    fn to(&self) -> Address<'_>;
}

macro_rules! calls {
    ($($name:ty => $answer:ty, $path:literal, |$message:pat_param| $to:expr;)*) => {
        $(impl Call for $name {
            const PATH: &'static str = $path;
            type Answer = $answer;

            fn to(&self) -> Address<'_> {
                let $message = self;
                $to
            }
        })*
    };
}
