# GNU make. Needs Go, a C compiler (SQLite) and, for some tests, Docker. No root
# but for "install" into the system. "make help" lists the targets.

GO         ?= go
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
DOCDIR     ?= $(PREFIX)/share/doc/janitor
UNITDIR    ?= $(PREFIX)/lib/systemd/system
SYSCONFDIR ?= /etc
# The account the jobs run as, and its home.
CI_USER    ?=
CI_HOME    ?= $(or $(shell getent passwd '$(CI_USER)' 2>/dev/null | cut -d: -f6),/home/$(CI_USER))

# What to install; when given, as packages do, nothing is built.
BIN         = bin/janitor
PKGS       ?= ./...
TESTFLAGS  ?=
FUZZTIME   ?= 30s
STEPS      ?= 1000000
# safe.directory: "sudo make install" in a clone of somebody else's.
VERSION    ?= $(or $(shell git -c safe.directory='*' describe --tags --always --dirty 2>/dev/null),unknown)
BUILD       = CGO_ENABLED=1 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'
LINT        = $(GO) tool -modfile=.ci/lint.mod golangci-lint

.DEFAULT_GOAL := build
.PHONY: build test race lint fmt-check vet bench demo torture fuzz install uninstall clean help

build: ## build bin/janitor
	$(BUILD) -o bin/janitor ./cmd/janitor

# -count=1: whether an engine answers is not among the things Go's cache knows.
test: ## run every test this machine can run, and say which it cannot
	@skips=$$(mktemp) && trap 'rm -f "$$skips"' EXIT INT TERM; status=0; \
	JANITOR_TEST_SKIPS=$$skips $(GO) test -count=1 -timeout=20m $(TESTFLAGS) $(PKGS) || status=$$?; \
	if [ -s "$$skips" ]; then echo 'Not run here:'; sort -u "$$skips" | sed 's/^/  /'; \
	else echo 'No tier was left out.'; fi; exit $$status

race: ## the same with the race detector
	@$(MAKE) --no-print-directory test TESTFLAGS='-race $(TESTFLAGS)'

lint: ## run the linters (the first time builds them: two minutes)
	$(LINT) run $(PKGS)
	@scripts=$$(git ls-files -co --exclude-standard -- '*.sh' .ci/run); \
	if command -v shellcheck >/dev/null; then shellcheck $$scripts; else echo 'shellcheck is not installed; scripts were not looked at'; fi

fmt-check: ## fail if a file is not formatted
	@files=$$(git ls-files -co --exclude-standard -- '*.go' | xargs gofmt -l) && \
	if [ -n "$$files" ]; then echo "Run gofmt -w on:"; echo "$$files"; exit 1; fi

vet: ## go vet
	$(GO) vet $(PKGS)

bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem $(PKGS)

demo: build ## see the main job done, in a minute
	PATH="$(CURDIR)/bin:$$PATH" JANITOR_BIN="$(CURDIR)/bin/janitor" examples/demo.sh

torture: ## random histories, STEPS of them (default a million)
	JANITOR_TEST_STEPS=$(STEPS) $(GO) test -count=1 -timeout=0 -v -run '^TestTorture' $(PKGS)

fuzz: ## run each fuzz test for FUZZTIME (default 30s)
	@git grep -ho --untracked '^func Fuzz[A-Za-z0-9_]*' -- '*_test.go' >/dev/null || { echo 'there are no fuzz tests'; exit 1; }
	@git grep -o --untracked '^func Fuzz[A-Za-z0-9_]*' -- '*_test.go' | while IFS=: read -r file func; do \
		$(GO) test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" || exit 1; done

# Built anew where there is Go; root often has none in its PATH and takes what
# the user built.
install: $(if $(and $(filter file,$(origin BIN)),$(shell command -v $(GO))),build,$(BIN)) ## install for the CI account: make install CI_USER=jenkins
	@case '$(CI_USER)' in ''|*[!A-Za-z0-9._-]*) echo 'janitor: name the account the jobs run as: make install CI_USER=jenkins' >&2; exit 2;; esac
	@case '$(CI_HOME)' in /?*) ;; *) echo 'janitor: CI_HOME must be the home of $(CI_USER), not "$(CI_HOME)"' >&2; exit 2;; esac
	install -D -m 0755 '$(BIN)' '$(DESTDIR)$(BINDIR)/janitor'
	@set -e; render() { install -d "$$(dirname "$$2")"; echo "render $$2"; \
		sed -e 's|@CI_USER@|$(CI_USER)|g' -e 's|@CI_HOME@|$(CI_HOME)|g' -e 's|@BINDIR@|$(BINDIR)|g' \
			-e 's|@DOCDIR@|$(DOCDIR)|g' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' "systemd/$$1" >"$$2.new"; \
		chmod 0644 "$$2.new"; mv "$$2.new" "$$2"; }; \
	render janitor.service '$(DESTDIR)$(UNITDIR)/janitor.service'; \
	render janitor.socket '$(DESTDIR)$(UNITDIR)/janitor.socket'; \
	render sysusers.conf '$(DESTDIR)$(PREFIX)/lib/sysusers.d/janitor.conf'; \
	render tmpfiles.conf '$(DESTDIR)$(PREFIX)/lib/tmpfiles.d/janitor.conf'; \
	render jenkins.conf '$(DESTDIR)$(DOCDIR)/jenkins.conf'; \
	render shared-host.conf '$(DESTDIR)$(DOCDIR)/shared-host.conf'; \
	render janitor.yaml '$(DESTDIR)$(DOCDIR)/janitor.yaml'; \
	if [ -e '$(DESTDIR)$(SYSCONFDIR)/janitor/janitor.yaml' ]; then \
		echo 'kept $(DESTDIR)$(SYSCONFDIR)/janitor/janitor.yaml; today'\''s defaults are in $(DOCDIR)/janitor.yaml'; \
	else render janitor.yaml '$(DESTDIR)$(SYSCONFDIR)/janitor/janitor.yaml'; fi
	@if [ -z '$(DESTDIR)' ]; then echo 'Now, as root:'; \
		echo '  systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload'; \
		echo '  systemctl enable --now janitor.socket janitor.service'; fi

$(BIN):
	@test -e '$@' || { echo 'janitor: run "make build" first, as a user who has Go' >&2; exit 1; }

uninstall: ## remove what install put there, but configuration and database
	@if [ -z '$(DESTDIR)' ] && [ -d /run/systemd/system ]; then systemctl disable --now janitor.service janitor.socket || true; fi
	rm -f '$(DESTDIR)$(BINDIR)/janitor' '$(DESTDIR)$(UNITDIR)/janitor.service' '$(DESTDIR)$(UNITDIR)/janitor.socket' \
		'$(DESTDIR)$(PREFIX)/lib/sysusers.d/janitor.conf' '$(DESTDIR)$(PREFIX)/lib/tmpfiles.d/janitor.conf' \
		'$(DESTDIR)$(DOCDIR)/jenkins.conf' '$(DESTDIR)$(DOCDIR)/shared-host.conf' '$(DESTDIR)$(DOCDIR)/janitor.yaml'
	@rmdir '$(DESTDIR)$(DOCDIR)' 2>/dev/null || true
	@if [ -z '$(DESTDIR)' ] && [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
	@echo 'Left in place: $(DESTDIR)$(SYSCONFDIR)/janitor (configuration) and $(DESTDIR)/var/lib/janitor (database).'

clean: ## remove what build made
	rm -rf bin

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12
