#!/usr/bin/env python3
"""Shows that the tests cover the validation checks: disables each check in turn and expects a test to fail.

The script copies the package to .build-mutants, adds a switch to every check of the libraries, builds the tests once, runs
every test once by itself to record the checks that reject something in it, and then, for each check with its switch on,
runs these tests. Only the copy contains the switches.

    Tests/Mutation/mutate.py                 all checks; an hour or two on two cores
    Tests/Mutation/mutate.py --list          the checks and their numbers
    Tests/Mutation/mutate.py --only 3,17-29  only these checks
"""
import argparse, concurrent.futures, hashlib, json, os, pathlib, re, signal, subprocess, sys, tempfile, threading, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / ".build-mutants" / "tree"
# Not included: what supports tests, the modules below AuthFlowHTTP, which the switch needs, and the modules whose tests
# need a database server or a trait of the package.
EXCLUDED = """
AuthFlowTesting AuthFlowSimulation AuthFlowEssentials AuthFlowSystem AuthFlowJSON AuthFlowPostgreSQL AuthFlowRedis
AuthFlowHummingbird AuthFlowObservability AuthFlowSwiftConfiguration
""".split()

# Checks whose absence no test can detect, each with the reason.
EQUIVALENT = [line.split(" | ", 1) for line in (ROOT / "Tests/Mutation/equivalent.txt").read_text().splitlines() if not line.startswith("#")]
EQUIVALENT = {(file, rest.rsplit(" | ", 1)[0]): rest.rsplit(" | ", 1)[1] for file, rest in EQUIVALENT}

SWITCH = """
import AuthFlowHTTP
import Foundation

/// The number of the check that is disabled.
private let activeMutant = Int(ProcessInfo.processInfo.environment["AUTHFLOW_MUTANT"] ?? "") ?? 0

/// One byte for each check, in a file that the test and the programs that it starts have mapped; set when the check is reached.
private nonisolated(unsafe) let reached: UnsafeMutablePointer<UInt8>? = {
    guard let path = ProcessInfo.processInfo.environment["AUTHFLOW_MUTANT_REACHED"] else { return nil }
    let file = open(path, O_RDWR)
    guard file >= 0, let bytes = unsafe mmap(nil, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) else { return nil }
    return unsafe bytes.assumingMemoryBound(to: UInt8.self)
}()

func mutant(_ number: Int) -> Bool {
    if let reached = unsafe reached { unsafe reached[number] = 1 }
    return activeMutant == number
}

/// The placeholder for a missing value that a disabled check would have required.
func mutantValue<Value>(_ number: Int) -> Value? {
    guard mutant(number) else { return nil }
    let soon = Date().timeIntervalSince1970 + 30
    return ["" as Any, soon, false, [String](), [UInt8](), FormParameters()].lazy.compactMap { $0 as? Value }.first
}
"""

# Programs that a test starts have an environment of their own.
HARNESS = "Tests/CommandHarness/CommandHarness.swift"
INHERITED = ("environment: environment.merging(", 'environment: ProcessInfo.processInfo.environment.filter { $0.key.hasPrefix("AUTHFLOW_MUTANT") }.merging(environment) { $1 }.merging(')


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
        elif text.startswith('#"', index): blank(text.index('"#', index + 2) + 2, "_")
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
            edits.append((parts[-1][1], parts[-1][1], f", !mutant({number}) "))
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


def module_folder(path):
    """The folder of the module to which a source file belongs; None for a file that is not included."""
    if path.suffix != ".swift": return None
    depth = {"Sources": 3, "Providers": 2}.get(path.parts[0])
    if not depth or path.parts[2 if depth == 3 else 1] in EXCLUDED or len(path.parts) <= depth: return None
    return pathlib.PurePath(*path.parts[:depth])


def copy_package():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    wanted = {f for f in files if f and (ROOT / f).is_file()}
    mutants, modules = [], set()
    for file in sorted(wanted):
        source, target = ROOT / file, COPY / file
        data = source.read_bytes()
        module = module_folder(pathlib.PurePath(file))
        if module and "+Apple" not in file:
            before = len(mutants)
            data = instrument(f"{module.name}/{source.stem}", data.decode(), mutants).encode()
            if len(mutants) > before: modules.add(COPY / module)
        if file == HARNESS:
            if INHERITED[0] not in data.decode(): sys.exit(f"{HARNESS} has changed: adapt INHERITED")
            data = data.decode().replace(*INHERITED).encode()
        # Only changed files are written, so that a second run rebuilds little.
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != data: target.write_bytes(data)
    # Files that were moved or deleted since the last run must not be built.
    for folder in ("Sources", "Providers", "Samples", "Tests"):
        for path in (COPY / folder).rglob("*.swift"):
            if str(path.relative_to(COPY)) not in wanted: path.unlink()
    stale = [f"{file} | {text}" for (file, text) in EQUIVALENT if not any(m.file == file and text in m.text for m in mutants)]
    if stale: sys.exit("no check matches:\n" + "\n".join(stale))
    for module in modules:
        switch = module / "Mutants.swift"
        if not switch.exists() or switch.read_text() != SWITCH: switch.write_text(SWITCH)
    return mutants


def run(tests, limit, **environment):
    """Runs tests up to the first failure, and returns a description of the failure, or None."""
    # Run the test program directly, because starting it through the package manager takes longer than most tests.
    command = ["stdbuf", "--output=L", ".build/debug/AuthFlowPackageTests.xctest", "--testing-library", "swift-testing"]
    for name in tests: command += ["--filter", f"^{re.escape(name)}"]
    # A separate process group, so that processes started by the tests end with them.
    process = subprocess.Popen(command, cwd=COPY, env=dict(os.environ, SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH="4", **environment),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)

    def end():
        try: os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError: pass

    patience = threading.Timer(limit, end)
    patience.start()
    found = False
    try:
        for line in process.stdout:
            failed = re.search(r"Test (.+?) recorded an issue", line) or re.search(r"(Fatal error.*)", line)
            found = found or re.search(r"Test run with [1-9]\d* tests?", line)
            if failed:
                end()
                return failed.group(1)[:110]
        status = process.wait()
        if not patience.is_alive(): return "it hangs"
        if status: return "it crashes"
        return None if found else "no test"
    finally:
        patience.cancel()
        end()
        process.wait()


def record_reach(mutants):
    """Runs every test by itself, and returns its duration and the checks that it reaches."""
    listed = subprocess.run([".build/debug/AuthFlowPackageTests.xctest", "--testing-library", "swift-testing", "--list-tests"],
                            cwd=COPY, capture_output=True, text=True, check=True).stdout.split("\n")
    tests = sorted(name for name in listed if name.startswith(("AuthFlow", "Command", "Security")))
    # A run after a change of nothing but this script need not repeat it.
    program = hashlib.sha256((COPY / ".build/debug/AuthFlowPackageTests.xctest").read_bytes()).hexdigest()
    known = COPY.parent / "reached.json"
    if known.exists() and (saved := json.loads(known.read_text()))["program"] == program: return saved["tests"]

    def record(name):
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(8192))
            file.flush()
            started = time.time()
            failure = run([name], 300, AUTHFLOW_MUTANT_REACHED=file.name)
            if failure:
                print(f"{name} fails with every check in place, and is left out: {failure}", flush=True)
                return None
            file.seek(0)
            return time.time() - started, [number for number, byte in enumerate(file.read()) if byte]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        reached = {name: result for name, result in zip(tests, workers.map(record, tests)) if result}
    known.write_text(json.dumps({"program": program, "tests": reached}))
    return reached


def killer(number, reached):
    """Returns a description of the test that fails without this check, or None."""
    # A test that reaches few checks is the likeliest to be about this one.
    tests = sorted((duration * len(checks), duration, name) for name, (duration, checks) in reached.items() if number in checks)
    while tests:
        batch, total = [], 0
        while tests and len(batch) < 200 and (not batch or total + tests[0][1] < 15):
            _, duration, name = tests.pop(0)
            batch.append(name)
            total += duration
        if failure := run(batch, 30 + 5 * total, AUTHFLOW_MUTANT=str(number)): return failure


def numbers(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", help="numbers and ranges, separated by commas")
    options = parser.parse_args()
    mutants = copy_package()
    if options.list:
        for mutant in mutants: print(mutant)
        return
    wanted = set(numbers(options.only)) if options.only else {mutant.number for mutant in mutants}
    if not wanted <= {mutant.number for mutant in mutants}: sys.exit("there are no such checks")
    # Tests send these signals, which nohup and background jobs ignore.
    for number in (signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_DFL)
    started = time.time()
    print(f"{len(mutants)} checks; building once", flush=True)
    build = subprocess.run(["swift", "build", "--build-tests"], cwd=COPY, capture_output=True, text=True)
    if build.returncode:
        sys.exit("the copy does not build:\n" + "\n".join(line for line in build.stdout.split("\n") if "error:" in line)[:4000])
    print(f"{time.time() - started:.0f} s; running each test by itself", flush=True)
    reached = record_reach(mutants)
    print(f"{time.time() - started:.0f} s; {len(reached)} tests", flush=True)

    def result(mutant):
        failure = killer(mutant.number, reached)
        if failure: return mutant, "caught", f"by {failure}"
        reason = next((why for (file, text), why in EQUIVALENT.items() if file == mutant.file and text in mutant.text), None)
        if reason: return mutant, "not detectable", reason
        if not any(mutant.number in checks for _, checks in reached.values()): return mutant, "NOT EXERCISED", "no test fails this check"
        return mutant, "SURVIVED", "every test that reaches it"

    results = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        for mutant, outcome, detail in workers.map(result, [mutant for mutant in mutants if mutant.number in wanted]):
            results.append((mutant, outcome))
            print(f"{mutant}\n       {outcome} {detail}", flush=True)
    count = lambda outcome: sum(found == outcome for _, found in results)
    print(f"\n{len(results)} checks disabled in {time.time() - started:.0f} s: {count('caught')} caught, {count('not detectable')} not detectable, "
          f"{count('NOT EXERCISED')} not exercised by any test, {count('SURVIVED')} survived")
    failed = [mutant for mutant, outcome in results if outcome in ("NOT EXERCISED", "SURVIVED")]
    for mutant in failed: print(mutant)
    sys.exit(bool(failed))


main()
