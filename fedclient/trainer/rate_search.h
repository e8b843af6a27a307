// Looks for a learning rate: a number of gradient-only line searches (recipe/line_search.h) one
// after the other, each along the optimiser's first update for a new mini-batch. Before the next
// one the model moves a tenth of the length that was found: it is looked at as training finds it,
// and no overshoot leads it away.
//
// Each search forgets what the optimiser knew. With momentum m steps that agree add up to 1/(1 − m)
// of one, so that the rate is (1 − m) times the median of the lengths.
//
// Not thread-safe; all ranks call it together.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/result.h"
#include "fedclient/collective/collective.h"
#include "fedclient/recipe/line_search.h"
#include "fedclient/trainer/network.h"

namespace fedqueue {

struct RateSearch {
  struct Search {
    double slope_at_zero = 0;
    LineSearchResult found;
  };
  double learning_rate = 0;  // suggested
  double median_length = 0;
  double momentum = 0;         // that the suggestion allows for
  std::int64_t gradients = 0;  // computed, each of a mini-batch
  std::vector<Search> searches;
};

// Code::usage for an optimiser that gives each layer's step a length of its own, whatever the
// gradient's: how far one step goes does not say then how many of them add up.
[[nodiscard]] Status check_rate_search(const OptimizerSettings& optimizer);

// `gradients` leaves those of the next mini-batch, summed over the ranks, in the network. A loss
// that is not finite makes a step too long; at the start of a search it is an error.
// REQUIRES: check_rate_search(step.optimizer), searches > 0, start > 0.
Result<RateSearch> search_rate(Network& network, Collective& collective,
                               const std::function<Result<BatchTotals>()>& gradients,
                               LocalStep step, std::int64_t searches, double start);

}  // namespace fedqueue
