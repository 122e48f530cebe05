//! A body is what its first bytes say where nothing else does, however it was cut.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use tally_api::batch::decode::Decoder;
use tally_wire::problem::{Code, Problem};

const LOG: &[u8] = b"1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn decode(encoding: Option<&str>, body: &[u8], piece: usize) -> Result<Vec<u8>, Problem> {
    let mut decoded = Vec::new();
    let mut take = |bytes: &[u8]| {
        decoded.extend_from_slice(bytes);
        Ok(())
    };
    let mut decoder = Decoder::new(encoding, 1_000_000)?;
    for piece in body.chunks(piece) {
        decoder.push(piece, &mut take)?;
    }
    decoder.finish(&mut take)?;
    Ok(decoded)
}

#[test]
fn gzip_is_known_by_its_first_bytes() {
    let long = LOG.repeat(100);
    for body in [&b""[..], b"x", b"{}", LOG, &long] {
        for piece in [1, 2, 3, 9, 10, 11, 100_000] {
            for encoding in [None, Some("identity")] {
                assert_eq!(decode(encoding, body, piece).unwrap(), body);
                assert_eq!(decode(encoding, &gzip(body), piece).unwrap(), body);
            }
            assert_eq!(decode(Some("gzip"), &gzip(body), piece).unwrap(), body);
        }
    }
}

#[test]
fn what_says_that_it_is_gzip_must_be() {
    for (encoding, body) in [
        (Some("gzip"), LOG),
        (Some("gzip"), b""),
        (None, &gzip(LOG)[..20]),
    ] {
        let refused = decode(encoding, body, 7).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidGzip);
    }
}

#[test]
fn other_forms_are_refused_with_the_command_that_converts_them() {
    let zstd: &[u8] = b"\x28\xb5\x2f\xfd and more";
    let xz: &[u8] = b"\xfd7zXZ\0 and more";
    let bzip2: &[u8] = b"BZh91AY&SY and more";
    let zip: &[u8] = b"PK\x03\x04 and more";
    for (body, command) in [
        (zstd, "zstd -dc"),
        (xz, "xz -dc"),
        (bzip2, "bzip2 -dc"),
        (zip, "unzip -p"),
    ] {
        for piece in [1, 4, 100] {
            let refused = decode(None, body, piece).unwrap_err();
            assert_eq!(refused.code(), Code::UnsupportedEncoding);
            assert!(refused.detail().contains(command), "{}", refused.detail());
        }
    }
    for (encoding, hint) in [("zstd", "zstd -dc"), ("br", "\"br\"")] {
        let refused = decode(Some(encoding), LOG, 5).unwrap_err();
        assert_eq!(refused.code(), Code::UnsupportedEncoding);
        assert!(refused.detail().contains(hint), "{}", refused.detail());
    }
}

#[test]
fn a_tar_archive_is_refused_packed_or_not() {
    for version in [&b"ustar\x0000"[..], b"ustar  \0"] {
        let mut tar = b"access.log".to_vec();
        tar.resize(257, 0);
        tar.extend_from_slice(version);
        tar.resize(512, 0);
        tar.extend_from_slice(LOG);
        for body in [gzip(&tar), tar] {
            for piece in [1, 256, 1_000] {
                let problem = decode(None, &body, piece).unwrap_err();
                assert_eq!(problem.code(), Code::UnsupportedEncoding);
                assert!(
                    problem.detail().contains("Unpack it first: `tar"),
                    "{problem}"
                );
            }
        }
    }
    let text = [&b" ".repeat(257), &b"ustar  of a text"[..]].concat();
    assert_eq!(decode(None, &text, 7).unwrap(), text);
}

#[test]
fn a_body_in_utf16_is_named_as_such() {
    let text = "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5";
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for body in [
        [&b"\xff\xfe"[..], &little].concat(),
        [&b"\xfe\xff"[..], &big].concat(),
        little,
        big,
    ] {
        for body in [gzip(&body), body] {
            for piece in [1, 30, 1_000] {
                let problem = decode(None, &body, piece).unwrap_err();
                assert_eq!(problem.code(), Code::UnsupportedEncoding);
                assert!(problem.detail().contains("UTF-16"), "{problem}");
            }
        }
    }
}
