import AuthFlowJSON
import Testing

@Suite struct JSONSourceMapTests {
    private let text = Array(
        """
        {
          "profiles": {
            "work": { "scopes": ["openid",
              "profile"], "a\\"b": 1 }
          }
        }
        """.utf8
    )

    @Test func locatesMembersAtTheirKeyAndElementsAtTheirFirstByte() throws {
        let map = try JSONSourceMap(of: text)
        let work = JSONPath().member("profiles").member("work")
        #expect(map.position(of: JSONPath()).description == "1:1")
        #expect(map.position(of: work).description == "3:5")
        #expect(map.position(of: work.member("scopes").element(1)).description == "4:7")
        #expect(map.position(of: work.member("a\"b")).description == "4:19")
    }

    @Test func locatesAMissingValueAtItsNearestAncestor() throws {
        let map = try JSONSourceMap(of: text)
        #expect(map.position(of: JSONPath().member("profiles").member("home").member("issuer")).description == "2:3")
    }

    @Test func writesPathsInDotAndBracketNotation() {
        #expect(
            JSONPath().member("profiles").member("work").member("scopes").element(1).description
                == "profiles.work.scopes[1]"
        )
    }

    @Test(arguments: JSONParsingTests.faults) func rejectsTheSameInputAsTheJSONParser(
        _ fault: JSONParsingTests.Fault
    ) throws {
        let error = try #require(throws: JSONError.self) { try JSONSourceMap(of: Array(fault.text.utf8)) }
        #expect(error.code == fault.code)
    }
}
