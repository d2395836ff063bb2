# A formula for Homebrew. The release fills in the URL and the checksum of the sources (SHA256SUMS of `make dist`). Never run: see
# docs/status.md.
class Authflow < Formula
  desc "Sign in with any OAuth 2.0 or OpenID Connect provider"
  homepage "https://example.com/authflow"
  url "https://example.com/authflow/authflow-VERSION.tar.gz"
  sha256 "CHECKSUM"

  depends_on "pkgconf" => :build
  depends_on xcode: ["26.0", :build]
  depends_on "jansson"
  depends_on "libxml2"
  depends_on macos: :sequoia

  def install
    system "swift", "build", "--disable-sandbox", "--configuration", "release", "--product", "authflow"
    system "Packaging/install.sh", ".build/release/authflow", "", prefix
  end

  test do
    assert_match "Signed in as Alice Example", shell_output("#{bin}/authflow try")
  end
end
