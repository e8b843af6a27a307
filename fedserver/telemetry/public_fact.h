// A fact as others may read it: in event streams and in metrics/events.jsonl. Tokens and nonces,
// which are secrets between a job and the server, are left out. Pure; thread-safe.
#pragma once

#include <string>

#include "fedserver/driver/driver.h"

namespace fedqueue {

// One line of JSON: the fact's fields and `uptime_s`.
[[nodiscard]] std::string public_fact(const JournalRow& row);

}  // namespace fedqueue
