# The formula for Homebrew. deploy/collect.sh fills in the places between two @.
class Gitfleet < Formula
  desc "Makes a git repository the hub of a fleet of Kubernetes clusters"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@RELEASE@/gitfleet-aarch64-apple-darwin.tar.gz"
      sha256 "@SUM aarch64-apple-darwin@"
    end
  end
  on_linux do
    on_intel do
      url "@RELEASE@/gitfleet-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "@SUM x86_64-unknown-linux-gnu@"
    end
    on_arm do
      url "@RELEASE@/gitfleet-aarch64-unknown-linux-gnu.tar.gz"
      sha256 "@SUM aarch64-unknown-linux-gnu@"
    end
  end

  def install
    bin.install "gitfleet"
    bin.install_symlink "gitfleet" => "kubectl-gitfleet"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/gitfleet.bash" => "gitfleet"
    zsh_completion.install "completions/gitfleet.zsh" => "_gitfleet"
    fish_completion.install "completions/gitfleet.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/gitfleet version")
  end
end
