//! Laws of bots: programs that name themselves are known in any case, browsers never are.

use tally_logs::bots::{USER_AGENT_BYTES_MAX, is_bot};

const BOTS: &[&str] = &[
    "",
    "  ",
    "-",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/136.0.0.0 Safari/537.36",
    "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
    "Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)",
    "DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)",
    "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "meta-externalagent/1.1",
    "Twitterbot/1.0",
    "LinkedInBot/1.0 (compatible; Mozilla/5.0)",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "WhatsApp/2.23.20.0",
    "TelegramBot (like TwitterBot)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0)",
    "Mozilla/5.0 (compatible; Bytespider; spider-feedback@bytedance.com)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0)",
    "CCBot/2.0 (https://commoncrawl.org/faq/)",
    "ia_archiver",
    "Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/136.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Linux; Android 11; moto g power) AppleWebKit/537.36 Chrome/136.0.0.0 Mobile Safari/537.36 Chrome-Lighthouse",
    "Mozilla/5.0 (compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
    "Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)",
    "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
    "curl/8.7.1",
    "Wget/1.21.4",
    "python-requests/2.32.3",
    "Python/3.12 aiohttp/3.9.5",
    "python-httpx/0.27.0",
    "Go-http-client/2.0",
    "Java/17.0.10",
    "Apache-HttpClient/4.5.14 (Java/17.0.10)",
    "node-fetch/1.0 (+https://github.com/bitinn/node-fetch)",
    "undici",
    "axios/1.7.2",
    "PostmanRuntime/7.39.0",
    "libwww-perl/6.77",
    "Scrapy/2.11.2 (+https://scrapy.org)",
    "W3C_Validator/1.3",
    "Mozilla/5.0 (CUBOT NOTE 20) compatible; Googlebot/2.1",
    "UniversalFeedParser/3.3 Feedfetcher-Google",
];

const BROWSERS: &[&str] = &[
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/136.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/136.0.0.0 Safari/537.36 Edg/136.0.0.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/134.0.0.0 Safari/537.36 OPR/119.0.0.0",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Safari/605.1.15",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/510.0.0.43.108;FBBV/730000000]",
    "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/136.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Linux; Android 10; CUBOT NOTE 20) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Linux; Android 14; SAMSUNG SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/27.0 Chrome/125.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/134.0.0.0 YaBrowser/25.4.0.0 Safari/537.36",
    "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/136.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko",
    "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Trident/4.0)",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Slack/4.43.51 Chrome/134.0.0.0 Electron/35.0.0 Safari/537.36",
    "Opera/9.80 (Windows NT 6.1) Presto/2.12.388 Version/12.18",
    "Lynx/2.9.0 libwww",
];

#[test]
fn programs_that_name_themselves_are_bots_in_any_case() {
    for agent in BOTS {
        assert!(is_bot(agent), "{agent}");
        assert!(is_bot(&agent.to_ascii_uppercase()), "{agent}");
        assert!(is_bot(&agent.to_ascii_lowercase()), "{agent}");
    }
}

const PEOPLE: &str = include_str!("../../../../tests/fixtures/user-agents/people.txt");
const PROGRAMS: &str = include_str!("../../../../tests/fixtures/user-agents/programs.txt");

fn wrong(corpus: &str, is_program: bool) -> Vec<&str> {
    let agents = corpus.lines().filter(|line| !line.starts_with("# "));
    let agents = agents.filter(|agent| !agent.is_empty());
    agents.filter(|agent| is_bot(agent) != is_program).collect()
}

#[test]
fn phones_apps_televisions_and_consoles_stay_people() {
    assert!(PEOPLE.lines().count() > 500);
    let wrong = wrong(PEOPLE, false);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn health_checks_libraries_and_crawlers_are_programs() {
    assert!(PROGRAMS.lines().count() > 400);
    let wrong = wrong(PROGRAMS, true);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn browsers_are_not() {
    // Text browsers name the library that crawlers use too: the last is taken for one.
    let (lynx, graphical) = BROWSERS.split_last().expect("browsers");
    for agent in graphical {
        assert!(!is_bot(agent), "{agent}");
        assert!(!is_bot(&agent.to_ascii_lowercase()), "{agent}");
    }
    assert!(is_bot(lynx));
}

#[test]
fn no_more_than_the_beginning_is_looked_at() {
    let pad = |bytes: usize| "; ".repeat(bytes / 2);
    let within = ["y", &pad(USER_AGENT_BYTES_MAX - 4), "bot"].concat();
    assert_eq!(within.len(), USER_AGENT_BYTES_MAX);
    assert!(is_bot(&within));
    assert!(!is_bot(
        &["y", &pad(USER_AGENT_BYTES_MAX - 2), "bot"].concat()
    ));
    // A character that is cut in half is no fault.
    assert!(!is_bot(&"ü".repeat(USER_AGENT_BYTES_MAX)));
}

#[test]
fn a_real_log_has_both() {
    let log = include_str!("../../../../tests/fixtures/access.log");
    let agents: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split('"').nth(5))
        .collect();
    let bots = agents.iter().filter(|agent| is_bot(agent)).count();
    assert_eq!((agents.len(), bots), (2_000, 801));
}
