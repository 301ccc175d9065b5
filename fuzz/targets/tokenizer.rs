//! Any text through small vocabularies under every splitting rule: a byte that chooses, then the text.
#![no_main]

use std::sync::LazyLock;

use bloomery_core::tokenizer::{Specials, TokenKind, Tokenizer, Vocabulary};
use libfuzzer_sys::fuzz_target;

/// One name of every rule.
const RULES: &[&str] = &[
    "qwen2",
    "qwen35",
    "llama-bpe",
    "glm4",
    "chatglm-bpe",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
    "gpt-4o",
    "kimi-k2",
    "gpt-2",
    "starcoder",
];

static TOKENIZERS: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
    let bpe = RULES.iter().map(|rule| byte_level(rule));
    bpe.chain([sentence_piece(true), sentence_piece(false)]).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, text)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let tokenizer = &TOKENIZERS[usize::from(choice) % TOKENIZERS.len()];
    for specials in [Specials::AsText, Specials::Parse] {
        let ids = tokenizer.encode(&text, specials).expect("every byte has a token");
        let decoded = tokenizer.decode(&ids, true);
        // U+2581 is how SentencePiece spells a space: a text that has one does not come back.
        if !text.contains('\u{2581}') && !text.starts_with('<') {
            assert_eq!(decoded, text, "{specials:?}");
        }
        let mut stream = tokenizer.detokenizer(true);
        let streamed: String = ids.iter().map(|id| stream.push(*id)).collect();
        assert_eq!(streamed + &stream.finish(), decoded, "streamed");
    }
});

/// The letter by which byte-level vocabularies spell a byte.
fn letter(byte: u8) -> char {
    let others = || (0..byte).filter(|byte| !prints(*byte)).count() as u32;
    if prints(byte) { byte.into() } else { char::from_u32(0x100 + others()).expect("below U+0144") }
}

fn prints(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

fn byte_level(rule: &str) -> Tokenizer {
    let mut tokens: Vec<String> = (0..=255).map(|byte| letter(byte).to_string()).collect();
    let merges = [
        "a a",
        "aa a",
        "aa aa",
        "Ġ a",
        "t h",
        "th e",
        "Ġ the",
        "Ġ Ġ",
        "ĠĠ ĠĠ",
        "Ċ Ċ",
        "1 2",
        "12 3",
        "Ã ©",
        "' s",
    ];
    let merges = merges.map(str::to_owned);
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    let mut kinds = vec![TokenKind::Normal; tokens.len()];
    for (text, kind) in
        [("<|end|>", TokenKind::Control), ("<|e", TokenKind::UserDefined), ("</s>", TokenKind::Normal)]
    {
        tokens.push(text.to_owned());
        kinds.push(kind);
    }
    // Some rules begin every prompt with a BOS, whatever the file says.
    let (bos, eos) = (Some(0), Some(tokens.len() as u32 - 3));
    let vocabulary = Vocabulary {
        model: "gpt2",
        pre: Some(rule),
        tokens: &tokens,
        kinds,
        merges: &merges,
        bos,
        eos,
        ..Vocabulary::default()
    };
    Tokenizer::new(&vocabulary).expect("a whole vocabulary")
}

fn sentence_piece(add_space_prefix: bool) -> Tokenizer {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    let mut kinds = vec![TokenKind::Unknown, TokenKind::Control, TokenKind::Control];
    tokens.extend((0..=255).map(|byte: u8| format!("<0x{byte:02X}>")));
    kinds.resize(tokens.len(), TokenKind::Byte);
    let words =
        ["▁", "▁▁", "▁a", "aa", "aaa", "t", "h", "e", "th", "the", "▁the", "é", "日", "日本", "1", "12"];
    tokens.extend(words.map(str::to_owned));
    kinds.resize(tokens.len(), TokenKind::Normal);
    let scores: Vec<f32> = (0..tokens.len()).map(|id| -(id as f32)).collect();
    let add_space_prefix = Some(add_space_prefix);
    let vocabulary = Vocabulary {
        model: "llama",
        tokens: &tokens,
        kinds,
        scores,
        add_space_prefix,
        ..Vocabulary::default()
    };
    Tokenizer::new(&vocabulary).expect("a whole vocabulary")
}
