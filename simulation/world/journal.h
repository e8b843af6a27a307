// A journal in memory that outlives the simulated server's processes. A transaction is there whole
// or not at all, as SQLite's with synchronous=FULL; faults end the process before or after it.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <vector>

#include "fedserver/driver/driver.h"
#include "simulation/world/mortal.h"

namespace fedqueue::simulation {

class SimulatedJournal : public Journal {
 public:
  enum class Fate { good, die_before, die_after };
  using Faults = std::function<Fate()>;

  // `owner` is the process that writes.
  explicit SimulatedJournal(Mortal& owner) : owner_(owner) {}
  // Asked at every append.
  void set_faults(Faults faults) { faults_ = std::move(faults); }

  Result<std::vector<JournalRow>> rows(std::int64_t after, std::size_t limit) override;
  Status append(std::span<const JournalRow> rows) override;
  Result<Instant> uptime() override { return uptime_; }
  Status note_uptime(Instant now) override;

  [[nodiscard]] const std::vector<JournalRow>& all() const { return rows_; }

 private:
  Mortal& owner_;
  Faults faults_;
  std::vector<JournalRow> rows_;
  Instant uptime_{};
};

}  // namespace fedqueue::simulation
