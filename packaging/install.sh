#!/bin/sh
# Installs bloomery-serve and bloomery-chat for the user who runs it: x86-64 Linux with glibc 2.34 or newer.
#
#   sh install.sh [--version V] [--prefix DIR]     DIR is ~/.local where it is not given
#   sh install.sh --uninstall [--prefix DIR]
#
# BLOOMERY_RELEASES is where archives are, in place of the project's releases: ADDRESS/vVERSION/FILE. Everything happens
# in a folder beside the final one until the archive is known to be whole and its program has started.
set -eu

version=0.1.0
releases=${BLOOMERY_RELEASES:-https://github.com/bloomery/bloomery/releases/download}
programs='bin/bloomery-serve bin/bloomery-chat'
links="$programs share/bash-completion/completions/bloomery-serve"
work=''

say() {
    printf '%s\n' "bloomery: $*"
}

fail() {
    printf '%s\n' "bloomery: $*" >&2
    exit 1
}

usage() {
    printf '%s\n' "usage: install.sh [--version V] [--prefix DIR]" "       install.sh --uninstall [--prefix DIR]"
}

# What a failure or a signal leaves: what was there before, and nothing of the new version.
clean() {
    if [ -d "$work/before" ] && [ ! -e "$home" ]; then
        mv "$work/before" "$home"
    fi
    for link in $links; do
        rm -f "$prefix/$link.$$"
    done
    rm -rf "$work"
    rmdir "$share" 2>/dev/null || true
}

platform() {
    system=$(uname -s) machine=$(uname -m)
    if [ "$system" != Linux ]; then
        fail "there is no archive for $system: build it, see the section 'Quick start' of the README"
    fi
    case $machine in
    x86_64 | amd64) ;;
    aarch64 | arm64) fail "there is no archive for aarch64 (64-bit ARM): build it, see the section 'Quick start' of the README" ;;
    *) fail "there is no archive for $machine: build it, see the section 'Quick start' of the README" ;;
    esac
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc=
    case $libc in
    'glibc '*) ;;
    *) fail "the archive needs glibc 2.34 or newer, and this system has another C library" ;;
    esac
    number=${libc#glibc }
    minor=${number#*.}
    if [ "${number%%.*}" -eq 2 ] && [ "${minor%%.*}" -lt 34 ]; then
        fail "the archive needs glibc 2.34 or newer, and this system has $number"
    fi
}

# fetch ADDRESS FILE
fetch() {
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 --output "$2" "$1"
    elif command -v wget >/dev/null; then
        wget --quiet --tries 3 --timeout 20 --output-document "$2" "$1"
    else
        fail "neither curl nor wget is installed"
    fi || fail "$1 could not be fetched"
}

# The SHA-256 of a file.
digest() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1"
    elif command -v openssl >/dev/null; then
        openssl dgst -sha256 -r "$1"
    else
        fail "neither sha256sum nor openssl is installed"
    fi | cut -d ' ' -f 1
}

# Succeeds when a path is a link to something of this installation.
ours() {
    case $(readlink "$1" 2>/dev/null) in
    "$share"/*) true ;;
    *) false ;;
    esac
}

install() {
    platform
    for link in $links; do
        if { [ -e "$prefix/$link" ] || [ -L "$prefix/$link" ]; } && ! ours "$prefix/$link"; then
            fail "$prefix/$link is there and not of this installation: move it away first"
        fi
    done
    name=bloomery-$version-x86_64-linux
    home=$share/$version
    mkdir -p "$share"
    work=$(mktemp -d "$share/.install.XXXXXX")
    trap clean EXIT
    trap 'exit 130' INT
    trap 'exit 143' HUP TERM

    say "fetching $releases/v$version/$name.tar.gz"
    fetch "$releases/v$version/$name.tar.gz.sha256" "$work/sha256"
    fetch "$releases/v$version/$name.tar.gz" "$work/archive"
    wanted=$(cut -d ' ' -f 1 <"$work/sha256") found=$(digest "$work/archive")
    if [ "${#wanted}" -ne 64 ] || [ "$wanted" != "$found" ]; then
        fail "the archive's SHA-256 is $found, and the release says $wanted: nothing was installed"
    fi
    tar -xzf "$work/archive" -C "$work" || fail "the archive could not be unpacked: nothing was installed"
    for program in $programs; do
        "$work/$name/$program" --version >/dev/null || fail "$program does not start here: nothing was installed"
    done
    for link in $links; do
        mkdir -p "$prefix/${link%/*}"
        ln -s "$home/$link" "$prefix/$link.$$"
    done

    # From here on there are only renames.
    trap '' HUP INT TERM
    if [ -d "$home" ]; then
        mv "$home" "$work/before"
    fi
    mv "$work/$name" "$home"
    for link in $links; do
        mv -f "$prefix/$link.$$" "$prefix/$link"
    done
    say "bloomery $version is in $home, and its programs are in $prefix/bin"
    case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) say "$prefix/bin is not in PATH: add a line such as  export PATH=\"$prefix/bin:\$PATH\"  to your ~/.profile" ;;
    esac
}

uninstall() {
    if [ ! -d "$share" ]; then
        fail "$share is not there: nothing is installed below $prefix"
    fi
    for link in $links; do
        if ours "$prefix/$link"; then
            rm -f "$prefix/$link"
        fi
    done
    rm -rf "$share"
    # Folders that are empty now; `rmdir` leaves others alone.
    for folder in share/bash-completion/completions share/bash-completion share bin; do
        rmdir "$prefix/$folder" 2>/dev/null || true
    done
    say "removed $share and the links to it"
}

main() {
    prefix=${HOME:+$HOME/.local} action=install
    while [ $# -gt 0 ]; do
        case $1 in
        --uninstall) action=uninstall ;;
        --version | --prefix)
            [ $# -ge 2 ] || fail "$1 needs a value"
            if [ "$1" = --prefix ]; then prefix=$2; else version=${2#v}; fi
            shift
            ;;
        -h | --help)
            usage
            exit
            ;;
        *)
            usage >&2
            exit 64
            ;;
        esac
        shift
    done
    [ -n "$prefix" ] || fail "HOME is not set: say where with --prefix"
    case $prefix in
    /*) ;;
    *) prefix=$(pwd)/$prefix ;;
    esac
    case $version in
    '' | *[!0-9A-Za-z.+-]* | .*) fail "'$version' is no version" ;;
    esac
    share=$prefix/share/bloomery
    $action
}

# Last, so that a script that was cut off on its way does nothing.
main "$@"
