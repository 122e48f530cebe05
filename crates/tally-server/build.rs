//! Writes the table of the files that are served as they stand: the dashboard, the script for pages, and the API's
//! description. The chart library is one of npm's packages, so a build without `npm install` has a dashboard without
//! charts, and says so. The Worker serves the same bytes: `scripts/dashboard.mjs` puts them into it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Endings of the dashboard's own files that are served.
const SERVED: [&str; 4] = ["html", "css", "js", "svg"];

/// The chart library: the names under which it is served, and where it lies.
const CHARTS: [(&str, &str); 2] = [
    (
        "dashboard/uPlot.js",
        "node_modules/uplot/dist/uPlot.iife.min.js",
    ),
    (
        "dashboard/uPlot.css",
        "node_modules/uplot/dist/uPlot.min.css",
    ),
];

/// The licence that each copy of it wants to have.
const CHARTS_LICENCE: &str = "node_modules/uplot/LICENSE";

fn main() -> io::Result<()> {
    link_compactly();
    let root = root()?;
    let mut files = vec![
        (
            "openapi.json".to_owned(),
            root.join("crates/tally-api/openapi.json"),
        ),
        (
            "tally.js".to_owned(),
            root.join("crates/tally-edge/tally.js"),
        ),
    ];
    println!(
        "cargo::rerun-if-changed={}",
        root.join("dashboard").display()
    );
    for entry in fs::read_dir(root.join("dashboard"))? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && ending.is_some_and(|ending| SERVED.contains(&ending))
        {
            files.push((format!("dashboard/{name}"), path.clone()));
        }
    }
    files.sort();
    let mut table = "pub(super) const FILES: &[(&str, &str)] = &[\n".to_owned();
    for (name, path) in &files {
        add(
            &mut table,
            name,
            &format!("include_str!({:?})", path.display().to_string()),
        )?;
    }
    charts(&root, &mut table)?;
    table.push_str("];\n");
    let out = env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
    fs::write(out.join("files.rs"), table)
}

/// Addresses that the loader moves take a bit each instead of 24 bytes: 290 KB less. A loader that does not know this
/// form could not start the program.
fn link_compactly() {
    if loader_unpacks() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the loader knows packed addresses: that of glibc since 2.36, and the one that is linked in with musl.
fn loader_unpacks() -> bool {
    match env::var("CARGO_CFG_TARGET_ENV").as_deref() {
        Ok("musl") => true,
        Ok("gnu") if env::var_os("HOST") == env::var_os("TARGET") => {
            let asked = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
            let known = asked.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned());
            known.is_ok_and(|text| is_at_least_2_36(text.trim()))
        }
        _ => false,
    }
}

fn is_at_least_2_36(text: &str) -> bool {
    let minor = text.strip_prefix("glibc 2.");
    minor.is_some_and(|minor| minor.parse::<u32>().is_ok_and(|minor| minor >= 36))
}

fn root() -> io::Result<PathBuf> {
    let here = env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
    here.join("../..").canonicalize()
}

fn add(table: &mut String, name: &str, text: &str) -> io::Result<()> {
    writeln!(table, "    ({name:?}, {text}),").map_err(io::Error::other)
}

fn charts(root: &Path, table: &mut String) -> io::Result<()> {
    let licence = fs::read_to_string(root.join(CHARTS_LICENCE));
    for (name, place) in CHARTS {
        let path = root.join(place);
        println!("cargo::rerun-if-changed={}", path.display());
        match (&licence, fs::read_to_string(&path)) {
            (Ok(licence), Ok(text)) => {
                let text = format!("/*\n{}\n*/\n{text}", licence.trim());
                add(table, name, &format!("{text:?}"))?;
            }
            _ => println!(
                "cargo::warning=the dashboard is built without charts: {place} is missing, run npm install"
            ),
        }
    }
    Ok(())
}
