//! The idempotency key of a request.
//!
//! Invariant: every call that takes a key reads it here. So its name always contains the caller, and two requests under
//! it are compared by one rule, that of [`request_hash`].

use std::rc::Rc;

use super::hash_keys::name_key;
use super::request_context::RequestContext;
use tally_api::access::{Caller, Sender};
use tally_api::idempotency_keys::{KeyKind, parse_key, request_hash, write_key};
use tally_core::counter::ledger::WriteKey;
use tally_core::sketch::{HashKey, hash};
use tally_wire::problem::Problem;

/// The key that a caller sent with a request.
#[derive(Clone)]
pub struct RequestKey {
    secret: Rc<HashKey>,
    sender: Sender,
    account: String,
    text: String,
}

impl RequestKey {
    /// The key of a request, if its caller sent one.
    ///
    /// # Errors
    /// `invalid-idempotency-key`; `unavailable` where the secret of names is not known and the directory does not
    /// answer.
    pub async fn of(context: &RequestContext, caller: &Caller) -> Result<Option<Self>, Problem> {
        let Some(header) = context.header("idempotency-key") else {
            return Ok(None);
        };
        let text = parse_key(&header)?.to_owned();
        Ok(Some(Self {
            secret: name_key(&context.host).await?,
            sender: caller.sender(),
            account: caller.account().to_owned(),
            text,
        }))
    }

    /// As [`Self::of`]. If its caller sent no key, the key is drawn, and only this request knows it.
    ///
    /// # Errors
    /// As [`Self::of`].
    #[cfg_attr(
        not(feature = "limits"),
        expect(dead_code, reason = "several checks always have a key")
    )]
    pub async fn or_drawn(
        context: &RequestContext,
        caller: &Caller,
    ) -> Result<(Self, bool), Problem> {
        if let Some(sent) = Self::of(context, caller).await? {
            return Ok((sent, true));
        }
        let drawn = Self {
            secret: name_key(&context.host).await?,
            sender: caller.sender(),
            account: caller.account().to_owned(),
            text: format!("{:032x}", u128::from_le_bytes(context.host.random_key().0)),
        };
        Ok((drawn, false))
    }

    /// Its name in a call of this kind.
    pub fn name(&self, kind: KeyKind) -> WriteKey {
        write_key(&|bytes| self.hash(bytes), self.sender, kind, &self.text)
    }

    /// Its name in one step of a call. `before` and `after` surround its text: the step, and the counter or board that
    /// it changes.
    pub fn step_name(&self, before: &str, after: &str) -> WriteKey {
        let text = [before, &self.text, after].concat();
        write_key(
            &|bytes| self.hash(bytes),
            self.sender,
            KeyKind::Batch,
            &text,
        )
    }

    /// The hash by which its request is compared with others: `call` is the name of the call and the values of its
    /// query.
    pub fn request_hash(&self, call: &[&[u8]], body: &[u8]) -> u64 {
        request_hash(&|bytes| self.hash(bytes), call, body)
    }

    /// The account whose quota the caller fills: all keys that a key of a prefix makes fill its own. A caller without
    /// an account is one by itself.
    pub fn account_hash(&self) -> u64 {
        match self.account.as_str() {
            "" => self.hash(&self.sender.to_bytes()),
            account => self.hash(account.as_bytes()),
        }
    }

    /// The keyed hash of names.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        hash(&self.secret, bytes)
    }
}
