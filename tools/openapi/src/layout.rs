//! JSON for people: what fits a line stands on one.

use serde_json::Value;

const COLUMNS_MAX: usize = 120;

/// The text of a document.
pub fn text_of(document: &Value) -> String {
    let mut text = String::new();
    write(document, 0, 0, &mut text);
    text.push('\n');
    text
}

/// One line, however long.
fn line_of(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let field =
                |(name, value): (&String, &Value)| format!("{}: {}", quoted(name), line_of(value));
            format!(
                "{{{}}}",
                fields.iter().map(field).collect::<Vec<_>>().join(", ")
            )
        }
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(line_of).collect::<Vec<_>>().join(", ")
        ),
        _ => value.to_string(),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Writes a value; `before`: how many columns of its line are taken.
fn write(value: &Value, depth: usize, before: usize, text: &mut String) {
    let line = line_of(value);
    // The comma after it.
    let fits = before + line.chars().count() < COLUMNS_MAX;
    let indent = "  ".repeat(depth + 1);
    match value {
        Value::Object(fields) if !fits && !fields.is_empty() => {
            text.push_str("{\n");
            for (index, (name, value)) in fields.iter().enumerate() {
                let start = format!("{indent}{}: ", quoted(name));
                text.push_str(&start);
                write(value, depth + 1, start.chars().count(), text);
                text.push_str(if index + 1 < fields.len() {
                    ",\n"
                } else {
                    "\n"
                });
            }
            text.push_str(&"  ".repeat(depth));
            text.push('}');
        }
        Value::Array(items) if !fits && !items.is_empty() => {
            text.push_str("[\n");
            for (index, item) in items.iter().enumerate() {
                text.push_str(&indent);
                write(item, depth + 1, indent.len(), text);
                text.push_str(if index + 1 < items.len() { ",\n" } else { "\n" });
            }
            text.push_str(&"  ".repeat(depth));
            text.push(']');
        }
        _ => text.push_str(&line),
    }
}
