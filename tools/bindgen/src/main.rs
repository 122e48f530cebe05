//! `bindgen <module.wasm> <folder>`: writes `index.js` and `index_bg.wasm` into the folder, made from a module that
//! cargo compiled.
//!
//! It does what the command line of wasm-bindgen does for a Worker: a module whose instance can be replaced after a
//! trap (`src/recovery.js`), and nothing else, so that only one crate and what that needs is compiled.

use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, folder] = arguments.as_slice() else {
        eprintln!("bindgen: give a module and a folder, as in: bindgen tally.wasm build");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    let made = bindgen
        .input_path(module)
        .out_name("index")
        .typescript(false)
        .reset_state_function(true)
        .force_enable_abort_handler(true)
        .module(true)
        .and_then(|bindgen| bindgen.generate(folder));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bindgen: {module}: {error:?}");
            ExitCode::FAILURE
        }
    }
}
