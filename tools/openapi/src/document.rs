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
//! | `x-retry` | a call that changes something | what a repeat does: `same` or `again`. Of a call that takes an `Idempotency-Key` it is `once`, which the source leaves out. The document has it too, and a sentence that says it |
//! | `x-verdict` | a call about limits | `shown`: its answer has the headers of a limit; `judged`: its 429 too, which is then a verdict |
//! | `x-json` | a body, an answer | the schema of its JSON: a component's name, or a schema; its examples stand beside it |
//! | `x-example` | a component | the example of each body and answer that is this component and has none |
//! | a text as an `enum` | a schema | the table of words whose words it has, all or ` - ` one; `null` too, where it is one of its types |
//! | a text among `parameters`, in `headers` | a path, a call, an answer | the component of this name |

use serde_json::{Map, Value, json};

use crate::codes::{Code, Codes, Refusal, add_header, response};
use crate::schemas::Schemas;
use crate::types::Types;

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

/// The document that the source stands for.
///
/// # Errors
/// What of the source is wrong.
pub fn document(mut source: Value, types: &Types, codes: &Codes) -> Result<Value, String> {
    write_words(&mut source, types)?;
    let known = taken(&mut source, "x-types");
    let groups = taken(&mut source, "x-code-groups");
    let mut components = source["components"]["schemas"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let examples = examples_of(&mut components);
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
        if let Some(parameters) = item.get_mut("parameters") {
            refer(parameters, "parameters");
        }
        for method in METHODS {
            let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) else {
                continue;
            };
            let retry = retry_of(operation, method == "get");
            retry.map_err(|error| format!("{method} {path}: {error}"))?;
            let written = write_out(operation, &schemas, &examples);
            written.map_err(|error| format!("{method} {path}: {error}"))?;
            let refusals = refusals(operation, (codes, &groups), &mut shared);
            refusals.map_err(|error| format!("{method} {path}: {error}"))?;
        }
    }
    if !shared.responses.is_empty() {
        source["components"]["responses"] = Value::Object(shared.responses);
    }
    Ok(source)
}

/// Writes the words of each table where the source names the table.
fn write_words(node: &mut Value, types: &Types) -> Result<(), String> {
    if let Some(Value::String(table)) = node.get("enum") {
        let (table, but) = table.split_once(" - ").unwrap_or((table, ""));
        let words = types.words(table)?.iter();
        let mut words = json!(words.filter(|word| *word != but).collect::<Vec<_>>());
        let is_null = |one: &Value| one == "null";
        let kinds = node.get("type").and_then(Value::as_array);
        if let Some(words) = words.as_array_mut()
            && kinds.is_some_and(|kinds| kinds.iter().any(is_null))
        {
            words.push(Value::Null);
        }
        node["enum"] = words;
    }
    let below: Vec<&mut Value> = match node {
        Value::Array(all) => all.iter_mut().collect(),
        Value::Object(all) => all.values_mut().collect(),
        _ => Vec::new(),
    };
    below
        .into_iter()
        .try_for_each(|one| write_words(one, types))
}

/// Takes the examples of the components out of them.
fn examples_of(components: &mut Map<String, Value>) -> Map<String, Value> {
    let mut examples = Map::new();
    for (name, schema) in components {
        let words = schema.as_object_mut();
        if let Some(example) = words.and_then(|words| words.shift_remove("x-example")) {
            examples.insert(name.clone(), example);
        }
    }
    examples
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

/// Makes references of names.
fn refer(names: &mut Value, kind: &str) {
    let all: Vec<&mut Value> = match names {
        Value::Array(all) => all.iter_mut().collect(),
        Value::Object(all) => all.values_mut().collect(),
        _ => Vec::new(),
    };
    for one in all {
        if let Some(name) = one.as_str() {
            *one = json!({"$ref": format!("#/components/{kind}/{name}")});
        }
    }
}

/// What a repeat of a call does, and the sentence that says it.
const RETRIES: [(&str, &str); 3] = [
    (
        "once",
        "Send an `Idempotency-Key`, and a repeat with it changes nothing more.",
    ),
    ("same", "A repeat changes nothing more."),
    ("again", "A repeat does it again."),
];

/// Adds what a repeat of a call does, where the call changes something.
fn retry_of(operation: &mut Map<String, Value>, is_read: bool) -> Result<(), String> {
    let parameters = operation.get("parameters").and_then(Value::as_array);
    let mut names = parameters.into_iter().flatten();
    let takes_key = names.any(|name| name == "IdempotencyKey");
    let retry = match (operation.shift_remove("x-retry"), takes_key) {
        (None, true) => Value::from("once"),
        (Some(retry), false) => retry,
        (None, false) if is_read => return Ok(()),
        (None, false) => return Err("a write says by x-retry what a repeat does".to_owned()),
        (Some(_), true) => return Err("x-retry of a call that takes a key is known".to_owned()),
    };
    let known = RETRIES.iter().find(|(name, _)| retry == *name);
    let (_, sentence) = known.ok_or("x-retry is none of the known")?;
    let said = operation.get("description").and_then(Value::as_str);
    let description = match said {
        Some(said) => [said, " ", sentence].concat(),
        None => (*sentence).to_owned(),
    };
    operation.insert("description".to_owned(), description.into());
    operation.insert("x-retry".to_owned(), retry);
    Ok(())
}

/// Writes out what the source says of a call in short.
fn write_out(
    operation: &mut Map<String, Value>,
    schemas: &Schemas<'_>,
    examples: &Map<String, Value>,
) -> Result<(), String> {
    if let Some(parameters) = operation.get_mut("parameters") {
        refer(parameters, "parameters");
    }
    if let Some(body) = operation.get_mut("requestBody") {
        write_out_json(body, schemas, examples)?;
    }
    let known = headers_of(operation);
    let responses = operation
        .get_mut("responses")
        .and_then(Value::as_object_mut);
    for (status, response) in responses.into_iter().flatten() {
        if let Some(headers) = response.get_mut("headers") {
            refer(headers, "headers");
        }
        for header in &known {
            add_header(response, header);
        }
        // The handshake of a socket is the hub's, as it came.
        if status != "101" {
            add_header(response, "Request-Id");
        }
        write_out_json(response, schemas, examples)?;
    }
    Ok(())
}

/// The headers of a limit.
const OF_LIMITS: [&str; 3] = ["RateLimit-Policy", "RateLimit", "Tally-On-Error"];

/// The headers that each answer of a call has, by what the source says of the call.
fn headers_of(operation: &Map<String, Value>) -> Vec<&'static str> {
    let mut headers = Vec::new();
    if operation.contains_key("x-verdict") {
        headers.extend(OF_LIMITS);
    }
    // Redis's own form of an answer does not say that it is a repeat.
    let is_of_redis = operation.get("x-problem").is_some_and(Value::is_object);
    let is_once = operation
        .get("x-retry")
        .is_some_and(|retry| retry == "once");
    if is_once && !is_of_redis {
        headers.push("Idempotency-Replayed");
    }
    headers
}

/// Writes out the JSON of a body or an answer, before its other contents.
fn write_out_json(
    part: &mut Value,
    schemas: &Schemas<'_>,
    examples: &Map<String, Value>,
) -> Result<(), String> {
    let Some(words) = part.as_object_mut() else {
        return Ok(());
    };
    let Some(schema) = words.shift_remove("x-json") else {
        return Ok(());
    };
    let known = schema.as_str().and_then(|name| examples.get(name));
    if let Some(example) =
        known.filter(|_| !words.contains_key("example") && !words.contains_key("examples"))
    {
        words.insert("example".to_owned(), example.clone());
    }
    let schema = match schema.as_str() {
        Some(component) => json!({"$ref": format!("#/components/schemas/{component}")}),
        None => schemas.component("its JSON", &schema)?,
    };
    let mut json = json!({"schema": schema});
    for word in ["example", "examples"] {
        if let Some(value) = words.shift_remove(word) {
            json[word] = value;
        }
    }
    let mut content = json!({"application/json": json});
    let others = words.shift_remove("content");
    for (kind, other) in others
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        content[kind] = other.clone();
    }
    words.insert("content".to_owned(), content);
    Ok(())
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
    let is_judged = operation
        .shift_remove("x-verdict")
        .is_some_and(|verdict| verdict == "judged");
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
        if is_judged && status == "429" {
            let mut verdict = response(&codes, &Refusal::Problem("QuotaExceeded"));
            add_header(&mut verdict, "Tally-On-Error");
            responses.insert(status, verdict);
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
