//! Laws: commands are the same in whatever pieces they arrive; what is no command, or too large, is an error of the
//! protocol; nothing panics.

use proptest::prelude::*;
use tally_resp::framing::{Arrived, CommandBounds, Framing, UNKNOWN_BYTES_MAX, WORDS_UNKNOWN_MAX};

fn encoded(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend(*word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// What the pieces are read as: commands, and the error that ends them.
fn read(pieces: &[&[u8]], bounds: CommandBounds) -> (Vec<Arrived>, Option<String>) {
    let (mut framing, mut inbox, mut commands) = (Framing::default(), Vec::new(), Vec::new());
    for piece in pieces {
        inbox.extend_from_slice(piece);
        loop {
            match framing.take(&inbox, bounds) {
                Ok((taken, arrived)) => {
                    inbox.drain(..taken);
                    match arrived {
                        Some(arrived) => commands.push(arrived),
                        None => break,
                    }
                }
                Err(error) => return (commands, Some(error.0)),
            }
        }
    }
    (commands, None)
}

fn error_of(bytes: &[u8]) -> String {
    let (commands, error) = read(&[bytes], CommandBounds::of(true));
    assert_eq!(commands, []);
    error.expect("an error of the protocol")
}

#[test]
fn a_command_is_an_array_of_strings() {
    let bytes = encoded(&[b"SET", b"a b", b"\r\n", b"", "é".as_bytes()]);
    let (commands, error) = read(&[&bytes], CommandBounds::of(true));
    let words = ["SET", "a b", "\r\n", "", "é"].map(str::to_owned).to_vec();
    assert_eq!((commands, error), (vec![Ok(words)], None));
}

#[test]
fn arrays_without_words_are_skipped() {
    let bytes = [b"*0\r\n*-1\r\n".as_slice(), &encoded(&[b"PING"])].concat();
    let (commands, error) = read(&[&bytes], CommandBounds::of(true));
    assert_eq!((commands, error), (vec![Ok(vec!["PING".to_owned()])], None));
}

#[test]
fn words_that_are_not_text_refuse_their_command_and_no_other() {
    let bytes = [encoded(&[b"SET", b"a", b"\xff"]), encoded(&[b"GET", b"a"])].concat();
    let (commands, error) = read(&[&bytes], CommandBounds::of(true));
    assert_eq!(error, None);
    assert!(
        commands[0]
            .as_ref()
            .is_err_and(|text| text.contains("UTF-8"))
    );
    assert_eq!(commands[1], Ok(vec!["GET".to_owned(), "a".to_owned()]));
}

#[test]
fn what_is_no_command_is_an_error_of_the_protocol() {
    for (bytes, what) in [
        (b"PING\r\n".as_slice(), "lines of text are not read"),
        (b"POST / HTTP/1.1\r\n", "lines of text are not read"),
        (b"$4\r\nPING\r\n", "lines of text are not read"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*1 \r\n", "invalid multibulk length"),
        (b"*100001\r\n", "at most 100000 words"),
        (b"*9223372036854775807\r\n", "at most 100000 words"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (&[b'*'; 64], "too big mbulk count string"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n*1\r\n", "expected '$', got '*'"),
        (b"*1\r\n\n", "expected '$', got '\\n'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$1048577\r\n", "at most 1048576 bytes"),
        (b"*2\r\n$3\r\nGET\r\n$1048560\r\n", "at most 1048576 bytes"),
        (b"*1\r\n$2147483648\r\nab", "at most 1048576 bytes"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$4\r\nPINGxx", "does not end with the end of a line"),
    ] {
        let error = error_of(bytes);
        assert!(error.starts_with("ERR Protocol error: "), "{error}");
        assert!(error.contains(what), "{error}: {what}");
    }
    let long = [b"*1\r\n$".as_slice(), &[b'1'; 64]].concat();
    assert!(error_of(&long).contains("too big bulk count string"));
}

#[test]
fn a_command_beyond_its_bounds_is_an_error_before_it_is_complete() {
    let known = CommandBounds::of(true);
    // One word too long, and many short ones: nobody waits for the rest.
    let long = [
        b"*2\r\n$3\r\nSET\r\n$2000000\r\n".as_slice(),
        &[b'x'; 1_048_576],
    ]
    .concat();
    let short = [b"*99999\r\n".to_vec(), b"$8\r\nabcdefgh\r\n".repeat(80_000)].concat();
    for bytes in [long, short] {
        let (commands, error) = read(&[&bytes], known);
        assert_eq!(commands, []);
        assert!(error.is_some_and(|text| text.contains("at most 1048576 bytes")));
    }
    let fits = encoded(&[b"SET", b"a", &[b'x'; 1_000_000]]);
    assert_eq!(read(&[&fits], known).1, None);
    // Who is not known sends less.
    let unknown = CommandBounds::of(false);
    let words = vec![b"x".as_slice(); WORDS_UNKNOWN_MAX + 1];
    let many = read(&[&encoded(&words)], unknown).1;
    assert!(many.is_some_and(|text| text.contains("at most 10 words")));
    let large = read(&[&encoded(&[&[b'x'; UNKNOWN_BYTES_MAX]])], unknown).1;
    assert!(large.is_some_and(|text| text.contains("at most 16384 bytes")));
}

#[test]
fn arrays_do_not_nest_however_deep() {
    let deep = b"*1\r\n".repeat(1_000_000);
    assert!(error_of(&deep).contains("expected '$', got '*'"));
}

proptest! {
    #[test]
    fn commands_are_the_same_in_whatever_pieces_they_arrive(
        words in prop::collection::vec(prop::collection::vec("[a-z\r\n$*é]{0,9}", 1..6), 1..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
    ) {
        let commands: Vec<Vec<&[u8]>> =
            words.iter().map(|one| one.iter().map(|word| word.as_bytes()).collect()).collect();
        let bytes: Vec<u8> = commands.iter().flat_map(|one| encoded(one)).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        let (arrived, error) = read(&pieces, CommandBounds::of(true));
        prop_assert_eq!(error, None);
        let expected: Vec<Arrived> = words.into_iter().map(Ok).collect();
        prop_assert_eq!(arrived, expected);
    }

    #[test]
    fn no_bytes_panic(bytes in "[*$:0-9\r\n\u{0}a-]{0,60}") {
        read(&[bytes.as_bytes()], CommandBounds::of(true));
        read(&[bytes.as_bytes()], CommandBounds::of(false));
    }
}
