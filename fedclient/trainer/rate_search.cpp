#include "fedclient/trainer/rate_search.h"

#include <limits>
#include <string>
#include <utility>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

constexpr double kShareMoved = 0.1;

// Rounding may differ between ranks of unlike machines, and all must take the same turns.
Result<double> agreed(Result<double> slope, Collective& collective) {
  if (!slope) return slope;
  double value = *slope;
  if (Status status = collective.broadcast(&value, sizeof value, 0); !status) return status.error();
  return value;
}

}  // namespace

Status check_rate_search(const OptimizerSettings& optimizer) {
  if (optimizer.kind == LocalOptimizer::sgd || optimizer.kind == LocalOptimizer::adamw) return {};
  return Error{
      Code::usage,
      std::string("look for a learning rate: ") + to_text(optimizer.kind) +
          " makes each layer's step as long as its weights say, so that a line search does "
          "not tell its rate",
      "Set optimizer = sgd or adamw, or try a few rates with train local."};
}

Result<RateSearch> search_rate(Network& network, Collective& collective,
                               const std::function<Result<BatchTotals>()>& gradients,
                               LocalStep step, std::int64_t searches, double start) {
  FEDQUEUE_ASSERT(searches > 0 && start > 0);
  step.learning_rate = 1;
  RateSearch result;
  std::vector<LineSearchResult> found;
  const auto next = [&]() {
    ++result.gradients;
    return gradients();
  };
  const auto slope_at = [&](double length) -> Result<double> {
    if (Status status = network.move_along(length); !status) return status.error();
    const Result<BatchTotals> totals = next();
    if (!totals && totals.error().code == Code::not_finite)
      return std::numeric_limits<double>::infinity();
    if (!totals) return totals.error();
    return agreed(network.slope(), collective);
  };
  for (std::int64_t i = 0; i < searches; ++i) {
    if (const Result<BatchTotals> totals = next(); !totals) return totals.error();
    network.reset_optimizer();
    const Result<double> slope_at_zero = agreed(network.begin_line(step), collective);
    if (!slope_at_zero) return slope_at_zero.error();
    Result<LineSearchResult> sign_change = find_sign_change(start, *slope_at_zero, slope_at);
    if (!sign_change) return sign_change.error();
    start = sign_change->length;
    if (Status status = network.move_along(kShareMoved * start); !status) return status.error();
    found.push_back(*sign_change);
    result.searches.push_back({*slope_at_zero, std::move(*sign_change)});
  }
  result.median_length = median_length(found);
  const bool gathers = step.optimizer.kind == LocalOptimizer::sgd;
  result.momentum = gathers ? step.optimizer.momentum : 0;
  result.learning_rate = result.median_length * (1 - result.momentum);
  return result;
}

}  // namespace fedqueue
