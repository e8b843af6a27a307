#include "simulation/world/journal.h"

#include <algorithm>

#include "core/base/assert.h"

namespace fedqueue::simulation {

Result<std::vector<JournalRow>> SimulatedJournal::rows(std::int64_t after, std::size_t limit) {
  const std::size_t begin = std::min(rows_.size(), static_cast<std::size_t>(after));
  const std::size_t end = std::min(rows_.size(), begin + limit);
  return std::vector<JournalRow>(rows_.begin() + static_cast<std::ptrdiff_t>(begin),
                                 rows_.begin() + static_cast<std::ptrdiff_t>(end));
}

Status SimulatedJournal::append(std::span<const JournalRow> rows) {
  const Fate fate = faults_ ? faults_() : Fate::good;
  if (fate == Fate::die_before || owner_.dead()) owner_.die("before a commit");
  for (const JournalRow& row : rows) {
    FEDQUEUE_ASSERT(row.sequence == static_cast<std::int64_t>(rows_.size()) + 1);
    rows_.push_back(row);
    uptime_ = std::max(uptime_, row.at);
  }
  if (fate == Fate::die_after) owner_.die("after a commit");
  return {};
}

Status SimulatedJournal::note_uptime(Instant now) {
  uptime_ = std::max(uptime_, now);
  return {};
}

}  // namespace fedqueue::simulation
