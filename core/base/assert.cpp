#include "core/base/assert.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace fedqueue {
namespace {

thread_local InvariantHandler handler_of_thread = nullptr;

}  // namespace

void broken_invariant(const char* file, int line, const char* condition) {
  if (handler_of_thread != nullptr) handler_of_thread(file, line, condition);
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

InvariantHandler on_broken_invariant(InvariantHandler handler) {
  return std::exchange(handler_of_thread, handler);
}

}  // namespace fedqueue
