//! A client that sees every byte: one request on a connection of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than any honest silence of a server on this machine.
const SILENCE: Duration = Duration::from_secs(60);

/// A reply that is still coming.
pub(crate) struct Reply {
    reader: BufReader<TcpStream>,
    /// When the request had been written.
    pub(crate) sent: Instant,
    /// When the head of the reply was there.
    pub(crate) head: Instant,
}

/// Sends a POST and reads the head of the reply.
pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Result<Reply, String> {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(address).map_err(|error| format!("connect: {error}"))?;
    let prepared = socket.set_nodelay(true).and_then(|()| socket.set_read_timeout(Some(SILENCE)));
    prepared.and_then(|()| socket.write_all((head + &body).as_bytes())).map_err(|e| format!("send: {e}"))?;
    let sent = Instant::now();
    let mut reader = BufReader::with_capacity(64 << 10, socket);
    let status = line(&mut reader)?;
    let head = Instant::now();
    let mut chunked = false;
    loop {
        let header = line(&mut reader)?;
        if header.is_empty() {
            break;
        }
        chunked |= header.eq_ignore_ascii_case("transfer-encoding: chunked");
    }
    if status != "HTTP/1.1 200 OK" || !chunked {
        let mut rest = String::new();
        let _ = reader.read_to_string(&mut rest);
        return Err(format!("{status}: {rest}"));
    }
    Ok(Reply { reader, sent, head })
}

impl Reply {
    /// The next chunk of the body; `None` after the last, which has to be followed by nothing.
    pub(crate) fn chunk(&mut self) -> Result<Option<Vec<u8>>, String> {
        let size = line(&mut self.reader)?;
        let size = usize::from_str_radix(&size, 16).map_err(|_| format!("a chunk of {size:?} bytes"))?;
        let mut chunk = vec![0; size];
        self.reader.read_exact(&mut chunk).map_err(|error| format!("in a chunk: {error}"))?;
        if !line(&mut self.reader)?.is_empty() {
            return Err("a chunk does not end where it should".to_owned());
        }
        Ok((size > 0).then_some(chunk))
    }

    /// The whole body, and when its first chunk with a text in it came.
    pub(crate) fn finish(mut self) -> Result<(String, Option<Instant>), String> {
        let (mut body, mut first) = (Vec::new(), None);
        while let Some(chunk) = self.chunk()? {
            let spoken = chunk.windows(TEXT.len()).any(|window| window == TEXT);
            first = first.or(spoken.then(Instant::now));
            body.extend_from_slice(&chunk);
        }
        let body = String::from_utf8(body).map_err(|error| error.to_string())?;
        Ok((body, first))
    }
}

/// What the chunks of a text begin their content with; the role chunk has `null`.
const TEXT: &[u8] = br#""content":""#;

fn line(reader: &mut BufReader<TcpStream>) -> Result<String, String> {
    let mut line = String::new();
    reader.read_line(&mut line).map_err(|error| format!("while waiting: {error}"))?;
    let line = line.strip_suffix("\r\n").ok_or_else(|| format!("the connection ended at {line:?}"))?;
    Ok(line.to_owned())
}

/// Checks a whole chat stream: framing, JSON, one id, an end, and `tokens` tokens.
pub(crate) fn check_chat(body: &str, tokens: usize) -> Result<(), String> {
    let fail = |what: &str| Err(format!("{what}: {body}"));
    let Some(events) = body.strip_suffix("data: [DONE]\n\n") else { return fail("no end") };
    let mut chunks = Vec::new();
    for event in events.split_terminator("\n\n").filter(|event| *event != ":") {
        let Some(data) = event.strip_prefix("data: ") else { return fail("not an event") };
        let chunk: Value = serde_json::from_str(data).map_err(|error| format!("{error}: {data}"))?;
        chunks.push(chunk);
    }
    let [role, .., last] = chunks.as_slice() else { return fail("too short") };
    if chunks.iter().any(|chunk| chunk["id"] != role["id"] || chunk.get("error").is_some()) {
        return fail("another id, or an error");
    }
    if role["choices"][0]["delta"]["role"] != "assistant" {
        return fail("no role first");
    }
    if chunks.iter().filter(|chunk| chunk["choices"][0]["finish_reason"] == "length").count() != 1 {
        return fail("not one reason to finish");
    }
    match last["usage"]["completion_tokens"].as_u64() {
        Some(counted) if counted as usize == tokens => Ok(()),
        counted => fail(&format!("{counted:?} tokens instead of {tokens}")),
    }
}
