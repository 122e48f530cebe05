//! Keys that calls make: their tokens, what a body may say of one, and what is kept of their secrets.

use tally_api::api_key::{key_json, parse_change, parse_rotation};
use tally_core::sha256;
use tally_core::sketch::HashKey;
use tally_wire::problem::Code;
use tally_wire::rights::{
    ApiKey, FORMER_SECRETS_MAX, KEY_PREFIXES_MAX, KeyId, KeyToken, Scope, make_token,
};

const ID: KeyId = KeyId(0x6d1f_0c9f_0b7a_4c21);
const NOW_MS: i64 = 1_800_000_000_000;

fn names(byte: u8) -> HashKey {
    HashKey::from([byte; 16])
}

fn made(body: &str) -> ApiKey {
    let (_, secret) = make_token(&names(1), ID, &[7; 32]);
    let change = parse_change(body.as_bytes(), NOW_MS).expect("a body");
    change.make("ops", secret, NOW_MS).expect("a key")
}

#[test]
fn a_token_is_good_for_its_own_deployment_id_and_secret_alone() {
    let (token, secret) = make_token(&names(1), ID, &[7; 32]);
    let expected = format!("tally_6d1f0c9f0b7a4c21_{}", "07".repeat(32));
    assert_eq!(&token[..expected.len()], expected);
    assert_eq!(token.len(), expected.len() + 16);
    let signed = |text: &str, key: u8| KeyToken::parse(text)?.signed(&names(key));
    assert_eq!(signed(&token, 1), Some((ID, secret)));
    assert_eq!(signed(&token, 2), None);
    for place in "tally_".len()..token.len() {
        let mut other = token.clone().into_bytes();
        other[place] = if other[place] == b'0' { b'1' } else { b'0' };
        let other = String::from_utf8(other).expect("text");
        assert_eq!(signed(&other, 1), None, "{other}");
    }
    for text in [
        "",
        "tally_",
        "tally__",
        &token[..token.len() - 1],
        &format!("{token}0"),
        &token.to_uppercase(),
        &token.replace("tally_", "share_"),
    ] {
        assert!(KeyToken::parse(text).is_none(), "{text}");
    }
    assert!(KeyToken::of(&format!("bearer  {token}")).is_some());
    assert!(KeyToken::of(&format!("Basic {token}")).is_none());
    assert!(KeyToken::of(&token).is_none());
}

#[test]
fn nothing_that_is_kept_or_told_holds_the_secret() {
    let (token, _) = make_token(&names(1), ID, &[7; 32]);
    let key = made(r#"{"name":"blog","scopes":["read"]}"#);
    let secret = &token[23..87];
    let kept = format!("{key:?}{}", key_json(ID, &key, None, NOW_MS));
    assert!(
        !kept.contains(secret) && !kept.contains(&sha256::hex(&sha256::digest(secret.as_bytes())))
    );
    assert!(!format!("{:?}", KeyToken::parse(&token)).contains(secret));
    assert!(key_json(ID, &key, Some(&token), NOW_MS).contains(&token));
}

#[test]
fn a_body_says_what_a_key_may_do() {
    let key = made(
        r#"{"name":"blog","scopes":["write","read","write"],"prefixes":["blog/","limits/"],"rate_per_minute":600,"expires_in_seconds":3600}"#,
    );
    assert_eq!(key.scopes, [Scope::Write, Scope::Read]);
    assert_eq!(key.prefixes, ["blog/", "limits/"]);
    assert_eq!(
        (key.rate_per_minute, key.expires_ms),
        (Some(600), Some(NOW_MS + 3_600_000))
    );
    assert_eq!(
        key_json(ID, &key, None, NOW_MS),
        r#"{"id":"6d1f0c9f0b7a4c21","name":"blog","scopes":["write","read"],"prefixes":["blog/","limits/"],"rate_per_minute":600,"created_at":1800000000000,"created_by":"ops","expires_at":1800003600000,"last_used_at":null,"former_ends_at":null}"#
    );
    let all = made(r#"{"name":"all","scopes":["admin"]}"#);
    assert_eq!(
        (all.prefixes, all.rate_per_minute, all.expires_ms),
        (vec![String::new()], None, None)
    );
    // In any form of a time; a date means its last second.
    for (at, end_ms) in [
        ("1830297600", 1_830_297_600_000),
        ("1.8302976e9", 1_830_297_600_000),
        (r#""1830297600""#, 1_830_297_600_000),
        (r#""2028-01-01T01:00:00.250+01:00""#, 1_830_297_600_250),
        (r#""2027-12-31""#, 1_830_297_599_000),
    ] {
        let key = made(&format!(
            r#"{{"name":"a","scopes":["read"],"expires_at":{at}}}"#
        ));
        assert_eq!(key.expires_ms, Some(end_ms), "{at}");
    }
    // What is left out stays, null takes away.
    let mut changed = key.clone();
    let change = parse_change(
        br#"{"rate_per_minute":null,"expires_at":null,"name":"shop"}"#,
        NOW_MS,
    );
    change.expect("a change").apply(&mut changed);
    assert_eq!((changed.rate_per_minute, changed.expires_ms), (None, None));
    assert_eq!(
        (changed.name.as_str(), &changed.prefixes),
        ("shop", &key.prefixes)
    );
}

#[test]
fn what_no_key_can_be_is_refused() {
    let code = |body: &str| {
        let (_, secret) = make_token(&names(1), ID, &[7; 32]);
        let made = parse_change(body.as_bytes(), NOW_MS)
            .and_then(|change| change.make("", secret, NOW_MS));
        made.map_err(|problem| problem.code()).err()
    };
    let prefixes = vec![r#""a""#; KEY_PREFIXES_MAX + 1].join(",");
    for body in [
        r#"{"scopes":["read"]}"#.to_owned(),
        r#"{"name":"a"}"#.to_owned(),
        r#"{"name":"","scopes":["read"]}"#.to_owned(),
        r#"{"name":"a","scopes":[]}"#.to_owned(),
        r#"{"name":"a","scopes":["all"]}"#.to_owned(),
        r#"{"name":"a","scopes":["read"],"prefixes":[]}"#.to_owned(),
        format!(r#"{{"name":"a","scopes":["read"],"prefixes":[{prefixes}]}}"#),
        r#"{"name":"a","scopes":["read"],"prefixes":["\n"]}"#.to_owned(),
        r#"{"name":"a","scopes":["read"],"rate_per_minute":0}"#.to_owned(),
        r#"{"name":"a","scopes":["read"],"expires_in_seconds":59}"#.to_owned(),
        r#"{"name":"a","scopes":["read"],"expires_at":1}"#.to_owned(),
        r#"{"name":"a","scopes":["read"],"expires_at":1900000000000}"#.to_owned(),
        r#"{"name":"a","scopes":["read"],"expires_at":"soon"}"#.to_owned(),
        r#"{"name":"a","scopes":["read"],"expires_in_seconds":60,"expires_at":1900000000}"#
            .to_owned(),
    ] {
        assert_eq!(code(&body), Some(Code::InvalidBody), "{body}");
    }
    assert_eq!(
        code(r#"{"name":"a","scopes":["read"],"key":"x"}"#),
        Some(Code::UnknownField)
    );
    // Also for a change, which needs neither.
    for body in [r#"{"name":null}"#, r#"{"scopes":null}"#] {
        let refused = parse_change(body.as_bytes(), NOW_MS).map_err(|problem| problem.code());
        assert_eq!(refused, Err(Code::InvalidBody), "{body}");
    }
    assert_eq!(parse_rotation(b"").ok(), Some(86_400_000));
    assert_eq!(parse_rotation(br#"{"keep_seconds":0}"#).ok(), Some(0));
    assert!(parse_rotation(br#"{"keep_seconds":99999999}"#).is_err());
}

#[test]
fn former_secrets_end_when_they_were_to_and_are_bounded() {
    let secret = |byte: u8| make_token(&names(1), ID, &[byte; 32]).1;
    let mut key = made(r#"{"name":"a","scopes":["read"]}"#);
    key.secret = secret(0);
    for byte in 1..=6 {
        key.rotate(secret(byte), 60_000, NOW_MS + i64::from(byte));
    }
    assert_eq!(key.replaced_secrets.len(), FORMER_SECRETS_MAX);
    assert!(key.knows(&secret(6), NOW_MS + 10) && key.knows(&secret(3), NOW_MS + 10));
    assert!(!key.knows(&secret(2), NOW_MS + 10), "the oldest goes first");
    assert!(
        !key.knows(&secret(3), NOW_MS + 60_004),
        "as long as its own grace"
    );
    assert!(key.knows(&secret(5), NOW_MS + 60_005));
    key.rotate(secret(7), 0, NOW_MS + 20);
    assert!(key.replaced_secrets.is_empty() && !key.knows(&secret(6), NOW_MS + 20));
}
