//! Sorts the functions of a module so that it compresses well, and keeps one of functions that are equal.
//!
//! Invariant: a module does what it did. Each export and each slot of a table has its function, or one that is equal to
//! it in type and in code. Slots stay apart, so functions that are compared by their slots still differ.
//!
//! gzip finds what repeats within 32 KB. Copies of a generic function, and implementations of a method of a trait,
//! differ in a few bytes: next to each other they cost little. wasm-bindgen sorts functions by size, which puts them
//! megabytes apart. Tally's Wasm was 225 KB larger, gzipped, an eighth of it; the copies that are left out are 23 KB of
//! these.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;

use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{CodeSection, FunctionSection, Module, NameMap, NameSection};
use wasmparser::{
    BinaryReaderError, CodeSectionReader, CustomSectionReader, FunctionBody, FunctionSectionReader,
    KnownCustom, Name, Operator, Parser, Payload, TypeRef,
};

/// Returns a module with its functions sorted. Errors: where it is no module.
pub(crate) fn ordered(module: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let functions = Functions::read(module)?;
    let kept = functions.kept()?;
    let mut order: Vec<u32> = functions
        .own()
        .filter(|&index| kept[at(index)] == index)
        .collect();
    order.sort_by_cached_key(|&index| {
        (
            sort_name(functions.name(index)),
            functions.body(index).as_bytes(),
        )
    });
    let mut places: Vec<u32> = (0..functions.imported).collect();
    places.resize(kept.len(), 0);
    for (place, &index) in (functions.imported..).zip(&order) {
        places[at(index)] = place;
    }
    let indexes = kept.iter().map(|&index| places[at(index)]).collect();
    let mut written = Module::new();
    Sorted {
        functions,
        order,
        indexes,
    }
    .parse_core_module(&mut written, Parser::new(0), module)?;
    Ok(written.finish())
}

/// Returns what a function is sorted by. `<Type as Trait>::method` stands with the method's other implementations. A
/// name ends with a hash, which tells nothing.
fn sort_name(name: &str) -> (&str, &str) {
    let name = name.rsplit_once("::h").map_or(name, |(name, _)| name);
    let implemented = name
        .strip_prefix('<')
        .and_then(|rest| rest.rsplit_once(" as "));
    implemented.map_or((name, ""), |(type_name, method)| (method, type_name))
}

/// Returns the place of an index in a list of all functions.
fn at(index: u32) -> usize {
    index as usize
}

/// The functions of a module: first those that it imports, which have an index alone, then its own.
struct Functions<'a> {
    imported: u32,
    types: Vec<u32>,
    bodies: Vec<FunctionBody<'a>>,
    names: HashMap<u32, &'a str>,
}

impl<'a> Functions<'a> {
    fn read(module: &'a [u8]) -> Result<Self, BinaryReaderError> {
        let mut functions = Functions {
            imported: 0,
            types: Vec::new(),
            bodies: Vec::new(),
            names: HashMap::new(),
        };
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        functions.imported += u32::from(matches!(import?.ty, TypeRef::Func(_)));
                    }
                }
                Payload::FunctionSection(types) => {
                    functions.types = types.into_iter().collect::<Result<_, _>>()?
                }
                Payload::CodeSectionEntry(body) => functions.bodies.push(body),
                Payload::CustomSection(section) => functions.read_names(&section)?,
                _ => {}
            }
        }
        Ok(functions)
    }

    fn read_names(&mut self, section: &CustomSectionReader<'a>) -> Result<(), BinaryReaderError> {
        let KnownCustom::Name(maps) = section.as_known() else {
            return Ok(());
        };
        for map in maps {
            let Name::Function(map) = map? else { continue };
            for naming in map {
                let naming = naming?;
                self.names.insert(naming.index, naming.name);
            }
        }
        Ok(())
    }

    /// Returns the indexes of the functions that the module does not import.
    fn own(&self) -> impl Iterator<Item = u32> + use<> {
        (self.imported..).take(self.bodies.len())
    }

    fn name(&self, index: u32) -> &'a str {
        self.names.get(&index).copied().unwrap_or_default()
    }

    fn body(&self, index: u32) -> &FunctionBody<'a> {
        &self.bodies[at(index - self.imported)]
    }

    /// Returns, for each function, the first one that is equal to it. Functions that call equal functions can be equal
    /// too, so it looks again until it finds no more.
    fn kept(&self) -> Result<Vec<u32>, BinaryReaderError> {
        let codes = self
            .bodies
            .iter()
            .map(Code::read)
            .collect::<Result<Vec<_>, _>>()?;
        let mut kept: Vec<u32> = (0..self.imported).chain(self.own()).collect();
        loop {
            let mut first = HashMap::new();
            let mut next = kept.clone();
            for ((index, code), type_index) in self.own().zip(&codes).zip(&self.types) {
                let named: Vec<u32> = code.named.iter().map(|&named| kept[at(named)]).collect();
                next[at(index)] = *first
                    .entry((type_index, &code.rest, named))
                    .or_insert(index);
            }
            if next == kept {
                return Ok(kept);
            }
            kept = next;
        }
    }
}

/// The code of a function: the functions that it names, and the rest of it.
struct Code {
    named: Vec<u32>,
    rest: Vec<u8>,
}

impl Code {
    fn read(body: &FunctionBody<'_>) -> Result<Self, BinaryReaderError> {
        let mut operators = body.get_operators_reader()?;
        let (bytes, start) = (body.as_bytes(), body.range().start);
        let mut code = Code {
            named: Vec::new(),
            rest: bytes[..operators.original_position() - start].to_vec(),
        };
        while !operators.eof() {
            let from = operators.original_position() - start;
            match operators.read()? {
                Operator::Call { function_index }
                | Operator::ReturnCall { function_index }
                | Operator::RefFunc { function_index } => {
                    code.named.push(function_index);
                    code.rest.push(bytes[from]);
                }
                _ => code
                    .rest
                    .extend_from_slice(&bytes[from..operators.original_position() - start]),
            }
        }
        Ok(code)
    }
}

/// Writes a module: its own functions in an order, each function by its new index.
struct Sorted<'a> {
    functions: Functions<'a>,
    order: Vec<u32>,
    indexes: Vec<u32>,
}

type Written<T> = Result<T, reencode::Error<Infallible>>;

impl Reencode for Sorted<'_> {
    type Error = Infallible;

    fn function_index(&mut self, index: u32) -> Written<u32> {
        Ok(self.indexes[at(index)])
    }

    fn parse_function_section(
        &mut self,
        written: &mut FunctionSection,
        _: FunctionSectionReader<'_>,
    ) -> Written<()> {
        for &index in &self.order {
            written.function(self.functions.types[at(index - self.functions.imported)]);
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        written: &mut CodeSection,
        _: CodeSectionReader<'_>,
    ) -> Written<()> {
        for index in self.order.clone() {
            let body = self.functions.body(index).clone();
            self.parse_function_body(written, body)?;
        }
        Ok(())
    }

    fn parse_custom_name_subsection(
        &mut self,
        written: &mut NameSection,
        names: Name<'_>,
    ) -> Written<()> {
        let Name::Function(_) = names else {
            return Ok(());
        };
        let mut map = NameMap::new();
        for index in (0..self.functions.imported).chain(self.order.iter().copied()) {
            map.append(self.indexes[at(index)], self.functions.name(index));
        }
        written.functions(&map);
        Ok(())
    }
}
