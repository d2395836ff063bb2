// The same page with and without a session middleware, to measure the cost of a session: page-cost CONFIGURATION PORT

import AuthFlow
import AuthFlowHummingbird
import AuthFlowOIDC
import AuthFlowServerConfiguration
import Hummingbird
import Logging
import SampleStart

struct WebContext: SessionRequestContext {
    var coreContext: CoreRequestContextStorage
    var session: Session?
    init(source: Source) { coreContext = .init(source: source) }
}

let (path, port) = arguments("page-cost CONFIGURATION PORT")
let server = configured {
    try SessionServer(configuration: ConfigurationFile(path: path), providers: [.oidc], stores: [.memory])
}
let router = Router(context: WebContext.self)
let page = "<p>Signed in as Alice Example</p>" + String(repeating: "<p>A line of a page.</p>\n", count: 160)
router.get("/plain") { _, _ in page }
router.add(middleware: SessionMiddleware(server: server))
router.get("/") { _, context in
    _ = try context.requireSession()
    return page
}
var logger = Logger(label: "page-cost")
logger.logLevel = .notice
let application = Application(
    router: router,
    configuration: .init(address: .hostname("127.0.0.1", port: port)),
    logger: logger
)
try await application.runService(sessions: server)
