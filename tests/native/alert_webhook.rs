//! Which addresses webhooks may have: a table, with the forms that are meant to slip through.

use tally_wire::alerts::webhook::{Allowed, Reach, check, host_name};
use tally_wire::problem::Code;

fn is_taken(webhook: &str, allowed: &str) -> bool {
    let allowed = Allowed::parse(allowed).expect("a setting");
    match check(webhook, &allowed) {
        Ok(_) => true,
        Err(problem) => {
            assert_eq!(problem.code(), Code::WebhookNotAllowed, "{webhook}");
            assert!(problem.detail().starts_with("webhook "), "{problem}");
            false
        }
    }
}

#[test]
fn addresses_of_the_internet_are_taken() {
    let taken = [
        "https://hooks.example.com/tally",
        "https://hooks.example.com",
        "https://hooks.example.com?key=a%20b&x=[1]",
        "https://hooks.example.com:8443/a/b?c=d:e",
        "https://HOOKS.Example.COM/",
        "https://xn--bcher-kva.de/",
        "https://a_b.example.com/",
        "https://1.1.1.1/",
        "https://8.8.8.8:444/x",
        "https://172.15.255.255/",
        "https://172.32.0.1/",
        "https://100.63.255.255/",
        "https://100.128.0.1/",
        "https://223.255.255.255/",
        "https://[2606:4700:4700::1111]/",
        "https://[2a00:1450:4001:830::200e]:8443/x",
        "https://10.0.0.1.example.com/",
        "https://localhost.example.com/",
    ];
    for webhook in taken {
        assert!(is_taken(webhook, "[]"), "{webhook}");
    }
}

/// Addresses that no webhook may have.
const REFUSED: &[&str] = &[
    // No https.
    "http://hooks.example.com/",
    "ftp://hooks.example.com/",
    "javascript:alert(1)",
    "hooks.example.com/tally",
    "//hooks.example.com/",
    "https:/hooks.example.com/",
    "https:hooks.example.com/",
    "https://",
    "https:///path",
    "",
    // Networks that are not the Internet's.
    "https://0.0.0.0/",
    "https://0.1.2.3/",
    "https://10.0.0.1/",
    "https://10.255.255.255/",
    "https://100.64.0.1/",
    "https://100.127.255.254/",
    "https://127.0.0.1/",
    "https://127.255.255.254/",
    "https://169.254.169.254/latest/meta-data/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.0.0.8/",
    "https://192.0.2.1/",
    "https://192.88.99.1/",
    "https://192.168.1.1/",
    "https://198.18.0.1/",
    "https://198.19.255.255/",
    "https://198.51.100.7/",
    "https://203.0.113.9/",
    "https://224.0.0.1/",
    "https://239.1.2.3/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    // Of version 6.
    "https://[::]/",
    "https://[::1]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[::ffff:8.8.8.8]:99999/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[64:ff9b::10.0.0.1]/",
    "https://[2002:7f00:1::]/",
    "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "https://[2001:db8::1]/",
    "https://[3fff::1]/",
    "https://[fc00::1]/",
    "https://[fd12:3456::1]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    "https://[100::1]/",
    "https://[::1/",
    "https://::1/",
    // Addresses in other forms.
    "https://2130706433/",
    "https://017700000001/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0X7F.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://0177.0.0.1/",
    "https://127.0.0.01/",
    "https://127.0.0.1./",
    "https://127.0.0.0x1/",
    "https://1.1.1.256/",
    "https://1.1.1.1.1/",
    "https://example.com.0x7f/",
    "https://example.1/",
    // Names of inner networks.
    "https://localhost/",
    "https://LOCALHOST:8443/",
    "https://localhost./",
    "https://a.localhost/",
    "https://printer.local/",
    "https://metadata.google.internal/",
    "https://vault.service.internal/",
    "https://intranet/",
    "https://router.lan/",
    "https://nas.home/",
    "https://nas.home.arpa/",
    "https://wiki.corp/",
    "https://db.private/",
    "https://a.example/",
    // What clients read in several ways.
    "https://user@hooks.example.com/",
    "https://user:pass@hooks.example.com/",
    "https://hooks.example.com@127.0.0.1/",
    "https://127.0.0.1\\@hooks.example.com/",
    "https:\\\\127.0.0.1/",
    "https://hooks.example.com#@127.0.0.1/",
    "https://127.0.0.1%2f.example.com/",
    "https://%31%32%37.0.0.1/",
    "https://①②⑦.⓪.⓪.①/",
    "https://ⓛocalhost/",
    "https://hooks。example。com/",
    "https://127。0。0。1/",
    "https://hooks.example.com\t/",
    " https://hooks.example.com/",
    "https://hooks.example.com/\n",
    "https://hooks .example.com/",
    "https://hooks..example.com/",
    "https://.example.com/",
    "https://example.com./",
    "https://-a.example.com/",
    "https://hooks.example.com:/",
    "https://hooks.example.com:0/",
    "https://hooks.example.com:65536/",
    "https://hooks.example.com:+443/",
    "https://hooks.example.com:443:444/",
    "https://hooks.example.com:80;127.0.0.1/",
    "https://*.example.com/",
];

#[test]
fn inner_addresses_and_their_disguises_are_refused() {
    for webhook in REFUSED {
        assert!(!is_taken(webhook, "[]"), "{webhook}");
    }
    let long = format!("https://hooks.example.com/{}", "a".repeat(2_048));
    assert!(!is_taken(&long, "[]"));
    let long = format!("https://{}.com/", "a.".repeat(130));
    assert!(!is_taken(&long, "[]"));
}

#[test]
fn what_is_allowed_is_taken_also_by_http_and_nothing_else_is() {
    let allowed = r#"["10.1.0.0/16","127.0.0.1","localhost","*.svc.internal","fd00::/8"]"#;
    let taken = [
        "http://10.1.2.3:8080/x",
        "https://10.1.255.255/",
        "http://127.0.0.1:9000/",
        "http://[::ffff:127.0.0.1]:9000/",
        "http://localhost:9000/hook",
        "http://LocalHost/",
        "http://hooks.svc.internal/",
        "http://[fd12::1]/",
        "https://hooks.example.com/",
    ];
    for webhook in taken {
        assert!(is_taken(webhook, allowed), "{webhook}");
    }
    let refused = [
        "http://10.2.0.1/",
        "https://10.0.255.255/",
        "http://127.0.0.2/",
        "http://127.1/",
        "http://2130706433/",
        "http://svc.internal/",
        "http://evilsvc.internal/",
        "http://localhost.example.com/",
        "http://a.localhost/",
        "http://hooks.example.com/",
        "http://[fe80::1]/",
        "ftp://localhost/",
        "http://user@localhost/",
    ];
    for webhook in refused {
        assert!(!is_taken(webhook, allowed), "{webhook}");
    }
    assert!(is_taken("https://10.2.0.1/", r#"["0.0.0.0/0"]"#));
    assert!(is_taken("http://10.2.0.1/", r#"["0.0.0.0/0"]"#));
    assert!(!is_taken("https://[fe80::1]/", r#"["0.0.0.0/0"]"#));
}

#[test]
fn a_setting_that_is_none_is_refused_and_allows_nothing() {
    let wrong = [
        "10.0.0.0/8",
        "{}",
        "[1]",
        r#"["10.0.0.0/33"]"#,
        r#"["10.0.0/8"]"#,
        r#"["fd00::/129"]"#,
        r#"["10.0.0.0/8/8"]"#,
        r#"["http://localhost"]"#,
        r#"["localhost:80"]"#,
        r#"["*"]"#,
        r#"["*."]"#,
        r#"["a*.internal"]"#,
        r#"[""]"#,
    ];
    for text in wrong {
        assert!(Allowed::parse(text).is_err(), "{text}");
        assert!(check("http://localhost/", &Allowed::of(Some(text))).is_err());
    }
    assert_eq!(Allowed::of(None), Allowed::default());
}

#[test]
fn a_log_names_the_host_and_no_more() {
    let hosts = [
        (
            "https://hooks.example.com/secret?key=1",
            "hooks.example.com",
        ),
        (
            "https://hooks.example.com:8443?key=1",
            "hooks.example.com:8443",
        ),
        ("http://[fd00::1]:80/x", "[fd00::1]:80"),
    ];
    for (webhook, host) in hosts {
        assert_eq!(host_name(webhook), host);
    }
}

/// Where clouds tell a machine its secrets, in the spellings that clients take.
const METADATA: &[&str] = &[
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/v2/credentials",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://[fd00:ec2::254]/",
    "http://[fd00:0ec2:0:0:0:0:0:0254]/",
    "http://[fd20:ce::254]/",
    "http://[fe80::a9fe:a9fe]/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://METADATA.google.internal/",
    "http://metadata.goog/",
    "http://instance-data.ec2.internal/",
    "http://metadata.tencentyun.com/",
];

#[test]
fn metadata_is_refused_also_where_a_wider_network_or_an_ending_is_allowed() {
    let wide = r#"["0.0.0.0/0","::/0","100.64.0.0/10","169.0.0.0/8","fd00::/8","*.internal","*.goog","*.tencentyun.com","*.ec2.internal"]"#;
    for webhook in METADATA {
        assert!(!is_taken(webhook, "[]"), "{webhook}");
        assert!(!is_taken(webhook, wide), "{webhook}");
        assert!(!is_taken(&webhook.replace("http:", "https:"), wide));
    }
    // Forms that no client and no check agree on are refused whatever is allowed.
    for host in [
        "2852039166",
        "0xa9fea9fe",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "169.16689662",
        "169.254.169.254.",
    ] {
        assert!(!is_taken(&format!("http://{host}/"), wide), "{host}");
    }
    // NAT64 and 6to4 lead to addresses of version 4.
    for host in [
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "[::169.254.169.254]",
    ] {
        let narrow = r#"["169.254.169.254","10.0.0.0/8","hooks.corp"]"#;
        assert!(!is_taken(&format!("https://{host}/"), narrow), "{host}");
    }
    // What is named is allowed, and nothing beside it.
    let named = r#"["169.254.170.2","100.100.100.200","metadata.google.internal"]"#;
    assert!(is_taken("http://169.254.170.2/", named));
    assert!(is_taken("http://100.100.100.200/", named));
    assert!(is_taken("http://metadata.google.internal/", named));
    assert!(!is_taken("http://169.254.169.254/", named));
    assert!(!is_taken("http://metadata.goog/", named));
}

#[test]
fn names_that_resolve_to_the_address_in_them_are_refused_unless_they_are_named() {
    for webhook in [
        "https://127.0.0.1.nip.io/",
        "https://a.b.10-0-0-1.nip.io/",
        "https://7f000001.NIP.io/",
        "https://nip.io/",
        "https://169-254-169-254.sslip.io/",
        "https://app.localtest.me/",
        "https://lvh.me/",
    ] {
        assert!(!is_taken(webhook, "[]"), "{webhook}");
        assert!(!is_taken(webhook, r#"["hooks.corp","10.0.0.0/8"]"#));
    }
    assert!(is_taken("https://snip.io/", "[]"));
    assert!(is_taken(
        "http://app.localtest.me/",
        r#"["app.localtest.me"]"#
    ));
}

#[test]
fn only_a_name_that_the_operator_names_reaches_inner_networks() {
    let allowed = Allowed::parse(r#"["hooks.corp","*.svc.internal","10.0.0.0/8"]"#);
    let allowed = allowed.expect("a setting");
    for (webhook, reach) in [
        ("http://hooks.corp/", Reach::Named),
        ("https://Hooks.Corp:8443/x", Reach::Named),
        ("https://a.svc.internal/", Reach::Named),
        ("http://10.1.2.3/", Reach::Public),
        ("https://hooks.example.com/", Reach::Public),
        ("https://hooks.corp.example.com/", Reach::Public),
    ] {
        assert_eq!(check(webhook, &allowed), Ok(reach), "{webhook}");
    }
}

fn opens(address: &str, allowed: &str, reach: Reach) -> bool {
    let allowed = Allowed::parse(allowed).expect("a setting");
    allowed.opens(address.parse().expect("an address"), reach)
}

#[test]
fn a_connection_is_made_to_no_inner_address_that_a_name_leads_to() {
    let local = [
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "::1",
        "::",
        "::ffff:127.0.0.1",
    ];
    let inner = [
        "10.1.2.3",
        "192.168.0.1",
        "172.16.0.1",
        "100.64.0.1",
        "fd00::1",
        "fc00::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::1",
    ];
    let metadata = [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fe80::1",
        "::ffff:169.254.169.254",
        // What gateways translate to such an address.
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:7::6464:64c8",
        "2002:a9fe:a9fe::1",
        "2002:a83f:8110::1",
    ];
    for address in local.iter().chain(&inner).chain(&metadata) {
        assert!(!opens(address, "[]", Reach::Public), "{address}");
        // A setting for one host opens nothing to others.
        assert!(
            !opens(address, r#"["hooks.corp","10.9.9.9"]"#, Reach::Public),
            "{address}"
        );
    }
    // A host that is named reaches inner networks, but neither this machine nor what clouds tell there.
    for address in local.iter().chain(&metadata) {
        assert!(
            !opens(address, r#"["hooks.corp","*.corp"]"#, Reach::Named),
            "{address}"
        );
    }
    // Nor does an entry that is wider than them.
    for address in &metadata {
        let allowed = r#"["64:ff9b::/32","2002::/16","::/0","0.0.0.0/0","hooks.corp"]"#;
        assert!(!opens(address, allowed, Reach::Named), "{address}");
    }
}

#[test]
fn a_connection_is_made_to_public_addresses_and_to_inner_ones_that_a_setting_names() {
    assert!(opens("10.1.2.3", r#"["hooks.corp"]"#, Reach::Named));
    assert!(opens(
        "64:ff9b::10.1.2.3",
        r#"["hooks.corp"]"#,
        Reach::Named
    ));
    assert!(opens(
        "64:ff9b::a01:203",
        r#"["64:ff9b::/96"]"#,
        Reach::Public
    ));
    assert!(opens("127.0.0.1", r#"["localhost"]"#, Reach::Named));
    assert!(opens(
        "169.254.170.2",
        r#"["169.254.170.2"]"#,
        Reach::Public
    ));
    assert!(
        opens("1.1.1.1", "[]", Reach::Public) && opens("2606:4700:4700::1111", "[]", Reach::Public)
    );
}
