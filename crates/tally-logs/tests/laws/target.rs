//! A request has one path, whatever the form of its target.

use tally_logs::target::split;

#[test]
fn an_absolute_target_is_its_path() {
    for (target, expected) in [
        ("/resource/1?x=1", ("/resource/1", "?x=1")),
        (
            "http://shop.example:8080/resource/1?x=1",
            ("/resource/1", "?x=1"),
        ),
        ("HTTPS://user@shop.example/resource/1", ("/resource/1", "")),
        ("https://[2001:db8::1]:8443/a", ("/a", "")),
        ("http://shop.example", ("/", "")),
        ("http://shop.example?x=/y", ("/", "?x=/y")),
        ("ws://shop.example/socket", ("/socket", "")),
        (
            "/go?to=http://a.example/b",
            ("/go", "?to=http://a.example/b"),
        ),
        ("/http://a.example/b", ("/http://a.example/b", "")),
        ("//a.example/b", ("//a.example/b", "")),
        ("*", ("*", "")),
        ("a.example:443", ("a.example:443", "")),
        ("://x/y", ("://x/y", "")),
        ("/a?b?c", ("/a", "?b?c")),
    ] {
        assert_eq!(split(target), expected, "{target}");
    }
}
