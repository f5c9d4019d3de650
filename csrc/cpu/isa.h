// Includes the header of the instruction set that this unit is compiled for.
// To add one: a file in isa/, its flags in kernels.cmake, its name and row in dispatch.cpp.
#pragma once

#ifndef FLASHBENCH_ISA
#error "compile with -DFLASHBENCH_ISA=<name in isa/>"
#endif

#define FLASHBENCH_QUOTE(text) #text
#define FLASHBENCH_HEADER_OF(name) FLASHBENCH_QUOTE(isa/name.h)
#define FLASHBENCH_ISA_HEADER FLASHBENCH_HEADER_OF(FLASHBENCH_ISA)
