# What the formula says and installs, without Homebrew: `formula.rb RELEASE UNPACKED`. The few words of Homebrew's
# language that it uses are defined here; those that install look whether the file is in the archive.
require "digest"

RELEASE, UNPACKED = ARGV

# A formula's class; its words are remembered.
class Formula
  class << self
    attr_reader :said

    %i[desc homepage url sha256 license depends_on].each do |word|
      define_method(word) { |*values| ((@said ||= {})[word] ||= []).concat(values) }
    end

    def version(value = nil)
      value ? @version = value : @version
    end

    def head; end

    def service; end

    def test(&block)
      @test = block
    end
  end

  # A folder of the installation.
  Folder = Struct.new(:name, :files) do
    def install(*names)
      names.each do |name|
        # Archives of tests have no notices.
        there = name == "THIRD-PARTY.md" || File.file?(File.join(UNPACKED, name))
        raise "#{self.name}: #{name} is not in the archive" unless there
      end
      files.concat(names)
    end
  end

  %i[bin doc bash_completion].each do |name|
    define_method(name) { (@folders ||= {})[name] ||= Folder.new(name, []) }
  end

  def build
    Struct.new(:head?).new(false)
  end
end

load File.join(RELEASE, "bloomery.rb")

def equal(what, found, wanted)
  raise "#{what}: #{found}, and it should be #{wanted}" unless found == wanted
end

archive = Dir[File.join(RELEASE, "*.tar.gz")].fetch(0)
said = Bloomery.said
equal("name", File.basename(said[:url].fetch(0)), File.basename(archive))
equal("sha256", said[:sha256], [Digest::SHA256.file(archive).hexdigest])
equal("system", said[:depends_on], [{ arch: :x86_64 }, :linux])
formula = Bloomery.new
formula.install
equal("programs", formula.bin.files.sort, Dir[File.join(UNPACKED, "bin/*")].map { |path| "bin/#{File.basename(path)}" }.sort)
equal("notices", formula.doc.files, ["NOTICE.md", "THIRD-PARTY.md"])
