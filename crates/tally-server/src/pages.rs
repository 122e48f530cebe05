//! The files that are served as they stand. They are a part of the program.

use std::cell::RefCell;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tally_host::File;

mod table {
    include!(concat!(env!("OUT_DIR"), "/files.rs"));
}

/// Digits of an entity tag, each of 6 bits. `scripts/dashboard.mjs` makes those of the Worker in the same way.
const ETAG_DIGITS: usize = 22;

thread_local! {
    /// The entity tags that were asked for.
    static ETAGS: RefCell<HashMap<&'static str, String>> = RefCell::default();
}

fn etag_of(name: &'static str, text: &str) -> String {
    ETAGS.with_borrow_mut(|known| {
        let etag = || {
            let mut digits = URL_SAFE_NO_PAD.encode(Sha256::digest(text));
            digits.truncate(ETAG_DIGITS);
            format!("\"{digits}\"")
        };
        known.entry(name).or_insert_with(etag).clone()
    })
}

/// A file by its name.
pub(crate) fn find(name: &str) -> Option<File> {
    let (name, text) = table::FILES.iter().find(|(known, _)| *known == name)?;
    Some(File {
        text: (*text).to_owned(),
        etag: etag_of(name, text),
    })
}
