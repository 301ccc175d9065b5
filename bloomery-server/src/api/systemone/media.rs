//! Images and videos, which the models of this release do not see.

use bloomery_core::decide::Json;

use crate::error::ApiError;

/// Most images of a request.
const MOST: usize = 8;

/// Refuses a request with images or videos, and says what is wrong with them first.
pub(super) fn refuse(body: &Json, state: &Json) -> Result<(), ApiError> {
    let mut images = Vec::new();
    for name in ["images", "files"] {
        images.extend(list(body, name)?);
    }
    images.extend(parts(state));
    if !images.iter().all(|image| is_image(image)) {
        return Err(ApiError::invalid("images must be data URLs (data:image/...;base64,...)"));
    }
    if images.len() > MOST {
        return Err(ApiError::invalid(format!(
            "too many images ({}), at most {MOST} are possible",
            images.len()
        )));
    }
    if !images.is_empty() {
        return Err(ApiError::not_supported(
            "This server does not support image input for decisions. For a model that supports it, start it with `--mmproj`",
        ));
    }
    if !list(body, "videos")?.is_empty() {
        return Err(ApiError::not_supported("\"videos\" is not supported"));
    }
    Ok(())
}

fn list<'j>(body: &'j Json, name: &str) -> Result<Vec<&'j Json>, ApiError> {
    match body.get(name) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::List(values)) => Ok(values.iter().collect()),
        Some(_) => Err(ApiError::invalid(format!("\"{name}\" must be an array"))),
    }
}

fn is_image(value: &Json) -> bool {
    let data = |text: &str| text.strip_prefix("data:image/").is_some_and(|rest| rest.contains(";base64,"));
    matches!(value, Json::Text(text) if data(text))
}

/// The addresses of images in the messages of a chat, where the state is one.
fn parts(state: &Json) -> Vec<&Json> {
    let messages = match state {
        Json::List(messages) => Some(messages),
        _ => match state.get("messages") {
            Some(Json::List(messages)) => Some(messages),
            _ => None,
        },
    };
    let contents = messages.into_iter().flatten().filter_map(|message| message.get("content"));
    let parts =
        contents.filter_map(|content| if let Json::List(parts) = content { Some(parts) } else { None });
    parts.flatten().filter(|part| part.get("type") == Some(&Json::from("image_url"))).map(url).collect()
}

/// The address of a part; what stands for it where there is none is no address.
fn url(part: &Json) -> &Json {
    let url = part.get("image_url");
    url.and_then(|url| url.get("url")).or(url).unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_looked_at_and_refused() {
        let image = "\"data:image/png;base64,AAAA\"";
        let part = |url: &str| {
            format!(
                "[{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"x\"}},{{\"type\":\"image_url\",\"image_url\":{url}}}]}}]"
            )
        };
        let nested = format!("{{\"url\":{image}}}");
        let nine = [image; 9].join(",");
        for (body, status) in [
            ("{\"state\":\"s\"}".to_owned(), 200),
            ("{\"state\":\"s\",\"images\":[],\"videos\":[],\"files\":null}".to_owned(), 200),
            ("{\"state\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]}".to_owned(), 200),
            ("{\"state\":[[1],{\"content\":\"image_url\"},null]}".to_owned(), 200),
            ("{\"state\":\"s\",\"images\":\"x\"}".to_owned(), 400),
            ("{\"state\":\"s\",\"files\":{}}".to_owned(), 400),
            ("{\"state\":\"s\",\"images\":[\"http://x/y.png\"]}".to_owned(), 400),
            ("{\"state\":\"s\",\"images\":[7]}".to_owned(), 400),
            (format!("{{\"state\":\"s\",\"images\":[{nine}]}}"), 400),
            (format!("{{\"state\":\"s\",\"images\":[{image}]}}"), 501),
            (format!("{{\"state\":\"s\",\"files\":[{image}]}}"), 501),
            (format!("{{\"state\":{}}}", part(&nested)), 501),
            (format!("{{\"state\":{{\"messages\":{}}}}}", part(image)), 501),
            (format!("{{\"state\":{}}}", part("{\"url\":\"http://x\"}")), 400),
            ("{\"state\":[{\"content\":[{\"type\":\"image_url\"}]}]}".to_owned(), 400),
            ("{\"state\":\"s\",\"videos\":[\"x\"]}".to_owned(), 501),
            ("{\"state\":\"s\",\"videos\":true}".to_owned(), 400),
        ] {
            let json = Json::parse(&body).unwrap();
            let found = refuse(&json, json.get("state").unwrap());
            let found = found.map_or_else(|error| error.kind.status().as_u16(), |()| 200);
            assert_eq!(found, status, "{body}");
        }
    }
}
