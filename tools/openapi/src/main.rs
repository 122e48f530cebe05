//! Puts the description of the API together: calls from the source, which people write, schemas from the Rust types,
//! and codes from the table of refusals.
//!
//! `tally-openapi` writes the document; with `--check` it only says whether the document is as it would be written, and
//! with `--tidy` it writes the source anew, with what fits a line on one.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use serde_json::Value;

mod codes;
mod document;
mod layout;
mod schemas;
mod types;

use codes::Codes;
use types::Types;

const CRATES: &str = "crates";
const SOURCE: &str = "crates/tally-api/src/openapi.json";
const DOCUMENT: &str = "crates/tally-api/openapi.json";
const PROBLEMS: &str = "crates/tally-wire/src/problem.rs";
/// The crates whose types go into answers.
const OF_TYPES: [&str; 5] = [
    "tally-api",
    "tally-wire",
    "tally-edge",
    "tally-core",
    "tally-limit",
];

fn main() -> ExitCode {
    let option = env::args().nth(1);
    match run(option.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("openapi: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(option: Option<&str>) -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source: Value = serde_json::from_str(&fs::read_to_string(root.join(SOURCE))?)?;
    if option == Some("--tidy") {
        return fs::write(root.join(SOURCE), layout::text_of(&source));
    }
    let mut types = Types::default();
    let folder = root.join(CRATES);
    for name in OF_TYPES {
        types.read(&folder, &folder.join(name).join("src"))?;
    }
    let codes = Codes::read(&root.join(PROBLEMS))?;
    let document = document::document(source, &types, &codes).map_err(io::Error::other)?;
    let text = layout::text_of(&document);
    if option != Some("--check") {
        return fs::write(root.join(DOCUMENT), text);
    }
    match fs::read_to_string(root.join(DOCUMENT)) {
        Ok(written) if written == text => Ok(()),
        _ => Err(io::Error::other(format!(
            "{DOCUMENT} is not what {SOURCE} and the types say: run make openapi"
        ))),
    }
}
