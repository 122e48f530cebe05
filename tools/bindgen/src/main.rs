//! `bindgen bind <module.wasm> <folder>`: writes `index.js` and `index_bg.wasm` into the folder, made from a module
//! that cargo compiled. `bindgen order <module.wasm> <module.wasm>`: writes a module as one that compresses better.
//!
//! To bind is what the command line of wasm-bindgen does for a Worker: a module whose instance can be replaced after a
//! trap (`src/recovery.js`), and nothing else, so that only one crate and what that needs is compiled.

mod order;

use std::error::Error;
use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (module, made) = match arguments[..] {
        ["bind", module, folder] => (module, bind(module, folder)),
        ["order", module, ordered] => (module, order(module, ordered)),
        _ => {
            eprintln!("bindgen: give a module and a folder, as in: bindgen bind tally.wasm build");
            return ExitCode::from(2);
        }
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bindgen: {module}: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn bind(module: &str, folder: &str) -> Result<(), Box<dyn Error>> {
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(module)
        .out_name("index")
        .typescript(false)
        .reset_state_function(true);
    bindgen
        .force_enable_abort_handler(true)
        .module(true)?
        .generate(folder)?;
    Ok(())
}

fn order(module: &str, ordered: &str) -> Result<(), Box<dyn Error>> {
    Ok(std::fs::write(
        ordered,
        order::ordered(&std::fs::read(module)?)?,
    )?)
}
