// Checks that stay on in every build: a broken invariant ends the process, since carrying on could
// publish a wrong model, and a restart from the journal is a tested path.
#pragma once

namespace fedqueue {

// Says what is broken and ends the process, unless this thread's handler throws.
[[noreturn]] void broken_invariant(const char* file, int line, const char* condition);

// For the simulator, which has to go on after the end of a process that it plays: the handler
// throws. Of the calling thread; nullptr takes it away. Returns the one before.
using InvariantHandler = void (*)(const char* file, int line, const char* condition);
InvariantHandler on_broken_invariant(InvariantHandler handler);

}  // namespace fedqueue

#define FEDQUEUE_ASSERT(condition)                                                  \
  do {                                                                              \
    if (!(condition)) ::fedqueue::broken_invariant(__FILE__, __LINE__, #condition); \
  } while (false)
