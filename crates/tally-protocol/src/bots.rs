//! User agents of programs that identify themselves: crawlers, monitors, scripts.
//!
//! Invariant: the decision depends on the first [`USER_AGENT_BYTES_MAX`] bytes of the user agent only. It is no
//! defence: a program that wants to be counted sends a browser's user agent.
//!
//! The table holds the names of such programs in lower case, by first letter, so that a browser's user agent is
//! compared with few of them at each byte. Most contain `bot`. There is a phone called CUBOT, which has a rule of its
//! own.

use super::visitor::USER_AGENT_BYTES_MAX;

/// The words, by the lower-case letter that they begin with.
const WORDS: [&[&str]; 26] = [
    &[
        "adsbot",
        "ahc/",
        "aiohttp",
        "anthropic-ai",
        "apache-http",
        "apis-google",
        "archive.org",
        "archiver",
        "axios/",
    ],
    &["bot", "bingpreview", "bytespider"],
    &["chatgpt-user", "cohere-ai", "crawl", "cubot", "curl/"],
    &["dataprovider", "deadlinkchecker"],
    &["embedly", "ezooms"],
    &[
        "facebookexternalhit",
        "feedbin",
        "feedburner",
        "feedly",
        "feedparser",
        "fetcher",
    ],
    &[
        "go-http-client",
        "google-inspectiontool",
        "google favicon",
        "googleother",
        "gtmetrix",
        "guzzlehttp",
    ],
    &[
        "headless",
        "http://",
        "https://",
        "http_request",
        "httpclient",
        "httpie/",
        "httrack",
        "httpx",
    ],
    &["ia_archiver", "insomnia/"],
    &["java/", "jakarta commons"],
    &[],
    &["libfetch", "libwww", "lighthouse", "lychee", "linkcheck"],
    &[
        "masscan",
        "mediapartners-google",
        "meta-external",
        "monitoring",
    ],
    &[
        "nikto",
        "node-fetch",
        "nuclei",
        "nutch",
        "nmap scripting",
        "newsblur",
    ],
    &["outbrain"],
    &[
        "pagespeed",
        "perplexity",
        "phantomjs",
        "pingdom",
        "playwright",
        "postmanruntime",
        "proximic",
        "puppeteer",
        "python",
    ],
    &["quora link preview"],
    &["rss reader", "rss/", "ruby"],
    &[
        "scrapy",
        "scraper",
        "selenium",
        "slurp",
        "spider",
        "sqlmap",
        "statuscake",
    ],
    &[],
    &["undici", "uptime"],
    &["validator", "vkshare"],
    &["w3c_", "wayback", "wget/", "whatsapp/"],
    &[],
    &[],
    &["zgrab"],
];

/// Returns the words that begin with this letter.
fn words(first: u8) -> &'static [&'static str] {
    let letter = first.to_ascii_lowercase().wrapping_sub(b'a');
    WORDS.get(usize::from(letter)).copied().unwrap_or_default()
}

/// Returns whether a user agent is a program's. A missing or empty one is, because every browser sends one.
///
/// Cost: for each byte at most nine comparisons, most of which end with the second byte; 1,024 bytes at most.
pub fn is_bot(user_agent: &str) -> bool {
    let bytes = user_agent.trim().as_bytes();
    let bytes = bytes.get(..USER_AGENT_BYTES_MAX).unwrap_or(bytes);
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let begins = |word: &&str| {
            rest.get(..word.len())
                .is_some_and(|text| text.eq_ignore_ascii_case(word.as_bytes()))
        };
        match words(*first).iter().find(|word| begins(word)) {
            // The phone; the rest of the text may still name a program.
            Some(&"cubot") => rest = rest.get("cubot".len()..).unwrap_or_default(),
            Some(_) => return true,
            None => rest = after,
        }
    }
    // Logs write a dash where there was none.
    bytes.is_empty() || bytes == b"-"
}
