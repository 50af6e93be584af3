# weft's commands for people and for CI. Every target prepares the machine for itself through tools/setup:
# as root it installs the Debian packages that are missing, else it names them and stops.
#
#   FULL=1       the full form of a test instead of the short one
#   VERBOSE=1    show the output of every target of `make test` while it runs
#   KERNELS=1    `make test` builds a Linux kernel where there is none, for the rows that want one
#   ONLY=a,b     restrict `make test`, `make test-under-load` and `make acceptance` to these targets, `make test-programs` to rows with these words

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Debian's own Python: the unprivileged halves of the tests run it too, so it may not live in somebody's home.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
export PYTHONPATH := $(CURDIR)/tests:$(CURDIR)/tools
export PYTHONDONTWRITEBYTECODE := 1
export FULL VERBOSE ONLY

# Tests run what they check in the profile "checked" of Cargo.toml, in their full form in the one that people use and measure.
PROFILE := $(if $(FULL),release,checked)
build install demo demo-live docs coverage bench bench-%: PROFILE := release
# One set of features for all targets: without the example, which brings dependencies of tests, cargo would build everything a second time.
BUILD = cargo build --profile $(PROFILE) --workspace --bins --example socket-twins
# The C library, too: by itself it would have features of its own, and all that it stands on would be built again.
BUILD_CAPI = $(BUILD) --lib --quiet
SETUP := tools/setup

# The runner of `make test` has prepared the machine, built everything and chosen the profile before it starts a target.
ifdef WEFT_PREPARED
BUILD := :
BUILD_CAPI := :
SETUP := :
else
export WEFT_PROFILE = $(PROFILE)
endif

.PHONY: help build install uninstall packages release test-packages test-egress test-daily test-pages demo demo-live test test-under-load bench lint docs site acceptance test-crates test-twins test-strict test-engines test-harness test-programs test-interop test-mptcp test-mptcp-sim test-mptcp-interop test-mixed test-capi test-console test-live test-load test-ring test-faults test-hostile test-mutants test-exact test-determinism test-chain test-scenario-errors test-sim-tools test-results test-clocks test-packets test-python test-programs-sim test-twins-sim test-descriptors test-options test-rows test-waits test-tcp-scripts test-cpython-sim test-foreign test-kernel test-fidelity test-gdb test-valgrind coverage coverage-mptcp bench-interop bench-sim bench-engines bench-kernel bench-mptcp bench-egress test-iproute2 test-groups bench-groups

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

build: ## release build of the workspace
	@$(SETUP) build
	$(BUILD)

install: ## the command, its pages, libweft and the Python package below PREFIX (/usr/local); DESTDIR for packagers
	@$(SETUP) build
	@$(BUILD_CAPI)
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" $(PYTHON) -m package.install "$(CURDIR)/target/$(or $(WEFT_PROFILE),$(PROFILE))"

uninstall: ## removes what `make install` has put below PREFIX
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" $(PYTHON) -m package.install --remove

packages: ## wheels, .deb, .rpm, a tarball, an image for containers, and Linux kernels for nodes, into dist/; ONLY is words of: wheel deb rpm tarball oci kernel
	@$(SETUP) packages
	@$(PYTHON) -m package $(ONLY)

release: ## a version: Cargo.toml, python/pyproject.toml and CHANGELOG, a commit and a tag; make release VERSION=0.2.0
	@$(SETUP) packages
	@$(PYTHON) -m package.release "$(VERSION)"

demo: ## a web server and three curls in virtual time, one hash; then demo-live
	@$(SETUP) demo
	@$(BUILD)
	@$(PYTHON) -m demo.world
	@$(PYTHON) -m demo

demo-live: ## curl fetches 64 MB through weft's own TCP in real time, and proof whose TCP it was
	@$(SETUP) demo
	@$(BUILD)
	@$(PYTHON) -m demo

test: ## lint and the short form of every test; FULL=1 runs the full forms
	@$(SETUP) test
	@$(PYTHON) -m harness.runner test

test-under-load: ## every target of `make test` beside eight busy loops, those that wait for real clocks three times; goes on where it stopped, AGAIN=1 begins anew
	@$(SETUP) test
	@$(PYTHON) -m harness.runner under-load

acceptance: ## every target in its full form; writes docs/status.md
	@$(SETUP) test
	@$(PYTHON) -m harness.runner acceptance

lint: ## fmt, clippy, dependencies, forbidden calls, unsafe code, clones, circles of modules, pages, commit messages; LOWER=1 writes numbers that fell
	@$(SETUP) lint
	@$(PYTHON) -m harness.lint

test-crates: ## cargo test of every crate
	@$(SETUP) test
	@$(PYTHON) -m harness.crates

test-twins: ## one body, several hosts: the socket twins through the notify adapter beside the host kernel
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m twins

test-strict: ## weft run --strict: the socket twins without a difference, and programs; FULL=1: the whole table of programs
	@$(SETUP) test
	@$(BUILD) --quiet
	@STRICT=1 $(PYTHON) -m twins && STRICT=1 $(PYTHON) -m programs $(if $(FULL),,curl-http/both python-asyncio/both go-static/both node/both ssh-scp/both dig/both bash-jobs/both forking-server/both)

test-engines: ## the twins, and curl and ping, on the other engines: queued, and a thread for each block
	@$(SETUP) test
	@$(BUILD) --quiet
	@for engine in queued threaded; do echo "$$engine"; ENGINE=$$engine $(PYTHON) -m twins && ENGINE=$$engine ONLY=curl,ping $(PYTHON) -m programs || exit 1; done

test-harness: ## the harness's own tests: every check can fail, nothing leaks
	@$(SETUP) test
	@$(PYTHON) -m harness.selftest

test-programs: ## unmodified programs, as client, as server and as both, each with its canary
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m programs

test-interop: ## byte-exact transfers against the host kernel over an impaired bridge
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m interop test

test-mptcp: ## boxes on the way at every point of a connection of Multipath TCP, and unmodified programs over two paths; ONLY is words of names
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m mptcp test

test-mptcp-interop: ## Multipath TCP against the host kernel's, over wires that lose and reorder, and over two paths, with and without Ethernet
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m mptcp interop

test-mixed: ## frames of every kind in a drawn order on one stack, behind each backend and on each engine; SEED=… repeats
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m mixed

test-capi: ## libweft from C: the header, and two nodes in one process
	@$(SETUP) test
	@$(BUILD_CAPI)
	@$(PYTHON) -m capi

test-console: ## weft console: every command and those of FINS and LANA, right and wrong, and what a person does at a terminal
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m console

test-live: ## blocks inserted, extracted and replaced thousands of times under unmodified programs, in virtual and in real time
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m live

test-load: ## many connections, long and short, and a flood of SYNs; what they cost and what they leave
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m load

test-ring: ## a ring of nodes and a block that sends packets both ways: built in, as WebAssembly, native and in Python
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m ring

test-faults: ## weft or programs killed, a full disk, an interface removed, wrong stack files
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m faults

test-hostile: ## hostile frames into live nodes, and what of the code they reached; FULL=1 also fuzzes (FUZZ_SECONDS=1200)
	@$(SETUP) hostile
	@$(PYTHON) -m hostile

test-mutants: ## a seeded sample of 60 mutants of tcp and ip4: at most a tenth survives the crates' own tests
	@$(SETUP) mutants
	@$(PYTHON) -m mutants

test-exact: ## virtual time: what can be computed by hand comes out to the nanosecond, with one hash
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual exact

test-determinism: ## virtual time: unmodified programs come to one hash, whoever runs them and however
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual determinism

test-chain: ## virtual time: datagrams over chains of 2 to 64 nodes all arrive, beside the same chain of namespaces
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual chain

test-scenario-errors: ## virtual time: wrong scenarios with their messages, programs that fail, ctrl-C
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual errors

test-sim-tools: ## virtual time: weft diff and hash, sweeps, expectations, JUnit, the search for a seed that fails
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual tools

test-results: ## virtual time: files out of nodes, grids that go on where they were stopped, tables, JUnit, what lies beside a scenario
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual results

test-clocks: ## virtual time: clocks and process ids that differ from node to node; clusters that elect a leader by them; ONLY is words of names
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual clocks

test-packets: ## packet sockets: the same body on the kernel and in a node, with rings and groups; tcpdump, nmap, DHCP clients and others in worlds; ONLY is words of names
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m packets

test-python: ## the Python package: scenarios as objects, runs, tables, sweeps here and on Dask, the plug-in for pytest, notebooks; ONLY is words of names
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m python_package

test-packages: ## a wheel in a fresh environment, and make install; FULL=1: everything in dist/ (make packages) in fresh roots of Debian, one hash in all
	@$(SETUP) test
	@$(if $(FULL),$(SETUP) packages)
	@$(BUILD_CAPI)
	@$(PYTHON) -m packages

test-egress: ## a user without privilege goes out through weft's TCP and passt; FULL=1: all programs
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m egress

test-daily: ## browsers with windows, videos, voice, a remote desktop and mail over weft, with pictures in target/daily; FULL=1: the long form
	@$(SETUP) daily
	@$(BUILD) --quiet
	@$(PYTHON) -m daily

test-pages: ## the commands of README, guides and gallery, each page in a folder and namespaces of its own, with what they print and draw; ONLY is words of names; WRITE=1 puts pictures into pages
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m pages

bench-sim: ## virtual time: what round trips, flows and a thousand nodes cost in real time
	@$(SETUP) bench
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual bench

test-foreign: ## suites of others (Go, libuv, node), natively and on weft, test by test; fetches Debian's sources; WRITE=1 writes docs/foreign-suites.md
	@$(SETUP) test
	@$(SETUP) foreign
	@$(BUILD) --quiet
	@$(PYTHON) -m foreign $(FOREIGN)

test-kernel: ## virtual time: Linux kernels as nodes; skipped where none has been built (weft kernel build)
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual kernel

test-mptcp-sim: ## virtual time: Multipath TCP beside Linux kernels and beside itself; beside Linux skipped where no kernel has been built
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m mptcp sim

test-fidelity: ## virtual time: goodput of weft's TCP beside that of Linux kernels on ten paths; skipped where none has been built
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual fidelity

bench-mptcp: ## Multipath TCP in virtual and real time beside Linux and weft's TCP: sums, failover, ten pairs of paths, fairness, processor time
	@$(SETUP) bench
	@$(BUILD) --quiet
	@$(PYTHON) -m mptcp bench

bench-egress: ## a user's way out through weft and passt, beside pasta and the kernel
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m egress.bench

bench-kernel: ## virtual time: what Linux kernels as nodes cost in real time
	@$(SETUP) bench
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual bench-kernel

test-gdb: ## virtual time: gdb stops in the stack of one node, twice the same
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual gdb

test-valgrind: ## virtual time: worlds of built-in programs under memcheck, and programs with sanitizers in nodes
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual memory

coverage: ## lines and functions of the stack that scenarios alone reach, file by file
	@$(SETUP) coverage
	@$(PYTHON) -m virtual coverage

coverage-mptcp: ## lines and functions of crates/mptcp that worlds and running stacks alone reach, file by file
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m mptcp coverage

test-programs-sim: ## virtual time: the table of unmodified programs, each row twice with one hash and with its canary
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual programs

test-twins-sim: ## virtual time: the socket twins inside a node, beside the host kernel: no line differs
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual twins

test-descriptors: ## many processes make, pass on, duplicate, inherit and close descriptors of all kinds: on Linux, notify, --strict and in a node
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m hosts descriptors

test-options: ## what calls on sockets beside data come to: options, requests, lengths, netlink; scripts on Linux, notify, --strict and in a node
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m hosts options

test-rows: ## rows of docs/compatibility.md, both of their columns: what Linux says, and what notify, --strict or a node does
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m hosts rows

test-tcp-scripts: ## TCP frame by frame: what goes in and out, on Linux behind a TUN device and on weft; ONLY is words of names; RECORD=1 writes down what Linux does
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m tcp_scripts $(ONLY)

test-waits: ## a thread or process waits, another does something: every call and cause on Linux, notify, --strict and in a node; WRITE=1 writes docs/waits.md
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m hosts waits

test-iproute2: ## scripts of unmodified ip, ss and tc on the host kernel, on weft in real and in virtual time: equal, or listed in docs/compatibility.md
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m iproute2

test-groups: ## interface groups through unmodified ip and through weft's own words: one assertion a row
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m groups

bench-groups: ## the MTU of 128 to 2,048 interfaces: one ip each, ip -batch, one request for the group; weft and the kernel; 100,000 on weft
	@$(SETUP) test
	@$(BUILD) --quiet
	@$(PYTHON) -m groups bench

test-cpython-sim: ## virtual time: CPython's own tests inside a node, beside the same natively
	@$(SETUP) test
	@$(SETUP) cpython
	@$(BUILD) --quiet
	@$(PYTHON) -m virtual cpython

bench-interop: ## goodput beside Linux to Linux over the same bridge
	@$(SETUP) bench
	@$(BUILD) --quiet
	@$(PYTHON) -m interop bench

bench-engines: ## LANA's table: the engines and the kernel in its experiment, as a table and a plot
	@$(SETUP) bench
	@$(BUILD) --quiet
	@$(PYTHON) -m harness.bench.engines

bench: ## throughput, latency, connections, datagrams and drops beside the kernel, in memory, and the cost of the graph
	@$(SETUP) bench
	@$(BUILD) --quiet
	@$(PYTHON) -m harness.bench

docs: ## manual pages, completions, a page a block, the page of calls, pictures, and the API documentation; a broken reference is an error
	@$(SETUP) docs
	cargo run --quiet --release --package weft-cli --bin weft -- generate docs
	for picture in docs/architecture/*.dot; do dot -Tsvg "$$picture" -o "$${picture%.dot}.svg"; done
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps

site: ## the pages and a reference as HTML in target/site, with a search that needs no network; a link that leads nowhere is an error
	@$(SETUP) site
	@$(BUILD) --quiet
	@$(PYTHON) -m website
