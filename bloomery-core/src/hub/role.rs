//! What a file of a repository is for, by its name.

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A GGUF file of a model, or a part of one.
    Model,
    /// A GGUF file that drafts for another: MTP, EAGLE and such.
    Draft,
    /// A GGUF file that turns images or sound into embeddings.
    Projector,
    /// Statistics that a quantisation was made with.
    Imatrix,
    /// A decision head beside a model: `joint_head.safetensors` and its configuration.
    Head,
    /// Anything else.
    Other,
}

/// Words of file or folder names that tell a draft.
const DRAFTS: [&str; 8] = ["mtp", "nextn", "draft", "drafter", "eagle", "eagle3", "dflash", "dspark"];

impl Role {
    /// The role of a file with this name.
    pub(super) fn of(path: &str) -> Self {
        let path = path.to_ascii_lowercase();
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if matches!(name, "joint_head.safetensors" | "joint_head_config.json") {
            return Self::Head;
        }
        if name.contains("imatrix") {
            return Self::Imatrix;
        }
        let Some(stem) = name.strip_suffix(".gguf") else { return Self::Other };
        if stem.contains("mmproj") {
            return Self::Projector;
        }
        // A model that has its draft head in the same file may be called X-MTP-Q8_0, so for that word the place counts.
        let first = stem.split(['-', '_', '.']).next().unwrap_or_default();
        let words = || stem.split(['-', '_', '.']);
        let draft = folders.split('/').any(|folder| DRAFTS.contains(&folder))
            || DRAFTS.contains(&first)
            || words().any(|word| DRAFTS[2..].contains(&word));
        if draft { Self::Draft } else { Self::Model }
    }
}

/// A word that says how numbers are stored, such as `q4_k_m`, `iq2_xxs`, `bf16` or `mxfp4`.
fn is_format(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let digits = |text: &str| text.bytes().next().is_some_and(|b| b.is_ascii_digit());
    matches!(word.as_str(), "f16" | "f32" | "bf16" | "fp16" | "fp32" | "f64")
        || ["iq", "tq", "q", "mxfp", "nvfp"].iter().any(|start| word.strip_prefix(start).is_some_and(digits))
}

/// The quantisation that a file's name tells, such as `UD-Q4_K_XL`; nothing where it tells none.
pub(super) fn quant_of(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.get(..name.len().checked_sub(".gguf".len())?)?;
    let stem = split_of(path).map_or(stem, |split| &stem[..stem.len() - split.suffix]);
    // The last word of this kind: a name may say what was converted before it says into what.
    let mut end = stem.len();
    loop {
        let start = stem[..end].rfind(['-', '.']).map_or(0, |at| at + 1);
        if is_format(&stem[start..end]) {
            let dynamic = stem[..start].len() >= 3 && stem[start - 3..start].eq_ignore_ascii_case("ud-");
            return Some(&stem[if dynamic { start - 3 } else { start }..end]);
        }
        end = start.checked_sub(1)?;
    }
}

/// What the end of a name, `-00001-of-00003.gguf`, says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) number: usize,
    pub(super) count: usize,
    /// Characters of it, without `.gguf`.
    pub(super) suffix: usize,
}

/// Reads it.
pub(super) fn split_of(path: &str) -> Option<Split> {
    let stem = path.strip_suffix(".gguf")?;
    let (head, count) = stem.rsplit_once("-of-")?;
    let (_, number) = head.rsplit_once('-')?;
    let read = |text: &str| -> Option<usize> {
        let plain = text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten()
    };
    let (number, count) = (read(number)?, read(count)?);
    (1..=count).contains(&number).then_some(Split { number, count, suffix: "-00001-of-00001".len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_come_from_names() {
        for (name, role) in [
            ("Qwen3-30B-A3B-Q4_K_M.gguf", Role::Model),
            ("UD-Q4_K_XL/Qwen3.8-Flash-Next-UD-Q4_K_XL-00001-of-00004.gguf", Role::Model),
            ("Qwen3.8-Flash-Next-MTP-Q8_0.gguf", Role::Model),
            ("MTP/mtp-Qwen3.8-Flash-Next-Q8_0.gguf", Role::Draft),
            ("mtp-Qwen3.8-Flash-Next-shared-Q8_0.gguf", Role::Draft),
            ("Qwen3-0.6B-DRAFT-Q8_0.gguf", Role::Draft),
            ("eagle3-Qwen3-8B-F16.gguf", Role::Draft),
            ("Aircraft-draftsman-Q8_0.gguf", Role::Model),
            ("mmproj-F16.gguf", Role::Projector),
            ("model-mmproj-f16.gguf", Role::Projector),
            ("imatrix.gguf", Role::Imatrix),
            ("x.imatrix", Role::Imatrix),
            ("joint_head.safetensors", Role::Head),
            ("joint_head_config.json", Role::Head),
            ("README.md", Role::Other),
            ("model.safetensors", Role::Other),
        ] {
            assert_eq!(Role::of(name), role, "{name}");
        }
    }

    #[test]
    fn quantisations_come_from_names() {
        for (name, quant) in [
            ("Qwen3-30B-A3B-Q4_K_M.gguf", Some("Q4_K_M")),
            ("a/Qwen3.8-UD-Q4_K_XL-00001-of-00004.gguf", Some("UD-Q4_K_XL")),
            ("gpt-oss-20b-mxfp4.gguf", Some("mxfp4")),
            ("llama-2-7b.Q8_0.gguf", Some("Q8_0")),
            ("x-IQ2_XXS.gguf", Some("IQ2_XXS")),
            ("x-f16-Q4_0.gguf", Some("Q4_0")),
            ("x-BF16-imat.gguf", Some("BF16")),
            ("Q8_0.gguf", Some("Q8_0")),
            ("Qwen3-8B.gguf", None),
            ("ä.gguf", None),
            (".gguf", None),
        ] {
            assert_eq!(quant_of(name), quant, "{name}");
        }
    }

    #[test]
    fn parts_are_told_by_their_numbers() {
        let split = |name| split_of(name).map(|split| (split.number, split.count));
        assert_eq!(split("a-00002-of-00003.gguf"), Some((2, 3)));
        for name in [
            "a.gguf",
            "a-2-of-3.gguf",
            "a-00004-of-00003.gguf",
            "a-00000-of-00003.gguf",
            "a-0000x-of-00003.gguf",
        ] {
            assert_eq!(split(name), None, "{name}");
        }
    }
}
