//! The greeting of a client: `HELLO`.

use crate::encoder::Protocol;

/// The longest name of a connection, and of its library, bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// What a `HELLO` asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    /// The version of the protocol; `None` for the one in use.
    pub protocol: Option<Protocol>,
    /// The name of the connection.
    pub name: Option<String>,
}

/// Whether a greeting has a key.
pub fn has_login(args: &[String]) -> bool {
    parse_hello(args).is_ok_and(|(_, key)| key.is_some())
}

/// A greeting, and its key.
///
/// # Errors
/// The error of Redis.
pub fn parse_hello(args: &[String]) -> Result<(Greeting, Option<String>), String> {
    let mut greeting = Greeting::default();
    let mut key = None;
    let mut words = args.iter().skip(1);
    if let Some(version) = words.next() {
        greeting.protocol = Some(match version.parse::<i64>() {
            Ok(2) => Protocol::Two,
            Ok(3) => Protocol::Three,
            Ok(_) => return Err("NOPROTO unsupported protocol version".to_owned()),
            Err(_) => {
                let text = "ERR Protocol version is not an integer or out of range";
                return Err(text.to_owned());
            }
        });
    }
    while let Some(word) = words.next() {
        let wrong = || format!("ERR Syntax error in HELLO option '{word}'");
        if word.eq_ignore_ascii_case("AUTH") {
            words.next().ok_or_else(wrong)?;
            key = Some(words.next().ok_or_else(wrong)?.clone());
        } else if word.eq_ignore_ascii_case("SETNAME") {
            let name = words.next().ok_or_else(wrong)?;
            check_name(name)?;
            greeting.name = Some(name.clone());
        } else {
            return Err(wrong());
        }
    }
    Ok((greeting, key))
}

/// Checks a name of a connection, or of its library.
///
/// # Errors
/// The error of Redis.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "ERR Client names have at most {NAME_BYTES_MAX} bytes here"
        ));
    }
    match name.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => {
            let text = "ERR Client names cannot contain spaces, newlines or special characters.";
            Err(text.to_owned())
        }
    }
}
