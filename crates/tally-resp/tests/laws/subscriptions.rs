//! Laws: messages of a stream are read as they were made, whatever characters their keys have; a client hears of what
//! it listens to, and of nothing else.

use tally_redis::notifications::{KeyEvent, KeyMessage, Subscription, messages_in};
use tally_resp::encoder::Encoder;
use tally_resp::subscriptions::{SUBSCRIBED_MAX, Subscriptions, Wanted};

fn stream(is_pattern: bool, names: &[&str]) -> Subscription {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Subscription::new(is_pattern, names).expect("channels")
}

fn text(encoder: &mut Encoder) -> String {
    String::from_utf8(encoder.take())
        .expect("text")
        .replace("\r\n", "|")
}

#[test]
fn messages_are_read_as_they_were_made() {
    for key in ["a", "a,b", "a\nb", "a,__keyspace@0__:b,c", "é", "data: x"] {
        let event = KeyEvent::new("incrby", key);
        for (is_pattern, name) in [
            (false, format!("__keyspace@0__:{key}")),
            (false, "__keyevent@0__:incrby".to_owned()),
            (true, "__key*".to_owned()),
            (true, "__keyevent@0__:*".to_owned()),
        ] {
            let stream = stream(is_pattern, &[&name]);
            for message in messages_in(&stream, &stream.frames(&event)) {
                let KeyMessage::Of {
                    pattern,
                    channel,
                    payload,
                } = message
                else {
                    panic!("a farewell");
                };
                assert_eq!(pattern, is_pattern.then(|| name.clone()));
                match channel.starts_with("__keyspace") {
                    true => assert_eq!(
                        (channel, payload),
                        (format!("__keyspace@0__:{key}"), "incrby".to_owned())
                    ),
                    false => assert_eq!(
                        (channel.as_str(), payload.as_str()),
                        ("__keyevent@0__:incrby", key)
                    ),
                }
            }
        }
    }
    let all = stream(true, &["__key*"]);
    assert_eq!(
        messages_in(&all, &all.frames(&KeyEvent::new("set", "a"))).len(),
        2
    );
    assert_eq!(messages_in(&all, &all.greeting()), []);
    assert_eq!(messages_in(&all, ": ping\n\n"), []);
    assert_eq!(messages_in(&all, &all.farewell()), [KeyMessage::Farewell]);
}

#[test]
fn a_client_hears_of_what_it_listens_to() {
    let (mut known, mut out) = (Subscriptions::default(), Encoder::default());
    let one = stream(false, &["__keyspace@0__:a", "__keyspace@0__:b"]);
    known.add(&one, &mut out);
    assert_eq!(
        text(&mut out),
        "*3|$9|subscribe|$16|__keyspace@0__:a|:1|*3|$9|subscribe|$16|__keyspace@0__:b|:2|"
    );
    let sets = |key: &str| one.frames(&KeyEvent::new("set", key));
    assert!(!known.hear(&one, &sets("a"), &mut out));
    assert_eq!(text(&mut out), "*3|$7|message|$16|__keyspace@0__:a|$3|set|");
    known.remove(
        Wanted::NoChannels,
        vec!["__keyspace@0__:a".to_owned()],
        &mut out,
    );
    assert_eq!(
        text(&mut out),
        "*3|$11|unsubscribe|$16|__keyspace@0__:a|:1|"
    );
    known.hear(&one, &[sets("a"), sets("b")].concat(), &mut out);
    assert_eq!(text(&mut out), "*3|$7|message|$16|__keyspace@0__:b|$3|set|");
    assert!(known.is_heard(&one));
    known.remove(Wanted::NoChannels, Vec::new(), &mut out);
    assert_eq!(
        text(&mut out),
        "*3|$11|unsubscribe|$16|__keyspace@0__:b|:0|"
    );
    assert!(!known.is_heard(&one));
    known.remove(Wanted::NoPatterns, Vec::new(), &mut out);
    assert_eq!(text(&mut out), "*3|$12|punsubscribe|$-1|:0|");
    assert!(known.hear(&one, &one.farewell(), &mut out));
}

#[test]
fn a_connection_listens_to_so_many_channels() {
    let (mut known, mut out) = (Subscriptions::default(), Encoder::default());
    let names: Vec<String> = (0..SUBSCRIBED_MAX)
        .map(|index| format!("__keyspace@0__:{index}"))
        .collect();
    let full = Subscription::new(false, names).expect("channels");
    assert!(known.has_room(&full));
    known.add(&full, &mut out);
    assert!(!known.has_room(&stream(true, &["__keyspace@0__:*"])));
}
