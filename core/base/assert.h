// Checks that stay on in every build: a broken invariant ends the process, since carrying on could
// publish a wrong model, and a restart from the journal is a tested path.
#pragma once

#include <cstdio>
#include <cstdlib>

#define FEDQUEUE_ASSERT(condition)                                                           \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
