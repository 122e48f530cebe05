//! JSON for people: what fits a line stands on one, and small things share a line.

use serde_json::Value;

const COLUMNS_MAX: usize = 120;

/// So deep each field has lines of its own: the document, its parts, paths, calls.
const LISTED_DEPTH_MAX: usize = 3;

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
                |(name, value): (&String, &Value)| format!("{}{}", start_of(name), line_of(value));
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

/// What stands before the value of a field.
fn start_of(name: &str) -> String {
    format!("{}: ", Value::from(name))
}

/// Writes a value; `before`: how many columns of its line are taken.
fn write(value: &Value, depth: usize, before: usize, text: &mut String) {
    let line = line_of(value);
    // The comma after it.
    let fits = before + line.chars().count() < COLUMNS_MAX;
    let is_listed = depth < LISTED_DEPTH_MAX && value.is_object() && !fits;
    match value {
        Value::Object(fields) if !fits && !fields.is_empty() => {
            let fields = fields.iter().map(|(name, value)| (start_of(name), value));
            write_all(('{', '}'), fields.collect(), (depth, is_listed), text);
        }
        Value::Array(items) if !fits && !items.is_empty() => {
            let items = items.iter().map(|value| (String::new(), value));
            write_all(('[', ']'), items.collect(), (depth, false), text);
        }
        _ => text.push_str(&line),
    }
}

/// Writes what an object or an array holds, with the brackets around it: as many on a line as fit, but where they are
/// listed.
fn write_all(
    (open, close): (char, char),
    all: Vec<(String, &Value)>,
    (depth, is_listed): (usize, bool),
    text: &mut String,
) {
    let indent = "  ".repeat(depth + 1);
    text.push(open);
    let mut columns = COLUMNS_MAX;
    let count = all.len();
    for (index, (start, value)) in all.into_iter().enumerate() {
        let line = format!("{start}{}", line_of(value));
        let width = line.chars().count();
        let comma = if index + 1 < count { "," } else { "" };
        // A space before it, and the comma after it.
        if !is_listed && columns + width + 2 <= COLUMNS_MAX {
            text.push_str(&format!(" {line}{comma}"));
            columns += width + 2;
            continue;
        }
        text.push_str(&format!("\n{indent}{start}"));
        let begun = indent.len() + start.chars().count();
        write(value, depth + 1, begun, text);
        text.push_str(comma);
        let is_one = begun + line_of(value).chars().count() < COLUMNS_MAX;
        columns = if is_one && !is_listed {
            indent.len() + width + 1
        } else {
            COLUMNS_MAX
        };
    }
    text.push_str(&format!("\n{}{close}", "  ".repeat(depth)));
}
