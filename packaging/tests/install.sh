# shellcheck shell=bash
# install.sh against a local server that has good releases and bad ones. Sourced by packaging/check.
# shellcheck disable=SC2154

python3 "$here/tests/releases.py" "$releases" >"$work/port" &
pids+=($!)
for _ in $(seq 100); do [[ -s $work/port ]] && break; sleep 0.1; done
address=http://127.0.0.1:$(<"$work/port")
user="$work/a user"
serve_link="$user/.local/bin/bloomery-serve"

# Releases that must not be installed, and an older one. Each is the good one with something changed.
# release VERSION COMMAND...: runs the command in the unpacked folder and packs it
release() {
    local folder=$releases/v$1 file=bloomery-$1-x86_64-linux
    shift
    mkdir -p "$folder"
    rm -rf "$work/changed"
    mkdir "$work/changed"
    cp -r "$unpacked" "$work/changed/$file"
    (cd "$work/changed/$file" && "$@")
    tar -czf "$folder/$file.tar.gz" --use-compress-program 'gzip -1' -C "$work/changed" "$file" 2>/dev/null ||
        tar -I 'gzip -1' -cf "$folder/$file.tar.gz" -C "$work/changed" "$file"
    (cd "$folder" && sha256sum "$file.tar.gz" >"$file.tar.gz.sha256")
}

broken_program() {
    printf '#!/bin/sh\nexit 1\n' >bin/bloomery-serve
}

release 0.0.1 true
release 0.0.2 broken_program
mkdir -p "$releases"/v0.0.{3,4}
wrong=bloomery-0.0.3-x86_64-linux.tar.gz cut=bloomery-0.0.4-x86_64-linux.tar.gz
cp "$releases/v0.0.1/bloomery-0.0.1-x86_64-linux.tar.gz" "$releases/v0.0.3/$wrong"
printf '%064d  %s\n' 0 "$wrong" >"$releases/v0.0.3/$wrong.sha256"
# The digest is right, and the archive ends early.
head -c 1000000 "$releases/v0.0.1/bloomery-0.0.1-x86_64-linux.tar.gz" >"$releases/v0.0.4/$cut"
(cd "$releases/v0.0.4" && sha256sum "$cut" >"$cut.sha256")

# A PATH of just what the script may use, with programs replaced by scripts that print: tools FOLDER [NAME=TEXT]...
tools() {
    local folder=$1 tool
    shift
    rm -rf "$folder"
    mkdir -p "$folder"
    for tool in sh cut getconf gzip ln mkdir mktemp mv readlink rm rmdir sha256sum tar uname ${fetcher:-curl}; do
        ln -s "$(command -v "$tool")" "$folder/$tool"
    done
    for tool in "$@"; do
        rm -f "$folder/${tool%%=*}"
        printf '#!/bin/sh\n%s\n' "${tool#*=}" >"$folder/${tool%%=*}"
        chmod +x "$folder/${tool%%=*}"
    done
}

# install FLAGS...: as the user, with $path as PATH
path=$work/tools
install() {
    env -i HOME="$user" PATH="$path" BLOOMERY_RELEASES="$address${manner:-}" "${shell:-sh}" "$here/install.sh" "$@"
}

# All that an installation could leave behind: files, links, and folders of its own.
state() {
    # From there: the checkout may be in a folder of the project's name.
    (cd "$user" && find . '(' -not -type d -o -path '*bloomery*' ')' | sort)
}

# refuses WORDS FLAGS...: fails, says why, and leaves everything as it was
refuses() {
    local words=$1 before output
    shift
    before=$(state)
    if output=$(install "$@" 2>&1); then
        echo "it was installed: $output"
        return 1
    fi
    grep -qF "$words" <<<"$output" || { echo "another reason: $output"; return 1; }
    [[ $(state) == "$before" ]] || { diff <(echo "$before") <(state); return 1; }
}

says() {
    local words=$1
    shift
    "$@" 2>&1 | tee "$work/said" | grep -qF "$words" || { cat "$work/said"; return 1; }
}

# Ends the installation in the middle of the download, as Ctrl-C and a closed terminal do: all of its processes.
interrupted() {
    local before pid
    before=$(state)
    setsid env -i HOME="$user" PATH="$path" BLOOMERY_RELEASES="$address/slow" sh "$here/install.sh" >/dev/null 2>&1 &
    pid=$!
    for _ in $(seq 50); do [[ -s $(echo "$user"/.local/share/bloomery/.install.*/archive) ]] && break; sleep 0.1; done
    [[ $(state) != "$before" ]] || { echo "it did not begin"; return 1; }
    kill -"$1" -- "-$pid"
    wait "$pid"
    [[ $(state) == "$before" ]] || { diff <(echo "$before") <(state); return 1; }
}

rm -rf "$user"
mkdir "$user"
tools "$work/tools"
check "install: a digest that is wrong, first" refuses "nothing was installed" --version 0.0.3
check "install: the user's folder is still empty" test -z "$(find "$user" -type f -o -type l)"
check "install: it works, and says that PATH lacks it" says "is not in PATH" install
check "install: the program runs" says "$version" env -i "$serve_link" --version
check "install: the completion" bash -n "$user/.local/share/bash-completion/completions/bloomery-serve"
check "install: again" install
path=$work/tools:$user/.local/bin
check "install: nothing about PATH where it is there" bash -c "! grep -q PATH <<<'$(install 2>&1)'"
path=$work/tools
check "install: a digest that is wrong" refuses "nothing was installed" --version 0.0.3
check "install: an archive that ends early" refuses "could not be unpacked" --version 0.0.4
check "install: a program that does not start" refuses "does not start here" --version 0.0.2
check "install: a version that is not there" refuses "could not be fetched" --version 9.9.9
check "install: a version that is a path" refuses "is no version" --version ../1
manner=/cut check "install: a connection that ends early" refuses "could not be fetched"
check "install: Ctrl-C in the middle" interrupted INT
check "install: a closed terminal in the middle" interrupted HUP
check "install: the program still runs" says "$version" env -i "$serve_link" --version
check "install: an older version" install --version 0.0.1
check "install: which is then in use" test "$(readlink "$serve_link")" = "$user/.local/share/bloomery/0.0.1/bin/bloomery-serve"
if [[ -x $(command -v wget) ]]; then
    fetcher=wget tools "$work/tools-wget"
    path=$work/tools-wget
    check "install: with wget" install
    manner=/cut check "install: with wget, a connection that ends early" refuses "could not be fetched"
    path=$work/tools
fi
shell=$(command -v bash) check "install: with bash as sh" install
check "install: uninstall" install --uninstall
check "install: nothing is left" test -z "$(find "$user" -type f -o -type l)"
check "install: uninstall again" refuses "nothing is installed" --uninstall
check "install: another prefix" install --prefix "$user/opt"
check "install: another prefix, the program runs" says "$version" env -i "$user/opt/bin/bloomery-serve" --version
check "install: another prefix, uninstall" install --prefix "$user/opt" --uninstall
mkdir -p "$user/.local/bin"
echo mine >"$serve_link"
check "install: a file of the user's own" refuses "not of this installation"
check "install: which is still the user's own" grep -qx mine "$serve_link"
rm "$serve_link"

# elsewhere WORDS NAME=TEXT...
elsewhere() {
    local words=$1
    shift
    tools "$work/tools-elsewhere" "$@"
    path=$work/tools-elsewhere refuses "$words"
}

check "install: not on ARM" elsewhere "aarch64" "uname=[ \$1 = -s ] && echo Linux || echo aarch64"
check "install: not on macOS" elsewhere "Darwin" "uname=[ \$1 = -s ] && echo Darwin || echo arm64"
check "install: not on RISC-V" elsewhere "riscv64" "uname=[ \$1 = -s ] && echo Linux || echo riscv64"
check "install: not with musl" elsewhere "another C library" "getconf=exit 1"
check "install: not with an old glibc" elsewhere "2.31" "getconf=echo glibc 2.31"
check "install: a script that was cut off does nothing" bash -c "head -c 4000 '$here/install.sh' | env -i HOME='$user' PATH='$path' sh; test -z \"\$(find '$user' -type f -o -type l)\""
