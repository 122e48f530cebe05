//! Schemas out of types.
//!
//! Invariant: what a type says is not written by hand. A schema of the source that names a type with `x-rust` has that
//! type's fields; its other words are added to them, and a property among those must be a field.

use serde_json::{Map, Value, json};
use syn::Type;

use crate::types::{Definition, Field, Shape, Types, named};

/// Makes schemas out of the types.
pub struct Schemas<'a> {
    types: &'a Types,
    /// Schemas of types by name, as the source has them: a component's name, or a schema.
    known: &'a Map<String, Value>,
    /// Components, as the source has them.
    components: &'a Map<String, Value>,
    /// Components by type: (file, type).
    bound: Vec<(String, String, String)>,
}

impl<'a> Schemas<'a> {
    /// Takes which component is made of which type from the source.
    ///
    /// # Errors
    /// Where a component names a type that is not there.
    pub fn new(
        types: &'a Types,
        known: &'a Map<String, Value>,
        components: &'a Map<String, Value>,
    ) -> Result<Self, String> {
        let mut bound = Vec::new();
        for (component, schema) in components {
            let Some(at) = schema["x-rust"].as_str() else {
                continue;
            };
            let (file, name) = place_of(at);
            let found = types.find(name, &file)?;
            let found = found.ok_or_else(|| format!("{component} is of {at}, which is no type"))?;
            bound.push((found.file.clone(), name.to_owned(), component.clone()));
        }
        Ok(Self {
            types,
            known,
            components,
            bound,
        })
    }

    /// The whole schema of a component of the source.
    ///
    /// # Errors
    /// Where a field's type is not known, or a property of the source is no field.
    pub fn component(&self, name: &str, source: &Value) -> Result<Value, String> {
        let source = &self.alike(name, source)?;
        let Some(at) = source["x-rust"].as_str() else {
            return Ok(source.clone());
        };
        let (file, type_name) = place_of(at);
        let definition = self
            .types
            .find(type_name, &file)?
            .ok_or_else(|| format!("{at} is no type"))?;
        let mut schema = self
            .of_definition(definition)
            .map_err(|error| format!("{name}: {error}"))?;
        let whole = schema["properties"].clone();
        if let Some(words) = source["x-with"].as_array() {
            narrow(&mut schema, words).map_err(|error| format!("{name}: {error}"))?;
        }
        for (word, value) in source.as_object().into_iter().flatten() {
            match (word.as_str(), value) {
                ("x-rust" | "x-with", _) => {}
                ("properties", Value::Object(more)) => {
                    for (property, words) in more {
                        let known = schema["properties"].get_mut(property);
                        let Some(known) = known else {
                            if whole.get(property).is_some() {
                                continue;
                            }
                            return Err(format!("{name}: {at} has no field {property}"));
                        };
                        merge(known, words);
                    }
                }
                _ => schema[word] = value.clone(),
            }
        }
        Ok(schema)
    }

    /// The words of a component, and those of the component that it is like, where it has none of its own.
    fn alike(&self, name: &str, source: &Value) -> Result<Value, String> {
        let Some(other) = source["x-like"].as_str() else {
            return Ok(source.clone());
        };
        let mut words = self.components[other].clone();
        let all = words
            .as_object_mut()
            .ok_or_else(|| format!("{name} is like {other}, which is none"))?;
        for (word, value) in source.as_object().into_iter().flatten() {
            if word != "x-like" {
                all.insert(word.clone(), value.clone());
            }
        }
        Ok(words)
    }

    fn of_definition(&self, definition: &Definition) -> Result<Value, String> {
        let file = &definition.file;
        let mut schema = match &definition.shape {
            Shape::Fields(fields) => self.object(definition, fields)?,
            Shape::Tuple(types) => self.tuple(types.iter(), file)?,
            Shape::Alias(ty) => self.of_type(ty, file)?,
            Shape::Words(words) => json!({"type": "string", "enum": words}),
            Shape::OneOf(all) => {
                let all = all.iter().map(|types| self.of_types(types, file));
                json!({"oneOf": all.collect::<Result<Vec<Value>, String>>()?})
            }
            Shape::OneField(all) => {
                let mut properties = Map::new();
                for (name, types) in all {
                    properties.insert(name.clone(), self.of_types(types, file)?);
                }
                let each = all.iter().map(|(name, _)| json!({"required": [name]}));
                let each = each.collect::<Vec<Value>>();
                json!({"type": "object", "properties": properties, "oneOf": each})
            }
        };
        if !definition.doc.is_empty() && schema.get("$ref").is_none() {
            schema["description"] = json!(definition.doc);
        }
        Ok(schema)
    }

    fn object(&self, definition: &Definition, fields: &[Field]) -> Result<Value, String> {
        let mut properties = Map::new();
        let mut required = Vec::new();
        self.add_fields(definition, fields, (&mut properties, &mut required), true)?;
        let mut schema = json!({"type": "object"});
        if definition.serde.contains_key("deny_unknown_fields") {
            schema["additionalProperties"] = json!(false);
        }
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema["properties"] = Value::Object(properties);
        Ok(schema)
    }

    fn add_fields(
        &self,
        definition: &Definition,
        fields: &[Field],
        (properties, required): (&mut Map<String, Value>, &mut Vec<String>),
        is_there: bool,
    ) -> Result<(), String> {
        for field in fields
            .iter()
            .filter(|field| !field.serde.contains_key("skip"))
        {
            let at = |error: String| format!("{}: {error}", field.name);
            let optional = optional_of(&field.ty);
            if field.serde.contains_key("flatten") {
                let (ty, is_there) = (
                    optional.unwrap_or(&field.ty),
                    is_there && optional.is_none(),
                );
                self.add_flattened(ty, definition, (properties, required), is_there)
                    .map_err(at)?;
                continue;
            }
            // Where an absent field is one thing and `null` another, or nothing.
            let is_skipped = field.serde.contains_key("skip_serializing_if");
            let has_default = field.serde.contains_key("default");
            let takes_null = definition.is_read && !field.serde.contains_key("deserialize_with");
            let is_optional =
                is_skipped || definition.is_read && (optional.is_some() || has_default);
            let ty = match optional {
                Some(inner) if is_skipped || definition.is_read && !takes_null => inner,
                _ => &field.ty,
            };
            let mut schema = self.of_type(ty, &definition.file).map_err(at)?;
            if !field.doc.is_empty() {
                schema["description"] = json!(field.doc);
            }
            if is_there && !is_optional {
                required.push(field.name.clone());
            }
            properties.insert(field.name.clone(), schema);
        }
        Ok(())
    }

    /// The schema of what a variant holds.
    fn of_types(&self, types: &[Type], file: &str) -> Result<Value, String> {
        match types {
            [ty] => self.of_type(ty, file),
            _ => self.tuple(types.iter(), file),
        }
    }

    /// Adds the fields of a type whose fields stand among those of another.
    fn add_flattened(
        &self,
        ty: &Type,
        definition: &Definition,
        (properties, required): (&mut Map<String, Value>, &mut Vec<String>),
        is_there: bool,
    ) -> Result<(), String> {
        let found = match named(ty) {
            Some((name, _)) => self.types.find(&name, &definition.file)?,
            None => None,
        };
        match found.map(|found| (found, &found.shape)) {
            Some((inner, Shape::Fields(fields))) => {
                self.add_fields(inner, fields, (properties, required), is_there)
            }
            Some((inner, Shape::OneField(all))) => {
                for (name, types) in all {
                    properties.insert(name.clone(), self.of_types(types, &inner.file)?);
                }
                Ok(())
            }
            _ => Err("is flattened, and has no fields".to_owned()),
        }
    }

    fn tuple<'t>(
        &self,
        types: impl Iterator<Item = &'t Type>,
        file: &str,
    ) -> Result<Value, String> {
        let items = types
            .map(|ty| self.of_type(ty, file))
            .collect::<Result<Vec<Value>, String>>()?;
        let count = items.len();
        Ok(json!({"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}))
    }

    /// The schema of a type in a file.
    fn of_type(&self, ty: &Type, file: &str) -> Result<Value, String> {
        match ty {
            Type::Reference(reference) => return self.of_type(&reference.elem, file),
            Type::Slice(slice) => return self.array(&slice.elem, file),
            Type::Array(array) => return self.array(&array.elem, file),
            Type::Tuple(tuple) => return self.tuple(tuple.elems.iter(), file),
            _ => {}
        }
        let (name, arguments) = named(ty).ok_or("a type that is no name")?;
        match (name.as_str(), &arguments[..]) {
            // A `Field` tells `null` from absence.
            ("Option" | "Field", [inner]) => return Ok(or_null(self.of_type(inner, file)?)),
            ("Vec", [inner]) => return self.array(inner, file),
            ("Box" | "Cow", [inner]) => return self.of_type(inner, file),
            ("BTreeMap" | "HashMap", [_, inner]) => {
                return Ok(
                    json!({"type": "object", "additionalProperties": self.of_type(inner, file)?}),
                );
            }
            _ => {}
        }
        if let Some(component) = self.component_of(&name, file) {
            return Ok(reference_to(component));
        }
        match self.known.get(&name) {
            Some(Value::String(component)) => return Ok(reference_to(component)),
            Some(schema) => return Ok(schema.clone()),
            None => {}
        }
        match self.types.find(&name, file)? {
            Some(found) => self.of_definition(found),
            None => primitive(&name).ok_or_else(|| format!("nothing is known of the type {name}")),
        }
    }

    /// The component of a type: that of the file's own type before that of another's.
    fn component_of(&self, name: &str, file: &str) -> Option<&str> {
        let all = || self.bound.iter().filter(|(_, ty, _)| ty == name);
        if self.types.is_of(name, file) {
            return all()
                .find(|(of, ..)| of == file)
                .map(|(_, _, component)| component.as_str());
        }
        let mut all = all();
        match (all.next(), all.next()) {
            (Some((_, _, component)), None) => Some(component),
            _ => None,
        }
    }

    fn array(&self, inner: &Type, file: &str) -> Result<Value, String> {
        Ok(json!({"type": "array", "items": self.of_type(inner, file)?}))
    }
}

/// The schema of a type of the language.
fn primitive(name: &str) -> Option<Value> {
    Some(match name {
        "bool" => json!({"type": "boolean"}),
        "f64" => json!({"type": "number"}),
        "i32" | "i64" => json!({"type": "integer"}),
        "u8" | "u16" | "u32" | "u64" | "usize" => json!({"type": "integer", "minimum": 0}),
        "String" | "str" => json!({"type": "string"}),
        // JSON as it was sent.
        "RawValue" => json!({}),
        _ => return None,
    })
}

/// The file and the name of a type: `Type`; or, with its file of the API's crate, `share.rs#ShareView`; another
/// crate's file begins with the crate.
fn place_of(at: &str) -> (String, &str) {
    match at.split_once('#') {
        Some((file, name)) if file.starts_with("tally-") => (file.to_owned(), name),
        Some((file, name)) => (format!("tally-api/src/{file}"), name),
        None => (String::new(), at),
    }
}

fn reference_to(component: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{component}")})
}

/// Leaves those fields alone that are always there, and these of the others: one that ends in `?` may be left out.
fn narrow(schema: &mut Value, words: &[Value]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let always = schema["required"].as_array().cloned().unwrap_or_default();
    let Some(properties) = schema["properties"].as_object_mut() else {
        return Err("has no fields".to_owned());
    };
    let is_optional = |name: &str| !always.contains(&json!(name));
    for word in &words {
        let name = word.trim_end_matches('?');
        if !properties.contains_key(name) || !is_optional(name) {
            return Err(format!("{name} is no field that may be left out"));
        }
    }
    let mut required = Vec::new();
    properties.retain(|name, _| {
        let is_there = !is_optional(name) || words.contains(&name.as_str());
        if is_there {
            required.push(name.clone());
        }
        is_there
            || words
                .iter()
                .any(|word| word.strip_suffix('?') == Some(name))
    });
    match (required.is_empty(), schema.as_object_mut()) {
        (true, Some(words)) => drop(words.shift_remove("required")),
        _ => schema["required"] = json!(required),
    }
    Ok(())
}

/// The type in an `Option`.
fn optional_of(ty: &Type) -> Option<&Type> {
    match named(ty) {
        Some((name, arguments)) if name == "Option" => arguments.into_iter().next(),
        _ => None,
    }
}

/// The same schema, and `null`.
fn or_null(mut schema: Value) -> Value {
    let words = schema.get("enum").and_then(Value::as_array).cloned();
    match (schema["type"].clone(), words) {
        (Value::String(one), words) => {
            schema["type"] = json!([one, "null"]);
            if let Some(mut words) = words {
                words.push(Value::Null);
                schema["enum"] = Value::Array(words);
            }
            schema
        }
        (Value::Array(mut types), _) => {
            types.push(json!("null"));
            schema["type"] = Value::Array(types);
            schema
        }
        // Anything is also `null`.
        _ if schema == json!({}) => schema,
        _ => json!({"oneOf": [schema, {"type": "null"}]}),
    }
}

/// Adds words to a schema, those of nested properties and items too. A reference, a type, or a choice of them, replaces
/// all but the description; `null` takes a property away.
fn merge(schema: &mut Value, words: &Value) {
    let is_type = |words: &Value| {
        words.get("$ref").is_some() || words.get("type").is_some_and(|ty| !ty.is_object())
    };
    let choices = words.get("oneOf").and_then(Value::as_array);
    let replaces = is_type(words) || choices.is_some_and(|each| each.iter().any(is_type));
    if let (Some(known), true) = (schema.as_object_mut(), replaces) {
        known.retain(|word, _| word == "description");
    }
    match (schema, words) {
        (Value::Object(known), Value::Object(more)) => {
            for (word, value) in more {
                match known.get_mut(word) {
                    Some(_) if value.is_null() => {
                        known.shift_remove(word);
                    }
                    Some(inner) if inner.is_object() => merge(inner, value),
                    _ => {
                        known.insert(word.clone(), value.clone());
                    }
                }
            }
        }
        (known, words) => *known = words.clone(),
    }
}
