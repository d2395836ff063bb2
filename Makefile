# Development commands for AuthFlow. CI runs the same commands.

.DEFAULT_GOAL := help
# The products of debug builds: a link that the package manager makes.
DEBUG := $(CURDIR)/.build/debug

.PHONY: help check dependencies test-dependencies install uninstall deb check-package demo demo-github demo-okta demo-forgerock demo-web demo-api interop-api databases soak-server storm bench-server test conformance interop lint format release consumer sanitize no-traits fuzz mutants bench soak apple docs reference samples tpm bench-peers trace-flows models simulate capacity workflows docs-engine prebuild dist bench-build compiler-cache interop-tests interop-mcp interop-helpers interop-browsers interop-providers

APT := libjansson-dev pkg-config libxml2 libcurl4 ca-certificates
APT_TEST := nginx-light caddy openssl tinyproxy chromium chromium-driver firefox-esr fonts-dejavu-core glewlwyd rnbyc sqlite3 libjs-jquery python3 \
  python3-venv curl gnome-keyring libsecret-1-0 dbus libqrencode4 xvfb xdg-utils desktop-file-utils softhsm2 opensc spin
# Failures are repeated at the end of the output.
SWIFT_TEST := .ci/failures-last swift test --disable-xctest
SUDO := $(shell [ "$$(id -u)" -eq 0 ] || echo sudo)

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

# Only missing packages are installed, so that a machine that has all of them needs neither root nor a network.
define install_missing
	@missing=""; for package in $(1); do \
	  dpkg-query -W -f='$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then echo "Installing:$$missing" >&2; \
	  $(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $$missing >/dev/null; fi
endef

dependencies: ## Install the system libraries that are missing
ifeq ($(shell uname -s),Darwin)
	@brew list jansson libxml2 pkg-config >/dev/null 2>&1 || brew install jansson libxml2 pkg-config
else
	$(call install_missing,$(APT))
endif

test-dependencies: dependencies ## Install what the interop tests need: a browser and a provider
	$(call install_missing,$(APT_TEST))

demo: dependencies ## Build, start the bundled provider, sign in, print the user
	swift build --product authflow
	@$(DEBUG)/authflow try

# The samples are packages that depend on this package as any other package would. Here, they are built in this package's build directory.
SAMPLES := .ci/build-beside Samples
SAMPLE_PROGRAMS = $(DEBUG)

demo-github: dependencies ## Sign in with the bundled GitHub emulator, with a user agent and with the device flow
	$(SAMPLES) --product github-login
	@$(SAMPLE_PROGRAMS)/github-login --emulator
	@$(SAMPLE_PROGRAMS)/github-login --emulator --device

demo-okta: dependencies ## Sign in to two apps with a single sign-in at the bundled Okta emulator, and sign out of both
	swift build --product authflow
	$(SAMPLES) --product okta-native-sso
	@Samples/okta-native-sso/demo.sh $(DEBUG)/authflow $(SAMPLE_PROGRAMS)/okta-native-sso

demo-forgerock: dependencies ## Sign in through a tree at the bundled ForgeRock emulator, and again with a shared cookie
	swift build --product authflow
	$(SAMPLES) --product forgerock-login
	@Samples/forgerock-login/demo.sh $(DEBUG)/authflow $(SAMPLE_PROGRAMS)/forgerock-login

# A separate package, because no other sample needs a web framework.
# A cached build plan would miss new files of AuthFlow.
WEB := --package-path Samples/servers --scratch-path .build-web --disable-build-manifest-caching
demo-web: test-dependencies ## Sign in to a web application with two real Chromiums: in memory, in a file, on PostgreSQL and on Redis
	swift build --product authflow
	swift build --build-tests $(WEB)
	$(SWIFT_TEST) --skip-build $(WEB)
	@Samples/servers/web-login/demo.sh $(DEBUG)/authflow $$(swift build $(WEB) --show-bin-path)/web-login
	@Samples/servers/web-login/caddy.sh $(DEBUG)/authflow $(SERVERS)/web-login
	@Samples/servers/hostile_browsers.sh $(DEBUG)/authflow \
	  $(SERVERS)/web-login $(SERVERS)/router-login $(SERVERS)/nio-login
	@Tests/Databases/databases.sh Samples/servers/web-login/demo_databases.sh \
	  $(DEBUG)/authflow $$(swift build $(WEB) --show-bin-path)/web-login

SERVERS := $$(swift build $(WEB) --show-bin-path)
demo-api: dependencies ## Call an API with valid tokens and every kind of invalid token, and call the tool of an MCP server
	swift build --product authflow
	for program in mcp-server orders-api; do swift build --product $$program $(WEB) || exit 1; done
	@Samples/servers/mcp-server/demo.sh $(DEBUG)/authflow $(SERVERS)/mcp-server
	@Samples/servers/orders-api/demo.sh $(DEBUG)/authflow $(SERVERS)/orders-api

interop-api: test-dependencies ## Call the API with tokens and proofs created by joserfc, Authlib and requests_oauth2client, and the MCP server with the Python SDK
	swift build --product authflow
	for program in mcp-server orders-api; do swift build --product $$program $(WEB) || exit 1; done
	.ci/python-environment interop-python joserfc==1.6.5 authlib==1.9.0 requests-oauth2client==1.8.0
	.build/interop-python/bin/python Tests/Interop/resource_server.py $(SERVERS)/orders-api
	Tests/Interop/mcp.sh --install
	Samples/servers/mcp-server/demo.sh $(DEBUG)/authflow $(SERVERS)/mcp-server \
	  $(CURDIR)/.build/interop-mcp/bin/python Tests/Interop/mcp_client.py

samples: dependencies ## Build the samples as separate packages, and test them against the emulators
	$(SAMPLES)
	swift build --build-tests
	$(SAMPLE_PROGRAMS)/manual
	AUTHFLOW_PROGRAMS=$(SAMPLE_PROGRAMS) $(SWIFT_TEST) --skip-build --filter SampleTests

# Tests that use processes or ports run separately, and only a few tests run concurrently: on two processors, more would
# make requests time out.
AT_A_TIME := SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=4
# Tests that need programs started by a script.
SLOW := InteropTests|SampleTests|DatabaseTests
define run_tests
	$(AT_A_TIME) $(SWIFT_TEST) $(1) --skip 'CommandTests|LoopbackTests|SecurityTests|$(SLOW)'
	$(AT_A_TIME) $(SWIFT_TEST) $(1) --skip-build --filter 'CommandTests|LoopbackTests|SecurityTests'
endef

test: dependencies ## Run all tests except those that a script starts: see samples, databases and interop
	swift build --build-tests
	$(call run_tests,--skip-build)

# The builds of later steps of .ci/run, in the same order. They run in the background while other steps mostly wait.
prebuild: test-dependencies
	Tests/Interop/mcp.sh --install
	swift build --build-tests $(WEB)
	$(SANITIZED) swift build --build-tests $(SANITIZE)
	AUTHFLOW_TESTS="$(WITHOUT_JANSSON)" swift build --build-tests $(NO_TRAITS)
	$(MAKE) release
	for product in simulate fuzz; do swift build $(RELEASE) --product $$product || exit 1; done

compiler-cache:
	$(call install_missing,ccache)

# The tests that need no separate processes. They take seconds after a build.
check: dependencies ## Check a change before it is proposed: no warnings in the sources, the fast tests, lint
	@mkdir -p .build
	swift build --build-tests 2>&1 | tee .build/check.log | grep -E '^(error|/.*(error|warning)):?' || true
	@tail -1 .build/check.log | grep -q 'Build complete'
	@! grep -E "^$(CURDIR)/(Sources|Providers)/.*warning:" .build/check.log
	$(AT_A_TIME) $(SWIFT_TEST) --skip-build --skip '$(SLOW)|CommandTests|LoopbackTests|SecurityTests'
	$(MAKE) lint

conformance: dependencies ## Run the conformance rows and write docs/conformance.md
	swift build --product conformance-report
	$(DEBUG)/conformance-report > docs/conformance.md
	@grep -F '**' docs/conformance.md

interop: test-dependencies ## Sign in at Glewlwyd, idpyoidc and two Django providers, to MCP servers, and with a real Chromium; tokens for kubectl, git, skopeo and aws; keys in tokens; a real GNOME Keyring
	swift build --build-tests
	$(MAKE) --jobs=5 --output-sync=target interop-tests interop-mcp interop-helpers interop-browsers interop-providers

# These spend most of their time waiting, so they run at the same time.
interop-tests:
	Tests/Interop/servers.sh $(SWIFT_TEST) --skip-build --filter ServersTests
	Tests/Interop/glewlwyd.sh $(SWIFT_TEST) --skip-build --filter InteropTests
	Tests/Interop/idpyoidc.sh $(SWIFT_TEST) --skip-build --filter IdpyoidcTests
	.ci/python-environment pages-python html5lib==1.1
	.build/pages-python/bin/python Tests/Interop/html_pages.py 3000 2 > .build/pages.json
	AUTHFLOW_PAGES=$(CURDIR)/.build/pages.json $(SWIFT_TEST) --skip-build --filter RandomPageTests
	.build/interop-python/bin/python Tests/Interop/encrypted_requests.py $(DEBUG)/authflow
	Tests/Interop/softhsm.sh $(SWIFT_TEST) --skip-build --filter PKCS11Tests
	Tests/Interop/keyring.sh unlocked $(SWIFT_TEST) --skip-build --filter KeyringTests
	Tests/Interop/keyring.sh locked $(SWIFT_TEST) --skip-build --filter KeyringTests
	Tests/Interop/keyring.sh absent $(SWIFT_TEST) --skip-build --filter KeyringTests
	Tests/Interop/keyring.sh hanging $(SWIFT_TEST) --skip-build --filter KeyringTests

interop-mcp:
	Tests/Interop/mcp.sh $(DEBUG)/authflow

interop-providers:
	Tests/Interop/providers.sh $(DEBUG)/authflow

interop-helpers:
	Tests/Interop/helpers.sh $(DEBUG)/authflow

interop-browsers:
	Tests/Interop/glewlwyd.sh Tests/Interop/sts.sh $(DEBUG)/authflow
	Tests/Interop/browser.sh $(DEBUG)/authflow
	Tests/Interop/desktop.sh $(DEBUG)/authflow
	Tests/Interop/private_windows.sh $(DEBUG)/authflow

databases: dependencies ## Test the stores on temporary PostgreSQL and Redis servers, and in files
	swift build --build-tests
	Tests/Databases/databases.sh $(SWIFT_TEST) --skip-build --filter DatabaseTests --skip StatementTests
	Tests/Databases/databases.sh $(SWIFT_TEST) --skip-build --filter StatementTests

SESSIONS ?= 10000
DURATION ?= 120
soak-server: dependencies ## Kill, stop and restart server processes and databases that serve SESSIONS sessions, for DURATION seconds with each store
	swift build --product session-soak
	@# Installs missing packages once, before the concurrent runs.
	Tests/Databases/databases.sh true
	$(MAKE) --jobs=3 --output-sync=target $(foreach store,postgresql redis sqlite,soak-$(store) soak-$(store)--terminate)

# One run for each store with SIGKILL, and one with SIGTERM; the runs spend most of their time waiting.
soak-%:
	Tests/Databases/databases.sh Tests/Soak/sessions.py $(DEBUG)/session-soak $(subst --, --,$*) \
	  --sessions $(SESSIONS) --seconds $(DURATION)

storm: dependencies ## Refresh many sessions simultaneously at a provider that is slow or hangs, with each store
	swift build --product session-soak
	for store in postgresql redis sqlite; do Tests/Databases/databases.sh Tests/Soak/storm.py \
	  $(DEBUG)/session-soak $$store || exit 1; done

bench-server: test-dependencies ## Measure the stores, and the load of two web applications: ours and Apache with mod_auth_openidc
	$(call install_missing,apache2 libapache2-mod-auth-openidc redis-server wrk)
	for program in authflow session-soak; do swift build $(RELEASE) --product $$program || exit 1; done
	for program in web-login page-cost; do swift build $(WEB) --configuration release --product $$program || exit 1; done
	Tests/Databases/databases.sh Tests/Soak/bench_stores.sh $$(swift build $(RELEASE) --product session-soak --show-bin-path)/session-soak
	Tests/Databases/databases.sh Tests/Soak/peers.py $$(swift build $(RELEASE) --product session-soak --show-bin-path)/session-soak \
	  $$(swift build $(WEB) --configuration release --show-bin-path)/web-login
	Samples/servers/page-cost/measure.sh $$(swift build $(RELEASE) --product authflow --show-bin-path)/authflow \
	  $$(swift build $(WEB) --configuration release --show-bin-path)/page-cost
	WEB_LOGIN_MIB=1024 Samples/servers/web-login/demo.sh $$(swift build $(RELEASE) --product authflow --show-bin-path)/authflow \
	  $$(swift build $(WEB) --configuration release --show-bin-path)/web-login

bench-build: dependencies ## Time clean and incremental builds of small programs, compared with jwt-kit and async-http-client; writes docs/performance.md
	Benchmarks/build_costs.py debug

PEERS := .build/peers
bench-peers: dependencies ## Compare the performance with that of other libraries and tools, from Debian, PyPI and Swift packages; writes docs/performance.md
	$(call install_missing,golang-go golang-github-coreos-go-oidc-dev golang-golang-x-oauth2-dev node-jose gh python3-venv)
	.ci/python-environment peers joserfc==1.6.5 Authlib==1.6.5 PyJWT==2.10.1 requests==2.32.5 cryptography==48.0.0
	swift build --package-path Benchmarks/Peers/Swift --scratch-path .build-peers --configuration release
	$(MAKE) release
	Benchmarks/Peers/peers.py .build-peers/release/Peer $(TOOL) $(PEERS)/bin/python --write

tpm: dependencies ## Sign with a key in an emulated TPM 2.0; installs missing packages
	swift build --build-tests
	Tests/Interop/tpm.sh $(SWIFT_TEST) --skip-build --filter PKCS11Tests

pages: demo-web interop ## Replace the screenshots of the manual with those that the tests with a real browser have just taken
	Packaging/pages.sh

docs: dependencies ## Build the manual of every library as static pages, in .build-docs/AuthFlow; warnings are errors
	swift build
	swift build --build-tests $(WEB)
	.ci/build-docs .build-docs "$$(swift build --show-bin-path)" "$$(swift build $(WEB) --show-bin-path)"
	@echo "To read it: python3 -m http.server --bind 127.0.0.1 --directory .build-docs/AuthFlow 8000"

docs-engine: dependencies ## Build only the engine's pages
	swift build --target AuthFlow
	.ci/build-docs .build-docs "$$(swift build --show-bin-path)"

reference: dependencies ## Write the JSON Schema and the tables of docs/configuration.md from the declared keys
	swift build --product authflow
	$(DEBUG)/authflow config schema > docs/authflow.schema.json
	.ci/configuration-tables

trace-flows: dependencies ## Trace a login, a refresh and a callback, and list the source files that they execute in docs/architecture.md
	$(call install_missing,llvm)
	swift build --product authflow
	swift build --product flow-trace --scratch-path .build-trace --sanitize=address -Xswiftc -sanitize-coverage=func,trace-pc-guard
	Tests/FlowTrace/trace.py $$(swift build --product flow-trace --scratch-path .build-trace --show-bin-path)/flow-trace \
	  $(DEBUG)/authflow docs/architecture.md

workflows: ## Check the workflows in .github against their schema, and check that the commands they run exist
	.ci/python-environment workflows-python check-jsonschema==0.39.0 PyYAML==6.0.4
	.build/workflows-python/bin/python .ci/check-workflows

PARSE_PYTHON := import ast, sys; [ast.parse(open(path).read(), path) for path in sys.argv[1:]]
lint: dependencies ## Check the formatting, check the documentation against the code, and build the engine's manual
	swift format lint --strict --recursive Package.swift Sources Providers Samples Tests Benchmarks/Sources
	python3 -c '$(PARSE_PYTHON)' $$(git grep -l '^#!/usr/bin/env python3')
	for script in $$(git grep -l '^#!/usr/bin/env bash'); do bash -n $$script || exit 1; done
	.ci/check-words
	.ci/check-modules
	Tests/Simulation/faults.py --check
	swift build --product authflow
	.ci/check-docs $(DEBUG)/authflow
	$(MAKE) docs-engine

format: ## Format the sources
	swift format --in-place --recursive Package.swift Sources Providers Samples Tests Benchmarks/Sources

# The linker folds identical code and packs relocations, so that the program starts faster.
# libstdc++ and libgcc, which the runtime needs, are also linked statically, because resolving their symbols takes the most time.
# Swift's static libraries ask the linker to export all symbols, which keeps unused code; no library needs the tool's symbols.
STATIC := .build-release/static
LINKING := -Xlinker -L$(abspath $(STATIC)) -Xswiftc -Xclang-linker -Xswiftc -static-libgcc -Xswiftc -use-ld=lld -Xlinker --no-export-dynamic -Xlinker --icf=safe -Xlinker --build-id=none -Xlinker -z -Xlinker pack-relative-relocs
# Swift's libraries are linked statically, so that the tool runs without Swift installed; not on Apple platforms, which include them.
# The program contains no paths of this machine. It has no build ID, which would be a hash of debug information that contains such paths.
ANYWHERE := -Xswiftc -file-prefix-map -Xswiftc $(CURDIR)=. -Xcc -ffile-prefix-map=$(CURDIR)=.
# Libraries are not searched for beside the program, where another user may have put a file.
RELEASE := --configuration release --scratch-path .build-release $(ANYWHERE) $(if $(filter Linux,$(shell uname -s)),--static-swift-stdlib --disable-local-rpath $(LINKING))
TOOL := .build-release/release/authflow

release: dependencies ## Build the command line tool for production use
ifeq ($(shell uname -s),Linux)
	@mkdir -p $(STATIC) && ln -sf "$$(gcc -print-file-name=libstdc++.a)" $(STATIC)
endif
	swift build $(RELEASE) --product authflow

# Run `make release` before `sudo make install`, so that root needs no Swift and owns no files in the build directories.
$(TOOL):
	$(MAKE) release

PREFIX ?= /usr/local
DESTDIR ?=
export PREFIX DESTDIR
install: $(TOOL) ## Install the tool, its manual and completions under PREFIX (/usr/local), in DESTDIR
	Packaging/install.sh $(TOOL) "$$DESTDIR" "$$PREFIX"

uninstall: ## Remove the installed files
	Packaging/uninstall.sh "$$DESTDIR" "$$PREFIX"

deb: release ## Build a package for Debian, in .build-deb
	$(call install_missing,dpkg-dev)
	@rm -rf .build-deb
	Packaging/deb.sh $(TOOL) .build-deb

dist: release ## Create the files of a release in .build-dist: sources, tool, package, bill of materials, checksums
	$(call install_missing,dpkg-dev binutils)
	@rm -rf .build-dist
	Packaging/dist.sh $(TOOL) .build-dist

DEBIAN ?= bookworm
check-package: deb ## Install the package on a Debian system without Swift (DEBIAN=bookworm, Debian 12), sign in there, and remove it
	$(call install_missing,debootstrap)
	$(SUDO) .ci/check-package .build-deb/authflow_*.deb $(DEBIAN)

consumer: dependencies ## Build packages that depend on this one: an app, and a user agent from another package
	.ci/check-consumer
	.ci/build-beside Samples/custom-provider
	Samples/custom-provider/demo.sh $(SAMPLE_PROGRAMS)/custom-provider
	.ci/build-beside Samples/custom-user-agent
	swift build --product authflow
	Samples/custom-user-agent/demo.sh $(SAMPLE_PROGRAMS)/authflow $(SAMPLE_PROGRAMS)/custom-user-agent

# Only these tests are compiled with the sanitizers.
SANITIZED := AUTHFLOW_TESTS="AuthFlowJSONTests AuthFlowHeadlessTests AuthFlowTransportTests"
SANITIZE := --sanitize=address --scratch-path .build-sanitize
sanitize: dependencies ## Run the tests of the C interfaces with the address and leak sanitizers
	$(SANITIZED) $(AT_A_TIME) $(SWIFT_TEST) $(SANITIZE)

# The tests of the parser, of the resource server, and of the GitHub, Okta and ForgeRock adapters. An empty
# WITHOUT_JANSSON= runs the tests of all modules except those that --skip names, as the nightly campaigns do.
WITHOUT_JANSSON ?= AuthFlowJSONTests AuthFlowGitHubTests AuthFlowOktaTests AuthFlowForgeRockTests AuthFlowResourceServerTests
NO_TRAITS := --disable-default-traits --scratch-path .build-no-traits
no-traits: dependencies ## Build and test without libjansson
	$(if $(WITHOUT_JANSSON),AUTHFLOW_TESTS="$(WITHOUT_JANSSON)") $(AT_A_TIME) $(SWIFT_TEST) $(NO_TRAITS) \
	  --skip '$(SLOW)|CommandTests|LoopbackTests|SecurityTests'

SOAK ?= 1000
SIMULATIONS ?= 100000
models: test-dependencies ## Check the models in docs/models for every interleaving
	.ci/check-models

simulate: dependencies ## Simulate SIMULATIONS histories of credentials with new seeds: every kind of fault, in any order
	swift build $(RELEASE) --product simulate
	.build-release/release/simulate twice 100
	.build-release/release/simulate $(SIMULATIONS)
	for event in steady restart provider database; do .build-release/release/simulate load $$event 20 2000 5 || exit; done

PROCESSES ?= 1000
LOAD_SESSIONS ?= 1000000

capacity: dependencies ## Simulate PROCESSES processes with LOAD_SESSIONS sessions, and write docs/capacity (needs gnuplot; several hours and 8 GB, or 15 minutes for a tenth of the size)
	swift build $(RELEASE) --product simulate
	mkdir -p docs/capacity
	set -e; for event in "steady 10" "restart 20" "provider 110" "database 25"; do set -- $$event; \
	.build-release/release/simulate load $$1 $(PROCESSES) $(LOAD_SESSIONS) $$2 > docs/capacity/$$1.csv; done
	gnuplot Tests/Simulation/capacity.gnuplot
	Tests/Simulation/capacity.py $(PROCESSES) $(LOAD_SESSIONS)

soak: dependencies ## Kill processes while they sign in, refresh and store, simulate power failures and failing system calls, and check the remaining state; SOAK rounds per test (default: 1000)
	$(call install_missing,xdg-utils desktop-file-utils strace)
	swift build --product authflow
	Tests/Soak/crash.py $(DEBUG)/authflow $(SOAK)
	@# authflow prevents other processes of its user, such as strace, from reading its memory.
	$(SUDO) Tests/Soak/power_failure.py $(DEBUG)/authflow $(SOAK)
	$(SUDO) Tests/Soak/faults.py $(DEBUG)/authflow $(SOAK)
	Tests/Soak/killed_login.py $(DEBUG)/authflow $(SOAK)
	Tests/Soak/signals.py $(DEBUG)/authflow $(SOAK)
	Tests/Soak/bridge_end.py $(DEBUG)/authflow

apple: dependencies ## Type-check the files for Apple platforms against hand-written interfaces
	swift build --target AuthFlowForgeRock
	.ci/check-apple $(DEBUG)

FUZZ ?= 1000000
FUZZ_SEED ?= 1
fuzz: dependencies ## Feed every parser FUZZ malformed inputs (default: 1000000), determined by FUZZ_SEED
	swift build $(RELEASE) --product fuzz
	$$(swift build $(RELEASE) --product fuzz --show-bin-path)/fuzz $(FUZZ) $(FUZZ_SEED)

mutants: dependencies ## Disable the validation checks one at a time, and check that a test fails for each (takes an hour or two)
	Tests/Mutation/mutate.py

bench: dependencies ## Measure the cost of validation relative to the signature check, and how often keys are fetched
	swift build $(RELEASE) --product authflow
	@# Every part runs, even if an earlier one exceeds a bound.
	status=0; tool=$$(swift build $(RELEASE) --product authflow --show-bin-path)/authflow; \
	swift run --package-path Benchmarks --configuration release Benchmarks || status=1; \
	Benchmarks/cold_start.py $$tool || status=1; \
	Benchmarks/bridge.py $$tool || status=1; \
	exit $$status
