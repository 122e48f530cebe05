//! The most common form of an event, read in one pass: an object on one line whose strings have no escapes and whose
//! numbers are digits. Reading it by [`crate::json`] takes four times as long (`make bench`, events/s).
//!
//! Invariant: [`crate::json`] reads every line that is read here to the same values. All other lines, also wrong ones,
//! are left to that module.

/// The fields of an event, as they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PlainEvent<'a> {
    /// The counter.
    pub(super) id: &'a str,
    /// How much.
    pub(super) delta: Option<u64>,
    /// The element.
    pub(super) unique: Option<&'a str>,
    /// When, in unix seconds.
    pub(super) at: Option<u64>,
    /// The idempotency key.
    pub(super) idempotency_key: Option<&'a str>,
}

impl<'a> PlainEvent<'a> {
    /// Returns the fields of an event in this form; `None` for any other line.
    pub(super) fn read(json: &'a [u8]) -> Option<Self> {
        let line = std::str::from_utf8(json).ok()?;
        let mut reader = Reader { line, at: 0 };
        reader.expect(b'{')?;
        let (mut event, mut id) = (Self::default(), None);
        loop {
            let name = reader.text()?.as_bytes();
            reader.expect(b':')?;
            reader.skip_space();
            // Patterns of bytes: they are compared without a call.
            match name {
                [b'i', b'd'] => set(&mut id, reader.text()?)?,
                [b'u', b'n', b'i', b'q', b'u', b'e'] => set(&mut event.unique, reader.text()?)?,
                [b'a', b't'] => set(&mut event.at, reader.number()?)?,
                [b'd', b'e', b'l', b't', b'a'] => set(&mut event.delta, reader.number()?)?,
                b"idempotency_key" => set(&mut event.idempotency_key, reader.text()?)?,
                _ => return None,
            }
            match reader.next()? {
                b',' => reader.skip_space(),
                b'}' if reader.at == json.len() => break,
                _ => return None,
            }
        }
        event.id = id?;
        Some(event)
    }
}

/// Sets a field that was not set.
fn set<T>(field: &mut Option<T>, value: T) -> Option<()> {
    field.replace(value).is_none().then_some(())
}

/// A line, and how many bytes of it have been read.
struct Reader<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    // Inlined, because it runs for each byte: a build for size would make a call of it.
    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.line.as_bytes().get(self.at).copied()
    }

    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, expected: u8) -> Option<()> {
        (self.next()? == expected).then_some(())
    }

    fn skip_space(&mut self) {
        if self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Reads a string without escapes.
    fn text(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.next()? {
                b'"' => return self.line.get(start..self.at - 1),
                b'\\' | ..b' ' => return None,
                _ => {}
            }
        }
    }

    /// Reads digits. A zero before other digits is not JSON. A fraction or an exponent does not end a field, so such a
    /// number is not read here.
    fn number(&mut self) -> Option<u64> {
        let start = self.at;
        let mut number = 0_u64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = number
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
            self.at += 1;
        }
        let length = self.at - start;
        let is_padded = length > 1 && self.line.as_bytes().get(start) == Some(&b'0');
        (length > 0 && !is_padded).then_some(number)
    }
}
