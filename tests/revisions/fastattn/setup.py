from setuptools import Extension, setup

setup(
    packages=["fastattn"],
    package_dir={"": "src"},
    ext_modules=[
        Extension("fastattn._kernels", ["csrc/kernels.cpp"], extra_compile_args=["-O2"]),
    ],
)
