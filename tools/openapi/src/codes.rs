//! The codes of refusals: the table of `problem.rs`, and what an answer with some of them looks like.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use serde_json::{Map, Value, json};
use syn::parse::{ParseStream, Parser};
use syn::visit::{self, Visit};
use syn::{Ident, LitInt, LitStr, Macro, Token};

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Code {
    /// Its name in Rust, which is that of its response.
    pub variant: String,
    /// As clients see it.
    pub text: String,
    /// The HTTP status.
    pub status: String,
    /// What has happened.
    pub title: String,
}

/// All codes.
pub struct Codes(Vec<Code>);

impl Codes {
    /// Reads the table of `problem.rs`.
    ///
    /// # Errors
    /// Where there is no table of this form.
    pub fn read(path: &Path) -> io::Result<Self> {
        struct Found(Option<syn::Result<Vec<Code>>>);
        impl<'ast> Visit<'ast> for Found {
            fn visit_macro(&mut self, found: &'ast Macro) {
                if found.path.is_ident("codes") {
                    self.0 = Some(rows.parse2(found.tokens.clone()));
                }
                visit::visit_macro(self, found);
            }
        }
        let file = syn::parse_file(&fs::read_to_string(path)?).map_err(io::Error::other)?;
        let mut found = Found(None);
        found.visit_file(&file);
        match found.0 {
            Some(rows) => Ok(Self(rows.map_err(io::Error::other)?)),
            None => Err(io::Error::other("problem.rs has no table of codes")),
        }
    }

    fn named(&self, text: &str) -> Option<&Code> {
        self.0.iter().find(|code| code.text == text)
    }

    /// All of them, as clients see them.
    pub fn texts(&self) -> Vec<&str> {
        self.0.iter().map(|code| code.text.as_str()).collect()
    }

    /// The codes of a list of codes and names of groups, by status; each code once.
    ///
    /// # Errors
    /// Where a word is neither.
    pub fn by_status(
        &self,
        words: &Value,
        groups: &Map<String, Value>,
    ) -> Result<BTreeMap<String, Vec<&Code>>, String> {
        let mut wanted = Vec::new();
        for word in words
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            match groups.get(word).and_then(Value::as_array) {
                Some(group) => wanted.extend(group.iter().filter_map(Value::as_str)),
                None => wanted.push(word),
            }
        }
        let unknown = wanted.iter().find(|word| self.named(word).is_none());
        if let Some(unknown) = unknown {
            return Err(format!(
                "{unknown} is neither a code of problem.rs nor a group of x-codes"
            ));
        }
        let mut by_status: BTreeMap<String, Vec<&Code>> = BTreeMap::new();
        for code in self
            .0
            .iter()
            .filter(|code| wanted.contains(&code.text.as_str()))
        {
            by_status.entry(code.status.clone()).or_default().push(code);
        }
        Ok(by_status)
    }
}

fn rows(input: ParseStream<'_>) -> syn::Result<Vec<Code>> {
    let mut rows = Vec::new();
    while !input.is_empty() {
        let variant = input.parse::<Ident>()?.to_string();
        let text = input.parse::<LitStr>()?.value();
        let status = input.parse::<LitInt>()?.base10_digits().to_owned();
        let title = input.parse::<LitStr>()?.value();
        input.parse::<LitStr>()?;
        input.parse::<Token![;]>()?;
        rows.push(Code {
            variant,
            text,
            status,
            title,
        });
    }
    Ok(rows)
}

/// What a refusal is.
pub enum Refusal<'a> {
    /// A problem: this component, with one of the codes.
    Problem(&'a str),
    /// An answer that has no code.
    Content(&'a Value),
}

/// The response of a status with these codes.
pub fn response(codes: &[&Code], refusal: &Refusal<'_>) -> Value {
    let texts: Vec<&str> = codes.iter().map(|code| code.text.as_str()).collect();
    let sentence = |code: &&Code| format!("`{}`: {}.", code.text, code.title);
    let sentences: Vec<String> = codes.iter().map(sentence).collect();
    let content = match refusal {
        Refusal::Content(content) => (*content).clone(),
        Refusal::Problem(problem) => {
            // Not `const` for one: generators of clients narrow an enum, and nothing else.
            let of_code = json!({"enum": texts});
            let schema = json!({"allOf": [
                {"$ref": format!("#/components/schemas/{problem}")},
                {"type": "object", "properties": {"code": of_code}},
            ]});
            json!({"application/problem+json": {"schema": schema}})
        }
    };
    let of_status = |statuses: &[&str]| codes.iter().any(|code| statuses.contains(&&*code.status));
    let mut headers = Vec::new();
    if of_status(&["429"]) {
        headers.extend(["RateLimit-Policy", "RateLimit"]);
    }
    // What no retry can solve has none.
    let can_retry = texts.iter().any(|text| *text != "not-configured");
    if can_retry && of_status(&["429", "503", "504"]) {
        headers.push("Retry-After");
    }
    let mut response = json!({"description": sentences.join(" ")});
    for header in headers {
        add_header(&mut response, header);
    }
    add_header(&mut response, "Request-Id");
    response["content"] = content;
    response
}

/// Adds a header to a response: the component of its name.
pub fn add_header(response: &mut Value, name: &str) {
    let component = name.replace('-', "");
    response["headers"][name] = json!({"$ref": format!("#/components/headers/{component}")});
}
