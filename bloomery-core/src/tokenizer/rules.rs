//! The splitting rules that `tokenizer.ggml.pre` names.

/// What a match that ends in white space means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing: the pass has no look-ahead.
    Kept,
    /// It came from a final `\s+` that stands for `\s+(?!\S)|\s+`.
    Spaces,
    /// The same, but a match that ends in CR or LF came from another alternative.
    SpacesNotLines,
}

/// One pass over the pieces.
pub(super) struct Pass {
    pub(super) pattern: &'static str,
    pub(super) ending: Ending,
}

const fn pass(pattern: &'static str) -> Pass {
    Pass { pattern, ending: Ending::Kept }
}

const fn words(pattern: &'static str) -> Pass {
    Pass { pattern, ending: Ending::SpacesNotLines }
}

/// A splitting rule and what else its name decides.
pub(super) struct Rule {
    pub(super) names: &'static [&'static str],
    pub(super) passes: &'static [Pass],
    /// A word that is a token is not merged, even if merging would end elsewhere.
    pub(super) ignore_merges: bool,
    /// Whether a BOS is added if the file does not say.
    pub(super) add_bos: bool,
}

macro_rules! contractions {
    () => {
        r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
    };
}

/// The common form; `$digits` is the number alternative.
macro_rules! common {
    ($digits:literal) => {
        concat!(
            contractions!(),
            r"|[^\r\n\p{L}\p{N}]?\p{L}+|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
        )
    };
}

/// Ideographs as llama.cpp counts them for Kimi: by block, not by script.
macro_rules! han {
    () => {
        concat!(
            r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2EBEF}",
            r"\x{2F800}-\x{2FA1F}"
        )
    };
}

const GPT_2: Pass = Pass {
    pattern: r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+",
    ending: Ending::Spaces,
};
const LINE_ENDS: Pass = pass(r"[\r\n]");
const ASIAN: Pass = pass(r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+");
const LLAMA_3: &[Pass] = &[words(common!(r"\p{N}{1,3}"))];

/// All rules.
pub(super) const RULES: &[Rule] = &[
    Rule {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "megrez",
            "kormo",
            "f2llmv2",
            "stablelm2",
            "hunyuan",
            "solar-open",
            "grok-2",
        ],
        passes: &[words(common!(r"\p{N}"))],
        ignore_merges: false,
        add_bos: false,
    },
    Rule {
        names: &["qwen35"],
        passes: &[words(concat!(
            contractions!(),
            r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
        ))],
        ignore_merges: false,
        add_bos: false,
    },
    Rule {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        passes: LLAMA_3,
        ignore_merges: true,
        add_bos: true,
    },
    Rule { names: &["glm4", "glm5"], passes: LLAMA_3, ignore_merges: true, add_bos: false },
    Rule {
        names: &["chatglm-bpe", "smaug-bpe", "dbrx"],
        passes: LLAMA_3,
        ignore_merges: false,
        add_bos: false,
    },
    Rule {
        names: &["deepseek-llm"],
        passes: &[
            LINE_ENDS,
            pass(DEEPSEEK_LETTERS),
            pass(r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+"),
            pass(r"\s+$"),
            ASIAN,
            pass(r"\p{N}+"),
        ],
        ignore_merges: false,
        add_bos: false,
    },
    Rule {
        names: &["deepseek-coder"],
        passes: &[LINE_ENDS, pass(r"\s?\p{L}+"), pass(r"\s?\p{P}+"), ASIAN, pass(r"\p{N}")],
        ignore_merges: false,
        add_bos: false,
    },
    Rule {
        names: &["deepseek-v3", "deepseek-v4", "joyai-llm", "hunyuan-dense", "hy_v4"],
        passes: &[
            pass(r"\p{N}{1,3}"),
            pass(r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+"),
            words(concat!(
                r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
                r"|\s*[\r\n]+|\s+"
            )),
        ],
        ignore_merges: false,
        add_bos: false,
    },
    Rule {
        // llama.cpp's reading: the published one has letter cases beyond ASCII and combining marks.
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        passes: &[words(concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{L}&&[^a-z]]*[\p{L}&&[^A-Z]]+(?:",
            contractions!(),
            r")?|[^\r\n\p{L}\p{N}]?[\p{L}&&[^a-z]]+[\p{L}&&[^A-Z]]*(?:",
            contractions!(),
            r")?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
        ))],
        ignore_merges: false,
        add_bos: false,
    },
    Rule {
        names: &["kimi-k2"],
        passes: &[words(concat!(
            "[",
            han!(),
            r"]+|[^\r\n\p{L}\p{N}]?[\p{L}&&[^",
            han!(),
            "]]+(?:",
            contractions!(),
            r")?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
        ))],
        ignore_merges: false,
        add_bos: false,
    },
    Rule {
        names: &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "exaone4",
            "trillion",
            "granite-docling",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
        ],
        passes: &[GPT_2],
        ignore_merges: false,
        add_bos: false,
    },
    Rule {
        names: &[
            "starcoder",
            "refact",
            "command-r",
            "smollm",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        passes: &[pass(r"\p{N}"), GPT_2],
        ignore_merges: false,
        add_bos: false,
    },
];

/// One optional white space and letters of the scripts with case that DeepSeek's rule lists.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[",
    r"\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}",
    r"\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}-\x{377}\x{37B}-\x{37D}\x{37F}\x{386}",
    r"\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}",
    r"\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}",
    r"\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}",
    r"\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}",
    r"\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}",
    r"\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}",
    r"\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}",
    r"\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}-\x{2184}",
    r"\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}-\x{2CF3}\x{A640}-\x{A66D}",
    r"\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}",
    r"\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}",
    r"\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}",
    r"\x{1E900}-\x{1E943}",
    "]+"
);
