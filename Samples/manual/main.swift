import AuthFlow
import AuthFlowTesting

// Compiles the listings of the manual's articles, and tries those that need no provider on the internet.

try await TokenStoreConformance(store: DictionaryStore()).run()
try await signInAtTheEmulator()
try await aWrongNonceIsRefused()
print("The listings of the manual work.")
