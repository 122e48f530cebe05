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
    known.add(&one, &one, &mut out);
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
    known.add(&full, &full, &mut out);
    assert!(!known.has_room(&stream(true, &["__keyspace@0__:*"])));
}

#[test]
fn a_message_arrives_once_however_often_a_client_subscribes() {
    let [a, b, c] = ["a", "b", "c"].map(|key| format!("__keyspace@0__:{key}"));
    let (mut known, mut out) = (Subscriptions::default(), Encoder::default());
    let both = stream(false, &[&a, &b]);
    assert_eq!(known.missing(&both), Some(both.clone()));
    known.add(&both, &both, &mut out);
    assert_eq!(known.missing(&stream(false, &[&b, &a, &b])), None);
    assert!(known.missing(&stream(true, &[&a])).is_some());
    let wanted = stream(false, &[&b, &c, &a, &c]);
    let more = known.missing(&wanted).expect("a stream");
    assert_eq!(more, stream(false, &[&c]));
    out.take();
    known.add(&wanted, &more, &mut out);
    let confirmed = text(&mut out);
    let order = [&b, &c, &a, &c].map(|name| format!("*3|$9|subscribe|$16|{name}|"));
    let mut rest = confirmed.as_str();
    for (one, count) in order.iter().zip([2, 3, 3, 3]) {
        rest = rest.strip_prefix(&format!("{one}:{count}|")).expect(one);
    }
    // A stream that was left for one of its names does not bring that name's messages any more.
    known.remove(Wanted::NoChannels, vec![a.clone()], &mut out);
    let again = known.missing(&stream(false, &[&a])).expect("a stream");
    known.add(&again, &again, &mut out);
    out.take();
    let event = KeyEvent::new("set", "a");
    for one in [&both, &more, &again] {
        known.hear(one, &one.frames(&event), &mut out);
    }
    assert_eq!(text(&mut out).matches("message").count(), 1);
    assert!([&both, &more, &again].iter().all(|one| known.is_heard(one)));
    known.remove(Wanted::NoChannels, vec![b], &mut out);
    assert!(!known.is_heard(&both));
}
