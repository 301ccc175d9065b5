use std::path::PathBuf;
use std::time::Duration;

use crate::args::flag::{Flag, bare, integer, switch, text, unused, unused_number};
use crate::args::setters::{api_key_file, hosts, list, prefix};

const TOOLS: &str = "tools that run on the server are not in this release; tools of requests work";
const ROUTER: &str = "a server has one model in this release";
const UI: &str = "the page at / has no settings";

pub(super) static FLAGS: &[Flag] = &[
    text("--host", "HOST[,HOST]", hosts)
        .env("LLAMA_ARG_HOST")
        .doc("addresses to listen on; one that ends in .sock is a Unix socket (default: 127.0.0.1)"),
    integer("--port", "PORT", (0, 65535), |draft, n| draft.http.port = n as u16)
        .env("LLAMA_ARG_PORT")
        .doc("port; 0: any free one, which is printed (default: 8080)"),
    text("--api-key", "KEY[,KEY]", |draft, value| {
        draft.http.api_keys.extend(list(value));
        Ok(())
    })
    .env("LLAMA_API_KEY")
    .many()
    .doc("keys that requests must show one of (default: none)"),
    text("--api-key-file", "FILE", api_key_file)
        .env("LLAMA_ARG_API_KEY_FILE")
        .doc("keys, one a line; lines that start with # are comments"),
    text("--api-prefix", "PREFIX", prefix)
        .env("LLAMA_ARG_API_PREFIX")
        .doc("what all paths begin with, without a slash at the end (default: nothing)"),
    text("--ssl-key-file", "FILE", |draft, value| {
        draft.key = Some(PathBuf::from(value));
        Ok(())
    })
    .env("LLAMA_ARG_SSL_KEY_FILE")
    .doc("private key, PEM; with --ssl-cert-file: HTTPS"),
    text("--ssl-cert-file", "FILE", |draft, value| {
        draft.cert = Some(PathBuf::from(value));
        Ok(())
    })
    .env("LLAMA_ARG_SSL_CERT_FILE")
    .doc("certificate chain, PEM"),
    text("--cors-origins", "ORIGINS", |draft, value| {
        draft.http.cors.origins = value.to_owned();
        Ok(())
    })
    .env("LLAMA_ARG_CORS_ORIGINS")
    .doc("origins of pages that may use the server; localhost: those of this machine (default: *)"),
    text("--cors-methods", "METHODS", |draft, value| {
        draft.http.cors.methods = value.to_owned();
        Ok(())
    })
    .env("LLAMA_ARG_CORS_METHODS")
    .doc("methods that such pages may use (default: GET, POST, DELETE, OPTIONS)"),
    text("--cors-headers", "HEADERS", |draft, value| {
        draft.http.cors.headers = value.to_owned();
        Ok(())
    })
    .env("LLAMA_ARG_CORS_HEADERS")
    .doc("headers that such pages may send (default: *)"),
    switch("--cors-credentials", |draft, on| draft.http.cors.credentials = on)
        .off("--no-cors-credentials")
        .env("LLAMA_ARG_CORS_CREDENTIALS")
        .doc("such pages may send credentials (default: on)"),
    integer("-to --timeout", "S", (1, i32::MAX as i64), |draft, n| {
        draft.http.timeout = Duration::from_secs(n.unsigned_abs());
    })
    .env("LLAMA_ARG_TIMEOUT")
    .doc("seconds that a client may take no byte of an answer; requests themselves must keep coming within that or 60 seconds (default: 3600)"),
    integer("--max-connections", "N", (1, 1 << 20), |draft, n| draft.http.max_connections = n as usize)
        .doc("connections that may be open; the next one gets 503 (default: 1024)"),
    integer("--sse-ping-interval", "S", (-1, i32::MAX as i64), |draft, n| {
        draft.serve.sse_ping = u64::try_from(n).ok().filter(|&n| n > 0).map(Duration::from_secs);
    })
    .env("LLAMA_ARG_SSE_PING_INTERVAL")
    .doc("seconds of silence after which a stream gets a comment; -1: never (default: 30)"),
    switch("--slots", |draft, on| draft.serve.slots = on)
        .off("--no-slots")
        .env("LLAMA_ARG_ENDPOINT_SLOTS")
        .doc("GET /slots (default: on)"),
    switch("--metrics", |draft, on| draft.serve.metrics = on)
        .env("LLAMA_ARG_ENDPOINT_METRICS")
        .doc("GET /metrics (default: off)"),
    switch("--props", |draft, on| draft.serve.props = on)
        .env("LLAMA_ARG_ENDPOINT_PROPS")
        .doc("POST /props (default: off)"),
    switch("--ui --webui", |draft, on| draft.http.ui = on)
        .off("--no-ui --no-webui")
        .env("LLAMA_ARG_UI")
        .doc("a page at / (default: on)"),
    bare("--reuse-port").env("LLAMA_ARG_REUSE_PORT").ignored("one process listens on a port"),
    unused_number("--threads-http", "N")
        .env("LLAMA_ARG_THREADS_HTTP")
        .ignored("connections do not take a thread each"),
    unused("--path", "DIR").env("LLAMA_ARG_STATIC_PATH").ignored("files are not served"),
    unused("--ui-config --webui-config", "JSON").env("LLAMA_ARG_UI_CONFIG").ignored(UI),
    unused("--ui-config-file --webui-config-file", "FILE").env("LLAMA_ARG_UI_CONFIG_FILE").ignored(UI),
    bare("--ui-mcp-proxy --webui-mcp-proxy")
        .off("--no-ui-mcp-proxy --no-webui-mcp-proxy")
        .env("LLAMA_ARG_UI_MCP_PROXY")
        .refused(TOOLS),
    unused("--tools", "NAME[,NAME]").env("LLAMA_ARG_TOOLS").refused(TOOLS),
    unused("--tools-runtime", "OPTION").env("LLAMA_ARG_TOOLS_RUNTIME").refused(TOOLS),
    unused("--mcp-servers-config", "FILE").env("LLAMA_ARG_MCP_SERVERS_CONFIG").refused(TOOLS),
    unused("--mcp-servers-json", "JSON").env("LLAMA_ARG_MCP_SERVERS_JSON").refused(TOOLS),
    bare("-ag --agent").off("-no-ag --no-agent").env("LLAMA_ARG_AGENT").refused(TOOLS),
    unused("--models-dir", "DIR").env("LLAMA_ARG_MODELS_DIR").refused(ROUTER),
    unused("--models-preset", "FILE").env("LLAMA_ARG_MODELS_PRESET").refused(ROUTER),
    unused_number("--models-max", "N").env("LLAMA_ARG_MODELS_MAX").ignored(ROUTER),
    bare("--models-autoload").off("--no-models-autoload").env("LLAMA_ARG_MODELS_AUTOLOAD").ignored(ROUTER),
];
