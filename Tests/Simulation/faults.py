#!/usr/bin/env python3
"""Injects faults into the sources, and prints after how many histories the simulation finds each. Most of them were once in the project.

    Tests/Simulation/faults.py [NAME ...]
    Tests/Simulation/faults.py --check      only checks that the text of each fault is in the sources

Works on a copy in a temporary directory, and exits with status 1 if a fault is not found within LIMIT histories.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LIMIT = 60_000
SIZE = 250
ROOT = pathlib.Path(__file__).resolve().parents[2]
CREDENTIALS = "Sources/Credentials/AuthFlowCredentials/"
MACHINE = CREDENTIALS + "CredentialMachine.swift"
UNSAVED_RULES = CREDENTIALS + "UnsavedCredentials.swift"
MANAGED = CREDENTIALS + "ManagedCredential.swift"
RECORD = CREDENTIALS + "ManagedCredential+Record.swift"
UNSAVED = CREDENTIALS + "ManagedCredential+UnsavedWrites.swift"
REFRESH = CREDENTIALS + "ManagedCredential+Refresh.swift"
DECISION = CREDENTIALS + "CredentialRefresh.swift"
RESOURCES = CREDENTIALS + "CredentialManager+ResourceTokens.swift"
MANAGER = CREDENTIALS + "CredentialManager.swift"
LEASED = "Sources/Server/AuthFlowDatabase/LeasedRecords.swift"
TABLE = "Tests/SimulatedHistories/SimulatedRecords.swift"
PENDING = CREDENTIALS + "PendingAuthorizations.swift"
SESSIONS = CREDENTIALS + "CredentialManager+Sessions.swift"
CALLBACK = "Sources/Server/AuthFlowServer/SessionServer+Callback.swift"
SIGN_OUT = "Sources/Server/AuthFlowServer/SignOut/SessionServer+SignOut.swift"
LOGOUT = "Sources/Server/AuthFlowServer/SignOut/SessionServer+BackChannelLogout.swift"
LOGOUT_EFFECT = "Sources/Server/AuthFlowServer/SignOut/ProviderLogout.swift"
RESOURCE = "Sources/SignIn/AuthFlowResourceClient/"
RESOURCE_SIGN_IN = RESOURCE + "ResourceClient+SignIn.swift"
RESOURCE_RECORD = RESOURCE + "ResourceRecord.swift"
SIGN_IN_HISTORY = RESOURCE + "SignInHistory.swift"

# Name: file, text and replacement.
FAULTS = {
    "a-refused-resource-suspends-the-session": [
        (DECISION, "backoff: rejection, isResourceSpecific: true,", "backoff: rejection, isResourceSpecific: false,")],
    "a-refused-resource-is-requested-again-at-once": [
        (DECISION, "backoff: rejection, isResourceSpecific: true,", "backoff: nil, isResourceSpecific: true,")],
    "callers-are-served-during-the-check": [
        (MANAGED, "            let check =\n                state.check\n",
            "if state.check != nil, case .unchecked(let known) = answer { return (.cached(known.credential), nil) }\n"
            "            let check =\n                state.check\n")],
    "a-cancelled-caller-is-served-unchecked": [
        (MANAGED, "            try Task.checkCancellation()\n            // A failed read", "            // A failed read")],
    "an-answer-counts-from-its-arrival": [
        (RECORD, "let reading = state.withLock { $0.machine.beginReading(at: asked) }",
            "let reading = state.withLock { $0.machine.beginReading(at: asked + 3) }")],
    "the-cache-is-trusted-for-longer": [(MACHINE, "checkInterval: TimeInterval = 10", "checkInterval: TimeInterval = 14")],
    "a-refresh-is-adopted-in-another-epoch": [
        (MACHINE, "guard epoch == nil || epoch == self.epoch, manages(credential.account)", "guard manages(credential.account)"),
        (MANAGED, "guard isCurrent(epoch) else { throw Outdated() }\n                return credential", "return credential")],
    "a-sign-out-leaves-the-cache": [(MACHINE, "        epoch += 1\n        cached = nil\n", "        epoch += 1\n")],
    "a-changed-token-stays-in-memory": [(MACHINE, "if cached?.isSame(as: credential) != true {", "if cached == nil {")],
    "a-read-during-a-write-counts": [(MACHINE, "        guard version == reading.version else { return nil }\n        var found = ReadResult(stored: stored, known: stored, basis: basis)\n",
            "        var found = ReadResult(stored: stored, known: stored, basis: basis)\n        guard version == reading.version else {\n"
            "            found.known = unsaved.merged(into: stored)\n"
            "            return found\n        }\n")],
    "unsaved-tokens-replace-newer-ones": [(UNSAVED_RULES, "guard unsaved.isOutdated(by: entry) else { return false }", "guard entry == nil else { return false }")],
    "unsaved-tokens-replace-a-sign-out": [(UNSAVED_RULES, "guard unsaved.isOutdated(by: entry) else { return false }",
        "guard entry != nil, unsaved.isOutdated(by: entry) else { return false }")],
    "an-earlier-sign-in-replaces-a-later-one": [(UNSAVED_RULES, "stored.signedInAt >= credential.signedInAt,", "stored.signedInAt == credential.signedInAt,")],
    "an-executed-write-stays-unsaved": [
        (UNSAVED_RULES, "return stored.rejectedRefreshes >= credential.rejectedRefreshes", "_ = stored")],
    "an-own-write-counts-as-a-selection": [(UNSAVED_RULES, "            entries[index].storedCurrent = .some(accounts.current)\n", "")],
    "unsaved-tokens-bring-old-data-back": [(UNSAVED_RULES, "            if !unsaved.isSignIn {\n", "            if unsaved.isSignIn {\n")],
    "tokens-of-a-lost-lease-are-handed-out": [(UNSAVED, "guard isStored else { throw Outdated() }", "_ = isStored")],
    "the-lease-is-not-checked-before-sending": [
        (REFRESH, "                try lease.requireRemainingTime()\n                return", "                return"),
        (REFRESH, "                        try lease.requireRemainingTime()\n                        try unfinished", "                        try unfinished")],
    "what-cannot-be-written-is-forgotten": [(UNSAVED, "        } catch {\n            let hasLostLease", "        } catch {\n            if !Task.isCancelled { return }\n            let hasLostLease")],
    "a-drain-does-not-wait-for-unsaved-tokens": [(UNSAVED, "            unfinished.registerUnsavedWrite(of: self) { [weak self] in await self?.writeUnsaved() ?? true }\n", "")],
    "tokens-that-arrive-after-a-sign-out-are-not-revoked": [
        (RECORD, "        if !found.dropped.isEmpty { revokeAfterSignOut(found.dropped) }\n", "")],
    "a-sign-out-in-another-process-is-not-published": [
        (RECORD, "publishState(in: found.known, &state)", "_ = currentState(in: found.known)")],
    "what-a-lost-lease-cannot-write-is-forgotten": [(UNSAVED, "        } catch {\n            let hasLostLease",
        "        } catch {\n            if (error as? AuthError)?.indicatesLostLease == true { return }\n            let hasLostLease")],
    "what-cannot-be-written-is-not-tried-again": [(UNSAVED, "                retryWrites()\n            }\n        }", "            }\n        }")],
    "a-session-ends-by-any-refusal": [(DECISION, 'error.code == .providerRejected && name == "invalid_grant"',
        "error.status != nil")],
    "a-sign-in-is-repeated-after-an-unknown-outcome": [(LEASED, "throw isUnknown.load(ordering: .relaxed) ? Self.unknownOutcome : Lease.lost", "throw Lease.lost")],
    "a-lease-lasts-longer-for-its-holder": [
        (LEASED, "Lease.Expiry(lasting: times.lease, clock", "Lease.Expiry(lasting: times.lease * 4, clock"),
        (LEASED, "expiry.extend(until: requestedAt + times.lease)", "expiry.extend(until: requestedAt + times.lease * 4)")],
    "a-lease-is-not-renewed": [(LEASED, "try await host.clock.sleep(for: max(pause, .milliseconds(1)))", "try await host.clock.sleep(for: .seconds(3600))")],
    "a-lease-is-given-up-while-its-result-is-unwritten": [(LEASED, "let isUnwritten = held[lease]?.isUnwritten == true", "let isUnwritten = false")],
    "a-lease-is-not-given-up": [(LEASED, "        await release(inTable)\n        return try result.get()", "        return try result.get()")],
    "a-read-without-its-fence": [(TABLE, "isHeld(lease) ? .some(bytes(of: lease.digest)) : nil", ".some(bytes(of: lease.digest))")],
    "a-write-without-its-fence": [(TABLE, "        guard isHeld(lease) else { return false }\n        guard let row", "        guard let row")],
    "a-late-write-overwrites-a-later-one": [(TABLE, "guard let row = rows[lease.digest], row.lastWrite <= number else", "guard let row = rows[lease.digest] else")],
    "a-late-duplicate-changes-the-fence": [(TABLE, "if new.owner != owner {", "do {")],
    "a-lease-is-taken-from-its-holder": [(TABLE, "holder != owner, row.leaseEnd > now {", "holder != owner, row.leaseEnd > now + .seconds(12) {")],
    "tokens-of-another-resource": [(RESOURCES, "resourceTokens.first { $0.matches(resource, scopes) }", "resourceTokens.first")],
    "another-key-in-the-cache": [(MANAGER, "if let known = cache.recent[key] { return known }", "if let known = cache.recent.values.first { return known }")],
    "a-sign-in-does-not-look-for-logout-records": [(LOGOUT_EFFECT, "        time >= (credential", "        time >= 1e9 + (credential")],
    "a-logout-record-is-stored-after-the-search": [(LOGOUT, "                try await storeLogoutRecords(of: token, at: provider)\n                let found = try await sessions(of: token, at: provider)\n",
        "                let found = try await sessions(of: token, at: provider)\n                try await storeLogoutRecords(of: token, at: provider)\n")],
    "a-user-has-any-number-of-sessions": [(CALLBACK, "            try? await endOldestSessions(of: credential, at: provider, own)\n", "")],
    "the-session-before-a-sign-in-goes-on": [(CALLBACK, "for (other, old) in old + later {", "for (other, old) in old.prefix(0) {")],
    "a-repeated-logout-token-ends-newer-sessions": [(LOGOUT_EFFECT, "return start < token.issuedAt }", "return start < Date.distantFuture }")],
    "any-browser-completes-a-sign-in": [
        (CALLBACK, "let own = found.first(where: { $0.name == cookies.name(for: state) })", "let own = found.first"),
        (PENDING, "\\(state.exposed)\\(browser.exposed)\"", "\\(state.exposed)\"")],
    "signing-out-everywhere-ends-one-session": [(SIGN_OUT,
        "            for found in try await sessionsToEnd(ofUser: identity.subject, identity.issuer, at: provider) {\n"
        "                targets[found.key] = .some(found.credential)\n            }\n        }\n        targets[key]",
        "            _ = identity\n        }\n        targets[key]")],
    "a-refused-sign-in-leaves-its-session": [(CALLBACK, "            await discard(own, at: provider)\n", "")],
    "a-page-is-opened-under-a-lost-lease": [
        (RESOURCE_SIGN_IN, "do { try lease.requireRemainingTime() } catch { throw LostSignInLock() }", "")],
    "a-page-is-opened-without-a-lease": [
        (RESOURCE_SIGN_IN, "return try await store.withLease(on: signInLockKey) { lease in",
            'return try await store.withLease(on: RecordKey(name: "\\(host.randomBytes(8))", issuer: "", clientID: "")) { lease in')],
    "a-sign-out-removes-an-unfinished-sign-in-from-the-record": [
        (RESOURCE_RECORD, "return isOver && unfinished", "return unfinished")],
    "the-pages-of-a-machine-whose-clock-is-ahead-do-not-count": [(SIGN_IN_HISTORY, "allowedClockSkew = 10.0", "allowedClockSkew = 0.0")],
    "the-second-page-of-a-sign-in-is-not-limited": [
        (RESOURCE_SIGN_IN, "pages.withLock { $0.history = counted }", "")],
    "a-page-is-counted-after-it-is-opened": [
        (RESOURCE_SIGN_IN, "try await write(counted, under: lease)", "")],
    "each-sign-in-registers-a-client": [
        (RESOURCE + "StoredRegistration.swift", "let stored = try await readable(key), isWanted(stored)", "let stored = try await readable(key), false, isWanted(stored)")],
    "a-removal-leaves-the-cache": [(SESSIONS, "        defer { for key in keys { evict(key.digest) } }\n", "")],
}


def replaced(path, old, new):
    text = path.read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{path} contains the text of a fault {text.count(old)} times instead of once: {old!r}")
    return text.replace(old, new)


def replace(tree, file, old, new):
    (tree / file).write_text(replaced(tree / file, old, new))


def main():
    if sys.argv[1:] == ["--check"]:
        for file, old, _ in (change for changes in FAULTS.values() for change in changes):
            replaced(ROOT / file, old, "")
        return
    names = sys.argv[1:] or list(FAULTS)
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".build*", ".git"), symlinks=True)
        sources = {file: (tree / file).read_text() for changes in FAULTS.values() for file, _, _ in changes}
        build = ["swift", "build", "-c", "release", "--product", "simulate"]
        for name in names:
            changes = FAULTS[name]
            for change in changes:
                replace(tree, *change)
            built = subprocess.run(build, cwd=tree, capture_output=True, text=True)
            if built.returncode:
                raise SystemExit(f"{name} does not compile:\n" + "\n".join(re.findall(r".*error:.*", built.stdout)[:5]))
            found, first = None, 1
            while found is None and first <= LIMIT:
                # One batch per core.
                starts = range(first, min(first + SIZE * os.cpu_count(), LIMIT + 1), SIZE)
                runs = [subprocess.Popen([".build/release/simulate", "batch", str(start), str(SIZE)], cwd=tree, stdout=subprocess.PIPE, text=True,
                    stderr=subprocess.DEVNULL, env={**os.environ, "SWIFT_DETERMINISTIC_HASHING": "1"}) for start in starts]
                for start, run in zip(starts, runs):
                    failed = re.search(r"^failed (\d+) (.*)$", run.communicate()[0], re.M)
                    if failed and found is None:
                        found = f"{failed[1]} histories: {failed[2]}"
                    elif run.returncode and found is None:
                        found = f"{start} to {start + SIZE - 1} histories: the program exits with an error"
                first += SIZE * len(runs)
            print(f"{name}: " + (found or f"NOT FOUND in {LIMIT} histories"), flush=True)
            if found is None:
                missed.append(name)
            for file, _, _ in changes:
                (tree / file).write_text(sources[file])
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
