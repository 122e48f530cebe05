//! Values of any type that is read by serde, drawn by chance.

use serde::de::value::Error;
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};
use tally_testing::chance::Chance;

/// Texts of which some type accepts each: names, secrets, times.
const TEXTS: &[&str] = &["FRA", "a", "page/home", "0", "2026-05-01"];

/// Values nested deeper than this are as small as they can be.
const DEPTH_MAX: u32 = 12;

/// How often a value is drawn until its type accepts all its parts.
const TRIES: u32 = 2_000;

/// A value of a type.
pub fn drawn<T: de::DeserializeOwned>(random: &mut Chance) -> T {
    let mut last = None;
    for _ in 0..TRIES {
        match T::deserialize(Drawn { random, depth: 0 }) {
            Ok(value) => return value,
            Err(error) => last = Some(error),
        }
    }
    panic!("no {} was drawn: {last:?}", std::any::type_name::<T>());
}

/// The source of a value.
struct Drawn<'r> {
    random: &'r mut Chance,
    depth: u32,
}

impl Drawn<'_> {
    fn inner(&mut self) -> Drawn<'_> {
        Drawn {
            random: self.random,
            depth: self.depth + 1,
        }
    }

    /// A number of which many are small.
    fn number(&mut self) -> u64 {
        let bits = self.random.below(64);
        match self.depth > DEPTH_MAX {
            true => 0,
            false => self.random.bits() >> bits,
        }
    }

    fn few(&mut self) -> usize {
        match self.depth > DEPTH_MAX {
            true => 0,
            false => self.random.index(3),
        }
    }
}

macro_rules! numbers {
    ($($name:ident, $visit:ident: $number:ty;)*) => {
        $(fn $name<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.number() as $number)
        })*
    };
}

impl<'de> de::Deserializer<'de> for Drawn<'_> {
    type Error = Error;

    numbers! {
        deserialize_i8, visit_i8: i8;
        deserialize_i16, visit_i16: i16;
        deserialize_i32, visit_i32: i32;
        deserialize_i64, visit_i64: i64;
        deserialize_i128, visit_i128: i128;
        deserialize_u8, visit_u8: u8;
        deserialize_u16, visit_u16: u16;
        deserialize_u32, visit_u32: u32;
        deserialize_u64, visit_u64: u64;
        deserialize_u128, visit_u128: u128;
        deserialize_f32, visit_f32: f32;
        deserialize_f64, visit_f64: f64;
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("postcard cannot tell types"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.random.below(2) == 0)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_char('ü')
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(TEXTS[self.random.index(TEXTS.len())])
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bytes(&[])
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bytes(&[])
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        match self.few() {
            0 => visitor.visit_none(),
            _ => visitor.visit_some(self.inner()),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self.inner())
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let left = self.few();
        visitor.visit_seq(Parts { of: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Parts { of: self, left })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Parts { of: self, left })
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let left = self.few();
        visitor.visit_map(Parts { of: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Parts {
            of: self,
            left: fields.len(),
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let variant = match self.depth > DEPTH_MAX {
            true => 0,
            false => self.random.index(variants.len()),
        };
        visitor.visit_enum(Variant {
            of: self,
            variant: variant.try_into().unwrap(),
        })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }
}

/// The parts of a value.
struct Parts<'r> {
    of: Drawn<'r>,
    left: usize,
}

impl<'de> de::SeqAccess<'de> for Parts<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        seed.deserialize(self.of.inner()).map(Some)
    }
}

impl<'de> de::MapAccess<'de> for Parts<'_> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.of.inner())
    }
}

/// A variant of an enum.
struct Variant<'r> {
    of: Drawn<'r>,
    variant: u32,
}

impl<'de> de::EnumAccess<'de> for Variant<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        let index = IntoDeserializer::<Error>::into_deserializer(self.variant);
        Ok((seed.deserialize(index)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.of.inner())
    }

    fn tuple_variant<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Parts { of: self.of, left })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let left = fields.len();
        visitor.visit_seq(Parts { of: self.of, left })
    }
}
