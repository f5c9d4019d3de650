"""Ways to break a revision of the toy project `fastattn`, seen where it is built or imported."""

from revisions.repository import Repository


def missing_header(repository: Repository) -> None:
    repository.edit("csrc/kernels.cpp", '"config.h"', '"build_config.h"')


def undefined_symbol(repository: Repository) -> None:
    repository.edit("csrc/config.h", "constexpr long MARKER = 1;", "extern long MARKER;")


def wrong_module_name(repository: Repository) -> None:
    repository.edit("setup.py", "fastattn._kernels", "fastattn._cuda")


def wrong_function_name(repository: Repository) -> None:
    repository.edit("csrc/kernels.cpp", "PyInit__kernels", "PyInit_kernels")


def import_error(repository: Repository) -> None:
    repository.edit("src/fastattn/api.py", "import torch", "import torch\nimport absent_module")


def crash_at_import(repository: Repository) -> None:
    repository.edit("csrc/kernels.cpp", "return PyModule_Create(&module)", "__builtin_trap()")


def no_function(repository: Repository) -> None:
    repository.edit("src/fastattn/api.py", "def sdpa_like", "def sdpa")


def no_module(repository: Repository) -> None:
    (repository.root / "src/fastattn/api.py").unlink()


def no_setup(repository: Repository) -> None:
    (repository.root / "setup.py").unlink()


def no_import_root(repository: Repository) -> None:
    repository.edit("setup.py", '{"": "src"}', '{"": "lib"}')
    (repository.root / "src").rename(repository.root / "lib")


OF_SETUPTOOLS = (wrong_module_name, no_setup, no_import_root)
