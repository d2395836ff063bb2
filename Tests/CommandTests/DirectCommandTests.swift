import ArgumentParser
import Testing

@testable import AuthFlowCommand

/// Commands that bypass the argument parser are interpreted in the same way as with the parser.
@Suite struct DirectCommandTests {
    @Test(arguments: [
        ["token"], ["token", "--json"], ["token", "-c", "a.json", "-p", "work"], ["token", "--min-ttl", "0"],
        ["token", "--config", "a.json", "--profile", "work", "--account", "248", "--min-ttl", "86400", "--json"],
        ["token", "--config", "a.json", "--config", "b.json"], ["token", "--json", "--json"],
        ["token", "--profile", ""], ["token", "--format", "header"], ["token", "--format", "json", "--json"],
        ["token", "--json", "--format", "json"], ["token", "--format", "header", "--format", "raw"],
    ]) func readsTokenArgumentsAsTheParserDoes(_ arguments: [String]) throws {
        let parsed = try #require(try AuthFlowCommand.parseAsRoot(arguments) as? TokenCommand)
        #expect(
            DirectCommand(arguments)
                == .token(
                    TokenRequest(
                        choice: parsed.options.choice,
                        minimumLifetime: parsed.minTTL,
                        format: parsed.usedFormat
                    )
                )
        )
    }

    @Test(arguments: [["status"], ["status", "--json"], ["status", "-p", "work", "--account", "248", "--json"]])
    func readsStatusArgumentsAsTheParserDoes(_ arguments: [String]) throws {
        let parsed = try #require(try AuthFlowCommand.parseAsRoot(arguments) as? StatusCommand)
        #expect(DirectCommand(arguments) == .status(StatusRequest(choice: parsed.options.choice, asJSON: parsed.json)))
    }

    @Test(arguments: [
        [], ["login"], ["--help"], ["token", "--help"], ["token", "-h"], ["token", "--verbose"], ["token", "-v"],
        ["token", "--config"],
        ["token", "--config", "--json"], ["token", "--config=a.json"], ["token", "extra"],
        ["token", "--min-ttl", "many"],
        ["token", "--min-ttl", "86401"], ["token", "--min-ttl", "-1"], ["status", "--min-ttl", "5"], ["token", "--"],
        ["token", "--jso"], ["token", "--refresh"], ["token", "--refresh", "--json"],
        ["help", "token"], ["tokens"], ["status", "--format", "raw"], ["token", "--format", "header", "--json"],
        ["token", "--format", "raw", "--json"], ["token", "--json", "--format", "raw"],
    ]) func leavesAllOtherArgumentsToTheParser(_ arguments: [String]) {
        #expect(DirectCommand(arguments) == nil)
    }
}
