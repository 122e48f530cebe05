//! The document: the calls of the source, with their refusals, and the schemas.
//!
//! Words of the source that the document does not have:
//!
//! | word | in | says |
//! |---|---|---|
//! | `x-types` | the source | schemas of types that are no structs: a component's name, or a schema |
//! | `x-code-groups` | the source | names for codes that often come together |
//! | `x-codes` | a call | the codes with which the call is refused: their names, and those of groups |
//! | `x-problem` | a call | the component that a refusal is, `Problem` where it is left out; or its content, which has no code |
//! | `x-rust` | a schema | the type that it is made of: `Type`, or `problem.rs#Body`, with its file, where several have the name |
//! | `x-with` | a schema | the fields of the type that this answer has, of those that may be left out; with `?`, may have |
//! | `x-like` | a schema | the component whose words it has, but for its own |

use serde_json::{Map, Value, json};

use crate::codes::{Code, Codes, Refusal, response};
use crate::schemas::Schemas;
use crate::types::Types;

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

/// The document that the source stands for.
///
/// # Errors
/// What of the source is wrong.
pub fn document(mut source: Value, types: &Types, codes: &Codes) -> Result<Value, String> {
    let known = taken(&mut source, "x-types");
    let groups = taken(&mut source, "x-code-groups");
    let components = source["components"]["schemas"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let schemas = Schemas::new(types, &known, &components)?;
    let mut made = Map::new();
    for (name, schema) in &components {
        made.insert(name.clone(), schemas.component(name, schema)?);
    }
    if let Some(code) = made.get_mut("Code") {
        code["enum"] = json!(codes.texts());
    }
    source["components"]["schemas"] = Value::Object(made);

    let mut shared = Shared::default();
    let paths = source["paths"].as_object_mut().ok_or("no paths")?;
    for (path, item) in paths {
        for method in METHODS {
            let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) else {
                continue;
            };
            let refusals = refusals(operation, (codes, &groups), &mut shared);
            refusals.map_err(|error| format!("{method} {path}: {error}"))?;
        }
    }
    if !shared.responses.is_empty() {
        source["components"]["responses"] = Value::Object(shared.responses);
    }
    Ok(source)
}

fn taken(source: &mut Value, word: &str) -> Map<String, Value> {
    let taken = source
        .as_object_mut()
        .and_then(|source| source.shift_remove(word));
    match taken {
        Some(Value::Object(words)) => words,
        _ => Map::new(),
    }
}

/// Responses that many calls have: those of few codes.
#[derive(Default)]
struct Shared {
    responses: Map<String, Value>,
}

/// The most codes of a shared response, which is named after all of them.
const SHARED_CODES_MAX: usize = 3;

impl Shared {
    fn reference(&mut self, codes: &[&Code]) -> Value {
        let names: Vec<&str> = codes.iter().map(|code| code.variant.as_str()).collect();
        let name = names.join("Or");
        let reference = json!({"$ref": format!("#/components/responses/{name}")});
        let responses = self.responses.entry(name);
        responses.or_insert_with(|| response(codes, &Refusal::Problem("Problem")));
        reference
    }
}

/// Adds a response for each status of the codes of a call, where the source has none of its own.
fn refusals(
    operation: &mut Map<String, Value>,
    (codes, groups): (&Codes, &Map<String, Value>),
    shared: &mut Shared,
) -> Result<(), String> {
    let Some(words) = operation.shift_remove("x-codes") else {
        return Ok(());
    };
    let problem = operation.shift_remove("x-problem");
    let refusal = match &problem {
        None => Refusal::Problem("Problem"),
        Some(Value::String(component)) => Refusal::Problem(component),
        Some(content) => Refusal::Content(content),
    };
    let responses = operation
        .get_mut("responses")
        .and_then(Value::as_object_mut)
        .ok_or("no responses")?;
    for (status, codes) in codes.by_status(&words, groups)? {
        if responses.contains_key(&status) {
            continue;
        }
        let refused = match (&codes[..], &problem) {
            (few, None) if few.len() <= SHARED_CODES_MAX => shared.reference(few),
            _ => response(&codes, &refusal),
        };
        responses.insert(status, refused);
    }
    Ok(())
}
