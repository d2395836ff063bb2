#!/usr/bin/env python3
"""Shows that the tests cover the validation checks: disables each check in turn and expects a test to fail.

The script copies the package to .build-mutants, adds a switch to every check in the files below, builds the tests once,
and then runs them once for each check with its switch on. Only the copy contains the switches.

    Tests/Mutation/mutate.py                 all checks; hours on two cores
    Tests/Mutation/mutate.py --list          the checks and their numbers
    Tests/Mutation/mutate.py --only 3,17     only these checks
"""
import argparse, os, pathlib, re, signal, subprocess, sys, threading, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / ".build-mutants" / "tree"
SOURCES = """
AuthFlowIssuer/IDTokenValidation AuthFlowJOSE/DPoPKey AuthFlowOAuth/VerifiedResponse AuthFlowJOSE/CertificateBinding
AuthFlowOAuth/Assertion AuthFlowSignIn/AssertionSource+Platform AuthFlowOAuth/JWTBearer AuthFlowOAuth/Introspection
AuthFlowOAuth/IdentityAssertion AuthFlowOAuth/ClientAuthentication AuthFlowOAuth/PushedAuthorization
AuthFlowOAuth/SignedAuthorizationResponse AuthFlowOAuth/SecurityProfile AuthFlowOAuth/AuthorizationDetails
AuthFlowOAuth/ClientCredentials AuthFlowOAuth/AuthenticationRequirements AuthFlowOAuth/AuthorizationRequest
AuthFlowOAuth/AuthorizationRequest+Codable AuthFlowOAuth/AuthorizationResponse AuthFlowOAuth/ClientRegistration
AuthFlowOAuth/TokenRequest AuthFlowOAuth/AccessTokenClaims AuthFlowOAuth/CodeExchange AuthFlowOAuth/DPoP
AuthFlowOAuth/DeviceAuthorization AuthFlowOAuth/DevicePolling AuthFlowResourceClient/DynamicRegistration AuthFlowOAuth/EndSession
AuthFlowOAuth/Refresh AuthFlowOAuth/TokenExchangeGrant AuthFlowOAuth/AuthorizationDetails+Comparison AuthFlowOAuth/TokenValidation AuthFlowOAuth/UserInfo
AuthFlowIssuer/AuthorizationServer AuthFlowIssuer/AuthorizationServer+Verification AuthFlowIssuer/Discovery
AuthFlowIssuer/ProviderMetadata AuthFlowSignIn/WebFinger AuthFlowOAuth/ProviderAdapter AuthFlowOAuth/ProviderRequest
AuthFlowHTTP/RedirectURI AuthFlowOAuth/ResourceToken
AuthFlowJOSE/JWTVerifier AuthFlowJOSE/KeySet AuthFlowJOSE/JWK AuthFlowJOSE/JWS AuthFlowJOSE/KeySource
AuthFlowJOSE/HMACSignature AuthFlowJOSE/PrivateKey AuthFlowJOSE/SigningKey AuthFlowJOSE/PrivateKeyFile AuthFlowJOSE/JWE
AuthFlowJOSE/DecryptionKey AuthFlowJOSE/ContentEncryption AuthFlowJOSE/KeyMaterial
AuthFlowHTTP/Base64URL AuthFlowHTTP/PEMBlock AuthFlowHTTP/RateLimit AuthFlowHTTP/Endpoint AuthFlowHTTP/ExchangeLimits
AuthFlowHTTP/AuthenticationChallenge AuthFlowHTTP/NetworkReach AuthFlowHTTP/CertificateNames
AuthFlowPKCS11/PKCS11URI
AuthFlowDesktop/CommandAssertionSource AuthFlowDesktop/RedirectHandoff AuthFlowDesktop/SchemeHandler
AuthFlowDesktop/SystemBrowserUserAgent
AuthFlowCredentials/PendingAuthorizations AuthFlowCredentials/ManagedCredential AuthFlowCredentials/ManagedCredential+Refresh
AuthFlowCredentials/ManagedCredential+Record AuthFlowCredentials/ManagedCredential+SignIn
AuthFlowCredentials/ManagedCredential+SignOut AuthFlowCredentials/ManagedCredential+UnsavedWrites AuthFlowCredentials/AccountPolicy
AuthFlowSignIn/UserAgent AuthFlowOAuth/RedirectResponse AuthFlowSignIn/PendingRedirects
AuthFlowResourceClient/ProtectedResourceMetadata AuthFlowResourceClient/ProtectedResourceDiscovery
AuthFlowResourceClient/ResourceChallenge AuthFlowResourceClient/ResourceAuthorizationServer
AuthFlowResourceClient/ClientMetadataDocument AuthFlowResourceClient/ResourceClient+Requests
AuthFlowResourceClient/ResourceClient+Discovery AuthFlowResourceClient/ResourceClient+SignIn AuthFlowResourceClient/SignInHistory AuthFlowResourceClient/KnownResource
AuthFlowResourceClient/ResourceRecord
AuthFlowMCP/MCPEndpoint AuthFlowMCP/MCPMessage AuthFlowMCP/ToolHeaders
AuthFlowLoopback/CallbackInbox AuthFlowLoopback/HTTPMessageReader AuthFlowLoopback/StartPage
AuthFlowServer/SessionServer AuthFlowServer/SessionServer+SignIn AuthFlowServer/SessionServer+SignOut
AuthFlowServer/ResourceProxy AuthFlowServer/SessionServer+BackChannelLogout AuthFlowServer/RequestCookies
AuthFlowServer/RequestLimit AuthFlowServer/ReturnAddress AuthFlowServer/SignInSlots
AuthFlowServer/SessionServer+Callback AuthFlowServer/SignInCookies AuthFlowServer/AuthenticationRequirement
AuthFlowServer/ForwardAuth AuthFlowServer/SessionData AuthFlowServer/SessionServer+FrontChannelLogout
AuthFlowTransport/TransferQueue
AuthFlowDatabase/DatabasePool AuthFlowDatabase/LeasedRecords AuthFlowDatabase/RecordWaiters AuthFlowDatabase/DatabaseStore
AuthFlowSQLite/SQLiteExecutor AuthFlowSQLite/SQLiteTokenStore
AuthFlowStores/FileTokenStore AuthFlowStores/FileLock AuthFlowStores/PrivateFile AuthFlowStores/EncryptedTokenStore
AuthFlowConfiguration/TrustedFile
AuthFlowResourceServer/ProofVerification AuthFlowResourceServer/ProofReplayCache AuthFlowResourceServer/ProofNonces
AuthFlowResourceServer/AccessTokenVerification AuthFlowResourceServer/TokenBinding AuthFlowResourceServer/PresentedToken
AuthFlowResourceServer/IntrospectedToken AuthFlowResourceServer/IntrospectionCache AuthFlowResourceServer/ClientCertificateField
""".split()

# Tests from the fastest to the slowest; the first failure ends a run.
STAGES = [
    "JWK|JWE|PrivateKey|KeySource|AuthorizationServerTests|IDToken|AuthorizationResponse|AuthenticationRequirements|ClientRegistration|DynamicRegistration|UserInfo|WebFinger|ProviderMetadata|ProviderResponse|Endpoint|RedirectURI|Base64URL|ReceivedRedirect|SchemeHandler|LaunchEnvironment",
    "Certificate|SignedIntrospection|EncryptedResponse|Assertion|SignedResponse|PushedAuthorization|ClientAssertion|ClientCredentials|SecurityProfile|ConformanceTests|SigningInTests|FaultyProviderTests|IssuerTests|TokenLifeTests|SignedInTests|DeviceGrantTests|DeviceGrantFaultsTests|AdapterRulesTests|DPoPTests|ResumeTests|SignInStepsTests|PlainOAuthTests|ManyUsersTests|SeparateUsersTests|AuthFlowGitHubTests|AuthFlowOktaTests",
    "AuthFlowTests|AuthFlowHeadlessTests|AuthFlowLoopbackTests|CommandTests",
]
# Run first for checks in the modules for protected resources.
RESOURCE = "AuthFlowMCPTests|ResourceMetadataTests|ResourceRecordTests|SignInHistoryTests|ResourceAuthorizationServerTests|DynamicRegistrationTests|ClientMetadataDocumentTests|HostileTextTests"
# Run first for checks in the loopback module.
LOOPBACK = "AuthFlowLoopbackTests"

# Run first for checks in the modules for sessions and their tokens.
SERVER = "SessionServer|SessionSignIn|SessionHook|SessionData|SessionPage|SeveralProviders|ConformanceTests|SessionRaceTests|TokenLifeTests|UnsavedTokensTests|ResourceTokenTests|WaitingRequestTests"
# Run first for checks in the stores and in the code that reads files.
STORES = "TokenStore|FileLock|PrivateFile|StoredFile|SecretFile|TrustedFile|LeaseFault|DatabasePool|SQLite|Encrypt|HostileFile|StoredFormats"

# Run first for checks in the module for APIs.
API = "AuthFlowResourceServerTests"

# Checks whose absence no test can detect, each with the reason.
NEXT = "the next check also rejects the missing value"
EQUIVALENT = {
    ("AuthFlowOAuth/ClientRegistration", "definition.scheme == .hmac"): "selects the checks; a wrong selection only adds requirements",
    ("AuthFlowResourceClient/DynamicRegistration", 'let clientID = json["client_id"]?.string'): NEXT,
    ("AuthFlowResourceClient/DynamicRegistration", "let uris = uris.strings"): NEXT,
    ("AuthFlowOAuth/DeviceAuthorization", 'let deviceCode = json["device_code"]?.string'): NEXT,
    ("AuthFlowOAuth/DeviceAuthorization", 'let userCode = json["user_code"]?.string'): NEXT,
    ("AuthFlowOAuth/DeviceAuthorization", 'let uri = json["verification_uri"]?.string ?? json["verification_url"]?.string'): NEXT,
    ("AuthFlowResourceClient/ClientMetadataDocument", 'let named = json["client_id"]?.string'): NEXT,
    ("AuthFlowResourceClient/ClientMetadataDocument", 'let uris = json["redirect_uris"]?.strings'): NEXT,
    ("AuthFlowResourceClient/ProtectedResourceMetadata", "let strings = value.strings"): NEXT,
    ("AuthFlowResourceClient/ProtectedResourceMetadata", 'let resource = json["resource"]?.string'): NEXT,
    ("AuthFlowResourceClient/ProtectedResourceMetadata", "!servers.isEmpty"): NEXT,
    ("AuthFlowResourceClient/ProtectedResourceMetadata", "!named.hasDotSegments"): "no URL without dot segments is below a URL with dot segments",
    ("AuthFlowHTTP/Endpoint", "components.password == nil"): "a password is always preceded by a user name, which may be empty",
    ("AuthFlowHTTP/Endpoint", "!parameters.pairs.isEmpty"): "only avoids a question mark",
    ("AuthFlowDesktop/RedirectHandoff", "peer >= 0"): "a connection that cannot be accepted sends nothing",
    ("AuthFlowIssuer/AuthorizationServer+Verification", "moved != keySetURL"): "the same keys would be read again",
    ("AuthFlowOAuth/PushedAuthorization", 'let uri = json["request_uri"]?.string'): NEXT,
    ("AuthFlowJOSE/JWTVerifier", 'let named = json["iss"]?.string'): NEXT,
    ("AuthFlowJOSE/JWTVerifier", 'let subject = json["sub"]?.string'): NEXT,
    ("AuthFlowJOSE/JWTVerifier", 'let audience = json["aud"]?.string'): NEXT,
    ("AuthFlowIssuer/IDTokenValidation", "Set(audience).isSuperset(of: original.audience)"): "earlier checks ensure that every audience is this client",
    ("AuthFlowJOSE/JWK", "key.keySizeInBits >= 2048"): "swift-crypto also rejects shorter keys",
    ("AuthFlowJOSE/KeyMaterial", "modulus.count <= Self.maximumRSASize / 8 + 1"): "swift-crypto also rejects longer keys",
    ("AuthFlowJOSE/KeyMaterial", "bytes.count == curve.size"): "swift-crypto also requires 32 bytes",
    ("AuthFlowJOSE/KeySource", "known.count < 32"): "bounds memory",
    ("AuthFlowOAuth/TokenRequest", 'let accessToken = parameters["access_token"]?.string'): NEXT,
    ("AuthFlowIssuer/ProviderMetadata", "let url = value.string"): NEXT,
    ("AuthFlowSignIn/WebFinger", "let issuer = links.first"): NEXT,
    ("AuthFlowSignIn/WebFinger", "!host.isEmpty"): NEXT,
    ("AuthFlowJOSE/JWS", "let payload = Base64URL.decode"): NEXT,
    ("AuthFlowJOSE/JWS", "let signature = Base64URL.decode"): "an empty signature is never valid",
    ("AuthFlowJOSE/JWS", "self.payload.object != nil"): "a value that is not an object has no claims",
    ("AuthFlowJOSE/JWS", "let bytes = Base64URL.decode"): NEXT,
}

SWITCH = """
import AuthFlowHTTP
import Foundation

/// The number of the check that is disabled.
private let activeMutant = Int(ProcessInfo.processInfo.environment["AUTHFLOW_MUTANT"] ?? "") ?? 0
func mutant(_ number: Int) -> Bool { activeMutant == number }

/// The placeholder for a missing value that a disabled check would have required.
func mutantValue<Value>(_ number: Int) -> Value? {
    guard mutant(number) else { return nil }
    let soon = Date().timeIntervalSince1970 + 30
    return ["" as Any, soon, false, [String](), [UInt8](), FormParameters()].lazy.compactMap { $0 as? Value }.first
}
"""


class Mutant:
    def __init__(self, number, file, line, text):
        self.number, self.file, self.line, self.text = number, file, line, " ".join(text.split())

    def __str__(self):
        return f"{self.number:4} {self.file}:{self.line}  {self.text[:150]}"


def blanked(text):
    """The text with comments and the contents of string literals blanked out, without moving any other character."""
    out, index = list(text), 0

    def blank(end, filler):
        nonlocal index
        for place in range(index, end):
            if out[place] != "\n": out[place] = filler
        index = end

    while index < len(text):
        if text.startswith("//", index): blank((text + "\n").index("\n", index), " ")
        elif text.startswith('"""', index): blank(text.index('"""', index + 3) + 3, "_")
        elif text[index] == '"': blank(string_end(text, index), "_")
        else: index += 1
    return "".join(out)


def string_end(text, index):
    index += 1
    while text[index] != '"':
        if text.startswith("\\(", index):
            depth, index = 1, index + 2
            while depth:
                if text[index] == '"': index = string_end(text, index) - 1
                depth += {"(": 1, ")": -1}.get(text[index], 0)
                index += 1
        else: index += 2 if text[index] == "\\" else 1
    return index + 1


def conditions(text, start):
    """Splits 'a, b else {' or 'a, b {' into its conditions: [(start, end)], and the position of the block."""
    parts, depth, begin, index = [], 0, start, start
    while True:
        character = text[index]
        if character in "([": depth += 1
        elif character in ")]": depth -= 1
        elif character == "{" and depth == 0:
            end = index
            if text[:index].rstrip().endswith("else"): end = text[:index].rstrip().rindex("else")
            parts.append((begin, end))
            return parts, index
        elif character == "{": depth += 1
        elif character == "}": depth -= 1
        elif character == "," and depth == 0:
            parts.append((begin, index))
            begin = index + 1
        index += 1


def instrument(name, text, mutants):
    edits = []
    code = blanked(text)

    def add(position, what):
        mutants.append(Mutant(len(mutants) + 1, name, text.count("\n", 0, position) + 1, what))
        return len(mutants)

    for match in re.finditer(r"\bguard\s", code):
        parts, _ = conditions(code, match.end())
        for begin, end in parts:
            condition = code[begin:end].strip()
            begin += len(code[begin:end]) - len(code[begin:end].lstrip())
            end = begin + len(condition)
            if "await " in condition or re.search(r"\btry\s", condition): continue
            bound = re.match(r"(?:let|var)\s+\w+\s*=\s*", condition)
            if bound and not re.search(r"(\.string|\.number|\.strings|\.bool|\.array|\.map\(.*\).*|decode\(.*\))$", condition):
                continue  # the code cannot continue without the value
            if bound:
                number = add(begin, text[begin:end])
                start = begin + bound.end()
                edits.append((start, end, f"({text[start:end]}) ?? mutantValue({number})"))
            elif not re.match(r"(let|var|case)\b", condition):
                number = add(begin, text[begin:end])
                edits.append((begin, end, f"({text[begin:end]}) || mutant({number})"))
    for match in re.finditer(r"(?<!#)\bif\s", code):
        parts, block = conditions(code, match.end())
        if re.match(r"\{\s*(throw|return nil)\b", code[block:]):
            number = add(match.start(), text[match.end():block])
            edits.append((match.end(), match.end(), f"!mutant({number}), "))
    for match in re.finditer(r"\bcase [^\n:]+: (?=throw (?:\w+\.)?refus)", code):
        number = add(match.start(), match.group() + "throw")
        # The disabled check returns the same value as another case of the switch.
        passing = re.search(r"\breturn\b *([^\n]*)", code[code.rindex("switch ", 0, match.start()):match.start()])
        edits.append((match.end(), match.end(), f"if mutant({number}) {{ return {passing.group(1) if passing else ''} }}; "))
    for match in re.finditer(r"\breturn (?=\w+(<\w+>)?\.isValid\w+\()", code):
        number = add(match.start(), code[match.start():code.index("\n", match.start())])
        edits.append((match.end(), match.end(), f"mutant({number}) || "))
    for begin, end, new in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def copy_package():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    wanted = {f for f in files if f and (ROOT / f).is_file()}
    mutants, found, modules = [], set(), set()
    for file in sorted(wanted):
        source, target = ROOT / file, COPY / file
        data = source.read_bytes()
        # The module and the name of the file.
        module = next((folder for folder in source.parts if folder.startswith("AuthFlow")), None)
        name = f"{module}/{source.stem}" if source.suffix == ".swift" else file
        if name in SOURCES:
            found.add(name)
            modules.add(target.parents[len(target.parts) - 2 - target.parts.index(module)])
            data = instrument(name, data.decode(), mutants).encode()
        # Only changed files are written, so that a second run rebuilds little.
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != data: target.write_bytes(data)
    # Files that were moved or deleted since the last run must not be built.
    for folder in ("Sources", "Providers", "Samples", "Tests"):
        for path in (COPY / folder).rglob("*.swift"):
            if str(path.relative_to(COPY)) not in wanted: path.unlink()
    # A name without a match would silently omit checks.
    stale = sorted(set(SOURCES) - found)
    stale += [text for (file, text) in EQUIVALENT if not any(m.file == file and text in m.text for m in mutants)]
    if stale: sys.exit("no check matches: " + ", ".join(stale))
    for module in modules:
        switch = module / "Mutants.swift"
        if not switch.exists() or switch.read_text() != SWITCH: switch.write_text(SWITCH)
    return mutants


def test(stage, number):
    """Runs a stage up to its first failure, and returns a description of the failure, or None."""
    environment = dict(os.environ, AUTHFLOW_MUTANT=str(number), SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH="4")
    # Run the test program directly, because starting it through the package manager takes longer than most stages.
    command = ["stdbuf", "--output=L", ".build/debug/AuthFlowPackageTests.xctest", "--testing-library", "swift-testing",
               "--filter", stage, "--skip", "SampleTests"]
    # A separate process group, so that processes started by the tests end with them.
    process = subprocess.Popen(command, cwd=COPY, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    end = lambda: os.killpg(process.pid, signal.SIGKILL)
    patience = threading.Timer(300, end)
    patience.start()
    try:
        for line in process.stdout:
            failed = re.search(r"Test (.+?) recorded an issue", line) or re.search(r"(Fatal error.*)", line)
            if failed:
                end()
                return failed.group(1)[:110]
        status = process.wait()
        return None if status == 0 else "it hangs" if not patience.is_alive() else "it crashes"
    finally:
        patience.cancel()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", help="numbers, separated by commas")
    options = parser.parse_args()
    mutants = copy_package()
    if options.list:
        for mutant in mutants: print(mutant)
        return
    print(f"{len(mutants)} checks; building once", flush=True)
    build = subprocess.run(["swift", "build", "--build-tests"], cwd=COPY, capture_output=True, text=True)
    if build.returncode:
        sys.exit("the copy does not build:\n" + "\n".join(line for line in build.stdout.split("\n") if "error:" in line)[:4000])
    for stage in STAGES:
        if failure := test(stage, 0): sys.exit(f"the tests fail with every check in place: {failure}")
    wanted = {int(number) for number in options.only.split(",")} if options.only else None
    if wanted and not wanted <= {mutant.number for mutant in mutants}: sys.exit("there are no such checks")
    survivors, equivalents, started = [], 0, time.time()
    for mutant in mutants:
        if wanted and mutant.number not in wanted: continue
        reason = next((why for (file, text), why in EQUIVALENT.items() if file == mutant.file and text in mutant.text), None)
        if reason:
            # Not run: every test would pass, so the run would take the longest.
            equivalents += 1
            print(f"{mutant}\n       not detectable: {reason}", flush=True)
            continue
        stages = [LOOPBACK] + STAGES if mutant.file.startswith("AuthFlowLoopback") else STAGES
        if mutant.file.startswith(("AuthFlowResourceClient", "AuthFlowMCP", "AuthFlowHTTP/Auth")): stages = [RESOURCE] + STAGES
        if mutant.file.startswith(("AuthFlowServer", "AuthFlowCredentials")): stages = [SERVER] + STAGES
        if mutant.file.startswith(("AuthFlowStores", "AuthFlowDatabase", "AuthFlowSQLite", "AuthFlowConfiguration")): stages = [STORES] + STAGES
        if mutant.file.startswith("AuthFlowResourceServer"): stages = [API] + STAGES
        killer = next((failure for failure in (test(stage, mutant.number) for stage in stages) if failure), None)
        if killer: print(f"{mutant}\n       caught by {killer}", flush=True)
        else:
            survivors.append(mutant)
            print(f"{mutant}\n       SURVIVED", flush=True)
    tried = len(wanted or mutants)
    print(f"\n{tried} checks disabled in {time.time() - started:.0f} s: {tried - len(survivors) - equivalents} caught, "
          f"{equivalents} not detectable, {len(survivors)} survived")
    for mutant in survivors: print(mutant)
    sys.exit(bool(survivors))


main()
