//! Zones: how far the clock of a place is ahead of UTC, with its summer time.
//!
//! Invariant: a zone is stored as one number, which never changes. A new zone is added at the end of [`NAMES`], and
//! none is removed.
//!
//! **Source**: the time zone database of IANA, 2025b. Each zone of a place has the rule that holds from now on (the
//! last line of its compiled file). Zones whose summer time follows the moon or a decree of each year (Casablanca,
//! Gaza) are left out.

use serde::{Deserialize, Serialize};

use crate::calendar::{DAY, MINUTE, first_day, month_of};
use crate::order::put_in_order;

/// The largest distance of a zone from UTC, minutes: 14 hours, that of the farthest zone.
pub const ZONE_MINUTES_MAX: i32 = 14 * 60;

/// Numbers of named zones begin here. A lower number is a fixed distance from UTC, in minutes.
const NAMED: i32 = 1_000;

/// A zone: a name such as `Europe/Berlin`, or a fixed distance from UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone(i32);

/// The day and time of a clock change in a year: month, week from 1 (5 is the last), day of the week from Sunday, and
/// minutes of the day on the clock before the change.
type Change = (i64, i64, i64, i64);

/// When clocks are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    /// Minutes ahead of UTC, as the standard of the zone has them.
    standard: i64,
    /// Minutes ahead of UTC between two changes of each year.
    summer: Option<(i64, Change, Change)>,
}

impl Rule {
    const fn fixed(standard: i64) -> Self {
        Self {
            standard,
            summer: None,
        }
    }

    const fn summer((standard, summer): (i64, i64), begins: Change, ends: Change) -> Self {
        Self {
            standard,
            summer: Some((summer, begins, ends)),
        }
    }

    /// The clock changes in a year: (unix seconds, minutes ahead of UTC from then on).
    fn changes(&self, year: i64) -> [Option<(i64, i64)>; 2] {
        let Some((summer, begins, ends)) = self.summer else {
            return [None; 2];
        };
        let both = [
            (begins, self.standard, summer),
            (ends, summer, self.standard),
        ];
        both.map(|((month, week, weekday, minutes), from, to)| {
            let first = first_day(year * 12 + month - 1);
            let next = first_day(year * 12 + month);
            // 1970-01-01 was a Thursday.
            let until = (weekday - (first + 4)).rem_euclid(7);
            let day = first + until + (week - 1) * 7;
            let day = if day < next { day } else { day - 7 };
            Some((day * DAY + (minutes - from) * MINUTE, to))
        })
    }

    /// The changes around a moment, in their order.
    fn changes_about(&self, at: i64) -> Vec<(i64, i64)> {
        let year = month_of(at.div_euclid(DAY)).div_euclid(12);
        let years = (year - 1)..=(year + 1);
        let mut changes: Vec<(i64, i64)> = years
            .flat_map(|year| self.changes(year))
            .flatten()
            .collect();
        put_in_order(&mut changes, Ord::cmp);
        changes
    }

    /// How many minutes the clock is ahead of UTC at a moment, unix seconds.
    fn minutes_at(&self, at: i64) -> i64 {
        let changes = self.changes_about(at);
        let before = changes.iter().rev().find(|(change, _)| *change <= at);
        before.map_or(self.standard, |(_, minutes)| *minutes)
    }

    /// The first moment at which the clock shows this time or a later one.
    fn first_at(&self, local: i64) -> i64 {
        let summer = self.summer.map_or(self.standard, |(summer, _, _)| summer);
        let ahead = [self.standard.max(summer), self.standard.min(summer)];
        let found = ahead.into_iter().find_map(|minutes| {
            let at = local - minutes * MINUTE;
            (self.minutes_at(at) == minutes).then_some(at)
        });
        // The clock never shows this time: a change skips it.
        found.unwrap_or_else(|| {
            let changes = self.changes_about(local);
            let shows = |change: &&(i64, i64)| change.0 + change.1 * MINUTE >= local;
            let change = changes.iter().find(shows);
            change.map_or(local - self.standard * MINUTE, |(at, _)| *at)
        })
    }
}

impl Zone {
    /// A fixed distance from UTC; `None` beyond [`ZONE_MINUTES_MAX`].
    pub fn fixed(minutes: i32) -> Option<Self> {
        (minutes.abs() <= ZONE_MINUTES_MAX).then_some(Self(minutes))
    }

    /// The zone of a text: `UTC`, `+02:00` or a name such as `Europe/Berlin`.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "UTC" {
            return Some(Self::default());
        }
        if let Some(number) = names().position(|(name, _)| name == text) {
            let number = i32::try_from(number).ok()?;
            return Some(Self(NAMED + number));
        }
        let (hours, minutes) = text.get(1..)?.split_once(':')?;
        let two = |text: &str| {
            let is_two = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<i32>().ok().filter(|_| is_two)
        };
        let (hours, minutes) = (two(hours)?, two(minutes).filter(|minutes| *minutes < 60)?);
        match text.get(..1)? {
            "+" => Self::fixed(hours * 60 + minutes),
            "-" => Self::fixed(-(hours * 60 + minutes)),
            _ => None,
        }
    }

    /// Whether this build knows the zone.
    pub fn is_known(self) -> bool {
        self.0.abs() <= ZONE_MINUTES_MAX || self.named().is_some()
    }

    fn named(self) -> Option<(&'static str, Rule)> {
        let number = usize::try_from(self.0.checked_sub(NAMED)?).ok()?;
        let (name, rule) = names().nth(number)?;
        Some((name, *RULES.get(rule)?))
    }

    fn rule(self) -> Rule {
        let named = self.named().map(|(_, rule)| rule);
        named.unwrap_or(Rule::fixed(i64::from(self.0)))
    }

    /// The time that the clock shows at a moment: both seconds, since 1970 began in UTC and on the clock.
    pub(super) fn local(self, at: i64) -> i64 {
        at + self.rule().minutes_at(at) * MINUTE
    }

    /// The first moment at which the clock shows this time or a later one: both seconds.
    pub(super) fn first_at(self, local: i64) -> i64 {
        self.rule().first_at(local)
    }

    /// Minutes ahead of UTC, as the standard of the zone has them.
    pub(super) fn standard_minutes(self) -> i64 {
        self.rule().standard
    }
}

impl std::fmt::Display for Zone {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((name, _)) = self.named() {
            return formatter.write_str(name);
        }
        let (sign, ahead) = (if self.0 < 0 { '-' } else { '+' }, self.0.abs());
        match ahead {
            0 => formatter.write_str("UTC"),
            _ => write!(formatter, "{sign}{:02}:{:02}", ahead / 60, ahead % 60),
        }
    }
}

/// The names of zones, in the order of their numbers.
pub fn zone_names() -> impl Iterator<Item = &'static str> {
    names().map(|(name, _)| name)
}

/// The zones that have names, in the order of their numbers, with the places of their rules.
fn names() -> impl Iterator<Item = (&'static str, usize)> {
    let mut words = NAMES.split(' ');
    std::iter::from_fn(move || Some((words.next()?, words.next()?.parse().ok()?)))
}

/// The rules, each once. Their places stand in [`NAMES`] and nowhere else.
const RULES: [Rule; 62] = [
    Rule::fixed(-660),
    Rule::fixed(-600),
    Rule::fixed(-570),
    Rule::fixed(-540),
    Rule::fixed(-480),
    Rule::fixed(-420),
    Rule::fixed(-360),
    Rule::fixed(-300),
    Rule::fixed(-240),
    Rule::fixed(-180),
    Rule::fixed(-120),
    Rule::fixed(-60),
    Rule::fixed(0),
    Rule::fixed(60),
    Rule::fixed(120),
    Rule::fixed(180),
    Rule::fixed(210),
    Rule::fixed(240),
    Rule::fixed(270),
    Rule::fixed(300),
    Rule::fixed(330),
    Rule::fixed(345),
    Rule::fixed(360),
    Rule::fixed(390),
    Rule::fixed(420),
    Rule::fixed(480),
    Rule::fixed(525),
    Rule::fixed(540),
    Rule::fixed(570),
    Rule::fixed(600),
    Rule::fixed(660),
    Rule::fixed(720),
    Rule::fixed(780),
    Rule::fixed(840),
    Rule::summer((-600, -540), (3, 2, 0, 120), (11, 1, 0, 120)),
    Rule::summer((-540, -480), (3, 2, 0, 120), (11, 1, 0, 120)),
    Rule::summer((-480, -420), (3, 2, 0, 120), (11, 1, 0, 120)),
    Rule::summer((-420, -360), (3, 2, 0, 120), (11, 1, 0, 120)),
    Rule::summer((-360, -300), (3, 2, 0, 120), (11, 1, 0, 120)),
    Rule::summer((-360, -300), (9, 1, 6, 1320), (4, 1, 6, 1320)),
    Rule::summer((-300, -240), (3, 2, 0, 0), (11, 1, 0, 60)),
    Rule::summer((-300, -240), (3, 2, 0, 120), (11, 1, 0, 120)),
    Rule::summer((-240, -180), (3, 2, 0, 120), (11, 1, 0, 120)),
    Rule::summer((-240, -180), (9, 1, 6, 1440), (4, 1, 6, 1440)),
    Rule::summer((-210, -150), (3, 2, 0, 120), (11, 1, 0, 120)),
    Rule::summer((-180, -120), (3, 2, 0, 120), (11, 1, 0, 120)),
    Rule::summer((-120, -60), (3, 5, 0, -60), (10, 5, 0, 0)),
    Rule::summer((-60, 0), (3, 5, 0, 0), (10, 5, 0, 60)),
    Rule::summer((0, 60), (3, 5, 0, 60), (10, 5, 0, 120)),
    Rule::summer((60, 0), (10, 5, 0, 120), (3, 5, 0, 60)),
    Rule::summer((60, 120), (3, 5, 0, 120), (10, 5, 0, 180)),
    Rule::summer((120, 180), (3, 4, 4, 1560), (10, 5, 0, 120)),
    Rule::summer((120, 180), (3, 5, 0, 0), (10, 5, 0, 0)),
    Rule::summer((120, 180), (3, 5, 0, 120), (10, 5, 0, 180)),
    Rule::summer((120, 180), (3, 5, 0, 180), (10, 5, 0, 240)),
    Rule::summer((120, 180), (4, 5, 5, 0), (10, 5, 4, 1440)),
    Rule::summer((570, 630), (10, 1, 0, 120), (4, 1, 0, 180)),
    Rule::summer((600, 660), (10, 1, 0, 120), (4, 1, 0, 180)),
    Rule::summer((630, 660), (10, 1, 0, 120), (4, 1, 0, 120)),
    Rule::summer((660, 720), (10, 1, 0, 120), (4, 1, 0, 180)),
    Rule::summer((720, 780), (9, 5, 0, 120), (4, 1, 0, 180)),
    Rule::summer((765, 825), (9, 5, 0, 165), (4, 1, 0, 225)),
];

/// The zones that have names, each with the place of its rule. Append only.
const NAMES: &str = "\
    Africa/Abidjan 12 Africa/Accra 12 Africa/Addis_Ababa 15 Africa/Algiers 13 Africa/Asmara 15 Africa/Asmera 15 \
    Africa/Bamako 12 Africa/Bangui 13 Africa/Banjul 12 Africa/Bissau 12 Africa/Blantyre 14 Africa/Brazzaville 13 \
    Africa/Bujumbura 14 Africa/Cairo 55 Africa/Ceuta 50 Africa/Conakry 12 Africa/Dakar 12 Africa/Dar_es_Salaam 15 \
    Africa/Djibouti 15 Africa/Douala 13 Africa/Freetown 12 Africa/Gaborone 14 Africa/Harare 14 Africa/Johannesburg 14 \
    Africa/Juba 14 Africa/Kampala 15 Africa/Khartoum 14 Africa/Kigali 14 Africa/Kinshasa 13 Africa/Lagos 13 \
    Africa/Libreville 13 Africa/Lome 12 Africa/Luanda 13 Africa/Lubumbashi 14 Africa/Lusaka 14 Africa/Malabo 13 \
    Africa/Maputo 14 Africa/Maseru 14 Africa/Mbabane 14 Africa/Mogadishu 15 Africa/Monrovia 12 Africa/Nairobi 15 \
    Africa/Ndjamena 13 Africa/Niamey 13 Africa/Nouakchott 12 Africa/Ouagadougou 12 Africa/Porto-Novo 13 Africa/Sao_Tome 12 \
    Africa/Timbuktu 12 Africa/Tripoli 14 Africa/Tunis 13 Africa/Windhoek 14 America/Adak 34 America/Anchorage 35 \
    America/Anguilla 8 America/Antigua 8 America/Araguaina 9 America/Argentina/Buenos_Aires 9 America/Argentina/Catamarca 9 \
    America/Argentina/ComodRivadavia 9 America/Argentina/Cordoba 9 America/Argentina/Jujuy 9 America/Argentina/La_Rioja 9 \
    America/Argentina/Mendoza 9 America/Argentina/Rio_Gallegos 9 America/Argentina/Salta 9 America/Argentina/San_Juan 9 \
    America/Argentina/San_Luis 9 America/Argentina/Tucuman 9 America/Argentina/Ushuaia 9 America/Aruba 8 America/Asuncion 9 \
    America/Atikokan 7 America/Atka 34 America/Bahia 9 America/Bahia_Banderas 6 America/Barbados 8 America/Belem 9 \
    America/Belize 6 America/Blanc-Sablon 8 America/Boa_Vista 8 America/Bogota 7 America/Boise 37 America/Buenos_Aires 9 \
    America/Cambridge_Bay 37 America/Campo_Grande 8 America/Cancun 7 America/Caracas 8 America/Catamarca 9 \
    America/Cayenne 9 America/Cayman 7 America/Chicago 38 America/Chihuahua 6 America/Ciudad_Juarez 37 \
    America/Coral_Harbour 7 America/Cordoba 9 America/Costa_Rica 6 America/Coyhaique 9 America/Creston 5 America/Cuiaba 8 \
    America/Curacao 8 America/Danmarkshavn 12 America/Dawson 5 America/Dawson_Creek 5 America/Denver 37 America/Detroit 41 \
    America/Dominica 8 America/Edmonton 37 America/Eirunepe 7 America/El_Salvador 6 America/Ensenada 36 \
    America/Fort_Nelson 5 America/Fort_Wayne 41 America/Fortaleza 9 America/Glace_Bay 42 America/Godthab 46 \
    America/Goose_Bay 42 America/Grand_Turk 41 America/Grenada 8 America/Guadeloupe 8 America/Guatemala 6 \
    America/Guayaquil 7 America/Guyana 8 America/Halifax 42 America/Havana 40 America/Hermosillo 5 \
    America/Indiana/Indianapolis 41 America/Indiana/Knox 38 America/Indiana/Marengo 41 America/Indiana/Petersburg 41 \
    America/Indiana/Tell_City 38 America/Indiana/Vevay 41 America/Indiana/Vincennes 41 America/Indiana/Winamac 41 \
    America/Indianapolis 41 America/Inuvik 37 America/Iqaluit 41 America/Jamaica 7 America/Jujuy 9 America/Juneau 35 \
    America/Kentucky/Louisville 41 America/Kentucky/Monticello 41 America/Knox_IN 38 America/Kralendijk 8 America/La_Paz 8 \
    America/Lima 7 America/Los_Angeles 36 America/Louisville 41 America/Lower_Princes 8 America/Maceio 9 America/Managua 6 \
    America/Manaus 8 America/Marigot 8 America/Martinique 8 America/Matamoros 38 America/Mazatlan 5 America/Mendoza 9 \
    America/Menominee 38 America/Merida 6 America/Metlakatla 35 America/Mexico_City 6 America/Miquelon 45 \
    America/Moncton 42 America/Monterrey 6 America/Montevideo 9 America/Montreal 41 America/Montserrat 8 America/Nassau 41 \
    America/New_York 41 America/Nipigon 41 America/Nome 35 America/Noronha 10 America/North_Dakota/Beulah 38 \
    America/North_Dakota/Center 38 America/North_Dakota/New_Salem 38 America/Nuuk 46 America/Ojinaga 38 America/Panama 7 \
    America/Pangnirtung 41 America/Paramaribo 9 America/Phoenix 5 America/Port-au-Prince 41 America/Port_of_Spain 8 \
    America/Porto_Acre 7 America/Porto_Velho 8 America/Puerto_Rico 8 America/Punta_Arenas 9 America/Rainy_River 38 \
    America/Rankin_Inlet 38 America/Recife 9 America/Regina 6 America/Resolute 38 America/Rio_Branco 7 America/Rosario 9 \
    America/Santa_Isabel 36 America/Santarem 9 America/Santiago 43 America/Santo_Domingo 8 America/Sao_Paulo 9 \
    America/Scoresbysund 46 America/Shiprock 37 America/Sitka 35 America/St_Barthelemy 8 America/St_Johns 44 \
    America/St_Kitts 8 America/St_Lucia 8 America/St_Thomas 8 America/St_Vincent 8 America/Swift_Current 6 \
    America/Tegucigalpa 6 America/Thule 42 America/Thunder_Bay 41 America/Tijuana 36 America/Toronto 41 America/Tortola 8 \
    America/Vancouver 36 America/Virgin 8 America/Whitehorse 5 America/Winnipeg 38 America/Yakutat 35 \
    America/Yellowknife 37 Asia/Aden 15 Asia/Almaty 19 Asia/Amman 15 Asia/Anadyr 31 Asia/Aqtau 19 Asia/Aqtobe 19 \
    Asia/Ashgabat 19 Asia/Ashkhabad 19 Asia/Atyrau 19 Asia/Baghdad 15 Asia/Bahrain 15 Asia/Baku 17 Asia/Bangkok 24 \
    Asia/Barnaul 24 Asia/Beirut 52 Asia/Bishkek 22 Asia/Brunei 25 Asia/Calcutta 20 Asia/Chita 27 Asia/Choibalsan 25 \
    Asia/Chongqing 25 Asia/Chungking 25 Asia/Colombo 20 Asia/Dacca 22 Asia/Damascus 15 Asia/Dhaka 22 Asia/Dili 27 \
    Asia/Dubai 17 Asia/Dushanbe 19 Asia/Famagusta 54 Asia/Harbin 25 Asia/Ho_Chi_Minh 24 Asia/Hong_Kong 25 Asia/Hovd 24 \
    Asia/Irkutsk 25 Asia/Istanbul 15 Asia/Jakarta 24 Asia/Jayapura 27 Asia/Jerusalem 51 Asia/Kabul 18 Asia/Kamchatka 31 \
    Asia/Karachi 19 Asia/Kashgar 22 Asia/Kathmandu 21 Asia/Katmandu 21 Asia/Khandyga 27 Asia/Kolkata 20 Asia/Krasnoyarsk 24 \
    Asia/Kuala_Lumpur 25 Asia/Kuching 25 Asia/Kuwait 15 Asia/Macao 25 Asia/Macau 25 Asia/Magadan 30 Asia/Makassar 25 \
    Asia/Manila 25 Asia/Muscat 17 Asia/Nicosia 54 Asia/Novokuznetsk 24 Asia/Novosibirsk 24 Asia/Omsk 22 Asia/Oral 19 \
    Asia/Phnom_Penh 24 Asia/Pontianak 24 Asia/Pyongyang 27 Asia/Qatar 15 Asia/Qostanay 19 Asia/Qyzylorda 19 Asia/Rangoon 23 \
    Asia/Riyadh 15 Asia/Saigon 24 Asia/Sakhalin 30 Asia/Samarkand 19 Asia/Seoul 27 Asia/Shanghai 25 Asia/Singapore 25 \
    Asia/Srednekolymsk 30 Asia/Taipei 25 Asia/Tashkent 19 Asia/Tbilisi 17 Asia/Tehran 16 Asia/Tel_Aviv 51 Asia/Thimbu 22 \
    Asia/Thimphu 22 Asia/Tokyo 27 Asia/Tomsk 24 Asia/Ujung_Pandang 25 Asia/Ulaanbaatar 25 Asia/Ulan_Bator 25 Asia/Urumqi 22 \
    Asia/Ust-Nera 29 Asia/Vientiane 24 Asia/Vladivostok 29 Asia/Yakutsk 27 Asia/Yangon 23 Asia/Yekaterinburg 19 \
    Asia/Yerevan 17 Atlantic/Azores 47 Atlantic/Bermuda 42 Atlantic/Canary 48 Atlantic/Cape_Verde 11 Atlantic/Faeroe 48 \
    Atlantic/Faroe 48 Atlantic/Jan_Mayen 50 Atlantic/Madeira 48 Atlantic/Reykjavik 12 Atlantic/South_Georgia 10 \
    Atlantic/St_Helena 12 Atlantic/Stanley 9 Australia/ACT 57 Australia/Adelaide 56 Australia/Brisbane 29 \
    Australia/Broken_Hill 56 Australia/Canberra 57 Australia/Currie 57 Australia/Darwin 28 Australia/Eucla 26 \
    Australia/Hobart 57 Australia/LHI 58 Australia/Lindeman 29 Australia/Lord_Howe 58 Australia/Melbourne 57 \
    Australia/NSW 57 Australia/North 28 Australia/Perth 25 Australia/Queensland 29 Australia/South 56 Australia/Sydney 57 \
    Australia/Tasmania 57 Australia/Victoria 57 Australia/West 25 Australia/Yancowinna 56 Europe/Amsterdam 50 \
    Europe/Andorra 50 Europe/Astrakhan 17 Europe/Athens 54 Europe/Belfast 48 Europe/Belgrade 50 Europe/Berlin 50 \
    Europe/Bratislava 50 Europe/Brussels 50 Europe/Bucharest 54 Europe/Budapest 50 Europe/Busingen 50 Europe/Chisinau 53 \
    Europe/Copenhagen 50 Europe/Dublin 49 Europe/Gibraltar 50 Europe/Guernsey 48 Europe/Helsinki 54 Europe/Isle_of_Man 48 \
    Europe/Istanbul 15 Europe/Jersey 48 Europe/Kaliningrad 14 Europe/Kiev 54 Europe/Kirov 15 Europe/Kyiv 54 \
    Europe/Lisbon 48 Europe/Ljubljana 50 Europe/London 48 Europe/Luxembourg 50 Europe/Madrid 50 Europe/Malta 50 \
    Europe/Mariehamn 54 Europe/Minsk 15 Europe/Monaco 50 Europe/Moscow 15 Europe/Nicosia 54 Europe/Oslo 50 Europe/Paris 50 \
    Europe/Podgorica 50 Europe/Prague 50 Europe/Riga 54 Europe/Rome 50 Europe/Samara 17 Europe/San_Marino 50 \
    Europe/Sarajevo 50 Europe/Saratov 17 Europe/Simferopol 15 Europe/Skopje 50 Europe/Sofia 54 Europe/Stockholm 50 \
    Europe/Tallinn 54 Europe/Tirane 50 Europe/Tiraspol 53 Europe/Ulyanovsk 17 Europe/Uzhgorod 54 Europe/Vaduz 50 \
    Europe/Vatican 50 Europe/Vienna 50 Europe/Vilnius 54 Europe/Volgograd 15 Europe/Warsaw 50 Europe/Zagreb 50 \
    Europe/Zaporozhye 54 Europe/Zurich 50 Indian/Antananarivo 15 Indian/Chagos 22 Indian/Christmas 24 Indian/Cocos 23 \
    Indian/Comoro 15 Indian/Kerguelen 19 Indian/Mahe 17 Indian/Maldives 19 Indian/Mauritius 17 Indian/Mayotte 15 \
    Indian/Reunion 17 Pacific/Apia 32 Pacific/Auckland 60 Pacific/Bougainville 30 Pacific/Chatham 61 Pacific/Chuuk 29 \
    Pacific/Easter 39 Pacific/Efate 30 Pacific/Enderbury 32 Pacific/Fakaofo 32 Pacific/Fiji 31 Pacific/Funafuti 31 \
    Pacific/Galapagos 6 Pacific/Gambier 3 Pacific/Guadalcanal 30 Pacific/Guam 29 Pacific/Honolulu 1 Pacific/Johnston 1 \
    Pacific/Kanton 32 Pacific/Kiritimati 33 Pacific/Kosrae 30 Pacific/Kwajalein 31 Pacific/Majuro 31 Pacific/Marquesas 2 \
    Pacific/Midway 0 Pacific/Nauru 31 Pacific/Niue 0 Pacific/Norfolk 59 Pacific/Noumea 30 Pacific/Pago_Pago 0 \
    Pacific/Palau 27 Pacific/Pitcairn 4 Pacific/Pohnpei 30 Pacific/Ponape 30 Pacific/Port_Moresby 29 Pacific/Rarotonga 1 \
    Pacific/Saipan 29 Pacific/Samoa 0 Pacific/Tahiti 1 Pacific/Tarawa 31 Pacific/Tongatapu 32 Pacific/Truk 29 \
    Pacific/Wake 31 Pacific/Wallis 31 Pacific/Yap 29";
