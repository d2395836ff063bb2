import AuthFlow
import AuthFlowTesting

// Compiles the listings in the manual's articles, and runs those that need no provider on the internet.

try await TokenStoreConformance(store: DictionaryStore()).run()
try await signInAtTheEmulator()
try await aWrongNonceIsRefused()
try await conformsWithPlainText()
print("The listings of the manual work.")
