//! Reads values: numbers and texts by postcard, and structs up to their end, or that of the bytes.

use postcard::{Deserializer, Error};
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

use super::counted::COUNTED;

/// Where the last group of a number of 64 bits belongs: one bit is left for it.
const SHIFT_MAX: u32 = 63;

/// Why bytes are not read as a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// A struct lacks a field, which has no default.
    #[error("{0} lacks the field `{1}`")]
    Lacks(&'static str, &'static str),
    /// A field of a struct is none.
    #[error("`{1}` of {0} is malformed")]
    Malformed(&'static str, &'static str),
    /// The value is none, and it is no struct.
    #[error("{0}")]
    Other(Error),
}

/// Bytes of which values are taken.
pub(super) struct ValueReader<'de> {
    /// The bytes that are left of the innermost counted struct, or of all.
    bytes: &'de [u8],
    /// The innermost field at which reading ended.
    stopped: Option<Undecodable>,
}

impl<'de> ValueReader<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Self {
        Self {
            bytes,
            stopped: None,
        }
    }

    /// Why a value was not read.
    pub(super) fn unread(&self, error: Error) -> Undecodable {
        self.stopped.clone().unwrap_or(Undecodable::Other(error))
    }

    /// Notes the field at which reading of a struct ended, unless one of an inner struct is noted.
    fn stop(&mut self, name: &'static str, field: &'static str, has_ended: bool) {
        let name = name.trim_end_matches(COUNTED);
        self.stopped.get_or_insert(match has_ended {
            true => Undecodable::Lacks(name, field),
            false => Undecodable::Malformed(name, field),
        });
    }

    fn byte(&mut self) -> Result<u8, Error> {
        let (byte, rest) = self
            .bytes
            .split_first()
            .ok_or(Error::DeserializeUnexpectedEnd)?;
        self.bytes = rest;
        Ok(*byte)
    }

    /// Takes a number of up to 64 bits: groups of 7 bits, the lowest first. Not generic, so that its code exists once.
    fn varint(&mut self) -> Result<u64, Error> {
        let mut number = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            match byte {
                2.. if shift == SHIFT_MAX => return Err(Error::DeserializeBadVarint),
                0x80.. => shift += 7,
                _ => return Ok(number),
            }
        }
    }

    /// Takes a length, the number of a variant, or a number of these bits.
    fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Error> {
        let number = self.varint()?;
        T::try_from(number).map_err(|_| Error::DeserializeBadVarint)
    }

    /// Takes a number that may be negative: 0, -1, 1, -2, 2.
    fn signed<T: TryFrom<i64>>(&mut self) -> Result<T, Error> {
        let number = self.varint()?;
        let half = (number >> 1).cast_signed();
        let number = half ^ -(number & 1).cast_signed();
        T::try_from(number).map_err(|_| Error::DeserializeBadVarint)
    }

    /// Takes a byte that says whether a value follows.
    fn flag(&mut self) -> Result<bool, Error> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::DeserializeBadOption),
        }
    }

    #[inline(never)]
    /// Leaves only the bytes of a counted struct, and returns those after it.
    fn enter(&mut self) -> Result<&'de [u8], Error> {
        let length = self.number()?;
        let split = self.bytes.split_at_checked(length);
        let (own, rest) = split.ok_or(Error::DeserializeUnexpectedEnd)?;
        self.bytes = own;
        Ok(rest)
    }

    fn parts(&mut self, count: usize) -> Parts<'_, 'de> {
        Parts {
            reader: self,
            next: 0,
            count,
            is_struct: false,
            has_ended: false,
        }
    }
}

/// The parts of a value, one after another.
struct Parts<'r, 'de> {
    reader: &'r mut ValueReader<'de>,
    next: usize,
    count: usize,
    /// Whether the parts are fields, of which the last may be missing.
    is_struct: bool,
    /// Whether the part that was last wanted is missing.
    has_ended: bool,
}

impl Parts<'_, '_> {
    /// Whether there is another part; it is the next then.
    #[inline(never)]
    fn advance(&mut self) -> bool {
        self.has_ended = self.is_struct && self.reader.bytes.is_empty();
        let has_next = self.next < self.count && !self.has_ended;
        self.next += 1;
        has_next
    }
}

impl<'de> de::SeqAccess<'de> for Parts<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        match self.advance() {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        // Each element has a byte at least, or takes no memory.
        Some(
            self.count
                .saturating_sub(self.next)
                .min(self.reader.bytes.len()),
        )
    }
}

impl<'de> de::MapAccess<'de> for Parts<'_, 'de> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        de::SeqAccess::size_hint(self)
    }
}

macro_rules! numbers {
    ($($name:ident, $visit:ident, $take:ident;)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.$take()?)
        })*
    };
}

macro_rules! by_postcard {
    ($($name:ident,)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let mut postcard = Deserializer::from_bytes(self.bytes);
            let value = postcard.$name(visitor)?;
            self.bytes = postcard.finalize()?;
            Ok(value)
        })*
    };
}

impl<'de> de::Deserializer<'de> for &mut ValueReader<'de> {
    type Error = Error;

    numbers! {
        deserialize_bool, visit_bool, flag;
        deserialize_u8, visit_u8, byte;
        deserialize_u16, visit_u16, number;
        deserialize_u32, visit_u32, number;
        deserialize_u64, visit_u64, varint;
        deserialize_i16, visit_i16, signed;
        deserialize_i32, visit_i32, signed;
        deserialize_i64, visit_i64, signed;
    }

    by_postcard! {
        deserialize_any,
        deserialize_identifier,
        deserialize_ignored_any,
        deserialize_i8,
        deserialize_i128,
        deserialize_u128,
        deserialize_f32,
        deserialize_f64,
        deserialize_char,
        deserialize_str,
        deserialize_string,
        deserialize_bytes,
        deserialize_byte_buf,
        deserialize_unit,
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.flag()? {
            true => visitor.visit_some(self),
            false => visitor.visit_none(),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let count = self.number()?;
        visitor.visit_seq(self.parts(count))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(self.parts(count))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(self.parts(count))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let count = self.number()?;
        visitor.visit_map(self.parts(count))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let rest = match name.ends_with(COUNTED) {
            true => Some(self.enter()?),
            false => None,
        };
        let mut parts = Parts {
            is_struct: true,
            ..self.parts(fields.len())
        };
        match visitor.visit_seq(&mut parts) {
            Ok(value) => {
                self.bytes = rest.unwrap_or(self.bytes);
                Ok(value)
            }
            Err(error) => {
                let at = fields.get(parts.next.saturating_sub(1));
                let (field, ended) = (at.copied().unwrap_or_default(), parts.has_ended);
                self.stop(name, field, ended);
                Err(error)
            }
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self)
    }
}

impl<'de> de::EnumAccess<'de> for &mut ValueReader<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        let index: u32 = self.number()?;
        Ok((seed.deserialize(index.into_deserializer())?, self))
    }
}

impl<'de> de::VariantAccess<'de> for &mut ValueReader<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(self.parts(count))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(self.parts(fields.len()))
    }
}
