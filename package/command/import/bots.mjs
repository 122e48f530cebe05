// Which user agents name themselves as programs: the words and the rule of crates/tally-protocol/src/bots.rs, which a
// test compares.

/** What programs call themselves, in lower case. */
export const WORDS = [
  "adsbot", "ahc/", "aiohttp", "anthropic-ai", "apache-http", "apis-google", "archive.org", "archiver", "axios/", "bot",
  "bingpreview", "bytespider", "chatgpt-user", "cohere-ai", "crawl", "cubot", "curl/", "dataprovider",
  "deadlinkchecker", "embedly", "ezooms", "facebookexternalhit", "feedbin", "feedburner", "feedly", "feedparser",
  "fetcher", "go-http-client", "google-inspectiontool", "google favicon", "googleother", "gtmetrix", "guzzlehttp",
  "headless",
  "http://",
  "https://",
  "http_request", "httpclient", "httpie/", "httrack", "httpx", "ia_archiver", "insomnia/", "java/", "jakarta commons",
  "libfetch", "libwww", "lighthouse", "lychee", "linkcheck", "masscan", "mediapartners-google", "meta-external",
  "monitoring", "nikto", "node-fetch", "nuclei", "nutch", "nmap scripting", "newsblur", "outbrain", "pagespeed",
  "perplexity", "phantomjs", "pingdom", "playwright", "postmanruntime", "proximic", "puppeteer", "python",
  "quora link preview", "rss reader", "rss/", "ruby", "scrapy", "scraper", "selenium", "slurp", "spider", "sqlmap",
  "statuscake", "undici", "uptime", "validator", "vkshare", "w3c_", "wayback", "wget/", "whatsapp/", "zgrab",
];
// The phone CUBOT has a rule of its own: what comes after its name may still name a program.
const PATTERN = new RegExp(
  WORDS.filter((word) => word !== "cubot")
    .map((word) => word.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"))
    .join("|"),
  "i",
);
const USER_AGENT_CHARACTERS_MAX = 1_024;

/** Returns whether a user agent is a program's. A missing or empty one is: every browser sends one. */
export function isBot(agent) {
  const text = agent.trim().slice(0, USER_AGENT_CHARACTERS_MAX);
  return text === "" || text === "-" || PATTERN.test(text.replace(/cubot/gi, " "));
}
