import AuthFlow
import AuthFlowEssentials
import AuthFlowSimulation

/// The observed state of the sessions of a ``ServerHistory``, and the rules that they must obey.
struct SessionRules {
    /// The maximum number of seconds between the issuance of a logout token and a later sign-in whose session the token
    /// may still end: timestamps are whole seconds, and a process's clock deviates by up to two seconds.
    private static let precision: Int64 = 3

    /// The lifecycle of a session. Each session has one grant.
    private struct Life {
        /// The time at which the browser received the session's cookie.
        var delivered: Duration?
        /// The time at which the application first reported the session's end, and the process that reported it.
        var end: (time: Duration, process: Simulation.Process)?
    }

    /// A sign-out in progress.
    struct SignOut {
        fileprivate let number: Int
        fileprivate let grants: [Int]
    }

    private let world: World
    private let provider: SimulatedProvider
    private let hasKills: Bool
    /// The maximum number of sessions per user.
    private let limit: Int
    private var lives: [Int: Life] = [:]
    /// The grants of the sessions whose termination was requested.
    private var mayEnd: Set<Int> = []
    /// The grants of the sessions, by their cookies.
    private var grants: [String: Int] = [:]
    /// The users who are currently signing out everywhere, by the number of the sign-out.
    private var signOuts: [Int: String] = [:]
    private var lastSignOut = 0
    /// The issue times of each user's logout tokens.
    private var logouts: [String: [Int64]] = [:]

    init(world: World, provider: SimulatedProvider, limit: Int) {
        self.world = world
        self.provider = provider
        self.hasKills = world.faults.kills > 0
        self.limit = limit
    }

    private var now: Duration { world.simulation.now }

    /// The grants whose sessions the application has reported as ended. A process that was killed during a sign-in leaves a session whose
    /// cookie no browser has.
    var ended: [Int] {
        lives.filter { $0.value.end != nil && ($0.value.delivered != nil || !hasKills) }.keys.sorted()
    }

    // MARK: Beginnings

    /// Records that the response to a callback set a session cookie.
    /// - Parameter old: The cookies of the sessions that the browser had.
    mutating func begins(
        _ cookie: String,
        code: Int,
        in browser: String,
        after old: [String],
        at process: Simulation.Process
    ) {
        guard let grant = provider.codes[code].grant else {
            return world.require(false, "code.\(code) begins a session without having been exchanged")
        }
        world.note("a session of grant \(grant) begins in \(browser)")
        world.require(grants[cookie] == nil, "two sessions have the same identifier")
        world.require(!grants.values.contains(grant), "code.\(code) begins a second session")
        world.require(
            provider.codes[code].browser == browser,
            "code.\(code) starts a session in another browser, \(browser)"
        )
        grants[cookie] = grant
        // The session may have ended already.
        lives[grant] = lives[grant] ?? Life()
        end(old.compactMap { grants[$0] }, at: process)
    }

    mutating func isDelivered(_ cookie: String) {
        guard let grant = grants[cookie] else { return }
        let time = now
        lives[grant]?.delivered = time
    }

    // MARK: Ends

    /// Records that the end of sessions was requested.
    mutating func mayEnd(_ cookies: [String]) {
        mayEnd.formUnion(cookies.compactMap { grants[$0] })
    }

    /// Records that the application has reported the end of sessions.
    mutating func end(_ grants: [Int], at process: Simulation.Process) {
        let time = now
        for grant in grants where lives[grant]?.end == nil { lives[grant, default: Life()].end = (time, process) }
    }

    mutating func beginSignOut(_ cookie: String, everywhere: Bool) -> SignOut {
        lastSignOut += 1
        guard let own = grants[cookie] else { return SignOut(number: lastSignOut, grants: []) }
        mayEnd.insert(own)
        guard everywhere else { return SignOut(number: lastSignOut, grants: [own]) }
        let user = provider.grants[own].user
        signOuts[lastSignOut] = user
        let all = lives.keys.sorted().filter { provider.grants[$0].user == user }
        // If the session has already ended, its user is no longer known, and only that session is signed out. Otherwise
        // the sign-out covers all sessions of the user whose cookies were delivered.
        let isKnown = lives[own]?.end == nil && provider.grants[own].end == nil
        return SignOut(
            number: lastSignOut,
            grants: isKnown ? all.filter { $0 == own || lives[$0]?.delivered != nil } : [own]
        )
    }

    mutating func end(_ signOut: SignOut, at process: Simulation.Process) { end(signOut.grants, at: process) }

    mutating func finish(_ signOut: SignOut) {
        guard let user = signOuts.removeValue(forKey: signOut.number) else { return }
        // The sign-out may have found the sessions of sign-ins in progress, too.
        mayEnd.formUnion(provider.grants.indices.filter { provider.grants[$0].user == user })
    }

    mutating func beginLogout(of user: String, at time: Int64) { logouts[user, default: []].append(time) }

    /// Whether the tokens of a grant may be revoked, because its session has ended, is about to end, or has not begun.
    func mayRevoke(_ grant: Int) -> Bool { isEnding(grant) || lives[grant]?.delivered == nil }

    /// Whether there is a reason for the end of a session.
    private func isEnding(_ grant: Int) -> Bool {
        let given = provider.grants[grant]
        let isOfLogout = logouts[given.user, default: []].contains {
            (0...Self.precision).contains(given.issuedAt - $0)
        }
        return given.end != nil || mayEnd.contains(grant) || signOuts.values.contains(given.user)
            || lives[grant]?.end != nil || isOfLogout
    }

    /// Whether the user may have more sessions than the limit, so that another sign-in ends the session. Its tokens are not revoked.
    private func isBeyondLimit(_ grant: Int) -> Bool {
        let given = provider.grants[grant]
        return provider.grants.count { $0.user == given.user } > limit
    }

    // MARK: Requests

    /// Checks the tokens that a request gets.
    func gets(
        _ tokens: TokenSet,
        _ subject: String?,
        _ cookie: String,
        at process: Simulation.Process,
        since began: Duration
    ) {
        guard let (grant, serial, _) = SimulatedProvider.parts(of: tokens.accessToken.exposed) else { return }
        let name = "at.\(grant).\(serial)"
        world.note("a request gets \(name)")
        world.require(grants[cookie] == grant, "a request gets \(name) of another session")
        world.require(subject == provider.grants[grant].user, "a session has another user's name")
        guard let end = lives[grant]?.end else { return }
        if end.process == process {
            world.require(end.time >= began, "a request gets \(name) in the process that had already ended the session")
        }
        let age = now - end.time
        world.require(
            age <= CredentialHistory.longestCacheTime || world.mayKnowLess(process),
            "a request gets \(name) \(age) after the end of the session"
        )
    }

    /// Checks that there is a reason why a request finds no session.
    func hasNoSession(_ cookie: String) {
        guard let grant = grants[cookie], lives[grant]?.delivered != nil else { return }
        world.note("a request no longer has a session: grant \(grant)")
        world.require(isEnding(grant) || isBeyondLimit(grant), "the session of grant \(grant) ended without a reason")
    }
}
