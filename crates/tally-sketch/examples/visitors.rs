//! Counts unique visitors in a Worker of another program, whose JavaScript calls `see` with a hash of each visitor:
//! `cargo build -p tally-sketch --example visitors --target wasm32-unknown-unknown`.

#![expect(
    unsafe_code,
    reason = "an exported function needs a name of its own, which nothing else here has"
)]

use std::cell::RefCell;

use tally_sketch::{Sketch, Token};

thread_local! {
    static SEEN: RefCell<Sketch> = const { RefCell::new(Sketch::new()) };
}

/// Notes a visitor by 64 bits of a keyed hash, and returns how many were seen, give or take 0.8 %.
#[unsafe(no_mangle)]
pub extern "C" fn see(hash: u64) -> f64 {
    SEEN.with_borrow_mut(|seen| {
        seen.insert(Token::from_hash(hash));
        seen.estimate()
    })
}
