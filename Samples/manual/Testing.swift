import AuthFlow
import AuthFlowTesting

// The listings of the article "Testing with the emulators".

func signInAtTheEmulator() async throws {
    try await EmulatorScene.with(.inProcess) { scene in
        let client = try scene.client()
        let user = try await client.signIn().identity
        precondition(user?.displayName == "Alice Example")
    }
}

func aWrongNonceIsRefused() async throws {
    try await EmulatorScene.with(.sockets) { scene in
        scene.emulator.fault = .idToken(.wrongNonce)
        do {
            _ = try await scene.client().signIn()
            preconditionFailure("The fault was not detected.")
        } catch let error as AuthError {
            precondition(error.code == .invalidIDToken)
        }
    }
}
