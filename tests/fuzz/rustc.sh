#!/usr/bin/env bash
# A rustc that counts which code an input reaches: LLVM's pass for that is in stable Rust, without the sanitizers.
exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Aunexpected_cfgs
