//! The types of the sources: structs, enums and aliases, also those inside of functions.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Fields, GenericArgument, Item, Lit, Meta, PathArguments, Type};

/// A field as JSON has it.
#[derive(Clone)]
pub struct Field {
    /// Its name in JSON.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Its doc comment, in one line.
    pub doc: String,
    /// What serde does with it.
    pub serde: SerdeWords,
}

/// What a type is.
#[derive(Clone)]
pub enum Shape {
    /// An object.
    Fields(Vec<Field>),
    /// An array with so many places.
    Tuple(Vec<Type>),
    /// Another type, under this name.
    Alias(Box<Type>),
    /// One of these texts.
    Words(Vec<String>),
    /// One of these types; untagged.
    OneOf(Vec<Vec<Type>>),
    /// An object with one of these fields.
    OneField(Vec<(String, Vec<Type>)>),
}

/// A type of the sources.
#[derive(Clone)]
pub struct Definition {
    /// Its file, under the folder of sources.
    pub file: String,
    /// Its doc comment, in one line.
    pub doc: String,
    /// What it is.
    pub shape: Shape,
    /// Whether it is read from requests, rather than written into answers.
    pub is_read: bool,
    /// What serde does with it.
    pub serde: SerdeWords,
}

/// The words of `#[serde(…)]`, with their values.
pub type SerdeWords = BTreeMap<String, String>;

/// All types, by their names, and all tables of words.
#[derive(Default)]
pub struct Types {
    types: BTreeMap<String, Vec<Definition>>,
    words: BTreeMap<String, Vec<String>>,
}

impl Types {
    /// Reads all files below a folder.
    ///
    /// # Errors
    /// Where a file cannot be read, or is not Rust.
    pub fn read(&mut self, root: &Path, folder: &Path) -> io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::path);
        for entry in entries {
            let path = entry.path();
            if path.is_dir() {
                self.read(root, &path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(root)
                    .unwrap_or(&path)
                    .display()
                    .to_string();
                let text = fs::read_to_string(&path)?;
                let parsed = syn::parse_file(&text)
                    .map_err(|error| io::Error::other(format!("{name}: {error}")))?;
                let mut found = InFile {
                    file: &name,
                    types: self,
                };
                found.visit_file(&parsed);
            }
        }
        Ok(())
    }

    /// The words of a table, a constant of the type `Words`.
    ///
    /// # Errors
    /// Where there is no such table.
    pub fn words(&self, table: &str) -> Result<&[String], String> {
        let found = self.words.get(table).map(Vec::as_slice);
        found.ok_or_else(|| format!("there is no table of words {table}"))
    }

    /// Whether a file has a type of this name.
    pub fn is_of(&self, name: &str, file: &str) -> bool {
        self.types
            .get(name)
            .is_some_and(|all| all.iter().any(|one| one.file == file))
    }

    /// Finds a type by its name: of several, that of the file.
    ///
    /// # Errors
    /// Where several files have one, and this is none of them.
    pub fn find(&self, name: &str, file: &str) -> Result<Option<&Definition>, String> {
        let all = self.types.get(name).map_or(&[][..], Vec::as_slice);
        let of_file: Vec<_> = all.iter().filter(|one| one.file == file).collect();
        match (&of_file[..], all) {
            ([one], _) => Ok(Some(*one)),
            ([], [one]) => Ok(Some(one)),
            ([], []) => Ok(None),
            _ => {
                let files: Vec<_> = all.iter().map(|one| one.file.as_str()).collect();
                Err(format!(
                    "{name} of {file} is one of several types: {files:?}; give it a name of its own"
                ))
            }
        }
    }
}

struct InFile<'a> {
    file: &'a str,
    types: &'a mut Types,
}

impl InFile<'_> {
    fn add(&mut self, name: String, attributes: &[Attribute], shape: Shape) {
        let derives = words_of(attributes, "derive");
        let is_alias = matches!(shape, Shape::Alias(_));
        let is_read = derives.contains_key("Deserialize") && !derives.contains_key("Serialize");
        if !is_alias && !is_read && !derives.contains_key("Serialize") {
            return;
        }
        self.types.types.entry(name).or_default().push(Definition {
            file: self.file.to_owned(),
            doc: doc_of(attributes),
            shape,
            is_read,
            serde: words_of(attributes, "serde"),
        });
    }
}

impl<'ast> Visit<'ast> for InFile<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Struct(item) => {
                let shape = match &item.fields {
                    Fields::Unnamed(fields) => {
                        let types: Vec<_> = fields
                            .unnamed
                            .iter()
                            .map(|field| field.ty.clone())
                            .collect();
                        match &types[..] {
                            [one] => Shape::Alias(Box::new(one.clone())),
                            _ => Shape::Tuple(types),
                        }
                    }
                    fields => Shape::Fields(fields_of(fields)),
                };
                self.add(item.ident.to_string(), &item.attrs, shape);
            }
            Item::Enum(item) => {
                let is_words = item
                    .variants
                    .iter()
                    .all(|variant| variant.fields.is_empty());
                let rule = words_of(&item.attrs, "serde").remove("rename_all");
                let word = |variant: &syn::Variant| {
                    let own = words_of(&variant.attrs, "serde").remove("rename");
                    own.unwrap_or_else(|| renamed(&variant.ident.to_string(), rule.as_deref()))
                };
                let types = |variant: &syn::Variant| -> Vec<Type> {
                    variant
                        .fields
                        .iter()
                        .map(|field| field.ty.clone())
                        .collect()
                };
                let variants = item.variants.iter();
                let shape = if is_words {
                    Shape::Words(variants.map(word).collect())
                } else if words_of(&item.attrs, "serde").contains_key("untagged") {
                    Shape::OneOf(variants.map(types).collect())
                } else {
                    Shape::OneField(variants.map(|one| (word(one), types(one))).collect())
                };
                self.add(item.ident.to_string(), &item.attrs, shape);
            }
            Item::Type(item) => {
                self.add(
                    item.ident.to_string(),
                    &item.attrs,
                    Shape::Alias(item.ty.clone()),
                );
            }
            Item::Const(item) if named(&item.ty).is_some_and(|(name, _)| name == "Words") => {
                let words = first_texts(&item.expr);
                self.types.words.insert(item.ident.to_string(), words);
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

/// The first text of each tuple of a list.
fn first_texts(list: &Expr) -> Vec<String> {
    let list = match list {
        Expr::Reference(list) => &*list.expr,
        list => list,
    };
    let Expr::Array(rows) = list else {
        return Vec::new();
    };
    let text = |row: &Expr| match row {
        Expr::Tuple(row) => match row.elems.first() {
            Some(Expr::Lit(literal)) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    rows.elems.iter().filter_map(text).collect()
}

fn fields_of(fields: &Fields) -> Vec<Field> {
    let field = |field: &syn::Field| {
        let serde = words_of(&field.attrs, "serde");
        let own = field
            .ident
            .as_ref()
            .map(|ident| ident.to_string().trim_start_matches("r#").to_owned());
        Field {
            name: serde.get("rename").cloned().or(own).unwrap_or_default(),
            ty: field.ty.clone(),
            doc: doc_of(&field.attrs),
            serde,
        }
    };
    fields.iter().map(field).collect()
}

/// A variant's word.
fn renamed(name: &str, rule: Option<&str>) -> String {
    let parts = |between: char| {
        let mut text = String::new();
        for character in name.chars() {
            if character.is_uppercase() && !text.is_empty() {
                text.push(between);
            }
            text.extend(character.to_lowercase());
        }
        text
    };
    match rule {
        Some("lowercase") => name.to_lowercase(),
        Some("snake_case") => parts('_'),
        Some("kebab-case") => parts('-'),
        _ => name.to_owned(),
    }
}

/// The words of attributes with this name: `skip` and `rename = "x"` of `#[serde(skip, rename = "x")]`; also those
/// behind a `cfg_attr`.
fn words_of(attributes: &[Attribute], name: &str) -> SerdeWords {
    let mut words = SerdeWords::new();
    for attribute in attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident(name))
    {
        // What cannot be read is no word that this tool knows.
        let _ = attribute.parse_nested_meta(|meta| {
            let word = meta
                .path
                .segments
                .last()
                .map(|segment| segment.ident.to_string())
                .unwrap_or_default();
            let value = match meta.value().and_then(|value| value.parse::<Lit>()) {
                Ok(Lit::Str(text)) => text.value(),
                _ => String::new(),
            };
            words.insert(word, value);
            Ok(())
        });
    }
    words
}

/// A doc comment in one line.
fn doc_of(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    let lines: Vec<String> = attributes
        .iter()
        .filter_map(line)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(" ")
}

/// The last name of a type's path, and its arguments; `None` for what is no path.
pub fn named(ty: &Type) -> Option<(String, Vec<&Type>)> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let arguments = match &last.arguments {
        PathArguments::AngleBracketed(all) => all
            .args
            .iter()
            .filter_map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    Some((last.ident.to_string(), arguments))
}
