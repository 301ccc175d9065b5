# shellcheck shell=bash
# The archive, unpacked into an empty folder and run with an empty environment. Sourced by packaging/check.
# shellcheck disable=SC2154

unpacked=$work/unpacked/$name
rm -rf "$work/unpacked"
mkdir -p "$work/unpacked"
check "archive: its digest is the one beside it" bash -c "cd '$releases/v$version' && sha256sum --check --strict '$name.tar.gz.sha256'"
check "archive: it unpacks into one folder" tar -xzf "$releases/v$version/$name.tar.gz" -C "$work/unpacked"
check "archive: nothing else beside that" test "$(ls "$work/unpacked")" = "$name"
check "archive: files" ls "$unpacked"/{README.md,LICENSE,NOTICE.md,docs/serving.md,share/systemd/bloomery-serve.service} \
    "$unpacked/share/bash-completion/completions/bloomery-serve"
check "archive: the completion is a script" bash -n "$unpacked/share/bash-completion/completions/bloomery-serve"

# serve LOG FLAGS...: in an empty environment; sets $base and $server
serve() {
    local log=$1
    shift
    (cd "$work/unpacked" && exec env -i "$unpacked/bin/bloomery-serve" --port 0 "$@" >"$log" 2>&1) &
    server=$!
    pids+=("$server")
    for _ in $(seq 300); do
        base=$(sed -n 's|.*listening on \(http://[^ /]*\).*|\1|p' "$log" | head -n 1)
        if [[ -n $base ]] && curl -sf "$base/health" >/dev/null; then
            return
        fi
        kill -0 "$server" 2>/dev/null || return
        sleep 0.1
    done
    return 1
}

answers() {
    curl -sf "$base/v1/chat/completions" \
        -d '{"messages": [{"role": "user", "content": "Tell me a story about a fox."}], "max_tokens": 48, "seed": 1}' |
        python3 -c 'import json, sys
answer = json.load(sys.stdin)["choices"][0]["message"]["content"]
assert len(answer.split()) >= 20, answer'
}

chats() {
    local story
    story=$(env -i "$unpacked/bin/bloomery-chat" --seed 1 -n 48 "Tell me a story about a fox." </dev/null) || return
    [[ $(wc -w <<<"$story") -ge 20 ]] || { echo "$story"; return 1; }
}

healthy() {
    env -i PATH="$PATH" LLAMA_ARG_PORT="$1" "$here/docker/healthy"
}

check "archive: the server says its version" grep -qw "$version" <(env -i "$unpacked/bin/bloomery-serve" --version 2>&1)
check "archive: the chat program answers" chats
if serve "$work/serve.log"; then
    check "archive: the server answers" answers
    check "image: the health check of a server that is up" healthy "${base##*:}"
    kill -TERM "$server"
    wait "$server"
    check "archive: the server ends with code 0" test $? -eq 0
    check "image: the health check of one that is down" bash -c "! LLAMA_ARG_PORT=${base##*:} '$here/docker/healthy'"
else
    check "archive: the server starts" bash -c "cat '$work/serve.log'; false"
fi
