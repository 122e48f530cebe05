//! Writes values: numbers and texts by postcard, and structs with their length where they are counted.

use postcard::ser_flavors::Flavor;
use postcard::{Error, Serializer};
use serde::ser::{self, Serialize};

use super::counted::COUNTED;

/// The fields that a build writes. Tests write as the builds before and after this one.
pub trait Form {
    /// Whether the build knows this field of a struct.
    fn knows(&mut self, _of: &'static str, _field: &'static str) -> bool {
        true
    }

    /// The fields that the build has at the end of a counted struct, encoded.
    fn added(&mut self, _of: &'static str) -> &'static [u8] {
        &[]
    }
}

/// The form of this build.
pub struct ThisBuild;

impl Form for ThisBuild {}

/// Bytes, to which values are appended.
pub(super) struct ValueWriter<'f, F> {
    pub(super) bytes: Vec<u8>,
    pub(super) form: &'f mut F,
}

/// The bytes, as postcard appends to them.
struct Tail<'b>(&'b mut Vec<u8>);

impl Flavor for Tail<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// A serializer of postcard, which appends to bytes.
fn postcard(bytes: &mut Vec<u8>) -> Serializer<Tail<'_>> {
    Serializer {
        output: Tail(bytes),
    }
}

/// Appends a number of up to 64 bits: groups of 7 bits, the lowest first. Not generic, so that its code exists once.
fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        let [group, ..] = number.to_le_bytes();
        bytes.push(group | 0x80);
        number >>= 7;
    }
    let [group, ..] = number.to_le_bytes();
    bytes.push(group);
}

fn push_signed(bytes: &mut Vec<u8>, number: i64) {
    push(bytes, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

fn push_length(bytes: &mut Vec<u8>, length: usize) {
    push(bytes, u64::try_from(length).unwrap_or(u64::MAX));
}

/// Puts the length of the bytes from `start` on before them.
fn count(bytes: &mut Vec<u8>, start: usize) {
    let end = bytes.len();
    push_length(bytes, end - start);
    let digits = bytes.len() - end;
    bytes[start..].rotate_right(digits);
}

impl<F> ValueWriter<'_, F> {
    fn variant(&mut self, index: u32) -> &mut Self {
        push(&mut self.bytes, index.into());
        self
    }

    fn length(&mut self, length: Option<usize>) -> Result<&mut Self, Error> {
        push_length(
            &mut self.bytes,
            length.ok_or(Error::SerializeSeqLengthUnknown)?,
        );
        Ok(self)
    }
}

/// A struct that is being written.
pub(super) struct Fields<'w, 'f, F> {
    writer: &'w mut ValueWriter<'f, F>,
    name: &'static str,
    /// Where its bytes begin, if it is counted.
    counted_from: Option<usize>,
}

macro_rules! numbers {
    ($($name:ident: $value:ty, $push:ident;)*) => {
        $(fn $name(self, value: $value) -> Result<(), Error> {
            $push(&mut self.bytes, value.into());
            Ok(())
        })*
    };
}

macro_rules! by_postcard {
    ($($name:ident: $value:ty,)*) => {
        $(fn $name(self, value: $value) -> Result<(), Error> {
            postcard(&mut self.bytes).$name(value)
        })*
    };
}

impl<'w, 'f, F: Form> ser::Serializer for &'w mut ValueWriter<'f, F> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Fields<'w, 'f, F>;
    type SerializeStructVariant = Self;

    numbers! {
        serialize_bool: bool, push;
        serialize_u16: u16, push;
        serialize_u32: u32, push;
        serialize_u64: u64, push;
        serialize_i16: i16, push_signed;
        serialize_i32: i32, push_signed;
        serialize_i64: i64, push_signed;
    }

    by_postcard! {
        serialize_i8: i8,
        serialize_i128: i128,
        serialize_u128: u128,
        serialize_f32: f32,
        serialize_f64: f64,
        serialize_char: char,
        serialize_str: &str,
        serialize_bytes: &[u8],
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.bytes.push(value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_u8(0)
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<(), Error> {
        self.bytes.push(1);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
    ) -> Result<(), Error> {
        self.variant(index);
        Ok(())
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self.variant(index))
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self, Error> {
        self.length(length)?;
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Error> {
        self.variant(index);
        Ok(self)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self, Error> {
        self.length(length)?;
        Ok(self)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Fields<'w, 'f, F>, Error> {
        let counted_from = name.ends_with(COUNTED).then_some(self.bytes.len());
        Ok(Fields {
            writer: self,
            name,
            counted_from,
        })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Error> {
        self.variant(index);
        Ok(self)
    }
}

/// What writes the parts of a value one after another.
macro_rules! in_turn {
    ($($part:ident, $write:ident($($key:ty)?);)*) => {
        $(impl<F: Form> ser::$part for &mut ValueWriter<'_, F> {
            type Ok = ();
            type Error = Error;

            fn $write<T: ?Sized + Serialize>(&mut self, $(_: $key,)? value: &T) -> Result<(), Error> {
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        })*
    };
}

in_turn! {
    SerializeSeq, serialize_element();
    SerializeTuple, serialize_element();
    SerializeTupleStruct, serialize_field();
    SerializeTupleVariant, serialize_field();
    SerializeStructVariant, serialize_field(&'static str);
}

impl<F: Form> ser::SerializeMap for &mut ValueWriter<'_, F> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Error> {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

impl<F: Form> ser::SerializeStruct for Fields<'_, '_, F> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: ?Sized + Serialize>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        if self.writer.form.knows(self.name, name) {
            value.serialize(&mut *self.writer)?;
        }
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        let Some(start) = self.counted_from else {
            return Ok(());
        };
        let added = self.writer.form.added(self.name);
        self.writer.bytes.extend_from_slice(added);
        count(&mut self.writer.bytes, start);
        Ok(())
    }
}
