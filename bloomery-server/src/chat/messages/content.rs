//! The content of a message: text, or parts of it.

use serde_json::{Value, json};

use super::caps::TemplateCaps;
use super::error::MessageError;
use super::json_type;

/// The texts of a content, checked. None: there is no content.
pub(super) fn texts(content: Option<&Value>, index: usize) -> Result<Option<Vec<String>>, MessageError> {
    let parts = match content {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => return Ok(Some(vec![text.clone()])),
        Some(Value::Array(parts)) => parts,
        Some(other) => return Err(MessageError::Content { index, found: json_type(other) }),
    };
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        match (kind, part.get("text")) {
            ("text" | "input_text" | "output_text", Some(Value::String(text))) => texts.push(text.clone()),
            ("image_url" | "image" | "input_image", _) => return Err(MessageError::Media { kind: "image" }),
            ("input_audio" | "audio" | "audio_url", _) => return Err(MessageError::Media { kind: "audio" }),
            ("input_video" | "video" | "video_url", _) => return Err(MessageError::Media { kind: "video" }),
            // The words with which an assistant refuses.
            ("refusal", _) => {
                texts.extend(part.get("refusal").and_then(Value::as_str).map(str::to_owned));
            }
            _ => return Err(MessageError::Part { index, kind: kind.to_owned() }),
        }
    }
    Ok(Some(texts))
}

/// Texts as the template wants them; `whole` keeps a single text as it is where it can.
pub(super) fn laid_out(texts: &[String], was_parts: bool, caps: &TemplateCaps) -> Value {
    let parts = || texts.iter().map(|text| json!({ "type": "text", "text": text })).collect::<Value>();
    match (caps.string_content, caps.typed_content) {
        (false, true) => parts(),
        (true, true) if was_parts => parts(),
        _ => Value::String(texts.join("\n")),
    }
}
