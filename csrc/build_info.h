// The sources and tools of this build: constants in their own file, so that a commit without changes
// of sources recompiles only this.
#pragma once

namespace flashbench::build {

extern const char* const commit;
extern const bool dirty;
extern const char* const source_hash;
extern const char* const compiler;
extern const char* const cuda_compiler;

}  // namespace flashbench::build
