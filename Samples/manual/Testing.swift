import AuthFlow
import AuthFlowTesting

// The listings from the article "Testing with the emulators".

func signInAtTheEmulator() async throws {
    try await EmulatorEnvironment.with(.inProcess) { environment in
        let client = try environment.client()
        let user = try await client.signIn().identity
        precondition(user?.displayName == "Alice Example")
    }
}

func aWrongNonceIsRefused() async throws {
    try await EmulatorEnvironment.with(.sockets) { environment in
        environment.emulator.fault = .idToken(.wrongNonce)
        do {
            _ = try await environment.client().signIn()
            preconditionFailure("The fault was not detected.")
        } catch let error as AuthError {
            precondition(error.code == .invalidIDToken)
        }
    }
}
