// The fixed shares p_k of all enrolled facilities, and what else is the same in every round until
// somebody enrols: made once, asked by name, so that a round costs what it uses and not what is
// enrolled.
//
// Promises: shares are finite, ≥ 0 and sum to 1; the same list in the same order gives the same
// bits.
//
// Thread safety: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "aggregation/policy/policy_config.h"
#include "core/base/ids.h"

namespace fedqueue {

struct Enrolment {
  FacilityId facility;
  std::int64_t samples = 0;
};

class Shares {
 public:
  struct Of {
    double samples = 0;  // ≥ 0
    double share = 0;    // p_k, by samples or equal, capped
  };

  Shares() = default;  // of nobody
  // `config` is effective.
  Shares(std::span<const Enrolment> enrolled, const PolicyConfig& config);

  [[nodiscard]] std::size_t count() const { return shares_.size(); }
  [[nodiscard]] double samples() const { return samples_; }
  // Null: not enrolled.
  [[nodiscard]] const Of* find(const FacilityId& facility) const;

 private:
  std::unordered_map<FacilityId, Of> shares_;
  double samples_ = 0;
};

}  // namespace fedqueue
