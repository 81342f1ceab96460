# SPDX-License-Identifier: Apache-2.0
"""Loads a script of this directory as a module: the benchmarks use each other's measuring functions."""

import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    """The module of bench/NAME, the same one each time."""
    loader = importlib.machinery.SourceFileLoader("bench_" + name, os.path.join(HERE, name))
    if loader.name not in sys.modules:
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(module)
        sys.modules[loader.name] = module
    return sys.modules[loader.name]


def sanitizers():
    """What a sanitizer build is told, of the environment of whoever starts the script: else a test over such a build fails here."""
    return {k: v for k, v in os.environ.items() if k.startswith(("ASAN_", "UBSAN_", "LSAN_"))}
