#include "fedclient/recipe/line_search.h"

#include <algorithm>
#include <cmath>

#include "core/base/assert.h"

namespace fedqueue {

Result<LineSearchResult> find_sign_change(double start, double slope_at_zero,
                                          const std::function<Result<double>(double)>& slope,
                                          const LineSearchSettings& settings) {
  FEDQUEUE_ASSERT(start > 0);
  LineSearchResult result;
  result.length = std::clamp(start, settings.least, settings.most);
  const double tolerance = settings.tolerance * std::abs(slope_at_zero);
  const auto look = [&]() -> Result<double> {
    Result<double> found = slope(result.length);
    if (found) result.looks.push_back({result.length, *found});
    return found;
  };
  Result<double> at = look();
  if (!at) return at.error();
  const bool down = *at > tolerance;
  const bool up = *at < 0;
  while (down ? *at > tolerance : up && *at < 0) {
    const double next = down ? result.length / 2 : result.length * 2;
    if (next < settings.least || next > settings.most) {
      result.bounded = true;
      break;
    }
    result.length = next;
    at = look();
    if (!at) return at.error();
  }
  return result;
}

double median_length(std::span<const LineSearchResult> searches) {
  FEDQUEUE_ASSERT(!searches.empty());
  std::vector<double> lengths;
  for (const LineSearchResult& search : searches) lengths.push_back(search.length);
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>((lengths.size() - 1) / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  return *middle;
}

}  // namespace fedqueue
