//! Law: the published description of the API is whole: it has every call and no other, every
//! reference resolves, and it knows exactly the codes that a refusal can carry.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tally_api::routes::{ROUTES, RouteName, UnknownQuery, resolve};
use tally_wire::problem::Code;
use tally_wire::rights::Scope;

const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// Pages are no calls.
const PAGES: [&str; 2] = ["/", "/dashboard{/file}"];

fn document() -> Value {
    serde_json::from_str(include_str!("../../crates/tally-api/openapi.json")).expect("valid JSON")
}

/// Calls `see` with every value of the document and its JSON pointer.
fn walk<'a>(value: &'a Value, at: &str, see: &mut impl FnMut(&str, &'a Value)) {
    see(at, value);
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                walk(field, &format!("{at}/{name}"), see);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{at}/{index}"), see);
            }
        }
        _ => {}
    }
}

/// The document's calls: "method path" to the operation and the parameters of its path.
fn operations(document: &Value) -> BTreeMap<String, (&Value, Option<&Value>)> {
    let paths = document["paths"].as_object().expect("paths");
    let mut operations = BTreeMap::new();
    for (path, item) in paths {
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                let call = format!("{} {path}", method.to_uppercase());
                operations.insert(call, (operation, item.get("parameters")));
            }
        }
    }
    operations
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"]
        .as_str()
        .and_then(|reference| reference.strip_prefix('#'))
    {
        Some(pointer) => document
            .pointer(pointer)
            .expect("a reference that resolves"),
        None => value,
    }
}

/// The fields that a schema of objects knows, and those of them that it requires; of an `allOf`
/// those of all its parts.
fn fields_of<'a>(document: &'a Value, schema: &'a Value) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let schema = resolved(document, schema);
    let properties = schema["properties"].as_object().into_iter().flatten();
    let mut known: BTreeSet<&str> = properties.map(|(name, _)| name.as_str()).collect();
    let mut required = text_set(&schema["required"]);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        let (more, more_required) = fields_of(document, part);
        known.extend(more);
        required.extend(more_required);
    }
    (known, required)
}

fn text_set(value: &Value) -> BTreeSet<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn it_is_openapi_3_1_and_has_every_call() {
    let document = document();
    let version = document["openapi"].as_str().expect("a version");
    assert!(version.starts_with("3.1."), "{version}");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let expected: BTreeSet<String> = ROUTES
        .iter()
        .filter(|row| !PAGES.contains(&row.template))
        .map(|row| format!("{} {}", row.method, row.template))
        .collect();
    let calls: BTreeSet<String> = operations(&document).into_keys().collect();
    assert_eq!(calls, expected);
}

#[test]
fn every_call_asks_for_the_scope_that_is_described() {
    let document = document();
    for (call, (operation, _)) in operations(&document) {
        let (method, path) = call.split_once(' ').expect("a method");
        let names = [
            "{prefix}",
            "{policies}",
            "{policy}",
            "{alert}",
            "{key}",
            "{board}",
            "{member}",
            "{rank}",
        ];
        let path = path.replace("{hold}", "0f5c1f2f6dd54ec2a5a3c8d6b1d1a7c4");
        // An id of a share is also one of a counter.
        let path = names
            .iter()
            .fold(path.replace("{id}", "6d1f0c9f0b7a4c21"), |path, name| {
                path.replace(name, "x")
            });
        let route = resolve(method, &path).expect("a call");
        let scope = route.right().scope().map(Scope::as_str);
        assert_eq!(
            operation["security"][0]["bearer"][0].as_str(),
            scope,
            "{call}"
        );
    }
}

#[test]
fn every_reference_resolves_and_every_component_is_used() {
    let document = document();
    let mut referenced = BTreeSet::new();
    walk(&document, "", &mut |at, value| {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let pointer = reference
                .strip_prefix('#')
                .expect("a reference into this document");
            assert!(
                document.pointer(pointer).is_some(),
                "{at} refers to {reference}"
            );
            referenced.insert(pointer.to_owned());
        }
    });
    assert!(!referenced.is_empty());
    for kind in ["schemas", "parameters", "headers"] {
        for name in document["components"][kind]
            .as_object()
            .expect("components")
            .keys()
        {
            let pointer = format!("/components/{kind}/{name}");
            assert!(referenced.contains(&pointer), "{pointer} is never used");
        }
    }
}

#[test]
fn every_operation_says_what_it_is_and_what_it_answers() {
    let document = document();
    let tags: BTreeSet<&str> = document["tags"]
        .as_array()
        .expect("tags")
        .iter()
        .filter_map(|tag| tag["name"].as_str())
        .collect();
    let mut ids = BTreeSet::new();
    for (call, (operation, _)) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(
            !id.is_empty() && ids.insert(id.to_owned()),
            "{call}: operationId {id:?}"
        );
        assert!(
            operation["summary"]
                .as_str()
                .is_some_and(|summary| !summary.is_empty()),
            "{call}: summary"
        );
        assert!(
            text_set(&operation["tags"]).is_subset(&tags),
            "{call}: tags"
        );

        let responses = operation["responses"].as_object().expect("responses");
        let is_answered = ["200", "201", "202", "204"]
            .iter()
            .any(|status| responses.contains_key(*status));
        assert!(is_answered, "{call}: 200, 201, 202 or 204");
        for (status, response) in responses {
            let response = resolved(&document, response);
            assert!(
                response["description"].is_string(),
                "{call} {status}: description"
            );
            let has_content = response["content"].is_object();
            let may_have_content = !["204", "304"].contains(&status.as_str());
            assert_eq!(has_content, may_have_content, "{call} {status}: content");
        }
        let security = operation["security"].as_array().expect("security");
        assert_eq!(
            security.is_empty(),
            !responses.contains_key("401"),
            "{call}: refusals"
        );
        for scope in security.iter().flat_map(|one| text_set(&one["bearer"])) {
            assert!(
                Scope::ALL.iter().any(|known| known.as_str() == scope),
                "{call}: scope {scope}"
            );
        }
    }
}

#[test]
fn every_operation_says_what_it_takes() {
    let document = document();
    for (call, (operation, shared)) in operations(&document) {
        let path = call.split(' ').nth(1).unwrap_or_default();
        let in_path: BTreeSet<&str> = path
            .split('{')
            .skip(1)
            .filter_map(|rest| rest.split_once('}'))
            .map(|(name, _)| name)
            .collect();
        let lists = [operation.get("parameters"), shared];
        let parameters = lists
            .into_iter()
            .flatten()
            .filter_map(Value::as_array)
            .flatten();
        let declared: BTreeSet<&str> = parameters
            .map(|parameter| resolved(&document, parameter))
            .inspect(|parameter| {
                assert!(parameter["description"].is_string(), "{call}: {parameter}")
            })
            .filter(|parameter| parameter["in"] == "path" && parameter["required"] == true)
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        assert_eq!(declared, in_path, "{call}: path parameters");
    }
}

#[test]
fn it_knows_exactly_the_codes_of_refusals() {
    let document = document();
    let known: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let code = resolved(
        &document,
        &document["components"]["schemas"]["Problem"]["properties"]["code"],
    );
    assert_eq!(text_set(&code["enum"]), known);

    for (call, (operation, _)) in operations(&document) {
        for (status, response) in operation["responses"].as_object().expect("responses") {
            let status: u16 = status.parse().expect("a status, and no class of them");
            if status < 400 {
                continue;
            }
            let response = resolved(&document, response);
            let description = response["description"].as_str().unwrap_or_default();
            let named: Vec<&str> = description.split('`').skip(1).step_by(2).collect();
            assert!(!named.is_empty(), "{call} {status} names no code");
            for name in named {
                let code =
                    Code::named(name).unwrap_or_else(|| panic!("{call} {status} names {name:?}"));
                assert_eq!(code.status(), status, "{call} {status} names {name:?}");
            }
        }
    }
}

#[test]
fn examples_have_the_fields_of_their_schemas() {
    let document = document();
    let mut checked = 0;
    walk(&document["paths"], "", &mut |at, value| {
        let Some(schema) = value.get("schema") else {
            return;
        };
        let mut examples: Vec<&Value> = value.get("example").into_iter().collect();
        let several = value.get("examples").and_then(Value::as_object);
        examples.extend(
            several
                .into_iter()
                .flatten()
                .map(|(_, example)| &example["value"]),
        );
        let schema = resolved(&document, schema);
        for example in examples.into_iter().filter_map(Value::as_object) {
            let fields: BTreeSet<&str> = example.keys().map(String::as_str).collect();
            let has_fields = schema["properties"].is_object();
            let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
            let choices = choices.filter(|_| !has_fields);
            let schemas = choices.map_or(vec![schema], |all| all.iter().collect());
            let fits = schemas.iter().any(|schema| {
                let (known, required) = fields_of(&document, schema);
                fields.is_subset(&known) && required.is_subset(&fields)
            });
            assert!(fits, "{at}: {fields:?}");
            checked += 1;
        }
    });
    assert!(checked >= 12, "{checked} examples of objects");
}

#[test]
fn calls_that_ignore_unknown_parameters_say_so() {
    let document = document();
    let operations = operations(&document);
    let mut ignoring = 0;
    for name in RouteName::ALL {
        let Some((operation, _)) = operations.get(name.call()) else {
            continue;
        };
        let said = match name.unknown_query() {
            UnknownQuery::Refused => Value::Null,
            UnknownQuery::Ignored => Value::from("ignored"),
            UnknownQuery::IgnoredWhere(name, value) => {
                Value::from(format!("ignored where {name}={value}"))
            }
        };
        ignoring += usize::from(said != Value::Null);
        assert_eq!(operation["x-unknown-query"], said, "{}", name.call());
        let is_image = matches!(name, RouteName::Badge | RouteName::Pixel);
        let ignored = is_image.then_some("ignored");
        assert_eq!(
            operation["x-invalid-query"].as_str(),
            ignored,
            "{}",
            name.call()
        );
    }
    assert!(ignoring >= 8, "{ignoring} calls");
}

#[test]
fn a_choice_of_types_has_no_type_beside_it() {
    let mut choices = 0;
    walk(&document(), "", &mut |at, schema| {
        let is_type = |it: &Value| it.get("$ref").is_some() || it.get("type").is_some();
        let each = schema["oneOf"].as_array();
        if each.is_some_and(|each| each.iter().any(is_type)) {
            assert!(schema.get("type").is_none(), "{at}: {schema}");
            choices += 1;
        }
    });
    assert!(choices >= 20, "{choices} choices");
}

#[test]
fn a_write_names_its_precondition_or_refuses_one() {
    let document = document();
    for (call, (operation, _)) in operations(&document) {
        let mut names = RouteName::ALL.iter();
        let name = names.find(|name| name.call() == call).expect("a call");
        if !name.is_write() {
            continue;
        }
        let parameters = operation["parameters"].as_array();
        let mut parameters = parameters.into_iter().flatten();
        let has_header =
            parameters.any(|parameter| resolved(&document, parameter)["name"] == "If-Match");
        // Bodies of lines refuse it by themselves, and say why.
        let is_named = name.takes_precondition() && *name != RouteName::WriteMembers;
        assert_eq!(has_header, is_named, "{call}");
    }
}
