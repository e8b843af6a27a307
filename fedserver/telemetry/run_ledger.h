// What the records and metrics need to remember from one fact to the next: who is enrolled, what
// was planned, and what arrived in the round that is open.
//
// It is a fold over the facts, so that a replay rebuilds it. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fedserver/driver/driver.h"

namespace fedqueue {

struct RoundRow {
  FacilityId facility;
  bool admitted = false;
  std::optional<double> queue_wait_s;
  std::optional<double> predicted_wait_s;
  double deadline_s = 0;
  double budget_s = 0;
  std::int64_t steps_assigned = 0;
  double learning_rate = 0;
  double arrival_s = 0;  // after the round's opening
};

struct UpdateRow {
  FacilityId facility;
  Version base = 0;
  std::int64_t staleness = 0;
  double sample_share = 0;
  double weight = 0;
  std::int64_t steps_run = 0;
  std::uint64_t bytes = 0;
  double loss = 0;
};

class RunLedger {
 public:
  // What a fact adds to the tables.
  struct Rows {
    Version round = 0;  // that the reduction makes
    std::vector<RoundRow> round_rows;
    std::vector<UpdateRow> update_rows;
  };
  Rows fold(const Fact& fact, Instant at);

  // Time from the newest reduction's start to its model; nothing unless it has just ended.
  [[nodiscard]] std::optional<double> reduce_s() const { return reduce_s_; }

 private:
  struct Plan {
    double budget_s = 0;
    std::optional<double> predicted_wait_s;
  };
  struct Work {
    Plan plan;
    double learning_rate = 0;
  };
  Rows close(const ReduceStarted& fact);
  void decide(const UpdateDecided& fact, Instant at);

  std::map<FacilityId, std::int64_t> samples_;
  std::map<FacilityId, Plan> plans_;
  std::map<std::pair<FacilityId, AttemptId>, Work> work_;
  std::map<UpdateId, UpdateDecided> waiting_;  // decided, not yet in a reduction
  std::vector<RoundRow> arrived_;              // in the open round
  Instant opened_at_{};
  Instant reduce_at_{};
  std::optional<double> reduce_s_;
};

}  // namespace fedqueue
