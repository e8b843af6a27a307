// Signals that mean "this job ends soon": TERM, INT, USR1, USR2, XCPU.
//
// The handler only notes the signal. Rank 0 asks and decides for all ranks; on the others the same
// handlers keep the signal from ending the process in the middle of a step.
//
// Thread-safe; one process-wide state, since signals are.
#pragma once

#include <string>

namespace fedqueue {

// Replaces the handlers of these signals, once.
void watch_stop_signals();

// "signal TERM" after one arrived, else empty.
[[nodiscard]] std::string stop_signal_seen();

}  // namespace fedqueue
