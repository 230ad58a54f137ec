# Quarry: every target installs what else it needs on a machine that has cargo, a C compiler, make and git (`make clients` also takes node and python3).
export CARGO_TARGET_DIR ?= $(HOME)/.cache/quarry/target
export PCRE2_SYS_STATIC = 1
QUARRY = target/release/quarry
DEMO_DIR ?= demo-data
# Folder with the comparison data's syslog.log.
BENCH_DIR ?= bench-data

.PHONY: build demo serve test test-minio clients bench tools clean-demo

build: tools
	cargo build --release --locked -p quarry
	@mkdir -p target/release
	@if ! [ "$(CARGO_TARGET_DIR)/release/quarry" -ef $(QUARRY) ]; then cp -f "$(CARGO_TARGET_DIR)/release/quarry" $(QUARRY); fi

demo: build
	$(QUARRY) demo --dir $(DEMO_DIR)

serve: build
	$(QUARRY) --data-dir $(DEMO_DIR)/data serve

test: tools
	@./dev/install-tools tests
	cargo run --release --locked -p xtask -- ci

# The checks of remote storage again, against MinIO instead of versitygw.
test-minio: tools
	@./dev/install-tools tests
	QUARRY_S3_SERVER=minio cargo run --release --locked -p xtask -- s3

# Public clients, installed from their registries at pinned versions, send to this build.
clients: build
	python3 tests/clients/run.py $(QUARRY)

bench: build
	cargo run --release --locked -p xtask -- bench $(BENCH_DIR)

tools:
	@./dev/install-tools

clean-demo:
	rm -rf $(DEMO_DIR)
