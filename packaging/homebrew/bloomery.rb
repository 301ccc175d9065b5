# Homebrew on x86-64 Linux: the archive of the release, and with --HEAD a build of the sources. The digest is filled in by
# `cargo xtask release`, which writes the formula that a tap gets.
class Bloomery < Formula
  desc "LLM inference server and chat program with llama-server's routes and flags"
  homepage "https://github.com/bloomery/bloomery"
  version "0.1.0"
  url "https://github.com/bloomery/bloomery/releases/download/v#{version}/bloomery-#{version}-x86_64-linux.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license all_of: ["MIT", "CC-BY-4.0"]

  head do
    url "https://github.com/bloomery/bloomery.git", branch: "main"
    depends_on "rust" => :build
  end

  depends_on arch: :x86_64
  depends_on :linux

  def install
    if build.head?
      system "cargo", "install", *std_cargo_args(path: "bloomery-server")
      system "cargo", "install", *std_cargo_args(path: "examples")
      generate_completions_from_executable(bin/"bloomery-serve", shells: [:bash], shell_parameter_format: "--completion-")
      doc.install "bloomery-core/demo/NOTICE.md"
    else
      bin.install "bin/bloomery-serve", "bin/bloomery-chat"
      bash_completion.install "share/bash-completion/completions/bloomery-serve"
      doc.install "NOTICE.md", "THIRD-PARTY.md"
    end
  end

  service do
    run [opt_bin/"bloomery-serve"]
    keep_alive crashed: true
    log_path var/"log/bloomery-serve.log"
    error_log_path var/"log/bloomery-serve.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/bloomery-serve --version")
    assert_match(/\w+ \w+/, shell_output("#{bin}/bloomery-chat --seed 1 -n 32 'Tell me a story about a fox.'"))
  end
end
