//! What `tally import` decides, as Wasm, for package/command/import/wasm.mjs. `scripts/logs-wasm.sh` builds it.
//!
//! Invariant: bytes cross the border in buffers that this module owns. The caller asks for the room of its input
//! ([`input`]) and writes there: a line of JSON, and bytes behind it. What a call leaves is where [`output`] says,
//! until the next call. So nothing here reads a pointer.

#![allow(
    unsafe_code,
    reason = "names of exports are promises that no other object has them; there is no other"
)]

mod calls;
mod files;

use std::cell::RefCell;

use files::REPLY;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUTS: RefCell<[Vec<u8>; 2]> = const { RefCell::new([const { Vec::new() }; 2]) };
}

fn room(buffer: &'static std::thread::LocalKey<RefCell<Vec<u8>>>, length: usize) -> *mut u8 {
    buffer.with_borrow_mut(|bytes| {
        bytes.resize(length, 0);
        bytes.as_mut_ptr()
    })
}

/// Makes room for the input of the next call, and returns where.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    room(&INPUT, length)
}

/// Makes room for what the caller answers, and returns where.
#[unsafe(no_mangle)]
pub extern "C" fn reply(length: usize) -> *mut u8 {
    room(&REPLY, length)
}

/// Returns where an output of the last call is: 0 is JSON, 1 are bytes.
#[unsafe(no_mangle)]
pub extern "C" fn output(which: usize) -> *const u8 {
    OUTPUTS.with_borrow(|outputs| {
        let bytes = outputs.get(which);
        bytes.map_or(std::ptr::null(), |bytes| bytes.as_ptr())
    })
}

/// Returns the length of an output of the last call.
#[unsafe(no_mangle)]
pub extern "C" fn output_length(which: usize) -> usize {
    OUTPUTS.with_borrow(|outputs| outputs.get(which).map_or(0, Vec::len))
}

/// Carries out the call of the input.
#[unsafe(no_mangle)]
pub extern "C" fn call() {
    let input = INPUT.with_borrow_mut(std::mem::take);
    let outputs = calls::call(&input);
    OUTPUTS.with_borrow_mut(|all| *all = outputs);
    // The room of a chunk is used again.
    INPUT.with_borrow_mut(|known| *known = input);
}
