// SIGINT, SIGTERM and SIGHUP as something to ask for, so that nothing happens in a handler.
//
// block_signals() belongs at the start of main(), before any thread.
#pragma once

#include <string>

#include "core/base/time.h"

namespace fedqueue {

void block_signals();
// The name of one that came since the last call, or empty.
[[nodiscard]] std::string taken_signal();
// True if one has come and was not taken yet.
[[nodiscard]] bool signal_pending();
// Sleeps so long at most; returns at once when a signal is there, without taking it.
void sleep_unless_signalled(Duration time);

}  // namespace fedqueue
