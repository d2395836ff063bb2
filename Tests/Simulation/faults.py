#!/usr/bin/env python3
"""Puts faults into the sources, most of which the project has had, and shows after how many histories the simulation finds each.

    Tests/Simulation/faults.py [NAME ...]

Works in a copy in a temporary folder, and ends with status 1 when a fault is not found within LIMIT histories.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LIMIT = 20_000
ROOT = pathlib.Path(__file__).resolve().parents[2]
CREDENTIALS = "Sources/Credentials/AuthFlowCredentials/"
MANAGED = CREDENTIALS + "ManagedCredential.swift"
RECORD = CREDENTIALS + "ManagedCredential+Record.swift"
REFRESH = CREDENTIALS + "ManagedCredential+Refresh.swift"
RESOURCES = CREDENTIALS + "CredentialManager+ResourceTokens.swift"
MANAGER = CREDENTIALS + "CredentialManager.swift"
LEASED = "Sources/Server/AuthFlowDatabase/LeasedRecords.swift"
TABLE = "Sources/Testing/AuthFlowSimulation/SimulatedRecords.swift"

# Name: file, text, and what it is replaced by.
FAULTS = {
    "callers-are-served-during-the-check": (MANAGED, "guard let cached, let check else { return cached?.credential }",
        "guard let cached, let check, checkedLong(cached) else { return cached?.credential }"),
    "a-cancelled-caller-is-served-unchecked": (MANAGED, "            try Task.checkCancellation()\n            return cached.credential",
        "            return cached.credential"),
    "an-answer-counts-from-its-arrival": (RECORD, "state.checkedAt = askedAt",
        "state.checkedAt = client.host.now().timeIntervalSinceReferenceDate + 8"),
    "the-cache-is-trusted-for-longer": (MANAGED, "checkInterval: TimeInterval = 10", "checkInterval: TimeInterval = 14"),
    "a-refresh-is-adopted-in-another-epoch": (MANAGED, "guard epoch == nil || epoch == state.epoch, keeps(credential.account, state)",
        "guard keeps(credential.account, state)"),
    "a-changed-token-stays-in-memory": (RECORD, "                    state.cached = nil\n                    if tokens", "                    if tokens"),
    "a-read-during-a-write-counts": (RECORD, "guard state.version == version else { return nil }", ""),
    "unsaved-tokens-replace-newer-ones": (RECORD, "guard unsaved.replaces != .entry(entry) else { return false }", "guard entry != nil, false else { return false }"),
    "a-lost-lease-is-not-written-again": (RECORD, "        let isStored = await writeAfterLostLease()\n", "        let isStored = true\n"),
    "tokens-of-a-lost-lease-are-handed-out": (RECORD, "guard isStored else { throw Outdated() }", ""),
    "the-lease-is-not-checked-before-sending": (REFRESH, "                try lease.requireTime()\n                try unfinished", "                try unfinished"),
    "a-refresh-without-a-second-look": (REFRESH, "if isFresh(credential, margin), credential.tokens.accessToken != rejected {",
        "if rejected == nil, isFresh(credential, margin) {"),
    "two-refreshes-in-one-process": (MANAGED, "if let running = state.running[place] { return (running, false) }", ""),
    "a-refused-write-is-not-tried-again": (RECORD, "                repeatWriting()\n", ""),
    "what-cannot-be-written-is-forgotten": (RECORD, "            remember(credential, replacing: .entry(old), isSignIn: false, epoch)\n", ""),
    "a-session-ends-by-any-refusal": (REFRESH, "error.code == .providerRejected && client.adapter", "error.status != nil || client.adapter"),
    "a-sign-in-is-repeated-after-an-unknown-outcome": (LEASED, "throw isUnknown.load(ordering: .relaxed) ? Self.unknownOutcome : Lease.lost", "throw Lease.lost"),
    "a-lease-lasts-from-the-answer": (LEASED, "term.extend(until: asked + times.lease)", "term.extend(until: term.now + times.lease * 3)"),
    "a-lease-is-not-renewed": (LEASED, "try await host.clock.sleep(for: max(pause, .milliseconds(1)))", "try await host.clock.sleep(for: .seconds(3600))"),
    "a-lease-is-given-up-while-its-result-is-unwritten": (LEASED, "guard !isUnwritten else {", "guard !isUnwritten || true else {"),
    "a-lease-is-not-given-up": (LEASED, "        await release(inTable)\n        return try result.get()", "        return try result.get()"),
    "another-lease-for-the-same-owner": (TABLE, "if new.owner != owner {", "do {"),
    "a-write-without-its-fence": (TABLE, "        guard isHeld(lease) else { return false }\n        let now", "        let now"),
    "a-lease-is-taken-from-its-holder": (TABLE, "holder != owner, row.leaseEnd > now {", "holder != owner, row.leaseEnd > now + .seconds(12) {"),
    "tokens-of-another-resource": (RESOURCES, "resourceTokens.first { $0.isFor(resource, scopes) }", "resourceTokens.first { _ in true }"),
    "another-key-in-the-cache": (MANAGER, "if let known = cache.recent[key] { return known }", "if let known = cache.recent.values.first { return known }"),
}
# Helpers that a fault needs.
EXTRA = {
    "callers-are-served-during-the-check": (MANAGED, "    /// The cached tokens, when they are fresh and the store still has them.",
        "    private func checkedLong(_ cached: Cached) -> Bool { state.withLock { state in\n"
        "        defer { state.checkedAt = client.host.now().timeIntervalSinceReferenceDate }\n        return state.check != nil } }\n\n"
        "    /// The cached tokens, when they are fresh and the store still has them."),
}


def replace(tree, file, old, new):
    path = tree / file
    text = path.read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{file} has the text of a fault {text.count(old)} times, not once: {old!r}")
    path.write_text(text.replace(old, new))


def main():
    names = sys.argv[1:] or list(FAULTS)
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".build*", ".git"), symlinks=True)
        build = ["swift", "build", "-c", "release", "--product", "simulate"]
        for name in names:
            changed = {change[0] for change in (FAULTS[name], EXTRA.get(name)) if change}
            for change in (FAULTS[name], EXTRA.get(name)):
                if change:
                    replace(tree, *change)
            built = subprocess.run(build, cwd=tree, capture_output=True, text=True)
            if built.returncode:
                raise SystemExit(f"{name} does not compile:\n" + "\n".join(re.findall(r".*error:.*", built.stdout)[:5]))
            found, first = None, 1
            while found is None and first <= LIMIT:
                run = subprocess.run([".build/release/simulate", "batch", str(first), "500"], cwd=tree, capture_output=True, text=True,
                    env={**os.environ, "SWIFT_DETERMINISTIC_HASHING": "1"})
                failed = re.search(r"^failed (\d+) (.*)$", run.stdout, re.M)
                if failed:
                    found = f"{failed[1]} histories: {failed[2]}"
                elif run.returncode:
                    found = f"{first} to {first + 499} histories: the program ends"
                first += 500
            print(f"{name}: " + (found or f"NOT FOUND in {LIMIT} histories"), flush=True)
            if found is None:
                missed.append(name)
            for file in changed:
                (tree / file).write_text((ROOT / file).read_text())
    sys.exit(1 if missed else 0)


main()
