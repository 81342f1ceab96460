# SPDX-License-Identifier: Apache-2.0
# A thin front to meson. `make` builds; `make quickstart` shows it; `make test` proves it.
BUILD ?= build
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
# Warnings are errors where nobody reads them.
WERROR := $(if $(CI),true,false)
MESON_ARGS = -Dprefix=$(PREFIX) -Dsysconfdir=$(SYSCONFDIR) -Dwerror=$(WERROR)

.PHONY: all quickstart test test-full test-fresh test-asan storm e2e lint fuzz bench install clean deps help

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS)

$(BUILD)/build.ninja:
	@command -v meson >/dev/null && command -v ninja >/dev/null || { \
		echo "make: meson and ninja are needed. Run tools/deps, which installs what is missing," >&2; \
		echo "make: or 'make quickstart', which runs it first." >&2; exit 1; }
	@meson setup $(MESON_ARGS) $(BUILD)

deps:
	@tools/deps build

quickstart: deps
	@$(MAKE) --no-print-directory all
	@tools/quickstart $(BUILD)

# TESTS="cli/run unit/" runs these alone.
test:
	@tools/deps build test
	@$(MAKE) --no-print-directory all
	@tests/run --build $(BUILD) $(TESTS)

# Every story for every identity on every engine: nightly and before a release.
test-full:
	@tools/deps build test
	@$(MAKE) --no-print-directory all
	@COFFER_FULL=1 tests/run --build $(BUILD) $(TESTS)

# What a new user does, on a machine made for it: quickstart and the tests. TMP_ON=disk or both, TESTS="cli/run ...", KEEP=DIR.
test-fresh:
	@tools/test-fresh $(if $(TMP_ON),--tmp $(TMP_ON)) $(if $(KEEP),--keep $(KEEP)) $(TESTS)

# The same tests over programs that find their own memory errors.
test-asan:
	@tools/deps build test
	@test -f build-asan/build.ninja || meson setup -Db_sanitize=address,undefined -Db_lundef=false build-asan
	@ninja -C build-asan -j $(JOBS)
	@COFFER_SLOW=3 tests/run --build build-asan

# kill -9 of everything, KILLS times; COFFER_SEED=N the same one again.
KILLS ?= 1000
storm:
	@tools/deps build test
	@$(MAKE) --no-print-directory all
	@COFFER_KILLS=$(KILLS) tests/run --build $(BUILD) cli/storm

# Real agents from npm, through a whole loop each against a scripted model, and SDKs; not part of the tests, for it fetches a gigabyte.
e2e:
	@tools/deps build test
	@$(MAKE) --no-print-directory all
	@tools/agents build-agents
	@COFFER_BUILD=$(abspath $(BUILD)) tests/agents/sdk build-agents
	@COFFER_BUILD=$(abspath $(BUILD)) tests/agents/run build-agents
	@COFFER_BUILD=$(abspath $(BUILD)) tests/agents/interactive build-agents
	@COFFER_BUILD=$(abspath $(BUILD)) tests/agents/mcp build-agents

lint:
	@tools/deps build lint
	@tools/lint

# FUZZ=STEM fuzzes one; each gets SECONDS_EACH (60 unless set).
fuzz:
	@tools/deps build fuzz
	@tools/fuzz $(FUZZ)

bench:
	@tools/deps build bench
	@$(MAKE) --no-print-directory all
	@bench/run $(BUILD)

install: all
	@meson configure $(MESON_ARGS) $(BUILD)
	@ninja -C $(BUILD) -j $(JOBS)
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild --quiet
	@tools/after-install "$(DESTDIR)" "$(PREFIX)" "$(SYSCONFDIR)"

clean:
	@rm -rf $(BUILD) build-asan build-fuzz build-lint build-agents build-web

help:
	@echo "make              build/coffer and its helpers"
	@echo "make quickstart   install what is missing, build, and watch a hostile script hit the wall"
	@echo "make test         the test suite, in twelve minutes on two cores"
	@echo "make test-full    the same with every story for every identity on every engine"
	@echo "make test-fresh   both on a fresh machine that is made for it (root, Debian or Ubuntu)"
	@echo "make storm        kill -9 of every program, a thousand times, under load"
	@echo "make e2e          real agents from npm behind the wall"
	@echo "make lint fuzz bench test-asan"
	@echo "make install      PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)"
