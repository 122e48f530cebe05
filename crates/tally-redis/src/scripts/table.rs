//! The known scripts: the SHA-1 of each text that a published version has sent, and its effect.
//! `scripts/ratelimit-scripts.mjs` finds scripts of installed packages that are missing here.

/// When the expiry of a window is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowTtl {
    /// Each call adds 1, and the first call sets it.
    One,
    /// When the value equals the added amount.
    First,
    /// Never: this version compares a number with a text.
    Never,
}

/// The variant of a sliding window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sliding {
    /// Whether the weight of the former window is rounded down.
    pub floors: bool,
    /// The value of an absent window.
    pub absent: f64,
    /// The reply of a refusal.
    pub refused: f64,
    /// The added amount, and when the expiry is set.
    pub ttl: WindowTtl,
    /// Whether an amount of zero or less is never refused.
    pub lets_refunds: bool,
    /// Whether a key may hold the limit; the limit is then part of the reply.
    pub has_limit: bool,
}

/// The variant of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The field of the last refill.
    pub field: &'static str,
    /// Whether each call takes one.
    pub takes_one: bool,
    /// Whether it refuses a cost above its tokens; otherwise it refuses only when it is empty.
    pub compares_cost: bool,
    /// Whether an amount of zero or less is never refused.
    pub lets_refunds: bool,
    /// Whether a key may hold the limit; the limit is then part of the reply.
    pub has_limit: bool,
}

/// The variant of a bucket of the first versions: each call takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstBucket {
    /// The field of the last refill.
    pub field: &'static str,
    /// Whether the tokens may fall below zero.
    pub goes_below: bool,
    /// Whether it is refilled for each interval that has passed, and never expires; otherwise once a call.
    pub counts_refills: bool,
}

/// The variant of a window of `rate-limit-redis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hits {
    /// Whether the first argument says that each request starts the window anew.
    pub may_restart: bool,
    /// Whether a window begins at 1, whatever a key without expiry holds.
    pub sets: bool,
}

/// The effect of a script.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Script {
    /// Adds to a window.
    Fixed(WindowTtl),
    /// Adds to a window, and replies with the limit too.
    FixedLimit,
    /// Reads the rest of a window.
    FixedLeft,
    /// Reads a string, or 0.
    Value,
    /// Adds to a sliding window.
    Sliding(Sliding),
    /// Reads the rest of a sliding window, or its use.
    SlidingLeft {
        /// Whether the limit is known, so that the reply is the rest.
        has_limit: bool,
    },
    /// Takes from a bucket.
    Bucket(Bucket),
    /// Takes one token from a bucket of the first versions.
    FirstBucket(FirstBucket),
    /// Reads the tokens of a bucket.
    BucketLeft {
        /// The number of values in the reply: tokens, the last refill, the limit.
        replies: usize,
    },
    /// Reads the fields of a hash.
    Fields,
    /// Notes a request of a window in a hash.
    FixedFields {
        /// Whether the first request sets the expiry.
        sets_end: bool,
    },
    /// Notes a request of a sliding window in a hash.
    SlidingFields {
        /// Whether the request itself counts in the comparison.
        counts_own: bool,
    },
    /// Reads the use of such a window.
    SlidingFieldsLeft,
    /// Notes a request of a window in a set.
    FixedMembers,
    /// Notes a request of a sliding window in a set.
    SlidingMembers {
        /// Whether it replies whether the request was admitted.
        says_whether: bool,
    },
    /// Adds a request to a window of `rate-limit-redis`.
    Hit(Hits),
    /// Reads such a window.
    Hits,
    /// Adds points to a window of `rate-limiter-flexible`.
    Points,
    /// Reads which members are denied.
    DenyList,
    /// Deletes all keys of a pattern.
    Reset,
    /// Sums the scores of a sorted set by a field of its members.
    FieldSums,
    /// Joins the sorted sets of several hours.
    Union,
    /// Lists the members of such sets with the largest counts, by whether they were admitted.
    Tops,
}

impl Script {
    /// Of the keys of a run, the one that holds the limit; `None` where an argument holds it. The script only reads
    /// this key.
    pub fn limit_key<'a>(&self, keys: &'a [String]) -> Option<&'a String> {
        let index = self.limit_index()?;
        keys.get(index).filter(|key| !key.is_empty())
    }

    /// Whether it may change keys.
    pub const fn writes(&self) -> bool {
        !matches!(
            self,
            Self::FixedLeft
                | Self::Value
                | Self::SlidingLeft { .. }
                | Self::BucketLeft { .. }
                | Self::Fields
                | Self::Hits
                | Self::SlidingFieldsLeft
                | Self::FieldSums
                | Self::Union
                | Self::Tops
        )
    }

    const fn limit_index(&self) -> Option<usize> {
        match self {
            Self::FixedLimit | Self::FixedLeft | Self::BucketLeft { replies: 3.. } => Some(1),
            Self::Bucket(Bucket {
                has_limit: true, ..
            }) => Some(1),
            Self::Sliding(Sliding {
                has_limit: true, ..
            }) => Some(2),
            Self::SlidingLeft { has_limit: true } => Some(2),
            _ => None,
        }
    }
}

const SLIDING: Sliding = Sliding {
    floors: true,
    absent: 0.0,
    refused: -1.0,
    ttl: WindowTtl::First,
    lets_refunds: false,
    has_limit: false,
};

const SLIDING_LIMIT: Sliding = Sliding {
    lets_refunds: true,
    has_limit: true,
    ..SLIDING
};

const BUCKET: Bucket = Bucket {
    field: "refilledAt",
    takes_one: false,
    compares_cost: false,
    lets_refunds: false,
    has_limit: false,
};

const BUCKET_LIMIT: Bucket = Bucket {
    lets_refunds: true,
    has_limit: true,
    ..BUCKET
};

const FIRST_BUCKET: FirstBucket = FirstBucket {
    field: "updatedAt",
    goes_below: true,
    counts_refills: false,
};

/// The scripts, by their SHA-1, with the first version that has them.
pub const KNOWN: &[(&str, Script)] = &[
    // 2.2.0
    (
        "d60be5bd3d83482ae229309f1f7425424f891204",
        Script::Bucket(Bucket {
            compares_cost: true,
            ..BUCKET_LIMIT
        }),
    ),
    // 2.1.0
    (
        "b2efc02798c8e9b471a10f9b1d5745db89923ff3",
        Script::FixedLimit,
    ),
    (
        "823cb2a5a902d69681244f5e28e5ebb8f2a89edd",
        Script::FixedLeft,
    ),
    (
        "74740bb3d7792848093cdef586b6b6037c455fd6",
        Script::Sliding(SLIDING_LIMIT),
    ),
    (
        "7ca36169e0fc9caedd81b4eef8e99854c157f9b5",
        Script::SlidingLeft { has_limit: true },
    ),
    (
        "a9873a8026b509e99a49a0e5a2049756c693c384",
        Script::Bucket(BUCKET_LIMIT),
    ),
    (
        "40daf4a441df736f5c99f8b77bbe176c909e5de4",
        Script::BucketLeft { replies: 3 },
    ),
    (
        "1861a700bafe96c833a483af6b1c28a8897cfdb0",
        Script::Fixed(WindowTtl::Never),
    ),
    ("eb82f0e853d2fc9a236fa9bfbe704fda6ac2fc36", Script::Value),
    (
        "e04b753a75909b7f99aae4c04cf8869a8de02a9e",
        Script::FixedFields { sets_end: true },
    ),
    ("e066c8ce3eaca142b0894ad1541e0a58c9924819", Script::Fields),
    (
        "aeb4d8f381e8dafc8e69041baae1324d254ded44",
        Script::SlidingFields { counts_own: true },
    ),
    (
        "87828c1088f6a8d1f512a434ea330189982a1c0a",
        Script::SlidingFieldsLeft,
    ),
    // 2.0.8
    (
        "472e55443b62f60d0991028456c57815a387066d",
        Script::FixedLimit,
    ),
    (
        "40515c9dd0a08f8584f5f9b593935f6a87c1c1c3",
        Script::FixedLeft,
    ),
    (
        "977fb636fb5ceb7e98a96d1b3a1272ba018efdae",
        Script::Sliding(SLIDING_LIMIT),
    ),
    (
        "ee3a3265fad822f83acad23f8a1e2f5c0b156b03",
        Script::SlidingLeft { has_limit: true },
    ),
    (
        "b35c5bc0b7fdae7dd0573d4529911cabaf9d1d89",
        Script::Bucket(BUCKET_LIMIT),
    ),
    (
        "deb03663e8af5a968deee895dd081be553d2611b",
        Script::BucketLeft { replies: 3 },
    ),
    // 2.0.7
    (
        "9b7842963bd73721f1a3011650c23c0010848ee3",
        Script::Sliding(Sliding {
            lets_refunds: true,
            ..SLIDING
        }),
    ),
    (
        "d1f857ebbdaeca90ccd2cd4eada61d7c8e5db1ca",
        Script::Bucket(Bucket {
            lets_refunds: true,
            ..BUCKET
        }),
    ),
    (
        "1e7ca8dcd2d600a6d0124a67a57ea225ed62921b",
        Script::SlidingFields { counts_own: true },
    ),
    // 2.0.0
    (
        "a15be2bb1db2a15f7c82db06146f9d08983900d0",
        Script::BucketLeft { replies: 2 },
    ),
    // 1.2.1
    ("e8062088fe7e67994f617766e5d766490de1afb8", Script::DenyList),
    // 1.1.2
    (
        "a8c14f3835aa87bd70e5e2116081b81664abcf5c",
        Script::FixedFields { sets_end: true },
    ),
    // 1.1.1
    ("8ab8322d0ed5fe5ac8eb08f0c2e4557f1b4816fd", Script::Fields),
    (
        "558c9306b7ec54abb50747fe0b17e5d44bd24868",
        Script::SlidingFieldsLeft,
    ),
    ("54bd274ddc59fb3be0f42deee2f64322a10e2b50", Script::Reset),
    (
        "b13943e359636db027ad280f1def143f02158c13",
        Script::Fixed(WindowTtl::First),
    ),
    ("8c4c341934502aee132643ffbe58ead3450e5208", Script::Value),
    (
        "e1391e429b699c780eb0480350cd5b7280fd9213",
        Script::Sliding(SLIDING),
    ),
    (
        "65a73ac5a05bf9712903bc304b77268980c1c417",
        Script::SlidingLeft { has_limit: false },
    ),
    (
        "67f84c3691a7a22a78a9a3761b836ea40ef9dd0d",
        Script::BucketLeft { replies: 1 },
    ),
    ("8e8f222ccae68b595ee6e3f3bf2199629a62b91a", Script::Value),
    // 1.0.3
    (
        "8f7788c4a9c1632338c19094c0af5847bbd5a011",
        Script::FixedFields { sets_end: false },
    ),
    (
        "cb4fdc2575056df7c6d422764df0de3a08d6753b",
        Script::SlidingFields { counts_own: false },
    ),
    (
        "375e8c55641c07e85ce7154463000f11d3abe109",
        Script::Fixed(WindowTtl::Never),
    ),
    (
        "ae4802a9916a31174ad87bee0251593305dfc24b",
        Script::Sliding(Sliding {
            ttl: WindowTtl::Never,
            ..SLIDING
        }),
    ),
    (
        "5bece90aeef8189a8cfd28995b479529e270b3c6",
        Script::Bucket(BUCKET),
    ),
    (
        "c26b12703dd137939b9a69a3a9b18e906a2d940f",
        Script::Fixed(WindowTtl::Never),
    ),
    // 1.0.0
    (
        "97c22a0655b2fa71fca200a66bbffc5c4e69ee3f",
        Script::SlidingMembers { says_whether: true },
    ),
    (
        "ae937bd405fc3d477702b7f072e7badb5a8b42cb",
        Script::Bucket(Bucket {
            takes_one: true,
            ..BUCKET
        }),
    ),
    // 0.4.4
    (
        "44b366ac3ebd2eed87395e10481fc8a177f4dbd3",
        Script::Sliding(Sliding {
            ttl: WindowTtl::One,
            ..SLIDING
        }),
    ),
    (
        "020d50063e82405b8f437fa9cdbe084dcfc2d450",
        Script::FirstBucket(FIRST_BUCKET),
    ),
    // 0.4.1
    (
        "eeac075a8bb2b541def992c8c5b915aad104443f",
        Script::Sliding(Sliding {
            ttl: WindowTtl::One,
            floors: false,
            absent: -1.0,
            ..SLIDING
        }),
    ),
    // 0.2.0
    (
        "5e209e83cb1af7b9ec0b9c3e76b5cd51768adaf6",
        Script::Fixed(WindowTtl::One),
    ),
    // 0.1.3
    (
        "78ebfedf530490beacd0218f7f5186c887ee0060",
        Script::FixedMembers,
    ),
    (
        "4e84aed21f591c7085eea9ba365bd5347cf14fa5",
        Script::SlidingMembers {
            says_whether: false,
        },
    ),
    (
        "ab261fc31370e56019e266ffbef166f7e301cc0b",
        Script::FirstBucket(FirstBucket {
            goes_below: false,
            ..FIRST_BUCKET
        }),
    ),
    (
        "0fa9c90dc1d0dad21151e74386e59530a377c65d",
        Script::Fixed(WindowTtl::One),
    ),
    (
        "b6156871abd5c5219fdfd1508be6d986863eae46",
        Script::Sliding(Sliding {
            ttl: WindowTtl::One,
            floors: false,
            refused: 0.0,
            ..SLIDING
        }),
    ),
    // Analytics, @upstash/core-analytics 0.0.10
    (
        "9489a4bb59e12600757093ecde9e46dcfe14f046",
        Script::FieldSums,
    ),
    ("889f06ad27a40aed3d1ed1fea1d75a2fc556c335", Script::Union),
    ("bce9567d6a2ce82ccf2767b3bd2b374f8ec904ef", Script::Tops),
    // Python, 1.2.0
    (
        "c12c2b62113f308e4ec9102e9f49c4bc5de1dbc2",
        Script::Fixed(WindowTtl::First),
    ),
    (
        "f8c78d62cf9f06601d3d4f605595603fd6a7a860",
        Script::Sliding(SLIDING),
    ),
    (
        "7b6940a4ef8ef6a6e3ca32f19cb971dcc1e96b60",
        Script::Bucket(Bucket {
            field: "refilled_at",
            compares_cost: true,
            ..BUCKET
        }),
    ),
    // Python, 1.1.0
    (
        "13f452b0e337a3ed5d9c78f8d326d3bb4dadae56",
        Script::Fixed(WindowTtl::First),
    ),
    (
        "810b44cbb5972f27767882f38553b79fd73440aa",
        Script::Sliding(SLIDING),
    ),
    (
        "9d52ca1acde733f085373a53988bf319e433b732",
        Script::Bucket(Bucket {
            field: "refilled_at",
            ..BUCKET
        }),
    ),
    // Python, 0.5.0
    (
        "a677a22e4cd5c8a936056586fb38a48cd4e80bb2",
        Script::Fixed(WindowTtl::One),
    ),
    (
        "a49582233b635643acca80c29edfe295cebdbca8",
        Script::Sliding(Sliding {
            ttl: WindowTtl::One,
            ..SLIDING
        }),
    ),
    (
        "b50447c414c777af3a98f98f35f8bfcd366ee313",
        Script::Bucket(Bucket {
            field: "refilled_at",
            takes_one: true,
            ..BUCKET
        }),
    ),
    // Python, 0.2.0
    (
        "78b41ca1e0fb451d04a7d226654573d85e8581e4",
        Script::Fixed(WindowTtl::One),
    ),
    (
        "e15257055b0ad16d37dba88a57846fa17142b83e",
        Script::Sliding(Sliding {
            ttl: WindowTtl::One,
            floors: false,
            absent: -1.0,
            ..SLIDING
        }),
    ),
    (
        "67aa8759e1342d100d551f5f71496a68de9ffa41",
        Script::FirstBucket(FirstBucket {
            field: "updated_at",
            counts_refills: true,
            ..FIRST_BUCKET
        }),
    ),
    // rate-limit-redis, 6.0.0
    (
        "895b92e1712734e1b464999be23953485475357b",
        Script::Hit(Hits {
            may_restart: false,
            sets: true,
        }),
    ),
    // rate-limit-redis, 4.3.0
    (
        "81dbecea94d2d10514719b20ed51faf711529d9d",
        Script::Hit(Hits {
            may_restart: true,
            sets: true,
        }),
    ),
    // rate-limit-redis, 4.0.0
    (
        "3f424a504987d231baa2e19159bb5def8ad32f87",
        Script::Hit(Hits {
            may_restart: true,
            sets: false,
        }),
    ),
    ("6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a", Script::Hits),
    // rate-limiter-flexible, 2.4.0
    ("a1de965f42e177aa339706bd580f049065eca79a", Script::Points),
];
