//! The words of programs, written by `scripts/bots.mjs` from isbot 5.2.3 (npm, Unlicense). Do not edit.
//!
//! A word is a byte (0x80: no letter or digit stands before it; 0x40: none behind it; and its length) and its text.

/// Words at the beginning of a user agent.
pub(super) const STARTS: &[u8] = b"\x01(\x01;\x01<\x03bot\x03php\x03rss\x03svn\x03w3c\x04java\x04rank\x04read\x04reed\x04rest\x04wget\
      \x04zdm/\x05amaya\x05azure\x05email\x05owler\x05sora \x05swcd \x05track\x05yahoo\x06active\x06custom\
      \x06hobbit\x06hwcdn/\x06jeode/\x06jetty/\x06jigsaw\x06python\x06stape/\x06yandex\x07apache/\x07clamav \
      \x07clamav/\x07client/\x07cobweb/\x07hotzonu\x07netsurf\x07offline\x07openai/\x07postman\x07taringa\x08facebook\
      \x08gozilla/\x08igetter/\x08snapchat\x08thumbor/\x08whatsapp\x09biglotron\x09discourse\x09dispatch/\x09downcast/\
      \x09getright/\x09ps_daily/\x09webcopier\x09wordpress\x0aad muncher\x0aduckduckgo\x0aremove.bg/\x0awebbandit/\
      \x0bddg-android\x0bddg_android\x0bmovabletype\x0bspace bison\x0cclaude-code/\x0cnavermailapp\x0davsdevicesdk/\
      \x0eexodusmovement\x0emicrosoft bits\x10xenu link sleuth\x11blackbox exporter\x11zoom marketplace/";

/// Words anywhere, by the byte that they begin with.
pub(super) const WORDS: &[(u8, &[u8])] = &[
    (b' ', b"\x06 daum \x06 daum/\x07 deusu/"),
    (b'(', b"\x02()"),
    (b'.', b"\x44.com"),
    (b'2', b"\x0424x7"),
    (b'a', b"\x05abuse\x05audit\x06axios/\x07advisor\x07archive\x08analyzer\x08attracta\x10ask jeeves/teoma\x45agent"),
    (b'b', b"\x04bot_\x05bots_\x07browsex\x10burpcollaborator\x43bot\x44bots\x83bw/\x88blackbox"),
    (b'c', b"\x05catch\x05crawl\x07capture\x07checker\x07cursor/\x08cypress/\x0aclassifier\x0acloudflare\x0aconvertify\
      \x10cookiehubverify/\x11chrome-lighthouse\x45check\x4acollapsify"),
    (b'd', b"\x06detect\x07datadog\x08datanyze\x08download\x09dareboost\x09dejaclick\x09discovery\x09dmbrowser\xc3dlc"),
    (b'e', b"\x08envoy/hc\x10exaleadcloudview"),
    (b'f', b"\x04feed\x09foregenix\x0bfunctionize"),
    (b'g', b"\x04grab\x06google\x08gtmetrix"),
    (b'h', b"\x04http\x06hotjar\x07haproxy\x07httrack\x08headless\x0bhealthcheck\x0chealth check\x0chealth-check\
      \x0chealth_check\x18hubspot marketing grader\x49hardenize"),
    (b'i', b"\x07insight\x07inspect\x07iplabel\x0ainfrawatch\x0bibisbrowser"),
    (b'j', b"\x05java/\x0fjakarta commons"),
    (b'k', b"\x8akube-probe"),
    (b'l', b"\x06libwww\x07library\x09linkcheck\x09linktiger"),
    (b'm', b"\x07masscan\x07measure\x08mail.ru/\x0amarketgoo/\x0amonitoring\x0bmanus-user/\x47monitor"),
    (b'n', b"\x04news\x05nikto\x05nutch\x06nuclei\x0bneustar wpm\x44node\xc4nmap"),
    (b'o', b"\x07openvas\x08offbyone\x08optimize\x84ort/"),
    (b'p', b"\x05ptst \x05ptst/\x06parser\x07pingdom\x07preview\x09pageburst\x09pagespeed\x09phantomjs\x0aplaywright\
      \x0apowermarks\x0dproductfinder\x11prospectingstudio\x8bprometheus/\xc4perl"),
    (b'r', b"\x05rexx;\x05rigor\x09readable/\x09retriever\x43rss"),
    (b's', b"\x05slurp\x06scrape\x06server\x06spider\x06splash\x06sqlmap\x07sindup/\x07synapse\x08scanner/\x08scanning\
      \x08selenium\x08silktide\x09sparkler/\x09synthetic\x0aspeedcurve\x0astatuscake\x0csupercleaner\x0fsecurityheaders"),
    (b't', b"\x05tools\x07torrent\x0atranscoder\x0btestlocally\x85time/"),
    (b'u', b"\x03url\x06undici\x06uptime"),
    (b'v', b"\x08virtuoso\x09validator"),
    (b'w', b"\x08whatcms/\x09watchtowr\x09webglance\x0awappalyzer\x0awebkit2png"),
    (b'x', b"\x06xtate/"),
    (b'z', b"\x86zabbix"),
    (b'|', b"\x01|"),
];

/// Names of people's programs and devices in which a word stands.
pub(super) const PEOPLE: &[u8] = b"\x0f channel/google\x07appletv\x05cubot\x05gnews\x0dgoogle chrome\x0cgoogle pixel\x09google tv\x0dgoogle/google\
      \x09googleapp\x08googletv\x08googlewv\x07libhttp\x07newsapp\x0cnewsarticle/\x09newsbreak\x0cnewssapphire\
      \x0csonyericsson\x04wii ";
